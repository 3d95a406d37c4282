package ptx

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// emitter writes one variant of a program.
type emitter struct {
	p   *Program
	fn  *ir.Func
	opt Options
	err error

	code   strings.Builder
	tables strings.Builder // module-level data
	made   map[string]bool // tables by name
	temps  [numBanks]int
	values [][numBanks]int         // by element: one more than the highest value number
	number int                     // of constructs and other places with labels
	names  []map[*ir.Value]string  // by element
	many   bool                    // written are a lane's elements …
	el     int                     // … of which this one is at hand
	left   []string                // by run, how many of its elements lie in its first row, where that ends within
	parts  map[string]part         // by register, of what was loaded together
	joins  map[*ir.Node][]*ir.Node // of a store, those that it is written with; nil: written with another
	loops  map[*ir.Node]int
	blocks map[*ir.Node]int

	cells  []int               // of launch blocks: what each launch of a batch has of its own
	folded bool                // the scratch of collectives was used
	done   map[*ir.Node]string // results of collectives done with others before them
	scans  bool                // several were scanned together
	begun  bool                // see gathered
	waits  []int               // slots told by since the last barrier
	// heardOf has a bit for each slot by which all have told before a barrier.
	heardOf uint64
	split   map[*ir.Node]string // of an If that may part lanes: predicate, see splits
	frames  []frame             // the constructs around the node at hand, outermost first
}

// frame is a region being written, and the node that it is at.
type frame struct {
	of     *ir.Node // construct, nil: the body
	region *ir.Region
	at     int
	split  string // of an If: predicate, see splits
}

// bank is a kind of register.
type bank int

const (
	bankR  bank = iota // 32 bits: integers up to that width
	bankRD             // 64 bits: integers
	bankF              // f32
	bankFD             // f64
	bankH              // bits of f16 and bf16, in 32
	bankP              // predicates
	bankS              // 16 bits: temporaries alone
	numBanks
)

var banks = [numBanks]struct{ prefix, typ string }{
	{"r", "b32"}, {"rd", "b64"}, {"f", "f32"}, {"fd", "f64"}, {"h", "b32"}, {"p", "pred"}, {"s", "b16"},
}

func bankOf(t isa.Type) bank {
	switch t {
	case isa.Pred:
		return bankP
	case isa.F16, isa.BF16:
		return bankH
	case isa.F32:
		return bankF
	case isa.F64:
		return bankFD
	case isa.I64, isa.U64:
		return bankRD
	}
	return bankR
}

// suffix is the type of an instruction that computes with values of type t.
func suffix(t isa.Type) string {
	switch {
	case t.Float() && t != isa.F64:
		return "f32"
	case t == isa.F64:
		return "f64"
	case t.Signed() && t.Size() == 8:
		return "s64"
	case t.Size() == 8:
		return "u64"
	case t.Signed():
		return "s32"
	}
	return "u32"
}

// width is the same for instructions on bits.
func width(t isa.Type) string {
	if t.Size() == 8 {
		return "b64"
	}
	return "b32"
}

func half(t isa.Type) bool { return t == isa.F16 || t == isa.BF16 }

func (e *emitter) line(format string, args ...any) {
	fmt.Fprintf(&e.code, "\t"+format+"\n", args...)
}

func (e *emitter) comment(format string, args ...any) {
	fmt.Fprintf(&e.code, "\t// "+format+"\n", args...)
}

func (e *emitter) label(name string) { fmt.Fprintf(&e.code, "%s:\n", name) }

// place returns a number for labels that belong together.
func (e *emitter) place() int {
	e.number++
	return e.number
}

// temp returns a register that nothing else has.
func (e *emitter) temp(b bank) string {
	e.temps[b]++
	return fmt.Sprintf("%%t%s%d", banks[b].prefix, e.temps[b]-1)
}

// name is a value's register.
func (e *emitter) name(v *ir.Value) string {
	e.room(e.el)
	s, ok := e.names[e.el][v]
	if !ok {
		b := bankOf(v.Type)
		e.values[e.el][b] = max(e.values[e.el][b], v.ID+1)
		s = fmt.Sprintf("%%%s%s%d", banks[b].prefix, ofElement(e.el), v.ID)
		e.names[e.el][v] = s
	}
	return s
}

// room makes room for the names of elements up to el.
func (e *emitter) room(el int) {
	for len(e.names) <= el {
		e.names = append(e.names, map[*ir.Value]string{})
		e.values = append(e.values, [numBanks]int{})
	}
}

// ofElement stands in the names of registers of a lane's further elements: %f3_12
// is value 12 of element 3.
func ofElement(el int) string {
	if el == 0 {
		return ""
	}
	return fmt.Sprintf("%d_", el)
}

