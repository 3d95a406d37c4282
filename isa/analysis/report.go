package analysis

import (
	"fmt"
	"math"
	"strings"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// String describes a for people, a line for each thing: what `program.analysis`
// shows.
func (a *Analysis) String() string {
	var b strings.Builder
	k := &a.Class
	b.WriteString(k.Kind.String())
	if k.Epilogue {
		b.WriteString(" with an epilogue")
	}
	if k.Reason != "" {
		b.WriteString(": " + k.Reason)
	}
	b.WriteByte('\n')
	for _, s := range []struct {
		name  string
		slots uint64
	}{{"reads", k.Reads}, {"writes", k.Writes}} {
		for i := range 64 {
			if s.slots>>i&1 == 1 {
				fmt.Fprintf(&b, "  %s s%d[index]\n", s.name, i)
			}
		}
	}
	for i := range a.Accesses {
		if a.Accesses[i].Node.Mem.Mode != isa.AddrIndex {
			a.Accesses[i].report(&b, i)
		}
	}
	for i := range a.Loops {
		a.Loops[i].report(&b, i)
	}
	for i := range k.Sums {
		k.Sums[i].report(&b)
	}
	return b.String()
}

func instName(n *ir.Node) string {
	name := strings.ToLower(n.Op.String())
	if n.Type != isa.NoType {
		name += "." + n.Type.String()
	}
	return name
}

func (acc *Access) report(b *strings.Builder, i int) {
	n := acc.Node
	place := fmt.Sprintf("s%d", n.Mem.Slot)
	switch n.Mem.Mode {
	case isa.AddrShared:
		place = "shared"
	case isa.AddrIndirect: // the slot is chosen at run time
		place = "@"
	}
	fmt.Fprintf(b, "  access %d: %s %s[%v]", i, instName(n), place, acc.Offset)
	if n.Site >= 0 {
		fmt.Fprintf(b, ", site %d", n.Site)
	}
	if acc.Loop >= 0 {
		fmt.Fprintf(b, ", in loop %d", acc.Loop)
	}
	if v := acc.Offset.Vary(); v < PerLane {
		fmt.Fprintf(b, ", the same for a %v", v)
	} else if along, ok := acc.Offset.AlongLanes(); ok {
		fmt.Fprintf(b, ", %v from lane to lane", along)
	}
	if acc.Always {
		b.WriteString(", always\n")
	} else {
		b.WriteString(", unless it wraps\n")
	}
}

func (l *Loop) report(b *strings.Builder, i int) {
	fmt.Fprintf(b, "  loop %d", i)
	if l.Parent >= 0 {
		fmt.Fprintf(b, " in loop %d", l.Parent)
	}
	if l.Node.Counted {
		fmt.Fprintf(b, ": %v rounds", l.Count)
	}
	if l.Rounds >= 0 {
		fmt.Fprintf(b, ", at most %d", l.Rounds)
	}
	if !math.IsInf(l.Insts, 0) {
		fmt.Fprintf(b, ", of %g instructions", l.Insts)
	}
	b.WriteByte('\n')
	for _, in := range l.Inductions {
		fmt.Fprintf(b, "    %%%d = %v + round·(%v)\n", l.Node.Regions[0].Params[in.Index].ID, in.Init, in.Step)
	}
}

func (s *Accumulation) report(b *strings.Builder) {
	fmt.Fprintf(b, "  loop %d accumulates by %s", s.Loop, instName(s.Node))
	if s.IsProduct() {
		fmt.Fprintf(b, " the products of accesses %d and %d", s.Factors[0], s.Factors[1])
	}
	if s.Collective != nil {
		b.WriteString(", then " + instName(s.Collective))
	}
	for _, k := range s.Chunks {
		fmt.Fprintf(b, ", added up by loop %d", k)
	}
	if !s.Alone {
		b.WriteString(", beside other work")
	}
	b.WriteByte('\n')
}
