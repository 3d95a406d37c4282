package cuda

import "github.com/hologram-project/hologram/backends"

// Direct is backends.Entered's: one kernel that tells nobody anything, on a stream that
// nobody else ends. On others each work's ticket would have to be told at once.
func (k *kernel) Direct(l *backends.Launch, on backends.Stream) []backends.Direct {
	s, ok := on.(*stream)
	if !ok || s.device != k.device || !s.stays || !k.device.info.Enters || k.program.Phase || k.program.Residue || l.Fuel > 0 || k.check(l) != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.graph != nil || s.joined {
		return nil
	}
	alone := *l
	alone.Record = nil // nothing faults, and it ends too soon to be cancelled
	if err := s.pack(k, &alone); err != nil || len(s.grids) != 1 || !k.proved && !s.form.product.Is() {
		return nil
	}
	sub := s.sub
	sub.Grid, sub.Word, sub.Others, sub.Exec, sub.Node = s.grids[0].size, 0, 0, 0, 0
	if !s.owned {
		sub.Others = 1
	}
	graph := new(single) // its own: nobody else changes its parameters, nor ends it
	if s.form.Meeting == 0 && !s.refused {
		s.refused = graph.make(s.device, &sub.KernelNode) != nil
		sub.Exec, sub.Node = graph.exec, graph.node
	}
	code, frame, at := s.device.api.Entry(sub, s.block, &s.notes.host.tickets)
	d := backends.Direct{Code: code, Frame: frame, Nanoseconds: k.Cost(l), Bounded: !k.program.Polls() && !s.form.product.Is(),
		Fault: 0, Refuses: true, Release: func() { _ = graph.free(s.device) }}
	for i := range l.Slots {
		d.Slots = append(d.Slots, backends.SlotPlace{Place: backends.Place{Of: i, At: at + k.program.Layout.Base(i)}})
	}
	for i := range l.Params {
		d.Params = append(d.Params, backends.ParamPlace{Place: backends.Place{Of: i, At: at + k.program.Layout.Param(i)}, Type: k.params[i]})
	}
	return []backends.Direct{d}
}
