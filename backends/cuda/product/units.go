package product

import (
	"fmt"

	"github.com/hologram-project/hologram/backends/cuda/tuned"
	"github.com/hologram-project/hologram/isa"
)

// Products of 16-bit floats by matrix units: a warp multiplies 16 rows by 8 columns
// and 16 products at once, and adds them to sums in f32 in an order of the units' own.
// Chunks of tuned.UnitChunk products are added up in order, also where they are parts of a
// product for blocks of their own, so that k alone decides.
//
// Pieces lie in shared memory as their factors do in memory, so that they are copied
// 16 bytes at once, which the units' loads can turn: with neighbouring products side
// by side or, of a factor whose rows lie across k, neighbouring rows. Eight such loads
// of 16 bytes from places below each other fall into different banks because each
// place has another order of its 16 bytes: see swizzle. What lies otherwise is
// gathered, product by product, and written in place.

// units reports whether matrix units multiply a type.
func units(t isa.Type) bool { return tuned.MatrixUnits(t) }

// unitTiles are the shapes of blocks. A lane's tm × tn sums are four of each of tm/4 ×
// tn products of 16 × 8.
var unitTiles = []tile{
	{2, 4, 16, 8, 64, 3, 1, 1.05, 1}, // of one chunk
	{2, 4, 16, 8, 32, 4, 1, 1, 1},
	{2, 2, 16, 8, 32, 3, 2, 0.98, 0.6},
	{2, 2, 8, 4, 32, 4, 3, 0.68, 0.4},
	{1, 2, 8, 4, 32, 4, 6, 0.5, 0.2},
}

// gathering is what it costs to bring an element to its place, beside a product.
var gathering = [4]float64{alongK: 24, across: 24}

// inBytes is how many elements are in 16 bytes.
const inBytes = 8

// unitWalkOf is walkOf for matrix units: turned are those whose products lie side by
// side, 16 bytes at once.
func unitWalkOf(addr uintptr, n, step, along, batch, part uint64) walk {
	const size, together = 2, 16
	if n == 1 {
		step = 0
	}
	if along == size {
		if (uint64(addr)|step|batch|part)%together == 0 {
			return turned
		}
		return alongK
	}
	if step == size && (uint64(addr)|along|batch|part)%together == 0 {
		return wide
	}
	return across
}

// places is how many 16 bytes a line of a piece has: of n rows, or of products.
func (x *text) places(w walk, n int) int {
	if w == wide {
		return n / inBytes
	}
	return x.bk / inBytes
}

// pitchOf is how long a line is.
func (x *text) pitchOf(w walk, n int) int { return 16 * x.places(w, n) }

// swizzle makes to of the number of a line what is exclusive-ored to a place in it:
// lines of four places begin in every other half of the banks.
func (x *text) swizzle(to, line string, places int) {
	if places >= 8 {
		x.line("and.b32 %s, %s, 7;", to, line)
		return
	}
	x.line("shr.u32 %s, %s, 1;", to, line)
	x.line("and.b32 %s, %[1]s, %d;", to, places-1)
}

// unitLoads is how many copies of 16 bytes a thread has of a piece of n rows, and how
// many lines lie between them.
func (x *text) unitLoads(w walk, n int) (count, apart int) {
	return n * x.bk / inBytes / x.threads(), x.threads() / x.places(w, n)
}

