package product

import (
	"fmt"
	"strings"

	"github.com/hologram-project/hologram/backends/cuda/ptx"
	"github.com/hologram-project/hologram/isa"
)

// How a block's shared memory is divided, in bytes: the stages, each with a piece
// of op(A) and one of op(B), whose rows of products are pitch bytes apart; the
// totals; the cancel flag as it was seen last.

// spare is how many bytes a row of products is longer than its elements, so that
// those of one row of op(A), written together, fall into different banks.
const spare = 16

func (f Form) size() int   { return f.Type.Size() }
func (f Form) vector() int { return 16 / f.size() }
func (f Form) pitch(n int) int {
	return n*f.size() + spare
}

// row is where product p stands in a piece of n rows. What lanes turn together, of
// several products and rows, falls into different banks by a gap after every eight.
func (f Form) row(w walk, n, p int) int {
	return p*f.pitch(n) + p/8*f.gap(w)
}

func (f Form) gap(w walk) int {
	if w != turned {
		return 0
	}
	return f.size() * 32 / f.tile().lanes() // the rows that a warp turns together
}

// piece is how long one of n rows is.
func (f Form) piece(w walk, n int) int {
	if units(f.Type) {
		return n * f.tile().bk * f.size()
	}
	return f.row(w, n, f.tile().bk)
}

func (f Form) pieceA() int { return f.piece(f.A, f.tile().rows()) }
func (f Form) stage() int  { return f.pieceA() + f.piece(f.B, f.tile().cols()) }
func (f Form) totals() int { return f.tile().stages * f.stage() }

func (f Form) shared() int {
	t := f.tile()
	if !f.Totals {
		return f.totals()
	}
	return f.totals() + t.threads()*t.tm*t.tn*f.acc().Size() + 8
}

// text writes code.
type text struct {
	Form
	*tile
	code    strings.Builder
	regs    map[string][]string // names by type
	gathers bool                // has registers for it
}

func (x *text) line(format string, args ...any) { fmt.Fprintf(&x.code, "\t"+format+"\n", args...) }
func (x *text) label(name string)               { fmt.Fprintf(&x.code, "%s:\n", name) }
func (x *text) comment(format string, args ...any) {
	fmt.Fprintf(&x.code, "\t// "+format+"\n", args...)
}

// reg names registers of a type, which are declared in the end.
func (x *text) reg(typ string, names ...string) {
	for _, n := range names {
		x.regs[typ] = append(x.regs[typ], "%"+n)
	}
}

// t is the suffix of the sums' type, of which accs are in 16 bytes.
func (x *text) t() string { return x.acc().String() }
func (x *text) accs() int { return 16 / x.acc().Size() }

// Text returns the module of a form, with the entry "atlas". layout is that of the
// program's launch block.
func Text(f Form, layout *ptx.Layout) string {
	x := &text{Form: f, tile: f.tile(), regs: map[string][]string{}}
	x.prologue(layout)
	start, chunks, results, align := x.start, x.chunks, x.results, 16
	if units(f.Type) {
		start, chunks, results, align = x.unitStart, x.unitChunks, x.unitResults, 128
	}
	start("a", f.A, x.rows(), "%m", "%tile_m", "%a_row", "%a_col")
	start("b", f.B, x.cols(), "%n", "%tile_n", "%b_col", "%b_row")
	x.fill()
	chunks()
	x.epilogue(layout, results)

	var b strings.Builder
	b.WriteString(ptx.Header(false, true, false))
	fmt.Fprintf(&b, "\n.extern .shared .align %d .b8 atlas_shared[];\n", align)
	fmt.Fprintf(&b, ".visible .entry atlas(.param .align 8 .b8 atlas_launch[%d])\n.maxntid %d, 1, 1\n.minnctapersm %d\n{\n", layout.Bytes, x.threads(), x.blocks)
	for _, typ := range []string{"pred", "b16", "b32", "b64", "f32", "f64"} {
		for names := x.regs[typ]; len(names) > 0; {
			n := min(len(names), 12)
			fmt.Fprintf(&b, "\t.reg .%s %s;\n", typ, strings.Join(names[:n], ", "))
			names = names[n:]
		}
	}
	b.WriteString(x.code.String())
	b.WriteString("}\n")
	return b.String()
}

