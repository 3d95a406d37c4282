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
	if read, written := k.reaches(l); read+written > batchBytes || l.N > batchBytes {
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

// LaunchBatch is backends.Batcher's.
func (s *stream) LaunchBatch(kn backends.Kernel, n int, launch func(i int) *backends.Launch) (backends.Ticket, error) {
	k, ok := kn.(*kernel)
	if !ok || k.device != s.device {
		return 0, errors.New("cuda: launch: the kernel is of another device")
	}
	last, alone, err := s.batches(k, n, launch)
	for _, i := range alone {
		if err != nil {
			break
		}
		var t backends.Ticket
		if t, err = s.Launch(k, launch(i)); err == nil {
			last = t
		}
	}
	return last, err
}

// batches queues those launches that go in batches, and returns the others.
func (s *stream) batches(k *kernel, n int, launch func(i int) *backends.Launch) (last backends.Ticket, alone []int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return 0, nil, fmt.Errorf("cuda: launch: %w", err)
	}
	s.left = s.left[:0]
	for i := range n {
		s.left = append(s.left, i)
	}
	for len(s.left) > 0 {
		t, err := s.pass(k, launch, &alone)
		if err != nil {
			return last, nil, err
		}
		if t > 0 {
			last = backends.Ticket(t)
		}
	}
	return last, alone, nil
}

// pass queues the first of the launches that are left and those of its form, as many as go in
// one launch of the driver's; what cannot go so is alone. It looks at all before it queues any.
func (s *stream) pass(k *kernel, launch func(i int) *backends.Launch, alone *[]int) (uint64, error) {
	var v *variant
	blocks, n, rest := uint32(0), 0, s.left[:0]
	own := k.program.Layout.Bytes
	if len(s.packed) < own {
		s.packed = make([]byte, own)
	}
	for _, i := range s.left {
		l := launch(i)
		if err := k.check(l); err != nil {
			return 0, err
		}
		if l.N == 0 {
			continue
		}
		k.program.Layout.Fuse(l, &s.space)
		f := k.form(l, &s.space)
		if f.Batch == 0 {
			*alone = append(*alone, i)
			continue
		}
		if n > 0 && (f != v.form || n == v.table.Room()) {
			rest = append(rest, i)
			continue
		}
		lanes, shared := s.deal(k, l, f)
		if n == 0 {
			var err error
			if v, err = k.variant(f); err != nil {
				return 0, fmt.Errorf("cuda: launch: %w", s.device.classified(err))
			}
			s.block = s.device.api.Parameter(s.sub, f.Batch)
			s.surround(l)
			s.sub.Block, s.sub.Shared = [3]uint32{lanes, 1, 1}, shared
		}
		k.program.Layout.Pack(s.packed[:own], l, &s.space, &s.env)
		if n == 0 {
			v.table.Begin(s.block, s.packed)
		}
		v.table.Add(s.block, n, s.packed, blocks)
		blocks += s.grids[0].size[0]
		n++
	}
	if s.left = rest; n == 0 {
		return 0, nil
	}
	v.table.End(s.block, n)
	s.sub.Context, s.sub.Stream, s.sub.Func = s.device.context, s.handle, v.fn
	s.form, s.depends, s.grids = v.form, false, append(s.grids[:0], grid{size: [3]uint32{blocks, 1, 1}})
	t, err := s.submit()
	if err != nil {
		err = fmt.Errorf("cuda: launch: %w", s.device.classified(err))
	}
	return t, err
}
