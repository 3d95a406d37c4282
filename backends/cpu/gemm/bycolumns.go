package gemm

import (
	"math/bits"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// Tiles whose result lies by columns, as a transposed matrix does: their sums are transposed in
// registers, a square of a vector's lanes at a time, and what follows them is done column by column.

// byColumns reports whether tiles write the result as it lies. Where C is read only at the end, sums of
// chunks wait elsewhere, whose columns lie at other distances.
func (p *product) byColumns() bool {
	return p.lib.m.evex && p.lib.m.bytes == 64 && p.ccs != p.out.size && p.out.wide == asNumber && !(p.reads && p.k > chunk)
}

// Where a matrix's columns are, how far apart, and the mask of the last ones.
const (
	columnsReg  = x86.RSI
	columnsStep = x86.RDX
	columnsMask = x86.RCX
	columnsTemp = x86.R11
)

// finishByColumns is what finish is to tiles whose result lies by columns.
func (g *maker) finishByColumns() {
	lanes := g.m.lanes(g.s.t)
	for top := 0; top < g.s.rows; top += lanes {
		rows := min(g.s.rows-top, lanes)
		masked := rows < lanes
		if masked {
			g.MovImm(x86.RAX, 1<<rows-1)
			g.Emit(x86.KFromQ, x86.Inst{VL: 16, D: 1, B: x86.RAX})
		}
		var spare []x86.Reg // of the rows above, and beyond the sums
		for r := range x86.Reg(g.m.registers()) {
			if r < g.sum(top, 0) || r >= g.sum(g.s.rows, 0) {
				spare = append(spare, r)
			}
		}
		none, temp, beta := spare[:lanes-rows], spare[lanes-rows], spare[lanes-rows+1]
		for v := range g.s.cols {
			var square []x86.Reg
			for i := range rows {
				square = append(square, g.sum(top+i, v))
			}
			for _, r := range none { // nobody stores what comes of it, but of any bits that might take long
				g.clear(r)
				square = append(square, r)
			}
			columns, free := g.transposed(square, temp)
			g.follow(columns, free, beta, g.eachColumn(columns, v, top, masked))
		}
	}
	if g.s.rows%lanes > 0 {
		g.loadMask()
	}
}

// transposed transposes a square of registers, by way of one more, and returns those that then have
// its columns, and the one that is left.
func (g *maker) transposed(r []x86.Reg, temp x86.Reg) (columns []x86.Reg, free x86.Reg) {
	// pair replaces two registers by what two instructions make of them.
	pair := func(i, j int, f, h *x86.Form, first, second uint8) {
		g.Emit(f, x86.Inst{VL: g.m.bytes, D: temp, A: r[i], B: r[j], Imm: first})
		g.Emit(h, x86.Inst{VL: g.m.bytes, D: r[j], A: r[i], B: r[j], Imm: second})
		r[i], temp = temp, r[i]
	}
	// Within pieces of 16 bytes.
	each := len(r) / 4 // rows of which a piece has one column
	order := []int{0, 1}
	for i := 0; i < len(r); i += each {
		if each == 2 {
			pair(i, i+1, x86.Unpack64L, x86.Unpack64H, 0, 0)
			continue
		}
		order = []int{0, 2, 1, 3}
		pair(i, i+1, x86.Unpack32L, x86.Unpack32H, 0, 0)
		pair(i+2, i+3, x86.Unpack32L, x86.Unpack32H, 0, 0)
		pair(i, i+2, x86.Unpack64L, x86.Unpack64H, 0, 0)
		pair(i+1, i+3, x86.Unpack64L, x86.Unpack64H, 0, 0)
	}
	// Pieces.
	columns = make([]x86.Reg, len(r))
	for q, of := range order {
		at := func(i int) int { return i*each + of }
		for _, p := range [][2]int{{0, 1}, {2, 3}, {0, 2}, {1, 3}} {
			pair(at(p[0]), at(p[1]), x86.Shuf128, x86.Shuf128, 0x88, 0xDD)
		}
		for i := range 4 {
			columns[i*each+q] = r[at(i)]
		}
	}
	return columns, temp
}

// eachColumn calls f, as each does, for columns of a square that begins with row top and with those of vector v.
func (g *maker) eachColumn(columns []x86.Reg, v, top int, masked bool) eachSum {
	return func(start, step x86.Mem, f func(sum x86.Reg, m x86.Mem, masked bool)) {
		done := g.NewLabel()
		g.Load(x86.W64, columnsReg, start)
		g.Load(x86.W64, columnsStep, step)
		if v > 0 {
			g.Mov(x86.W64, columnsTemp, columnsStep)
			g.ShiftImm(4, x86.W64, columnsTemp, uint8(bits.TrailingZeros(uint(len(columns)))))
			for range v {
				g.Op(x86.ADD, x86.W64, columnsReg, columnsTemp)
			}
		}
		if g.last(v) {
			g.Load(x86.W32, columnsMask, argMask)
		}
		for j, sum := range columns {
			if g.last(v) && j > 0 {
				g.OpImm(x86.CMP, x86.W32, columnsMask, 1<<j)
				g.Jcc(x86.B, done)
			}
			f(sum, x86.At(columnsReg, int32(top)*int32(g.s.t.size())), masked)
			g.Op(x86.ADD, x86.W64, columnsReg, columnsStep)
		}
		g.Bind(done)
	}
}