// unitStart finds where a thread's copies of a factor's pieces begin, and which of
// their rows there are.
func (x *text) unitStart(f string, w walk, n int, bound, tile, row, along string) {
	places := x.places(w, n)
	_, apart := x.unitLoads(w, n)
	x.comment("copies of %s", f)
	x.reg("b32", f+"_to", f+"_p", f+"_rows")
	x.reg("b64", f+"_at", f+"_step")
	to, p, at, rows := "%"+f+"_to", "%"+f+"_p", "%"+f+"_at", "%"+f+"_rows"
	// x is the line, y the place in it.
	if w == across { // lanes side by side have rows side by side
		x.line("rem.u32 %%x, %%thread, %d;", n)
		x.line("div.u32 %%y, %%thread, %d;", n)
	} else {
		x.line("div.u32 %%x, %%thread, %d;", places)
		x.line("rem.u32 %%y, %%thread, %d;", places)
	}
	x.swizzle("%z", "%x", places)
	if w == across {
		x.reg("b32", f+"_swizzle")
		x.line("mov.b32 %%%s_swizzle, %%z;", f)
		x.line("mad.lo.u32 %s, %%x, %d, %%shared;", to, x.pitchOf(w, n))
	} else {
		x.line("xor.b32 %%z, %%z, %%y;")
		x.line("mad.lo.u32 %s, %%z, 16, %%shared;", to)
		x.line("mad.lo.u32 %s, %%x, %d, %s;", to, x.pitchOf(w, n), to)
	}
	if w == wide {
		x.line("mov.b32 %s, %%x;", p)
		x.line("mad.lo.u32 %%x, %%y, %d, %s;", inBytes, tile)
		// The bytes of the rows that there are.
		x.line("sub.s32 %s, %s, %%x;", rows, bound)
		x.bytes(rows)
	} else {
		x.line("mul.lo.u32 %s, %%y, %d;", p, inBytes)
		x.line("add.u32 %%x, %%x, %s;", tile)
		x.line("sub.s32 %s, %s, %%x;", rows, bound)
	}
	x.line("cvt.u64.u32 %%u, %%x;")
	x.line("mad.lo.u64 %s, %%u, %s, %%%s;", at, row, f)
	x.line("cvt.u64.u32 %%u, %s;", p)
	x.line("mad.lo.u64 %s, %%u, %s, %s;", at, along, at)
	switch w {
	case wide:
		x.line("mul.lo.u64 %%%s_step, %s, %d;", f, along, apart)
	case across: // to the next eight products of the same row
		x.line("mul.lo.u64 %%%s_step, %s, %d;", f, along, x.threads()/n*inBytes)
	default:
		x.line("mul.lo.u64 %%%s_step, %s, %d;", f, row, apart)
	}
}

// bytes makes of a number of elements, which may be negative, how many bytes of 16 they
// have.
func (x *text) bytes(r string) {
	x.line("max.s32 %s, %[1]s, 0;", r)
	x.line("min.s32 %s, %[1]s, %d;", r, inBytes)
	x.line("mul.lo.u32 %s, %[1]s, %d;", r, x.size())
}

// unitPiece copies the next pieces, if there are any, to the stage at %to. What lies
// beyond the matrix is 0 there.
func (x *text) unitPiece(label string) {
	x.line("setp.eq.u32 %%p, %%load, 0;")
	x.line("@%%p bra copied_%s;", label)
	x.line("add.u32 %%a_dst, %%a_to, %%to;")
	x.line("add.u32 %%b_dst, %%b_to, %%to;")
	x.unitCopies("a", x.A, x.rows(), 0, "%a_col")
	x.unitCopies("b", x.B, x.cols(), x.pieceA(), "%b_row")
	x.line("min.u32 %%x, %%load, %d;", x.bk)
	x.line("sub.u32 %%load, %%load, %%x;")
	x.label("copied_" + label)
	x.line("cp.async.commit_group;")
	x.next("to")
}