// prologue loads the parameters, and finds the block's tile, its matrices and its
// part of k, and the thread's place.
func (x *text) prologue(layout *ptx.Layout) {
	x.reg("pred", "p", "q", "first", "inside")
	x.reg("b32", "m", "n", "k", "thread", "x", "y", "z", "tile_m", "tile_n", "left", "load", "shared")
	x.reg("b64", "a_row", "a_col", "b_row", "b_col", "u", "v", "a", "b", "c")
	cell := 0
	param := func(typ, to string) {
		x.line("ld.param.%s %%%s, [atlas_launch+%d];", typ, to, layout.Param(cell))
		cell++
	}
	x.comment("parameters")
	for _, p := range []string{"m", "n", "k"} {
		param("u32", p)
	}
	for _, p := range []string{"a_row", "a_col", "b_row", "b_col"} {
		param("u64", p)
	}
	cell++ // across
	for i, slot := range []string{"a", "b"} {
		x.line("ld.param.u64 %%%s, [atlas_launch+%d];", slot, layout.Base(i))
	}
	if x.Sums.Batched {
		x.comment("the block's matrices")
		x.batch(layout, "u")
		cell++
		for _, slot := range []string{"a", "b"} {
			param("u64", "v")
			x.line("mad.lo.u64 %%%[1]s, %%u, %%v, %%%[1]s;", slot)
		}
	}
	x.line("mov.u32 %%left, %%k;")
	if x.Sums.Split {
		x.comment("its part of k")
		cell++ // parts
		param("u32", "x")
		x.line("mov.u32 %%y, %%ctaid.y;")
		x.line("mul.lo.u32 %%z, %%x, %%y;")
		x.line("sub.u32 %%left, %%k, %%z;")
		x.line("min.u32 %%left, %%left, %%x;")
		x.line("cvt.u64.u32 %%u, %%z;")
		x.line("mad.lo.u64 %%a, %%u, %%a_col, %%a;")
		x.line("mad.lo.u64 %%b, %%u, %%b_row, %%b;")
	}
	x.line("mov.u32 %%load, %%left;")

	x.comment("its tile: tiles go down %d rows of them, then across", down)
	x.reg("b32", "height", "width", "group")
	x.line("add.u32 %%height, %%m, %d;", x.rows()-1)
	x.line("div.u32 %%height, %%height, %d;", x.rows())
	x.line("add.u32 %%width, %%n, %d;", x.cols()-1)
	x.line("div.u32 %%width, %%width, %d;", x.cols())
	x.line("mul.lo.u32 %%x, %%width, %d;", down)
	x.line("mov.u32 %%y, %%ctaid.x;")
	x.line("div.u32 %%group, %%y, %%x;")
	x.line("mul.lo.u32 %%z, %%group, %%x;")
	x.line("sub.u32 %%y, %%y, %%z;")
	x.line("mul.lo.u32 %%group, %%group, %d;", down)
	x.line("sub.u32 %%height, %%height, %%group;")
	x.line("min.u32 %%height, %%height, %d;", down)
	x.line("div.u32 %%tile_n, %%y, %%height;")
	x.line("mul.lo.u32 %%z, %%tile_n, %%height;")
	x.line("sub.u32 %%y, %%y, %%z;")
	x.line("add.u32 %%tile_m, %%group, %%y;")
	x.line("mul.lo.u32 %%tile_m, %%tile_m, %d;", x.rows())
	x.line("mul.lo.u32 %%tile_n, %%tile_n, %d;", x.cols())

	x.comment("the thread's place")
	x.line("setp.eq.u32 %%inside, 0, 0;") // no row of op(A) or column of op(B) is beyond
	x.line("mov.u32 %%shared, atlas_shared;")
	x.line("mov.u32 %%thread, %%tid.x;")
	if x.Totals {
		x.reg("b32", "word", "count")
		x.reg("b64", "record")
		x.line("ld.param.u64 %%record, [atlas_launch+%d];", ptx.AtRecord)
		x.line("setp.eq.u32 %%first, %%thread, 0;")
		x.line("add.u32 %%word, %%shared, %d;", x.shared()-8)
	}
}

