package gemm

import (
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// The micro-kernels of products by units: AMX's tiles, and vectors of groups. Sums go to
// memory as tiles do, rows of 16 numbers, and from there to the result; see panels.go.

// Of a pair of tiles side by side, and another pair below.
const (
	tileRows   = 16                // of a tile, and its columns
	tileBytes  = 16 * 64           // a row has 16 sums, or a step of k, or 16 groups of it
	mostStep   = 64                // elements of k in a step at most
	stepBytes  = 2 * tileBytes     // of a step, of two tiles
	sumStep    = 4*tileBytes + 128 // of the sums of a pair and that below; they do not compete for places
	fetchLines = 2 * tileRows      // of what is fetched, a panel's rows
	dotRows    = 14                // of a panel where vectors multiply: two sums for each, and what they need
	restRounds = 4                 // in which these go through a step
)

// tileArgs is what such code is given. It computes pairs of tiles side by side.
type tileArgs struct {
	follows
	config         [64]byte // of the tiles
	a, aStep       uintptr  // of A: where it starts; bytes from row to row,
	aNext, aDown   uintptr  // from step to step of k, and to the tile below
	rest, restDown uintptr  // A's last step where that is not whole: rows are 64 bytes apart
	steps, rests   int64    // of k, and whether there is such a last one; of dotter, how many rounds it has
	b, bNext       uintptr  // of B in groups: where it starts, and bytes to the next two tiles
	s, sNext       uintptr  // where the sums are, and the next
	c, cStep       uintptr  // the result: bytes from line to line
	cNext          uintptr  // and to the next two tiles
	tiles          int64    // how many pairs of them
	lines          [2]int64 // of the result, of a tile and the one below; columns if it is transposed
	mask           uint64   // of a line's elements
	next, nextStep uintptr  // what is fetched meanwhile: lines that lie a step apart, of which
	nextLine       uintptr  // fetchLines make a round; the next of these begins so far from its end
	src, dst       uintptr  // of groups.go's
	srcStep        uintptr
	dstNext        uintptr
	begin          [tileRows]int32 // what the sums of dotter's rows begin from
	origin         uintptr         // of what dst is in, whose tiles begin at multiples of their size from here on
	count          int64
}

// flagFinish: the sums become the result.
const flagFinish = flagBegin << 1

var shapeOfTiles tileArgs

var (
	tileA      = at(unsafe.Offsetof(shapeOfTiles.a))
	tileAStep  = at(unsafe.Offsetof(shapeOfTiles.aStep))
	tileANext  = at(unsafe.Offsetof(shapeOfTiles.aNext))
	tileADown  = at(unsafe.Offsetof(shapeOfTiles.aDown))
	tileRest   = at(unsafe.Offsetof(shapeOfTiles.rest))
	tileRestDn = at(unsafe.Offsetof(shapeOfTiles.restDown))
	tileSteps  = at(unsafe.Offsetof(shapeOfTiles.steps))
	tileRests  = at(unsafe.Offsetof(shapeOfTiles.rests))
	tileB      = at(unsafe.Offsetof(shapeOfTiles.b))
	tileBNext  = at(unsafe.Offsetof(shapeOfTiles.bNext))
	tileS      = at(unsafe.Offsetof(shapeOfTiles.s))
	tileSNext  = at(unsafe.Offsetof(shapeOfTiles.sNext))
	tileC      = at(unsafe.Offsetof(shapeOfTiles.c))
	tileCStep  = at(unsafe.Offsetof(shapeOfTiles.cStep))
	tileCNext  = at(unsafe.Offsetof(shapeOfTiles.cNext))
	tileTiles  = at(unsafe.Offsetof(shapeOfTiles.tiles))
	tileLines  = at(unsafe.Offsetof(shapeOfTiles.lines))
	tileMask   = at(unsafe.Offsetof(shapeOfTiles.mask))
	tileFlags  = at(unsafe.Offsetof(shapeOfTiles.flags))
	tileAlpha  = at(unsafe.Offsetof(shapeOfTiles.alpha))
	tileBeta   = at(unsafe.Offsetof(shapeOfTiles.beta))
	tileNext   = at(unsafe.Offsetof(shapeOfTiles.next))
	tileNextSt = at(unsafe.Offsetof(shapeOfTiles.nextStep))
	tileNextLn = at(unsafe.Offsetof(shapeOfTiles.nextLine))
	tileSrc    = at(unsafe.Offsetof(shapeOfTiles.src))
	tileDst    = at(unsafe.Offsetof(shapeOfTiles.dst))
	tileSrcSt  = at(unsafe.Offsetof(shapeOfTiles.srcStep))
	tileDstNx  = at(unsafe.Offsetof(shapeOfTiles.dstNext))
	tileOrigin = at(unsafe.Offsetof(shapeOfTiles.origin))
	tileBegin  = at(unsafe.Offsetof(shapeOfTiles.begin))
	tileCount  = at(unsafe.Offsetof(shapeOfTiles.count))
)

// setConfig says how many rows the tiles of A and of the sums have, one and the one below.
func (t *tileArgs) setConfig(rows [2]int64) {
	t.config = [64]byte{0: 1}
	for i, n := range [8]int64{rows[0], rows[0], rows[1], rows[1], rows[0], rows[1], tileRows, tileRows} {
		if n > 0 {
			t.config[16+2*i], t.config[48+i] = 64, byte(n)
		}
	}
}

// Registers of tiles: sums 0 … 3, A's 4 and 5, B's 6 and 7.
func tileSum(row, col int) x86.Reg { return x86.Reg(2*row + col) }

// tiler is the micro-kernel of tiles, s.rows × s.cols of them, one or two each way; along:
// the result's columns lie as rows do.
func tiler(s tile) ([]byte, error) {
	g := newMaker(machine{true, 64}, s)
	g.save()
	g.TileConfig(at(unsafe.Offsetof(shapeOfTiles.config)))
	const aDown, row, aNext = x86.R10, x86.RBX, x86.RAX
	g.MovImm(row, 64)
	const next, by1, by3, left, line = x86.R11, x86.R15, x86.RBP, x86.RDX, x86.R12
	if s.far {
		g.Load(x86.W64, next, tileNext)
		g.Load(x86.W64, by1, tileNextSt)
		g.Lea(by3, x86.Mem{Base: by1, Index: by1, Scale: 2})
		g.MovImm(left, fetchLines/4)
	}
	again := g.NewLabel()
	g.Bind(again)
	g.beginSums(g.sums, func(r x86.Reg, m x86.Mem) {
		g.Emit(x86.TileLoad, x86.Inst{VL: 16, D: r, IsMem: true, Mem: m})
	}, func(r x86.Reg) { g.TileZero(r) })

	g.Load(x86.W64, regA, tileA)
	g.Load(x86.W64, regAStep, tileAStep)
	g.Load(x86.W64, aNext, tileANext)
	g.Load(x86.W64, aDown, tileADown)
	g.Op(x86.ADD, x86.W64, aDown, regA)
	g.Load(x86.W64, regB, tileB)
	step := func(aStep x86.Reg) {
		load := func(r, base, index x86.Reg, disp int32) {
			g.Emit(x86.TileLoad, x86.Inst{VL: 16, D: r, IsMem: true, Mem: x86.Mem{Base: base, Index: index, Scale: 1, Disp: disp}})
		}
		dot := func(i, j int) {
			g.Emit(s.unit.dot(), x86.Inst{VL: 16, D: tileSum(i, j), B: 4 + x86.Reg(i), A: 6 + x86.Reg(j)})
		}
		load(6, regB, row, 0)
		load(4, regA, aStep, 0)
		dot(0, 0)
		if s.cols > 1 {
			load(7, regB, row, tileBytes)
			dot(0, 1)
		}
		if s.rows > 1 {
			load(5, aDown, aStep, 0)
			dot(1, 0)
			if s.cols > 1 {
				dot(1, 1)
			}
		}
		g.OpImm(x86.ADD, x86.W64, regB, stepBytes)
	}
	g.eachStep(func() {
		step(regAStep)
		if s.far {
			for _, m := range []x86.Mem{x86.At(next, 0), {Base: next, Index: by1, Scale: 1}, {Base: next, Index: by1, Scale: 2}, {Base: next, Index: by3, Scale: 1}} {
				g.PrefetchL2(m)
			}
			g.Lea(next, x86.Mem{Base: next, Index: by1, Scale: 4})
			inside := g.NewLabel()
			g.OpImm(x86.SUB, x86.W64, left, 1)
			g.Jcc(x86.NE, inside)
			g.Load(x86.W64, line, tileNextLn)
			g.Op(x86.ADD, x86.W64, next, line)
			g.MovImm(left, fetchLines/4)
			g.Bind(inside)
		}
		g.Op(x86.ADD, x86.W64, regA, aNext)
		g.Op(x86.ADD, x86.W64, aDown, aNext)
	}, func() {
		g.Load(x86.W64, regA, tileRest)
		g.Load(x86.W64, aDown, tileRestDn)
		g.Op(x86.ADD, x86.W64, aDown, regA)
		step(row)
	})
	g.Load(x86.W64, x86.RSI, tileS)
	g.sums(func(r x86.Reg, m x86.Mem) {
		g.Emit(x86.TileStore, x86.Inst{VL: 16, D: r, IsMem: true, Mem: m})
	})
	g.result(again)
	g.TileRelease()
	return g.end()
}

// beginSums makes zeros of the sums that each goes through, or loads what they begin from,
// which lies from RSI on.
func (g *maker) beginSums(each func(f func(r x86.Reg, m x86.Mem)), load func(r x86.Reg, m x86.Mem), zero func(r x86.Reg)) {
	fresh, begun := g.NewLabel(), g.NewLabel()
	g.Load(x86.W64, x86.RCX, tileFlags)
	g.Load(x86.W64, x86.RSI, tileS)
	g.OpImm(x86.AND, x86.W32, x86.RCX, flagBegin)
	g.Jcc(x86.E, fresh)
	each(load)
	g.Jmp(begun)
	g.Bind(fresh)
	each(func(r x86.Reg, _ x86.Mem) { zero(r) })
	g.Bind(begun)
}

// eachStep does step for the whole steps of k, and rest for a last one that is not whole.
func (g *maker) eachStep(step, rest func()) {
	loop, last, done := g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.Load(x86.W64, regCount, tileSteps)
	g.Test(x86.W64, regCount, regCount)
	g.Jcc(x86.E, last)
	g.Bind(loop)
	step()
	g.OpImm(x86.SUB, x86.W64, regCount, 1)
	g.Jcc(x86.NE, loop)
	g.Bind(last)
	g.Load(x86.W64, regCount, tileRests)
	g.Test(x86.W64, regCount, regCount)
	g.Jcc(x86.E, done)
	rest()
	g.Bind(done)
}

// sums calls f for the tiles of sums with where each is from RSI on, its rows RBX apart.
func (g *maker) sums(f func(r x86.Reg, m x86.Mem)) {
	for i := range g.s.rows {
		for j := range g.s.cols {
			f(tileSum(i, j), x86.Mem{Base: x86.RSI, Index: x86.RBX, Scale: 1, Disp: int32(tileSum(i, j)) * tileBytes})
		}
	}
}

// dotter is the micro-kernel of vectors of groups: s.rows of A, and of one or two tiles.
func dotter(s tile) ([]byte, error) {
	g := newMaker(machine{true, 64}, s)
	g.save()
	rows := s.rows
	sum := func(i, v int) x86.Reg { return x86.Reg(s.cols*i + v) }
	pair := func(v int) x86.Reg { return 28 + x86.Reg(v) }
	const factor x86.Reg = 30
	// forward goes to the next step of k, of which the last bytes are so far.
	forward := func(done int32) {
		g.Load(x86.W64, x86.RAX, tileANext)
		g.OpImm(x86.SUB, x86.W64, x86.RAX, done)
		for i := range g.bases() {
			g.Op(x86.ADD, x86.W64, bases[i], x86.RAX)
		}
	}
	if s.unit.flips() {
		g.beginRows(forward)
	}
	again := g.NewLabel()
	g.Bind(again)
	each := func(f func(r x86.Reg, m x86.Mem)) {
		for i := range rows {
			for v := range s.cols {
				f(sum(i, v), x86.At(x86.RSI, int32(v*tileBytes+i*64)))
			}
		}
	}
	load, zero := func(r x86.Reg, m x86.Mem) { g.load(r, m, false) }, func(r x86.Reg) { g.op(x86.XorD, r, r, r) }
	if s.unit.flips() {
		begin := func(r x86.Reg) x86.Mem {
			m := tileBegin
			m.Disp += 4 * int32(int(r)/s.cols)
			return m
		}
		load = func(r x86.Reg, m x86.Mem) {
			g.load(r, m, false)
			g.Emit(x86.AddD, x86.Inst{VL: 64, D: r, A: r, IsMem: true, Broadcast: true, Mem: begin(r)})
		}
		zero = func(r x86.Reg) { g.Emit(x86.BcastD, x86.Inst{VL: 64, D: r, IsMem: true, Mem: begin(r)}) }
	}
	g.beginSums(each, load, zero)

	g.Load(x86.W64, regB, tileB)
	g.Load(x86.W64, regA, tileA)
	g.Load(x86.W64, regAStep, tileAStep)
	const unrolled = tileRows / restRounds
	// rounds does so many times some groups as RAX says.
	rounds := func() {
		pairs := g.NewLabel()
		g.Bind(pairs)
		for u := range unrolled {
			for v := range s.cols {
				g.load(pair(v), x86.At(regB, int32(64*u+v*tileBytes)), false)
				if s.unit.flips() { // or the L2 is not as quick as the products
					g.Prefetch(x86.At(regB, int32(64*u+v*tileBytes+stepBytes)))
				}
			}
			for i := range rows {
				g.Emit(x86.BcastD, x86.Inst{VL: 64, D: factor, IsMem: true, Mem: g.rowAt(i, 4*u)})
				for v := range s.cols {
					g.dot(sum(i, v), factor, pair(v))
				}
			}
		}
		g.OpImm(x86.ADD, x86.W64, regB, 64*unrolled)
		for i := range g.bases() {
			g.OpImm(x86.ADD, x86.W64, bases[i], 4*unrolled)
		}
		g.OpImm(x86.SUB, x86.W64, x86.RAX, 1)
		g.Jcc(x86.NE, pairs)
	}
	g.rowBases()
	g.eachStep(func() {
		g.MovImm(x86.RAX, restRounds)
		rounds()
		g.OpImm(x86.ADD, x86.W64, regB, tileBytes)
		forward(64)
	}, func() {
		g.Load(x86.W64, regA, tileRest)
		g.MovImm(regAStep, 64)
		g.rowBases()
		g.Load(x86.W64, x86.RAX, tileRests)
		rounds()
	})
	g.Load(x86.W64, x86.RSI, tileS)
	each(func(r x86.Reg, m x86.Mem) { g.store(m, r, false) })
	g.s.rows = 1 // of tiles
	g.result(again)
	return g.end()
}

// rowAt is what lies in a row of A so many bytes from where it is.
func (g *maker) rowAt(i, disp int) x86.Mem {
	m := multiples[i%len(multiples)]
	return x86.Mem{Base: bases[i/len(multiples)], Index: m.index, Scale: m.scale, Disp: int32(disp)}
}

// rowBases makes what rows of A are reached by.
func (g *maker) rowBases() {
	g.steps()
	for i := 1; i < g.bases(); i++ {
		g.Lea(bases[i], x86.Mem{Base: x86.R14, Index: x86.R9, Scale: 2})
		g.Op(x86.ADD, x86.W64, bases[i], bases[i-1])
	}
}

// dot adds products of groups of A by such of B to sums.
func (g *maker) dot(sum, a, b x86.Reg) {
	if g.s.unit == dotsI8 { // B has no sign any more
		a, b = b, a
	}
	g.op(g.s.unit.dot(), sum, a, b)
}

// beginRows finds what the sums of dotter's rows begin from: of B only the bits that are turned over
// are multiplied by them here, all of whose products are too much.
func (g *maker) beginRows(forward func(done int32)) {
	const elements, total x86.Reg = tileRows, tileRows + 2
	g.flips(x86.RAX)
	for i := range x86.Reg(tileRows) {
		g.clear(i)
	}
	g.Load(x86.W64, regA, tileA)
	g.Load(x86.W64, regAStep, tileAStep)
	g.rowBases()
	step := func() {
		for i := range g.s.rows {
			g.load(elements, g.rowAt(i, 0), false)
			g.dot(x86.Reg(i), elements, flipReg)
		}
	}
	g.eachStep(func() {
		step()
		forward(0)
	}, func() {
		g.Load(x86.W64, regA, tileRest)
		g.MovImm(regAStep, 64)
		g.rowBases()
		step()
	})
	g.clear(total)
	for _, r := range g.transposed16() {
		g.op(x86.SubD, total, total, r)
	}
	g.store(tileBegin, total, false)
}

// result makes the result of sums if they are whole, and goes on to the next two tiles.
func (g *maker) result(again x86.Label) {
	next := g.NewLabel()
	g.Load(x86.W64, x86.RAX, tileFlags)
	g.Mov(x86.W32, x86.RCX, x86.RAX)
	g.OpImm(x86.AND, x86.W32, x86.RCX, flagFinish)
	g.Jcc(x86.E, next)
	g.deliver()
	g.Bind(next)
	for _, x := range [][2]x86.Mem{{tileBNext, tileB}, {tileSNext, tileS}, {tileCNext, tileC}} {
		g.Load(x86.W64, x86.RAX, x[0])
		g.OpTo(x86.ADD, x86.W64, x[1], x86.RAX)
	}
	g.OpMemImm(x86.SUB, x86.W64, tileTiles, 1)
	g.Jcc(x86.NE, again)
}

// transposeTile transposes 16 rows of 16 numbers, 64 bytes apart, where they are.
func (g *maker) transposeTile(base x86.Reg, disp int32) {
	for i := range x86.Reg(tileRows) {
		g.load(i, x86.At(base, disp+int32(i)*64), false)
	}
	g.storeTransposed(base, disp)
}

// transposed16 transposes registers 0 … 15 of 16 numbers of 32 bits, of which nothing is left, and
// returns those that then have the columns; it uses 16, too.
func (g *maker) transposed16() []x86.Reg {
	var r [tileRows]x86.Reg
	for i := range r {
		r[i] = x86.Reg(i)
	}
	columns, _ := g.transposed(r[:], tileRows)
	return columns
}

// storeTransposed stores these columns as lines of a tile.
func (g *maker) storeTransposed(base x86.Reg, disp int32) {
	for i, r := range g.transposed16() {
		g.store(x86.At(base, disp+int32(i)*64), r, false)
	}
}