// unitCopies writes a thread's copies of a factor's piece, and goes on to the next.
func (x *text) unitCopies(f string, w walk, n, base int, along string) {
	count, apart := x.unitLoads(w, n)
	pitch := x.pitchOf(w, n)
	switch w {
	case wide:
		for j := range count {
			x.line("add.u32 %%x, %%%s_p, %d;", f, j*apart)
			x.line("setp.lt.u32 %%q, %%x, %%load;")
			x.line("selp.b32 %%x, %%%s_rows, 0, %%q;", f)
			x.line("cp.async.cg.shared.global [%%%s_dst+%d], [%%%[1]s_at], 16, %%x;", f, base+j*apart*pitch)
			x.line("add.s64 %%%s_at, %%%[1]s_at, %%%[1]s_step;", f)
		}
		return
	case turned:
		x.line("sub.s32 %%y, %%load, %%%s_p;", f)
		x.bytes("%y")
		x.line("mov.b64 %%u, %%%s_at;", f)
		for j := range count {
			x.line("setp.gt.s32 %%q, %%%s_rows, %d;", f, j*apart)
			x.line("selp.b32 %%x, %%y, 0, %%q;")
			x.line("cp.async.cg.shared.global [%%%s_dst+%d], [%%u], 16, %%x;", f, base+j*apart*pitch)
			if j < count-1 {
				x.line("add.s64 %%u, %%u, %%%s_step;", f)
			}
		}
	default:
		x.gather(f, w, n, base, along)
	}
	if w.lengthwise() {
		x.line("add.s64 %%%s_at, %%%[1]s_at, %d;", f, x.bk*x.size())
	} else {
		x.line("mad.lo.s64 %%%s_at, %s, %d, %%%[1]s_at;", f, along, x.bk)
	}
}

// gather brings products one by one, eight of a row for each 16 bytes.
func (x *text) gather(f string, w walk, n, base int, along string) {
	count, apart := x.unitLoads(w, n)
	if !x.gathers {
		x.gathers = true
		x.reg("b16", "h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7")
		x.reg("b32", "w0", "w1", "w2", "w3")
	}
	x.line("mov.b64 %%u, %%%s_at;", f)
	x.line("sub.s32 %%y, %%load, %%%s_p;", f) // products from the first on
	for j := range count {
		if w == across {
			x.line("setp.gt.s32 %%p, %%%s_rows, 0;", f)
		} else {
			x.line("setp.gt.s32 %%p, %%%s_rows, %d;", f, j*apart)
		}
		x.line("mov.b64 %%v, %%u;")
		for e := range inBytes {
			x.line("setp.gt.and.s32 %%q, %%y, %d, %%p;", e)
			x.line("mov.b16 %%h%d, 0;", e)
			x.line("@%%q ld.global.b16 %%h%d, [%%v];", e)
			if e < inBytes-1 {
				x.line("add.s64 %%v, %%v, %s;", along)
			}
		}
		for e := range inBytes / 2 {
			x.line("mov.b32 %%w%d, {%%h%d, %%h%d};", e, 2*e, 2*e+1)
		}
		if w == across {
			more := x.threads() / n // places between copies
			x.line("shr.u32 %%x, %%%s_p, 3;", f)
			x.line("add.u32 %%x, %%x, %d;", j*more)
			x.line("xor.b32 %%x, %%x, %%%s_swizzle;", f)
			x.line("mad.lo.u32 %%x, %%x, 16, %%%s_dst;", f)
			x.line("st.shared.v4.b32 [%%x+%d], {%%w0, %%w1, %%w2, %%w3};", base)
			x.line("sub.s32 %%y, %%y, %d;", more*inBytes)
		} else {
			x.line("st.shared.v4.b32 [%%%s_dst+%d], {%%w0, %%w1, %%w2, %%w3};", f, base+j*apart*x.pitchOf(w, n))
		}
		if j < count-1 {
			x.line("add.s64 %%u, %%u, %%%s_step;", f)
		}
	}
}

// addresses is how many registers a lane's addresses in a factor's pieces take: one for
// each 16 products or, of a factor that is wide, for each 16 of the warp's rows. What the
// others add to these is known when the text is written.
func (x *text) addresses(w walk, blocks int) int {
	if w == wide {
		return blocks
	}
	return x.bk / 16
}