// batch finds the number of the block's matrices.
func (x *text) batch(layout *ptx.Layout, to string) {
	x.line("ld.param.u32 %%x, [atlas_launch+%d];", layout.Param(8))
	x.line("mov.u32 %%y, %%ctaid.z;")
	x.line("add.u32 %%x, %%x, %%y;")
	x.line("cvt.u64.u32 %%%s, %%x;", to)
}

// down is how many rows of tiles blocks go down before the next column of tiles,
// so that those at work at one time share operands.
const down = 8

func list(prefix string, from, n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%%%s%d", prefix, from+i))
	}
	return strings.Join(all, ", ")
}

// fragments loads the lane's elements of row p of the pieces at %a_lane and %b_lane.
func (x *text) fragments(set, p int) {
	v := x.vector()
	for g := range x.tm / v {
		x.line("ld.shared.v%d.%s {%s}, [%%a_lane+%d];", v, x.t(), list("fa", set*x.tm+g*v, v), x.row(x.A, x.rows(), p)+g*4*16)
	}
	for h := range x.tn / v {
		x.line("ld.shared.v%d.%s {%s}, [%%b_lane+%d];", v, x.t(), list("fb", set*x.tn+h*v, v), x.row(x.B, x.cols(), p)+h*8*16)
	}
}

// multiply adds the products of a set of fragments to the sums.
func (x *text) multiply(set int) {
	for i := range x.tm {
		for jj := range x.tn {
			j := jj
			if i%2 == 1 { // there and back, so that an operand stays
				j = x.tn - 1 - jj
			}
			x.line("fma.rn.%s %%sum%d, %%fa%d, %%fb%d, %%sum%[2]d;", x.t(), i*x.tn+j, set*x.tm+i, set*x.tn+j)
		}
	}
}

// total is where a thread's vector of totals stands.
func (x *text) total(v int) int { return x.totals() + v*x.threads()*16 }

// chunks multiplies: a chain for each chunk of k, whose sums are added up in order.
// Fragments are loaded a product before they are needed, those of the next piece
// before the last product of a piece: bk is even.
func (x *text) chunks() {
	x.comment("the lane's place in the pieces")
	x.reg("b32", "a_lane", "b_lane", "a_from", "b_from", "pieces", "mine")
	for i := range x.tm * x.tn {
		x.reg(x.t(), fmt.Sprintf("sum%d", i))
	}
	for i := range 2 * x.tm {
		x.reg(x.t(), fmt.Sprintf("fa%d", i))
	}
	for i := range 2 * x.tn {
		x.reg(x.t(), fmt.Sprintf("fb%d", i))
	}
	x.reg("b32", "row", "col")
	x.place()
	x.line("mad.lo.u32 %%a_from, %%row, %d, %%shared;", x.size())
	x.line("mad.lo.u32 %%b_from, %%col, %d, %%shared;", x.size())
	x.line("add.u32 %%b_from, %%b_from, %d;", x.pieceA())
	x.mine()

	x.arrived()
	x.stageAt()
	x.fragments(0, 0)

	turns := x.turns()
	if len(turns) > 0 {
		x.reg("pred", "turn")
		x.reg("b32", "done")
		x.reg("b64", "source")
		for i := range 4 * together {
			x.reg(x.t(), fmt.Sprintf("turn%d", i))
			x.line("mov.%s %%turn%d, %s;", x.t(), i, x.zero()) // of rows beyond the matrix
		}
	}

	x.beginChunk()
	x.label("piece")
	x.copyPiece("next", len(turns) > 0)
	if len(turns) > 0 {
		x.line("mov.b32 %%done, 0;")
	}
	x.line("setp.lt.u32 %%p, %%left, %d;", x.bk)
	x.line("@%%p bra few;")
	for p := range x.bk - 1 {
		x.fragments((p+1)%2, p+1)
		x.multiply(p % 2)
		x.turnsAt(turns, p)
	}
	x.next("from")
	x.arrived()
	x.stageAt()
	x.fragments(0, 0) // of the next piece, if there is one
	x.multiply(1)
	x.line("sub.u32 %%left, %%left, %d;", x.bk)
	x.line("setp.eq.u32 %%p, %%left, 0;")
	x.line("@%%p bra last;")
	x.pieceEnd()
	x.label("few")
	x.multiply(0)
	x.line("add.u32 %%a_lane, %%a_lane, %d;", x.pitch(x.rows()))
	x.line("add.u32 %%b_lane, %%b_lane, %d;", x.pitch(x.cols()))
	if len(turns) > 0 {
		x.line("add.u32 %%done, %%done, 1;")
		x.line("and.b32 %%x, %%done, 7;")
		x.line("setp.eq.u32 %%p, %%x, 0;")
		x.line("@%%p add.u32 %%a_lane, %%a_lane, %d;", x.gap(x.A))
		x.line("@%%p add.u32 %%b_lane, %%b_lane, %d;", x.gap(x.B))
	}
	x.fragments(0, 0)
	x.line("sub.u32 %%left, %%left, 1;")
	x.line("setp.ne.u32 %%p, %%left, 0;")
	x.line("@%%p bra few;")
	x.label("last")
	x.lastChunk()
}