// arg is a value as an operand: a constant stands for itself where an
// instruction can have it.
func (e *emitter) arg(v *ir.Value) string {
	c, ok := v.Const()
	if !ok || v.Type == isa.Pred || half(v.Type) {
		return e.name(v)
	}
	return literal(v.Type, c)
}

func (e *emitter) args(list []*ir.Value) []string {
	s := make([]string, len(list))
	for i, v := range list {
		s[i] = e.arg(v)
	}
	return s
}

// literal writes a cell: an integer extended by its sign, a float by its bits.
func literal(t isa.Type, cell uint64) string {
	switch {
	case t == isa.F32:
		return fmt.Sprintf("0f%08X", cell)
	case t == isa.F64:
		return fmt.Sprintf("0d%016X", cell)
	case t.Signed():
		s := 64 - t.Bits()
		return strconv.FormatInt(int64(cell<<s)>>s, 10)
	}
	return strconv.FormatUint(cell, 10)
}

// cellOf is the cell of an integer's literal, extended to 64 bits.
func cellOf(s string) uint64 {
	if v, err := strconv.ParseInt(s, 10, 64); err == nil {
		return uint64(v)
	}
	v, _ := strconv.ParseUint(s, 10, 64)
	return v
}

// constant defines the register of a Const that is not written where it is used.
func (e *emitter) constant(n *ir.Node) {
	v := n.Result()
	switch {
	case v.Type == isa.Pred:
		e.line("mov.pred %s, %d;", e.name(v), -int(n.Imm&1))
	case half(v.Type):
		e.line("mov.b32 %s, 0x%04x;", e.name(v), n.Imm)
	}
}

// move copies a register, or a literal, into a register of the same type.
func (e *emitter) move(t isa.Type, to, from string) {
	if to != from {
		e.line("mov.%s %s, %s;", banks[bankOf(t)].typ, to, from)
	}
}

// assign gives registers their values all at once.
func (e *emitter) assign(to []*ir.Value, from []*ir.Value) {
	clash := false
	for i := range to {
		for j := range from {
			clash = clash || i != j && to[i] == from[j]
		}
	}
	if !clash {
		for i, v := range from {
			e.move(v.Type, e.name(to[i]), e.arg(v))
		}
		return
	}
	kept := make([]string, len(from))
	for i, v := range from {
		kept[i] = e.temp(bankOf(v.Type))
		e.move(v.Type, kept[i], e.arg(v))
	}
	for i, v := range from {
		e.move(v.Type, e.name(to[i]), kept[i])
	}
}

// unsupported notes what has no rule; the first stays.
func (e *emitter) unsupported(what, why string) {
	if e.err == nil {
		e.err = &backends.Unsupported{Backend: "cuda", What: what, Why: why}
	}
}

// region writes the nodes of a region of a construct.
func (e *emitter) region(of *ir.Node, r *ir.Region, split string) {
	if e.whole() && e.opt.Block > warp {
		r = regrouped(r)
	}
	r = e.early(r)
	e.frames = append(e.frames, frame{of: of, region: r, split: split})
	top := len(e.frames) - 1
	defer func() { e.frames = e.frames[:top] }()
	for i, n := range r.Nodes {
		e.frames[top].at = i
		if !e.withNeighbours(r, i) {
			e.node(n)
		}
	}
}

func (e *emitter) node(n *ir.Node) {
	switch n.Op {
	case ir.Const:
		e.constant(n)
	case ir.If:
		e.ifNode(n)
	case ir.Loop:
		e.loopNode(n)
	case ir.Block:
		e.blockNode(n)
	case ir.Br:
		e.brNode(n)
	default:
		e.comment("%s", describe(n))
		e.inst(n)
	}
}

// inst writes an instruction.
func (e *emitter) inst(n *ir.Node) {
	op := n.Op.Inst()
	if rule, ok := nodeRules[op]; ok {
		rule(e, n)
		return
	}
	d := e.name(n.Result())
	if !e.compute(op, n.Form, d, e.args(n.Args)...) {
		what := op.String()
		if n.Type != isa.NoType {
			what += " " + n.Type.String()
		}
		e.unsupported(what, "there is no rule for it")
	}
}

