package gemm

import "github.com/hologram-project/hologram/backends/cpu/jit/x86"

// Products by vectors of groups of which the result has few columns, and A many rows that lie as rows
// do: vectors hold neighbouring rows' sums, and A's groups are transposed in registers, as rows.go
// does numbers. What meets a vector of columns else would leave most of it empty.

// The most columns of such a result, and so many of which two tiles of rows go side by side; how far
// ahead, in bytes of a row, what no L2 holds is asked for: all that may be under way would else
// be what the loads of a few hundred instructions ask for.
const (
	turnedColumns = 8
	turnedTwo     = 4
	turnedAhead   = 512
)

// turns reports whether a product is done so.
func (p *product) turns() bool {
	u := p.unit
	return u != noMultiplier && !u.tiles() && p.n <= turnedColumns && p.m >= tileRows && p.acs == p.in.size
}

// panelRows is how many rows of A a micro-kernel does.
func (p *product) panelRows() int64 {
	switch {
	case p.turns() && p.n > turnedTwo:
		return tileRows
	case p.unit.tiles() || p.turns():
		return 2 * tileRows
	}
	return dotRows
}

// turnedDotter is the micro-kernel: s.rows columns of the result by s.cols tiles of A's rows.
func turnedDotter(s tile) ([]byte, error) {
	g := newMaker(machine{true, 64}, s)
	g.save()
	const step, aNext = x86.R9, x86.RAX
	bases := groupBases[:2*s.cols] // of half a tile each
	sum := func(tile, col int) x86.Reg { return 18 + x86.Reg(tile*s.rows+col) }
	// By how much rows' sums are too much.
	excess := func(tile int) x86.Reg { return sum(s.cols-1, s.rows) + x86.Reg(tile) }
	const factor x86.Reg = 30
	g.flips(step)
	again := g.NewLabel()
	g.Bind(again)
	each := func(f func(r x86.Reg, m x86.Mem)) {
		for tile := range s.cols {
			for col := range s.rows {
				f(sum(tile, col), x86.At(x86.RSI, int32(tile*stepBytes+64*col)))
			}
		}
	}
	g.beginSums(each, func(r x86.Reg, m x86.Mem) { g.load(r, m, false) }, g.clear)
	if s.unit.flips() {
		for tile := range s.cols {
			g.clear(excess(tile))
		}
	}
	g.Load(x86.W64, regB, tileB)
	var rows [8]multiple
	begin := func() {
		rows = g.multiplesOf(step, x86.RBX, x86.RBP, x86.R12)
		for i := 1; i < len(bases); i++ {
			g.Lea(bases[i], x86.Mem{Base: bases[i-1], Index: step, Scale: tileRows / 2})
		}
	}
	round := func() {
		for tile := range s.cols {
			for i := range tileRows {
				g.load(x86.Reg(i), rows[i%8].of(bases[2*tile+i/8], 0), false)
			}
			for p, pairs := range g.transposed16() {
				if s.far {
					g.PrefetchL2(rows[p%8].of(bases[2*tile+p/8], turnedAhead))
				}
				for col := range s.rows {
					if m := x86.At(regB, int32(64*p+4*col)); s.unit == dotsI8 { // what lies in memory would have a sign
						g.Emit(x86.BcastD, x86.Inst{VL: 64, D: factor, IsMem: true, Mem: m})
						g.dot(sum(tile, col), pairs, factor)
					} else {
						g.Emit(s.unit.dot(), x86.Inst{VL: 64, D: sum(tile, col), A: pairs, IsMem: true, Broadcast: true, Mem: m})
					}
				}
				if s.unit.flips() {
					g.dot(excess(tile), pairs, flipReg)
				}
			}
		}
		g.OpImm(x86.ADD, x86.W64, regB, stepBytes)
	}
	g.Load(x86.W64, regA, tileA)
	g.Load(x86.W64, step, tileAStep)
	g.Load(x86.W64, aNext, tileANext)
	begin()
	g.eachStep(func() {
		round()
		for _, base := range bases {
			g.Op(x86.ADD, x86.W64, base, aNext)
		}
	}, func() {
		g.Load(x86.W64, regA, tileRest)
		g.MovImm(step, 64)
		begin()
		round()
	})
	for tile := range s.cols {
		for col := 0; col < s.rows && s.unit.flips(); col++ {
			g.op(x86.SubD, sum(tile, col), sum(tile, col), excess(tile))
		}
	}
	g.Load(x86.W64, x86.RSI, tileS)
	each(func(r x86.Reg, m x86.Mem) { g.store(m, r, false) })
	// The sums of a tile lie in lines of columns.
	g.turned, g.s.rows, g.s.cols = true, s.cols, 1
	g.result(again)
	return g.end()
}