// lastChunk adds the last chunk's sums to the totals, if there are any.
func (x *text) lastChunk() {
	if x.Totals {
		x.line("setp.eq.u32 %%p, %%count, 0;")
		x.line("@%%p bra summed;")
		x.addTotals(false)
		x.label("summed")
	}
}

// beginChunk begins a chunk.
func (x *text) beginChunk() {
	x.label("chunk")
	if x.Totals {
		x.line("mov.b32 %%pieces, %d;", x.chunk()/x.bk)
	}
	for i := range x.tm * x.tn {
		x.line("mov.%s %%sum%d, %s;", x.t(), i, x.zero())
	}
}

// pieceEnd goes on to the next piece, of this chunk or the next.
func (x *text) pieceEnd() {
	if !x.Totals {
		x.line("bra piece;")
		return
	}
	x.line("sub.u32 %%pieces, %%pieces, 1;")
	x.line("setp.ne.u32 %%p, %%pieces, 0;")
	x.line("@%%p bra piece;")
	x.chunkEnd()
	x.line("bra chunk;")
}

// mine is where the thread's totals are.
func (x *text) mine() {
	if !x.Totals {
		return
	}
	x.line("mad.lo.u32 %%mine, %%thread, 16, %%shared;")
	x.line("mov.b32 %%count, 0;")
	for e := range x.accs() {
		x.reg(x.t(), fmt.Sprintf("t%d", e))
	}
}

// arrived waits for the next pieces, which all threads have copied, and until all
// have read the last ones.
func (x *text) arrived() {
	x.line("cp.async.wait_group %d;", x.stages-2)
	x.line("bar.sync 0;")
}

// stageAt is where the lane's elements are in the pieces at %from.
func (x *text) stageAt() {
	x.line("add.u32 %%a_lane, %%a_from, %%from;")
	x.line("add.u32 %%b_lane, %%b_from, %%from;")
}

