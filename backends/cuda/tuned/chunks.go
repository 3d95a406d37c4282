package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Rows of many chunks: a block of 256 lanes, each a partial, has one chunk of one
// row. Where a row's last chunk is not whole, the last column's element stands
// beyond its end.

const perLane = chunk / partials // elements of a partial

// beside is how many partials a lane has side by side: two, or a word of less. With four of
// f32 the driver's linker keeps all loads in registers, and as many blocks as an H200 needs
// find room only with spills: 4.07 TB/s for 4.34.
func beside(t isa.Type) int { return max(2, 4/t.Size()) }

// begin declares parameters, and finds a block's row and its chunk there, and the
// lane's first element, at. Where not all chunks are whole, left is how many elements
// the block has. Of a row there are so many chunks, or as many as a parameter says if
// that is 0.
func (w *writer) begin(chunks int64, whole bool) { w.beginSome(chunks, 1, whole) }

// beginSome is begin where so many blocks have several chunks of a row each, as many
// chunks apart: left is then how many elements the row has from the block's first on.
func (w *writer) beginSome(chunks, each int64, whole bool) {
	size, count := w.t.Size(), fmt.Sprintf("mov.u32 chunks, %d", chunks)
	w.line("param cols u64")
	if chunks == 0 {
		w.line("param chunks u32")
		count = "ldp.u32 chunks, chunks"
	}
	w.line("block %d\n  sreg q, lane.x\n  sreg b, block.x\n  %s\n  div.u32 row, b, chunks", partials/w.beside, count)
	switch { // where all blocks have as much, offsets are known to be multiples
	case whole && each == 1:
		w.line("  cvt.u64.u32 base, b\n  mul.u64 base, base, %d", chunk*size)
	case whole:
		w.line("  rem.u32 part, b, chunks\n  cvt.u64.u32 base, row\n  mul.u64 base, base, %d\n  cvt.u64.u32 first, part\n  add.u64 base, base, first\n  mul.u64 base, base, %d", chunks*each, chunk*size)
	default:
		w.line("  rem.u32 part, b, chunks\n  ldp.u64 pitch, cols\n  cvt.u64.u32 base, row\n  cvt.u64.u32 first, part")
		w.line("  mul.u64 first, first, %d\n  mul.u64 base, base, pitch\n  add.u64 base, base, first\n  mul.u64 base, base, %d", chunk, size)
		w.line("  sub.u64 left, pitch, first\n  min.u64 left, left, %d\n  cvt.u32.u64 left, left\n  sub.u32 last, left, 1", ((each-1)*max(chunks, 1)+1)*chunk)
	}
	w.line("  cvt.u64.u32 at, q\n  mul.u64 at, at, %d\n  add.u64 at, at, base", w.beside*size)
}

// place is the offset of what lies so many elements behind the lane's first.
func (w *writer) place(behind int64) string { return fmt.Sprintf("at + %d", behind*int64(w.t.Size())) }

// within finds, in a register, the offset of what lies k elements behind the block's first:
// of the block's last where that is less, so that the sizes alone prove an access.
func (w *writer) within(at string) string {
	w.line("  min.u32 k, k, last\n  cvt.u64.u32 %s, k\n  mul.u64 %[1]s, %[1]s, %d\n  add.u64 %[1]s, %[1]s, base", at, w.t.Size())
	return at
}

// partials combines a lane's elements of a whole chunk that begins so many elements behind the
// row's or the block's first, so many of each of the w.beside partials that the lane has.
func (w *writer) partials(combine string, first, each int64) (z []string) {
	for u := range each {
		for v := range int64(w.beside) {
			x := name("x", v, 0)
			w.load(x, "x["+w.place(first+u*partials+v)+"]")
			w.widen(x)
			if u == 0 {
				z = append(z, name("z", first/chunk, v))
				w.line("  mov.%v %s, %s", w.acc, z[v], x)
			} else {
				w.line("  %s.%v %s, %[3]s, %s", combine, w.acc, z[v], x)
			}
		}
	}
	return z
}

