package asynctest

import (
	"errors"
	"slices"

	"github.com/hologram-project/hologram/backends"
)

// LaunchBatch is backends.Batcher's. It tells of launches that are not as that demands, and
// makes them in the opposite order.
func (s *stream) LaunchBatch(kn backends.Kernel, n int, launch func(i int) *backends.Launch) (last backends.Ticket, err error) {
	k, ok := kn.(*kernel)
	if !ok {
		return 0, errors.New("asynctest: the kernel is of another backend")
	}
	ls := make([]*backends.Launch, n)
	for i := range ls {
		l := *launch(i)
		l.Slots, l.Params = slices.Clone(l.Slots), slices.Clone(l.Params)
		ls[i] = &l
	}
	if err := k.apart(ls); err != nil {
		return 0, err
	}
	first := backends.Ticket(0)
	for _, l := range slices.Backward(ls) {
		t, err := s.launch(k, l, true)
		if err != nil {
			return last, err
		}
		if last = t; first == 0 {
			first = t
		}
	}
	b := s.device.backend
	b.mu.Lock()
	s.batches[last] = first
	b.unlock()
	return last, nil
}

// apart is an error if launches have Records, or other parameters, or one uses memory that
// another writes.
func (k *kernel) apart(ls []*backends.Launch) error {
	b := k.device.backend
	b.mu.Lock()
	defer b.unlock()
	type area struct {
		lo, hi uintptr
		writes bool
		of     int
	}
	var areas []area
	own := len(k.ir.ParamTypes) - len(k.ir.Given)
	for i, l := range ls {
		if l.Record != nil || l.Batch < len(ls) || !slices.Equal(l.Params[:own], ls[0].Params[:own]) {
			return b.breach("launch %d of a batch of %d has a Record, other parameters than the first, or says there are %d", i, len(ls), l.Batch)
		}
		for j := range l.Slots {
			v := &l.Slots[j]
			if lo, hi := extent(v, l.N == 0); hi > lo {
				areas = append(areas, area{v.Addr + uintptr(lo), v.Addr + uintptr(hi), k.ir.Slots[j].Writes, i})
			}
		}
	}
	for i, x := range areas {
		for _, y := range areas[:i] {
			if x.of != y.of && (x.writes || y.writes) && x.lo < y.hi && y.lo < x.hi {
				return b.breach("launches %d and %d of a batch share memory, which one of them writes", y.of, x.of)
			}
		}
	}
	return nil
}