// place finds the lane's first row and column in the tile.
func (x *text) place() {
	across, v, w := 3, x.vector(), x.vector() // 8 lanes side by side, each with a vector
	if units(x.Type) {
		across, v, w = 2, 1, 2
	}
	x.line("mov.u32 %%x, %%tid.x;")
	x.line("and.b32 %%y, %%x, 31;")
	x.line("shr.u32 %%row, %%y, %d;", across)
	x.line("and.b32 %%col, %%y, %d;", 1<<across-1)
	x.line("shr.u32 %%x, %%x, 5;")
	x.line("rem.u32 %%y, %%x, %d;", x.wn)
	x.line("div.u32 %%x, %%x, %d;", x.wn)
	x.line("mul.lo.u32 %%row, %%row, %d;", v)
	x.line("mul.lo.u32 %%col, %%col, %d;", w)
	x.line("mad.lo.u32 %%row, %%x, %d, %%row;", 4*x.tm)
	x.line("mad.lo.u32 %%col, %%y, %d, %%col;", 8*x.tn)
}

// zero is the literal that a chain starts from.
func (x *text) zero() string {
	if x.acc() == isa.F64 {
		return "0d0000000000000000"
	}
	return "0f00000000"
}

// addTotals adds the totals to the sums, and, if they are to be kept, stores them.
func (x *text) addTotals(keep bool) {
	v := x.accs()
	for i := range x.tm * x.tn / v {
		x.line("ld.shared.v%d.%s {%s}, [%%mine+%d];", v, x.t(), list("t", 0, v), x.total(i))
		for e := range v {
			x.line("add.rn.%s %%sum%d, %%t%d, %%sum%[2]d;", x.t(), i*v+e, e)
		}
		if keep {
			x.line("st.shared.v%d.%s [%%mine+%d], {%s};", v, x.t(), x.total(i), list("sum", i*v, v))
		}
	}
}

// polled is after how many chunks a block looks whether the launch is cancelled: the
// rounds of a loop that is short. The flag is in the host's memory, of which a device
// reads one word a microsecond, whatever the number of blocks.
var polled = 128

// chunkEnd adds a chunk's sums to the totals, and ends the block if the launch is
// cancelled.
func (x *text) chunkEnd() {
	v := x.accs()
	x.comment("a chunk's end")
	x.line("add.u32 %%count, %%count, 1;")
	x.line("setp.ne.u32 %%p, %%count, 1;")
	x.line("@%%p bra further;")
	for i := range x.tm * x.tn / v {
		x.line("st.shared.v%d.%s [%%mine+%d], {%s};", v, x.t(), x.total(i), list("sum", i*v, v))
	}
	x.line("bra chunk;")
	x.label("further")
	x.addTotals(true)
	x.line("rem.u32 %%x, %%count, %d;", polled)
	x.line("setp.ne.u32 %%p, %%x, 0;")
	x.line("@%%p bra chunk;")
	x.line("@%%first ld.volatile.global.u32 %%x, [%%record+%d];", ptx.RecordCancel)
	x.line("@%%first st.shared.b32 [%%word], %%x;")
	x.line("bar.sync 0;")
	x.line("ld.shared.b32 %%x, [%%word];")
	x.line("setp.ne.u32 %%p, %%x, 0;")
	x.line("@%%p bra cancelled;")
}

