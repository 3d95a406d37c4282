package cuda

import "github.com/hologram-project/hologram/backends"

// enters bounds what is entered: queueing it takes its caller no longer the longer it is,
// but nobody cancels it.
var enters = backends.EnterBounds{Bytes: 4 << 20, Nanoseconds: 10e6}

// Direct is backends.Entered's: one kernel that tells nobody anything, on a stream that
// nobody else ends. On others each work's ticket would have to be told at once.
func (k *kernel) Direct(l *backends.Launch, on backends.Stream) (parts []backends.Direct, never bool) {
	s, ok := on.(*stream)
	if !ok || s.device != k.device || !s.stays || k.device.info.Enters == nil || k.program.Phase || k.program.Residue || l.Fuel > 0 || k.check(l) != nil {
		return nil, true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.graph != nil || s.joined {
		return nil, false
	}
	alone := *l
	alone.Record = nil                        // nothing faults, and it ends too soon to be cancelled
	if err := s.pack(k, &alone); err != nil { // as when the driver lacks memory for the code
		return nil, false
	}
	if len(s.grids) != 1 || !k.proved && !s.form.product.Is() {
		return nil, true
	}
	sub := s.sub
	sub.Grid, sub.Word, sub.Others, sub.Exec, sub.Node, sub.Dependent = s.grids[0].size, 0, 1, 0, 0, 0
	graph := new(single) // its own: nobody else changes its parameters, nor ends it
	if s.depends {
		sub.Dependent = 1
	} else if s.form.Meeting == 0 && !s.refused {
		s.refused = graph.make(s.device, &sub.KernelNode) != nil
		sub.Exec, sub.Node = graph.exec, graph.node
	}
	code, frame, at := s.device.api.Entry(sub, s.block, &s.notes.host.tickets)
	d := backends.Direct{Code: code, Frame: frame, Nanoseconds: k.Cost(l), Bounded: !k.program.Polls() && !s.form.product.Is(),
		Fault: 0, Refuses: true, Bytes: graph.bytes(), Release: func() { _ = graph.free(s.device) }}
	for i := range l.Slots {
		d.Addresses = append(d.Addresses, backends.AddressPlace{Of: backends.Base(i), At: at + k.program.Layout.Base(i)})
	}
	for i := range l.Params {
		d.Params = append(d.Params, backends.ParamPlace{Of: i, At: at + k.program.Layout.Param(i), Type: k.params[i]})
	}
	return []backends.Direct{d}, false
}