// unitPlace finds the addresses that a lane gives the units' loads, each of a line of
// eight elements. Lanes 0 to 7 give those of one matrix of 8 × 8, and so on; the four of a
// load make 16 × 16, of which some lie below the first and some beside it, by bits 3 and 4
// of the lane's number. The warp's rows, or columns, begin at number %y. The second
// factor's registers have the products first, the first's the rows.
func (x *text) unitPlace(f string, w walk, n, blocks, base int, second bool) {
	places := x.places(w, n)
	below := 3                 // the bit that says whether the matrix is eight lines further on
	if second != (w == wide) { // lines are rows, or products where that is wide
		below = 4
	}
	beside := 7 - below
	x.line("and.b32 %%x, %%thread, 7;")
	x.line("shr.u32 %%z, %%thread, %d;", below)
	x.line("and.b32 %%z, %%z, 1;")
	x.line("mad.lo.u32 %%x, %%z, 8, %%x;") // the line
	x.line("shr.u32 %%z, %%thread, %d;", beside)
	x.line("and.b32 %%z, %%z, 1;") // the place beside
	if w == wide {
		x.line("shr.u32 %%left_at, %%y, 3;")
		x.line("add.u32 %%z, %%z, %%left_at;")
	} else {
		x.line("add.u32 %%x, %%x, %%y;")
	}
	x.swizzle("%left_at", "%x", places)
	x.line("xor.b32 %%z, %%z, %%left_at;")
	x.line("mad.lo.u32 %%x, %%x, %d, %%shared;", x.pitchOf(w, n))
	for i := range x.addresses(w, blocks) {
		x.reg("b32", fmt.Sprintf("%s_lane%d", f, i), fmt.Sprintf("%s_now%d", f, i))
		x.line("xor.b32 %%left_at, %%z, %d;", 2*i)
		x.line("mad.lo.u32 %%left_at, %%left_at, 16, %%x;")
		x.line("add.u32 %%%s_lane%d, %%left_at, %d;", f, i, base)
	}
}

// unitStageAt is where the lane's addresses are in the pieces at %from.
func (x *text) unitStageAt() {
	for i := range x.addresses(x.A, x.tm/4) {
		x.line("add.u32 %%a_now%d, %%a_lane%d, %%from;", i, i)
	}
	for i := range x.addresses(x.B, x.tn/2) {
		x.line("add.u32 %%b_now%d, %%b_lane%d, %%from;", i, i)
	}
}

// unitFragments loads what a warp multiplies of 16 products, number s of the piece.
func (x *text) unitFragments(set, s int) {
	load := func(f string, w walk, n, blocks int) {
		for i := range blocks {
			at, offset, how := fmt.Sprintf("%%%s_now%d", f, s), i*16*x.pitchOf(w, n), ""
			if w == wide {
				at, offset, how = fmt.Sprintf("%%%s_now%d", f, i), s*16*x.pitchOf(w, n), ".trans"
			}
			x.line("ldmatrix.sync.aligned.m8n8.x4%s.shared.b16 {%s}, [%s+%d];", how, list("f"+f, (set*blocks+i)*4, 4), at, offset)
		}
	}
	load("a", x.A, x.rows(), x.tm/4)
	load("b", x.B, x.cols(), x.tn/2)
}

// unitMultiply adds the products of a set of fragments to the sums.
func (x *text) unitMultiply(set int) {
	rows, cols := x.tm/4, x.tn
	for i := range rows {
		for jj := range cols {
			j := jj
			if i%2 == 1 { // there and back, so that an operand stays
				j = cols - 1 - jj
			}
			sum := braced("sum", (i*cols+j)*4, 4)
			x.line("mma.sync.aligned.m16n8k16.row.col.f32.%[1]v.%[1]v.f32 %[2]s, %[3]s, %[4]s, %[2]s;", x.Type, sum,
				braced("fa", (set*rows+i)*4, 4), braced("fb", (set*cols+j)*2, 2))
		}
	}
}