// epilogue makes elements of C of the sums, and stores those that there are.
func (x *text) epilogue(layout *ptx.Layout, results func()) {
	x.comment("results")
	x.reg("b64", "step", "at")
	x.place()
	x.line("add.u32 %%row, %%row, %%tile_m;")
	x.line("add.u32 %%col, %%col, %%tile_n;")
	x.line("ld.param.u32 %%m, [atlas_launch+%d];", layout.Param(0))
	x.line("ld.param.u32 %%n, [atlas_launch+%d];", layout.Param(1))
	x.line("ld.param.u64 %%c, [atlas_launch+%d];", layout.Base(2))
	size := x.out().Size()
	if x.Sums.Batched {
		x.batch(layout, "u")
		x.line("mul.wide.u32 %%v, %%m, %%n;")
		x.line("mul.lo.u64 %%u, %%u, %%v;")
		x.line("mad.lo.u64 %%c, %%u, %d, %%c;", size)
	}
	if x.Sums.Split { // the part's results
		x.line("mov.u32 %%x, %%ctaid.y;")
		x.line("cvt.u64.u32 %%u, %%x;")
		x.line("ld.param.u64 %%v, [atlas_launch+%d];", layout.Param(8+3*btoi(x.Sums.Batched)+2))
		x.line("mul.lo.u64 %%u, %%u, %%v;")
		x.line("mad.lo.u64 %%c, %%u, %d, %%c;", size)
	}
	x.line("cvt.u64.u32 %%u, %%n;")
	x.line("mul.lo.u64 %%step, %%u, %d;", size)
	x.line("cvt.u64.u32 %%u, %%row;")
	x.line("mad.lo.u64 %%c, %%u, %%step, %%c;")
	x.line("cvt.u64.u32 %%u, %%col;")
	x.line("mad.lo.u64 %%c, %%u, %d, %%c;", size)
	if !x.Sums.Split {
		x.reg(x.t(), "alpha", "beta")
		cells := 8 + 3*btoi(x.Sums.Batched)
		x.line("ld.param.%s %%alpha, [atlas_launch+%d];", x.t(), layout.Param(cells))
		x.line("ld.param.%s %%beta, [atlas_launch+%d];", x.t(), layout.Param(cells+1))
		for i := range x.tm * x.tn {
			x.line("mul.rn.%s %%sum%d, %%alpha, %%sum%[2]d;", x.t(), i)
		}
	}
	results()
	x.line("ret;")
	if x.Totals {
		x.label("cancelled")
		x.line("cp.async.wait_all;")
		x.line("@%%first mov.b32 %%x, 1;")
		x.line("@%%first st.volatile.global.u32 [%%record+%d], %%x;", ptx.RecordEnded)
		x.line("ret;")
	}
}

// results adds what beta takes of C, if it does, and stores the sums.
func (x *text) results() {
	v := 1
	if x.Wide {
		v = x.vector()
	}
	column := func(j int) int { // of the lane's element j of a row
		return j/x.vector()*8*x.vector() + j%x.vector()
	}
	for j := 0; j < x.tn; j += v {
		x.reg("pred", fmt.Sprintf("in%d", j))
		x.line("add.u32 %%x, %%col, %d;", column(j))
		x.line("setp.lt.u32 %%in%d, %%x, %%n;", j)
	}
	if !x.Sums.Split {
		x.line("setp.eq.%s %%p, %%beta, %s;", x.t(), x.zero())
		x.line("@%%p bra store;")
		x.eachRow(func(i int) {
			for j := 0; j < x.tn; j += v {
				x.line("and.pred %%p, %%q, %%in%d;", j)
				x.line("@%%p ld.global%s.%s %s, [%%at+%d];", vectorOf(v), x.t(), braced("fb", j, v), column(j)*x.size())
			}
			for j := range x.tn {
				x.line("fma.rn.%s %%sum%d, %%beta, %%fb%d, %%sum%[2]d;", x.t(), i*x.tn+j, j)
			}
		})
		x.label("store")
	}
	x.eachRow(func(i int) {
		for j := 0; j < x.tn; j += v {
			x.line("and.pred %%p, %%q, %%in%d;", j)
			x.line("@%%p st.global%s.%s [%%at+%d], %s;", vectorOf(v), x.t(), column(j)*x.size(), braced("sum", i*x.tn+j, v))
		}
	})
}

// eachRow calls f for a lane's rows, with %at at the row's first element, and %q
// where the row is one of the matrix.
func (x *text) eachRow(f func(i int)) {
	for i := range x.tm {
		row := i/x.vector()*4*x.vector() + i%x.vector()
		x.line("add.u32 %%x, %%row, %d;", row)
		x.line("setp.lt.u32 %%q, %%x, %%m;")
		x.line("mad.lo.u64 %%at, %%step, %d, %%c;", row)
		f(i)
	}
}

func vectorOf(v int) string {
	if v == 1 {
		return ""
	}
	return fmt.Sprintf(".v%d", v)
}

func braced(prefix string, from, n int) string {
	if n == 1 {
		return fmt.Sprintf("%%%s%d", prefix, from)
	}
	return "{" + list(prefix, from, n) + "}"
}