// ofPartials combines the partials of all lanes, of which each has w.beside, sums in the written
// order, to a register in all of them.
func (w *writer) ofPartials(combine string, z []string) string {
	for _, z := range z {
		w.line("  block_reduce_%s.%v %s, %[3]s", combine, w.acc, z)
	}
	return w.tree(combine, z)
}

// chunkElements loads a lane's elements of slot x.
func (w *writer) chunkElements(whole bool) (x []string) {
	x = w.chunkLoads(0, whole)
	for _, x := range x {
		w.widen(x)
	}
	return x
}

// chunkLoads begins to load a lane's elements of the chunk that lies so many elements
// behind the block's first.
func (w *writer) chunkLoads(behind int64, whole bool) (x []string) {
	for u := range int64(perLane) {
		x = append(x, name("x", behind/chunk, u))
		place := w.place(behind + u*partials)
		if !whole {
			w.line("  add.u32 k, q, %d", behind+u*partials)
			place = w.within(fmt.Sprintf("at%d", u))
		}
		w.load(x[u], "x["+place+"]")
	}
	return x
}

// chunkCombine combines a lane's elements of a chunk, and those of all lanes, sums in the
// written order, to z in all lanes.
func (w *writer) chunkCombine(combine string, x []string, behind int64, whole bool) {
	for u, x := range x {
		if combine == "add" && !whole { // of the others, one seen twice changes nothing
			w.line("  add.u32 k, q, %d\n  set.ge.u32 beyond, k, left\n  sel.%v %s, beyond, %s, %[3]s", behind+int64(u)*partials, w.acc, x, kernels.Identity("add", w.acc))
		}
		if u == 0 {
			w.line("  mov.%v z, %s", w.acc, x)
		} else {
			w.line("  %s.%v z, z, %s", combine, w.acc, x)
		}
	}
	w.line("  block_reduce_%s.%v z, z", combine, w.acc)
}

// result has lane 0 store the block's result in a slot.
func (w *writer) result(out isa.Type, slot string) {
	w.line("  set.ne.u32 other, q, 0\n  bra kept_%s, other\n  cvt.u64.u32 to, b\n  mul.u64 to, to, %d", slot, out.Size())
	w.store(out, "z", slot+"[to]")
	w.line("kept_%s:", slot)
}

// ofChunks combines what a slot has for each chunk of the block's row, of which
// there are at most as many as lanes, to a register in all of them: sums in the
// written order.
func (w *writer) ofChunks(slot, combine, to string) {
	w.line("  mul.u32 k, row, chunks\n  sub.u32 c, chunks, 1\n  min.u32 c, c, q\n  add.u32 k, k, c\n  cvt.u64.u32 of, k\n  mul.u64 of, of, %d", w.acc.Size())
	w.line("  ldg.%v %s, %s[of]", w.acc, to, slot)
	if combine == "add" {
		w.line("  set.ge.u32 beyond, q, chunks\n  sel.%v %s, beyond, %s, %[2]s", w.acc, to, kernels.Identity("add", w.acc))
	}
	w.line("  block_reduce_%s.%v %s, %[3]s", combine, w.acc, to)
}

// ofBlocks combines what a slot has for each of the blocks of the block's row, which are
// few, in every lane by itself, to a register: sums in the written order.
func (w *writer) ofBlocks(slot, combine string, blocks int64) string {
	var z []string
	w.line("  cvt.u64.u32 of, row\n  mul.u64 of, of, %d", blocks*int64(w.acc.Size()))
	for c := range blocks {
		z = append(z, fmt.Sprintf("of_%d", c))
		w.line("  ldg.%v %s, %s[of + %d]", w.acc, z[c], slot, c*int64(w.acc.Size()))
	}
	return w.tree(combine, z)
}

// between is workspace for n results of chunks.
func between(p *kernels.Plan, t isa.Type, n int64) kernels.Binding {
	b := kernels.Binding{Operand: kernels.Workspace, Offset: p.Workspace, Type: t, Shape: []int64{n}, Stride: []int64{1}}
	p.Workspace += (n*int64(t.Size()) + 63) &^ 63
	return b
}
