package cuda

import (
	"errors"
	"fmt"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/ptx"
)

// Launches that reach more bytes go alone: their own variant costs less by then than what a
// batch saves of them.
const batchBytes = 32 << 20

// narrowMembers is up to how many launches a batch has the narrow parameter, of which the
// driver copies less.
const narrowMembers = 32

// batch is the size of the parameter of the batch that a launch goes in; 0: it goes alone.
func (k *kernel) batch(l *backends.Launch) int {
	if l.Batch < 2 || !k.program.Batches || !k.proved || l.Fuel > 0 {
		return 0
	}
	if read, written := k.reaches(l); read+written > batchBytes {
		return 0
	}
	size := ptx.NarrowBatch
	if l.Batch > narrowMembers && k.device.api.Version >= wideVersion {
		size = ptx.WideBatch
	}
	if k.program.Layout.Bytes > size/4 { // so that some have room
		return 0
	}
	return size
}

// member is a launch of a batch on its way to the driver.
type member struct {
	launch *backends.Launch // nil: it is queued
	form   form
}

// LaunchBatch is backends.Batcher's.
func (s *stream) LaunchBatch(kn backends.Kernel, ls []*backends.Launch) (last backends.Ticket, err error) {
	k, ok := kn.(*kernel)
	if !ok || k.device != s.device {
		return 0, errors.New("cuda: launch: the kernel is of another device")
	}
	for _, l := range ls {
		if err := k.check(l); err != nil {
			return 0, err
		}
	}
	alone, err := s.batches(k, ls, &last)
	for _, l := range alone {
		if err != nil {
			break
		}
		var t backends.Ticket
		if t, err = s.Launch(k, l); err == nil {
			last = t
		}
	}
	return last, err
}

// batches queues those launches that go in batches, and returns the others.
func (s *stream) batches(k *kernel, ls []*backends.Launch, last *backends.Ticket) (alone []*backends.Launch, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, fmt.Errorf("cuda: launch: %w", err)
	}
	s.members = s.members[:0]
	defer func() { clear(s.members[:cap(s.members)]) }()
	for _, l := range ls {
		if l.N == 0 {
			continue
		}
		k.program.Layout.Fuse(l, &s.space)
		f := k.form(l, &s.space)
		if f.Batch == 0 {
			alone = append(alone, l)
		} else {
			s.members = append(s.members, member{l, f})
		}
	}
	for i := range s.members {
		for s.members[i].launch != nil {
			t, err := s.pass(k, s.members[i:])
			if err != nil {
				return nil, fmt.Errorf("cuda: launch: %w", s.device.classified(err))
			}
			*last = backends.Ticket(t)
		}
	}
	return alone, nil
}

// pass queues the first of some members and those after it of its form, as many as go in
// one launch of the driver's.
func (s *stream) pass(k *kernel, members []member) (uint64, error) {
	f := members[0].form
	v, err := k.variant(f)
	if err != nil {
		return 0, err
	}
	table, blocks, n := v.table, uint32(0), 0
	own := k.program.Layout.Bytes
	if len(s.packed) < own {
		s.packed = make([]byte, own)
	}
	s.block = s.device.api.Parameter(s.sub, f.Batch)
	s.surround(&backends.Launch{})
	for i := range members {
		m := &members[i]
		if m.launch == nil || m.form != f {
			continue
		}
		k.program.Layout.Fuse(m.launch, &s.space)
		lanes, shared := s.deal(k, m.launch, f)
		size := s.grids[0].size
		if n == table.Room() || size[1] != 1 || blocks+size[0] > maxGridX {
			break
		}
		k.program.Layout.Pack(s.packed[:own], m.launch, &s.space, &s.env)
		if n == 0 {
			s.sub.Block, s.sub.Shared = [3]uint32{lanes, 1, 1}, shared
			table.Begin(s.block, s.packed)
		}
		table.Add(s.block, n, s.packed, blocks)
		blocks += size[0]
		n++
		m.launch = nil
	}
	if n == 0 {
		return 0, errors.New("a batch has no room for a launch")
	}
	table.End(s.block, n)
	s.sub.Context, s.sub.Stream, s.sub.Func = s.device.context, s.handle, v.fn
	s.form, s.depends, s.grids = f, false, append(s.grids[:0], grid{size: [3]uint32{blocks, 1, 1}})
	return s.submit()
}