// module puts the parts together.
func (e *emitter) module() string {
	var b strings.Builder
	bytes := max(e.p.Layout.Bytes, e.opt.Batch)
	b.WriteString(Header(bytes > narrowBlock, e.opt.Modern, e.opt.Meeting > 0 || e.opt.Waits))
	b.WriteString(e.tables.String())
	b.WriteByte('\n')
	if e.sharedUsed() {
		// All modules' shared memory is one: its size comes with the launch.
		fmt.Fprintf(&b, ".extern .shared .align 16 .b8 %s_shared[];\n", e.opt.Entry)
	}
	fmt.Fprintf(&b, ".visible .entry %s(.param .align 8 .b8 %s_launch[%d])\n", e.opt.Entry, e.opt.Entry, bytes)
	lanes := e.opt.Lanes
	if lanes == 0 {
		lanes = isa.MaxBlockLanes
	}
	if s := e.fn.Block; s[0] > 0 && !e.p.AnyBlock {
		lanes = int(s[0] * s[1] * s[2])
	}
	if e.opt.Block > 0 {
		lanes = e.opt.Block
	}
	fmt.Fprintf(&b, ".maxntid %d, 1, 1\n", lanes)
	if e.opt.bounded() {
		fmt.Fprintf(&b, ".minnctapersm %d\n", residentBlocks)
	}
	if e.opt.Meeting > 0 {
		fmt.Fprintf(&b, ".explicitcluster\n.reqnctapercluster %d, 1, 1\n", e.opt.Meeting)
	}
	doubles := (e.opt.Block > 0 || e.opt.Vector == 0) && slices.Contains(e.fn.SlotTypes, isa.F64)
	tile := e.fn.Block[0] > 0 && e.fn.Shared > 0 && !e.p.Collective
	if doubles || tile || e.scans {
		// Else ptxas spills, or loads one after the other, to have more blocks on a
		// processor: than it has f64 units for, or than tiles and scans need that load much
		// at once.
		least := 1
		if e.scans && e.opt.Block <= 256 {
			least = 2
			if e.p.run >= manyScans { // what they scan is most of what lanes have
				least = min(max(least, registers/e.opt.Block/(e.p.run*e.p.element/4+e.besideScans())), mostAtOnce)
			}
		}
		fmt.Fprintf(&b, ".minnctapersm %d\n", least)
	}
	b.WriteString("{\n")
	for i, k := range banks {
		for el, values := range e.values {
			if values[i] > 0 {
				fmt.Fprintf(&b, "\t.reg .%s %%%s%s<%d>;\n", k.typ, k.prefix, ofElement(el), values[i])
			}
		}
		if e.temps[i] > 0 {
			fmt.Fprintf(&b, "\t.reg .%s %%t%s<%d>;\n", k.typ, k.prefix, e.temps[i])
		}
	}
	e.fixed(&b)
	b.WriteString(e.code.String())
	b.WriteString("}\n")
	return b.String()
}

// describe writes a node as a line of the IR: %12:f32 = add.f32 %3, %4.
func describe(n *ir.Node) string {
	var b strings.Builder
	if v := n.Result(); v != nil {
		fmt.Fprintf(&b, "%%%d:%v = ", v.ID, v.Type)
	}
	b.WriteString(strings.ToLower(n.Op.String()))
	if n.Cond != isa.NoCond {
		b.WriteString("." + n.Cond.String())
	}
	for _, t := range []isa.Type{n.Type, n.From} {
		if t != isa.NoType {
			b.WriteString("." + t.String())
		}
	}
	row, _ := isa.Lookup(n.Op.Inst())
	args := n.Args[n.AddrArgs():]
	sep := " "
	for _, o := range row.Operands {
		text := ""
		switch o.Kind {
		case isa.Src, isa.SrcReg, isa.PredSrc:
			text, args = describeValue(args[0]), args[1:]
		case isa.Mem, isa.SharedMem, isa.AnyMem:
			text = describeAddress(n)
		case isa.ParamRef:
			text = fmt.Sprintf("param %d", n.Imm)
		case isa.DataRef:
			text = fmt.Sprintf("data %d", n.Imm)
		case isa.SpecialRef:
			text = isa.Special(n.Imm).String()
		case isa.ScopeRef:
			text = isa.Scope(n.Imm).String()
		case isa.Imm:
			text = fmt.Sprintf("%#x", n.Imm)
		default:
			continue
		}
		b.WriteString(sep + text)
		sep = ", "
	}
	if n.Site >= 0 {
		fmt.Fprintf(&b, "  ; site %d", n.Site)
	}
	return b.String()
}

func describeValue(v *ir.Value) string {
	if c, ok := v.Const(); ok {
		return literal(v.Type, c)
	}
	return fmt.Sprintf("%%%d", v.ID)
}

func describeAddress(n *ir.Node) string {
	base, args := fmt.Sprintf("slot %d", n.Mem.Slot), n.Args
	switch n.Mem.Mode {
	case isa.AddrIndex:
		return base + "[index]"
	case isa.AddrShared:
		base = "shared"
	case isa.AddrIndirect:
		base, args = "@"+describeValue(args[0]), args[1:]
	}
	if !n.Mem.HasOff {
		return fmt.Sprintf("%s[%d]", base, n.Mem.Offset)
	}
	return fmt.Sprintf("%s[%s%+d]", base, describeValue(args[0]), n.Mem.Offset)
}