// unitChunks multiplies. Fragments are loaded 16 products before they are needed, those
// of the next piece before the last of a piece: bk is a multiple of 32.
func (x *text) unitChunks() {
	x.comment("the lane's places in the pieces")
	x.reg("b32", "pieces", "mine", "row", "col", "left_at")
	for i := range x.tm * x.tn {
		x.reg("f32", fmt.Sprintf("sum%d", i))
	}
	for i := range 2 * x.tm {
		x.reg("b32", fmt.Sprintf("fa%d", i))
	}
	for i := range 4 * x.tn {
		x.reg("b32", fmt.Sprintf("fb%d", i))
	}
	x.line("shr.u32 %%y, %%thread, 5;")
	x.line("div.u32 %%y, %%y, %d;", x.wn)
	x.line("mul.lo.u32 %%y, %%y, %d;", 4*x.tm)
	x.unitPlace("a", x.A, x.rows(), x.tm/4, 0, false)
	x.line("shr.u32 %%y, %%thread, 5;")
	x.line("rem.u32 %%y, %%y, %d;", x.wn)
	x.line("mul.lo.u32 %%y, %%y, %d;", 8*x.tn)
	x.unitPlace("b", x.B, x.cols(), x.tn/2, x.pieceA(), true)
	x.mine()

	x.arrived()
	x.unitStageAt()
	x.unitFragments(0, 0)

	x.beginChunk()
	x.label("piece")
	x.unitPiece("next")
	steps := x.bk / 16
	for s := range steps - 1 {
		x.unitFragments((s+1)%2, s+1)
		x.unitMultiply(s % 2)
	}
	x.next("from")
	x.arrived()
	x.unitStageAt()
	x.unitFragments(0, 0) // of the next piece, if there is one
	x.unitMultiply(1)
	x.line("setp.le.u32 %%p, %%left, %d;", x.bk)
	x.line("@%%p bra last;")
	x.line("sub.u32 %%left, %%left, %d;", x.bk)
	x.pieceEnd()
	x.label("last")
	x.lastChunk()
}

// unitResults adds what beta takes of C, if it does, and stores the sums, which are
// rounded to the result's type. A lane has two neighbours of a row in each product of 16
// × 8, as it is loaded and, in f32, stored; of halves four lanes have a row's eight, 16
// bytes, which one of them gets to store.
func (x *text) unitResults() {
	size := x.out().Size()
	for j := range x.tn {
		x.reg("pred", fmt.Sprintf("in%d", j))
		x.line("add.u32 %%x, %%col, %d;", 8*j)
		x.line("setp.lt.u32 %%in%d, %%x, %%n;", j)
		if !x.Wide {
			x.reg("pred", fmt.Sprintf("next%d", j))
			x.line("add.u32 %%x, %%col, %d;", 8*j+1)
			x.line("setp.lt.u32 %%next%d, %%x, %%n;", j)
		}
	}
	x.reg("b16", "r0", "r1")
	x.reg("f32", "c0", "c1")
	x.line("mov.b16 %%r0, 0;")
	x.line("mov.b16 %%r1, 0;")
	pairs := func(f func(s, j int)) {
		x.eachUnitRow(func(i, half int) {
			for j := range x.tn {
				x.line("and.pred %%p, %%q, %%in%d;", j)
				f((i*x.tn+j)*4+2*half, j)
			}
		})
	}
	if !x.Sums.Split {
		x.line("setp.eq.f32 %%p, %%beta, %s;", x.zero())
		x.line("@%%p bra store;")
		pairs(func(s, j int) {
			if x.Wide {
				x.line("@%%p ld.global.v2.b16 {%%r0, %%r1}, [%%at+%d];", 8*j*size)
			} else {
				x.line("@%%p ld.global.b16 %%r0, [%%at+%d];", 8*j*size)
				x.line("and.pred %%p, %%q, %%next%d;", j)
				x.line("@%%p ld.global.b16 %%r1, [%%at+%d];", 8*j*size+size)
			}
			for e := range 2 {
				x.widen(e)
				x.line("fma.rn.f32 %%sum%d, %%beta, %%c%d, %%sum%[1]d;", s+e, e)
			}
		})
		x.label("store")
	}
	if x.Wide && !x.Sums.Split {
		x.storeRows()
		return
	}
	pairs(func(s, j int) {
		typ, first, second := "f32", fmt.Sprintf("%%sum%d", s), fmt.Sprintf("%%sum%d", s+1)
		if !x.Sums.Split {
			typ, first, second = "b16", "%r0", "%r1"
			x.round(first, s)
			x.round(second, s+1)
		}
		if x.Wide {
			x.line("@%%p st.global.v2.%s [%%at+%d], {%s, %s};", typ, 8*j*size, first, second)
			return
		}
		x.line("@%%p st.global.%s [%%at+%d], %s;", typ, 8*j*size, first)
		x.line("and.pred %%p, %%q, %%next%d;", j)
		x.line("@%%p st.global.%s [%%at+%d], %s;", typ, 8*j*size+size, second)
	})
}

