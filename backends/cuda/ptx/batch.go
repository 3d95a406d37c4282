package ptx

import (
	"encoding/binary"
	"slices"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
)

// A batch is launches of a program on other slots each, with the same parameters, that the
// driver has as one (Options.Batch). Its blocks are those of the first launch, then those
// of the second, …; the kernel's parameter is
//
//	  0  the launch block, of which all have the same, as far as it is not their own
//	  …  u32 how many launches there are, u32 0
//	  …  of each: u32 the number of its first block, u32 0, and those cells of its launch
//	     block that are its own and that the program loads: its Table has which
//
// so that a block, which looks up whose it is, does what it would as one of that launch.

// Sizes of the parameter: the most that every driver takes, and that those from
// CUDA 12.1 on do.
const (
	NarrowBatch = narrowBlock
	WideBatch   = 32764 &^ 7
)

// Table says how the parameter of a batch is laid out.
type Table struct {
	block int   // bytes of the launch block
	cells []int // offsets, in the launch block, of what each launch has of its own
	room  int
}

const (
	atMembers   = 8 // behind the launch block
	atOwn       = 8 // in a launch's part
	memberCells = 1 // beside those of the launch block
)

func (t *Table) stride() int { return 8 * (memberCells + len(t.cells)) }

// Room is how many launches a batch has at most.
func (t *Table) Room() int { return t.room }

// Begin begins a batch in b, of which the first launch has this launch block.
func (t *Table) Begin(b, block []byte) { copy(b, block[:t.block]) }

// End says how many launches the batch has.
func (t *Table) End(b []byte, n int) { binary.LittleEndian.PutUint64(b[t.block:], uint64(n)) }

// Add adds launch number i by its launch block and the number of its first block.
func (t *Table) Add(b []byte, i int, block []byte, first uint32) {
	b = b[t.block+atMembers+i*t.stride():]
	binary.LittleEndian.PutUint64(b, uint64(first))
	for k, at := range t.cells {
		copy(b[atOwn+8*k:][:8], block[at:])
	}
}

// batches reports whether launches of the program can be a batch: its lanes take no
// notice of their block nor of each other, keep no state and end soon.
func (p *Program) batches() bool {
	return p.AnyBlock && !p.Residue && !p.Phase && p.pool == 0 && len(p.polls) == 0 && !namesSlots(p.fn.Body)
}

// namesSlots reports whether slots are accessed by their numbers, which are values.
func namesSlots(r *ir.Region) bool {
	return slices.ContainsFunc(r.Nodes, func(n *ir.Node) bool {
		return n.Op.IsInst() && n.Mem.Mode == isa.AddrIndirect || slices.ContainsFunc(n.Regions, namesSlots)
	})
}

// Batched returns a variant with Batch, as Text does, and how its parameter is laid out.
func (p *Program) Batched(o Options) (string, *Table, error) {
	if !p.Batches {
		return "", nil, &backends.Unsupported{Backend: "cuda", What: "a batch of this program's launches", Why: "their blocks are not each other's"}
	}
	e := p.written(o, nil) // to see which cells are loaded
	if e.err != nil {
		return "", nil, e.err
	}
	t := &Table{block: p.Layout.Bytes, cells: e.cells}
	t.room = (o.Batch - t.block - atMembers) / t.stride()
	e = p.written(o, e.cells)
	return e.module(), t, e.err
}

// own reports whether each launch of a batch has its own of a field of the launch block.
func (p *Program) own(at int) bool {
	given := p.Layout.Param(p.Layout.params - len(p.fn.Given)) // by sizes
	return at >= atN && at != atFuel && (at < atParams || at >= given)
}

// ofMember is where a launch's part of the parameter has a field.
func (e *emitter) ofMember(at int) int {
	cell := at &^ 7
	i := slices.Index(e.cells, cell)
	if i < 0 {
		i = len(e.cells)
		e.cells = append(e.cells, cell)
	}
	return atOwn + 8*i + at - cell
}

// member finds out which launch of its batch the block is of, the last whose first block
// is not behind it, by halves, and the block's number in that.
func (e *emitter) member() {
	t := Table{block: e.p.Layout.Bytes, cells: e.cells}
	first, n, low := e.temp(bankRD), e.temp(bankR), e.temp(bankR)
	block, half, middle, begins := e.temp(bankR), e.temp(bankR), e.temp(bankR), e.temp(bankR)
	at, one, before := e.temp(bankRD), e.temp(bankP), e.temp(bankP)
	e.comment("the launch of the batch")
	e.line("mov.u32 %s, %%ctaid.x;", block)
	e.line("mov.b64 %s, %s_launch;", first, e.opt.Entry)
	e.line("add.s64 %s, %s, %d;", first, first, t.block+atMembers)
	e.line("ld.param.u32 %s, [%s_launch+%d];", n, e.opt.Entry, t.block)
	e.line("mov.b32 %s, 0;", low)
	e.label("search")
	e.line("setp.le.u32 %s, %s, 1;", one, n)
	e.line("@%s bra found;", one)
	e.line("shr.u32 %s, %s, 1;", half, n)
	e.line("add.u32 %s, %s, %s;", middle, low, half)
	e.line("mad.wide.u32 %s, %s, %d, %s;", at, middle, t.stride(), first)
	e.line("ld.param.u32 %s, [%s];", begins, at)
	e.line("setp.le.u32 %s, %s, %s;", before, begins, block)
	e.line("selp.b32 %s, %s, %s, %s;", low, middle, low, before)
	e.line("sub.u32 %s, %s, %s;", n, n, half)
	e.line("bra search;")
	e.label("found")
	e.line("mad.wide.u32 %%member, %s, %d, %s;", low, t.stride(), first)
	e.line("ld.param.u32 %s, [%%member];", begins)
	e.line("sub.u32 %s, %s, %s;", block, block, begins)
	e.line("cvt.u64.u32 %%block, %s;", block)
}
