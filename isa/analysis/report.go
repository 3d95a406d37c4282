package analysis

import (
	"fmt"
	"math"
	"math/bits"
	"strings"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// Report is an Analysis as people read it, and as JSON: what `program.analysis`
// shows.
type Report struct {
	Kind     string         `json:"kind"` // map, product, reduction, other
	Reason   string         `json:"reason,omitempty"`
	Reads    []int          `json:"reads,omitempty"`   // slots read at slot[index]
	Writes   []int          `json:"writes,omitempty"`  // slots written at slot[index]
	Gathers  []int          `json:"gathers,omitempty"` // slots read elsewhere
	Accesses []AccessReport `json:"accesses,omitempty"`
	Loops    []LoopReport   `json:"loops,omitempty"`
	Sums     []SumReport    `json:"sums,omitempty"`
}

// AccessReport is an Access.
type AccessReport struct {
	Op     string `json:"op"`     // such as "ldg.f32"
	Place  string `json:"place"`  // s0, shared, @ (chosen at run time)
	Offset string `json:"offset"` // bytes, as a sum; "index" of slot[index]
	// Lanes is what the offset grows by from lane to lane; "" if that is not
	// the same for all.
	Lanes string `json:"lanes,omitempty"`
	Same  string `json:"same,omitempty"` // the offset is the same for a "launch" or a "block"
	Loop  *int   `json:"loop,omitempty"`
	Site  *int   `json:"site,omitempty"`
	// When says when the offset holds: "always" or "unless it wraps"; or,
	// where a launch is given, "here" or "not here".
	When string `json:"when"`
	// Proved says, where a launch is given, whether the access needs no check.
	Proved *bool `json:"proved,omitempty"`
}

// LoopReport is a Loop.
type LoopReport struct {
	Parent     *int     `json:"parent,omitempty"`
	Count      string   `json:"count,omitempty"`  // of a counted loop
	Rounds     *int64   `json:"rounds,omitempty"` // the most in any launch
	Insts      *float64 `json:"instructions,omitempty"`
	Inductions []string `json:"inductions,omitempty"`
}

// SumReport is an Accumulation.
type SumReport struct {
	Loop       int    `json:"loop"`
	Op         string `json:"op"`
	Factors    []int  `json:"factors,omitempty"` // of a product: the accesses
	Collective string `json:"collective,omitempty"`
	Alone      bool   `json:"alone"`
	Chunks     []int  `json:"chunks,omitempty"`
}

// Report describes a, and if p is not nil what p proves.
func (a *Analysis) Report(p *Proof) *Report {
	k := &a.Class
	r := &Report{Kind: k.Kind.String(), Reason: k.Reason, Reads: slotList(k.Reads), Writes: slotList(k.Writes), Gathers: slotList(k.Gathers)}
	for i := range a.Accesses {
		r.Accesses = append(r.Accesses, a.reportAccess(i, p))
	}
	for i := range a.Loops {
		r.Loops = append(r.Loops, reportLoop(&a.Loops[i]))
	}
	for i := range k.Sums {
		s := &k.Sums[i]
		out := SumReport{Loop: s.Loop, Op: instName(s.Node), Alone: s.Alone, Chunks: s.Chunks}
		if s.IsProduct() {
			out.Factors = s.Factors[:]
		}
		if s.Collective != nil {
			out.Collective = instName(s.Collective)
		}
		r.Sums = append(r.Sums, out)
	}
	return r
}

func slotList(slots uint64) (list []int) {
	for ; slots != 0; slots &= slots - 1 {
		list = append(list, bits.TrailingZeros64(slots))
	}
	return list
}

func instName(n *ir.Node) string {
	name := strings.ToLower(n.Op.String())
	if n.Type != isa.NoType {
		name += "." + n.Type.String()
	}
	return name
}

func (a *Analysis) reportAccess(i int, p *Proof) AccessReport {
	acc := &a.Accesses[i]
	n := acc.Node
	out := AccessReport{Op: instName(n), Offset: acc.Offset.String(), When: "always"}
	switch n.Mem.Mode {
	case isa.AddrShared:
		out.Place = "shared"
	case isa.AddrIndirect:
		out.Place = "@"
	default:
		out.Place = fmt.Sprintf("s%d", n.Mem.Slot)
	}
	if acc.Loop >= 0 {
		out.Loop = &acc.Loop
	}
	if n.Site >= 0 {
		out.Site = &n.Site
	}
	if n.Mem.Mode == isa.AddrIndex {
		out.Offset = "index"
		return out
	}
	if v := acc.Offset.Vary(); v < PerLane {
		out.Same = v.String()
	}
	if along, ok := acc.Offset.AlongLanes(); ok {
		out.Lanes = along.String()
	}
	switch {
	case acc.Always:
	case p == nil:
		out.When = "unless it wraps"
	case p.Affine(i):
		out.When = "here"
	default:
		out.When = "not here"
	}
	if p != nil {
		proved := p.Site(n.Site)
		out.Proved = &proved
	}
	return out
}

func reportLoop(l *Loop) LoopReport {
	var out LoopReport
	if l.Parent >= 0 {
		out.Parent = &l.Parent
	}
	if l.Node.Counted {
		out.Count = l.Count.String()
	}
	if l.Rounds >= 0 {
		out.Rounds = &l.Rounds
	}
	if !math.IsInf(l.Insts, 0) {
		out.Insts = &l.Insts
	}
	for _, in := range l.Inductions {
		out.Inductions = append(out.Inductions, fmt.Sprintf("%%%d = %v + round·(%v)", l.Node.Regions[0].Params[in.Index].ID, in.Init, in.Step))
	}
	return out
}

// String writes the report as text, a line for each thing.
func (r *Report) String() string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s%s", r.Kind, after(": ", r.Reason))
	for _, s := range []struct {
		name  string
		slots []int
	}{{"reads", r.Reads}, {"writes", r.Writes}} {
		for _, k := range s.slots {
			line("  %s s%d[index]", s.name, k)
		}
	}
	for i, x := range r.Accesses {
		if x.Offset == "index" {
			continue
		}
		text := fmt.Sprintf("  access %d: %s %s[%s]", i, x.Op, x.Place, x.Offset)
		if x.Site != nil {
			text += fmt.Sprintf(", site %d", *x.Site)
		}
		if x.Loop != nil {
			text += fmt.Sprintf(", in loop %d", *x.Loop)
		}
		switch {
		case x.Same != "":
			text += ", the same for a " + x.Same
		case x.Lanes != "":
			text += ", " + x.Lanes + " from lane to lane"
		}
		text += after(", ", x.When)
		if x.Proved != nil {
			text += map[bool]string{true: ", proved", false: ", checked"}[*x.Proved]
		}
		line("%s", text)
	}
	for i, l := range r.Loops {
		text := fmt.Sprintf("  loop %d", i)
		if l.Parent != nil {
			text += fmt.Sprintf(" in loop %d", *l.Parent)
		}
		if l.Count != "" {
			text += ": " + l.Count + " rounds"
		}
		if l.Rounds != nil {
			text += fmt.Sprintf(", at most %d", *l.Rounds)
		}
		if l.Insts != nil {
			text += fmt.Sprintf(", of %g instructions", *l.Insts)
		}
		line("%s", text)
		for _, in := range l.Inductions {
			line("    %s", in)
		}
	}
	for _, s := range r.Sums {
		text := fmt.Sprintf("  loop %d accumulates by %s", s.Loop, s.Op)
		if len(s.Factors) > 0 {
			text += fmt.Sprintf(" the products of accesses %d and %d", s.Factors[0], s.Factors[1])
		}
		text += after(", then ", s.Collective)
		for _, k := range s.Chunks {
			text += fmt.Sprintf(", added up by loop %d", k)
		}
		if !s.Alone {
			text += ", beside other work"
		}
		line("%s", text)
	}
	return b.String()
}

func after(separator, text string) string {
	if text == "" {
		return ""
	}
	return separator + text
}

// String describes a; see Report.
func (a *Analysis) String() string { return a.Report(nil).String() }