// eachUnitRow is eachRow: of the products' number i the upper or lower half.
func (x *text) eachUnitRow(f func(i, half int)) {
	for i := range x.tm / 4 {
		for half := range 2 {
			row := 16*i + 8*half
			x.line("add.u32 %%x, %%row, %d;", row)
			x.line("setp.lt.u32 %%q, %%x, %%m;")
			x.line("mad.lo.u64 %%at, %%step, %d, %%c;", row)
			f(i, half)
		}
	}
}

// storeRows stores 16 bytes at once: four lanes that have two neighbours each of a row's
// in four products change them for all of one product.
func (x *text) storeRows() {
	x.reg("pred", "odd", "upper")
	x.reg("b32", "e0", "e1", "e2", "e3", "place")
	x.line("and.b32 %%place, %%thread, 3;")
	x.line("and.b32 %%x, %%place, 1;")
	x.line("setp.ne.u32 %%odd, %%x, 0;")
	x.line("setp.gt.u32 %%upper, %%place, 1;")
	// From its two neighbours on the lane is 6 elements for each before it behind its product.
	x.line("mul.lo.u32 %%place, %%place, 6;")
	x.line("add.u32 %%col, %%col, %%place;")
	x.line("cvt.u64.u32 %%u, %%place;")
	x.line("mad.lo.u64 %%c, %%u, %d, %%c;", x.size())
	for j := 0; j < x.tn; j += 4 {
		x.line("add.u32 %%x, %%col, %d;", 8*j)
		x.line("setp.lt.u32 %%in%d, %%x, %%n;", j)
	}
	exchange := func(a, b, lane int, keep string) {
		x.line("selp.b32 %%x, %%e%d, %%e%d, %s;", a, b, keep)
		x.line("shfl.sync.bfly.b32 %%x, %%x, %d, 31, -1;", lane)
		x.line("selp.b32 %%e%d, %%x, %%e%[1]d, %s;", a, keep)
		x.line("selp.b32 %%e%d, %%e%[1]d, %%x, %s;", b, keep)
	}
	x.eachUnitRow(func(i, half int) {
		for j := 0; j < x.tn; j += 4 {
			for e := range 4 {
				s := (i*x.tn+j+e)*4 + 2*half
				x.round("%r0", s)
				x.round("%r1", s+1)
				x.line("mov.b32 %%e%d, {%%r0, %%r1};", e)
			}
			exchange(0, 1, 1, "%odd")
			exchange(2, 3, 1, "%odd")
			exchange(0, 2, 2, "%upper")
			exchange(1, 3, 2, "%upper")
			x.line("and.pred %%p, %%q, %%in%d;", j)
			x.line("@%%p st.global.v4.b32 [%%at+%d], {%%e0, %%e1, %%e2, %%e3};", 8*j*x.size())
		}
	})
}

// round makes a result of sum number s.
func (x *text) round(to string, s int) { x.line("cvt.rn.%v.f32 %s, %%sum%d;", x.Type, to, s) }

// widen makes %c0 or %c1 of %r0 or %r1.
func (x *text) widen(e int) {
	if x.Type == isa.F16 {
		x.line("cvt.f32.f16 %%c%d, %%r%d;", e, e)
		return
	}
	x.line("cvt.u32.u16 %%x, %%r%d;", e)
	x.line("shl.b32 %%x, %%x, 16;")
	x.line("mov.b32 %%c%d, %%x;", e)
}
