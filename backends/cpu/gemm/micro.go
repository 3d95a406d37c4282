package gemm

import (
	"math"
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// number is a type that products are computed in.
type number uint8

const (
	f32 number = iota
	f64
	i32 // of integers of up to 32 bits, which wrap
	i64
	numbers
)

func (t number) size() int64 { return [...]int64{4, 8, 4, 8}[t] }

func (t number) float() bool { return t <= f64 }

// one is the bits of the number 1.
func (t number) one() uint64 {
	return [...]uint64{uint64(math.Float32bits(1)), math.Float64bits(1), 1, 1}[t]
}

// tile is a micro-kernel's shape: rows × vectors of C.
type tile struct {
	t     number
	rows  int
	cols  int  // in vectors
	along bool // A's elements of a row lie side by side, as rows do; else those of a column
	mask  bool // the last vector is not whole
	packs bool // of multiplies: rows of B are packed to dst as they are loaded, dstStep bytes from tile to tile
	// Of multiplies, if A is not along: its columns are packed to aDst as they are met, aDstStep bytes apart.
	packsA bool
	// Of multiplies: the result lies by columns, whose elements are side by side; steps are from one to the next.
	byColumns bool
	far       bool // of rowwise: rows come from beyond the caches nearby; of multiplies: what is needed next does
	// Of units: how they multiply, and bytes of an element of the result.
	unit multiplier
	out  uint8
}

// follows is what follows the sums, and first in what any code for products is given.
type follows struct {
	flags       uint64
	alpha, beta uint64
}

// args is what a micro-kernel is given. It computes tile after tile: side by side, one
// below the other, or the same one of matrices of a stack.
type args struct {
	follows
	a, aStep       uintptr // of the first tile's A: bytes from row to row if along, else from column to column
	b, bStep       uintptr // … and B: bytes from row to row
	aNext, bNext   uintptr // bytes from tile to tile
	k              int64
	t, tStep       uintptr // where the sums begin from, if begin
	s, sStep       uintptr // where the sum of the chunks before is, if add
	d, dStep       uintptr // where the result goes
	c, cStep       uintptr // C as it was, if beta
	dNext          uintptr // of t, s, d and c: bytes from tile to tile
	tiles          int64
	mask           [8]uint32 // of the last vector: AVX-512 takes the low bits of the first
	words          uint64    // … of AVX2, how many of 32 bits it has
	next           [2]ahead  // of far: what is fetched meanwhile
	ahead          uintptr   // of rowwise, if far: how far behind A what is fetched begins; of streams, and of tiles that pack: how far ahead of B
	src, dst       uintptr   // of copy.go's
	srcNext        uintptr
	srcStep        uintptr
	dstStep, count uintptr
	aDst, aDstStep uintptr // of packsA
	fetched        int64   // how many steps are left when all of the result is fetched
	wide           int64   // of outer: bytes of a row
}

// What a micro-kernel does with its sums.
const (
	flagAdd   = 1 << iota // they are added to the sum before
	flagScale             // they are multiplied by alpha
	flagBeta              // beta · C is added
	flagBegin             // they do not begin from zero
)

// forms names the instructions for numbers of a type.
type forms struct {
	bcast, load, store, maskLoad, add, mul, fma *x86.Form
}

var formsOf = [numbers]forms{
	f32: {x86.BcastSS, x86.MovUPS, x86.StoreUPS, x86.MaskLoadD, x86.AddPS, x86.MulPS, x86.FMA231PS},
	f64: {x86.BcastQ, x86.LoadUPD, x86.StoreUPD, x86.MaskLoadQ, x86.AddPD, x86.MulPD, x86.FMA231PD},
	i32: {x86.BcastD, x86.MovUPS, x86.StoreUPS, x86.MaskLoadD, x86.AddD, x86.MulLD, nil},
	i64: {x86.BcastQ, x86.LoadUPD, x86.StoreUPD, x86.MaskLoadQ, x86.AddQ, x86.MulLQ, nil},
}

// Fixed registers. RDI has args; rows of A that lie side by side are reached from
// three bases by the steps' multiples.
const (
	regB     = x86.RSI
	regBStep = x86.RDX
	regCount = x86.RCX
	regA     = x86.R8
	regAStep = x86.R9
)

var (
	bases     = [...]x86.Reg{x86.R8, x86.R10, x86.R11}
	multiples = [...]multiple{{x86.None, 1}, {x86.R9, 1}, {x86.R9, 2}, {x86.RBX, 1}, {x86.R9, 4}, {x86.RBP, 1}, {x86.RBX, 2}, {x86.R12, 1}, {x86.R9, 8},
		{x86.R13, 1}, {x86.RBP, 2}, {x86.R14, 1}, {x86.RBX, 4}}
	kept = [...]x86.Reg{x86.RBX, x86.RBP, x86.R12, x86.R13, x86.R14, x86.R15}
)

// maker writes machine code.
type maker struct {
	x86.Asm
	m     machine
	s     tile
	f     *forms
	first x86.Reg // of the sums
	free  [2]x86.Reg
	// stream: B's rows are fetched ahead.
	stream bool
	// second is the first of the sums of a second chunk, if there is one.
	second x86.Reg
	// turned: sums of units lie as the transposed result does.
	turned bool
}

func newMaker(m machine, s tile) *maker {
	g := &maker{Asm: x86.Asm{Has: s.unit.features()}, m: m, s: s, f: &formsOf[s.t]}
	if m.evex {
		g.Has |= x86.AVX512
	}
	g.free = [2]x86.Reg{g.row(0), g.temp(0)}
	return g
}

// at is a field of args.
func at(offset uintptr) x86.Mem { return x86.At(x86.RDI, int32(offset)) }

var shapeOfArgs args

var (
	argA       = at(unsafe.Offsetof(shapeOfArgs.a))
	argAStep   = at(unsafe.Offsetof(shapeOfArgs.aStep))
	argB       = at(unsafe.Offsetof(shapeOfArgs.b))
	argBStep   = at(unsafe.Offsetof(shapeOfArgs.bStep))
	argANext   = at(unsafe.Offsetof(shapeOfArgs.aNext))
	argBNext   = at(unsafe.Offsetof(shapeOfArgs.bNext))
	argK       = at(unsafe.Offsetof(shapeOfArgs.k))
	argT       = at(unsafe.Offsetof(shapeOfArgs.t))
	argTStep   = at(unsafe.Offsetof(shapeOfArgs.tStep))
	argS       = at(unsafe.Offsetof(shapeOfArgs.s))
	argSStep   = at(unsafe.Offsetof(shapeOfArgs.sStep))
	argD       = at(unsafe.Offsetof(shapeOfArgs.d))
	argDStep   = at(unsafe.Offsetof(shapeOfArgs.dStep))
	argDNext   = at(unsafe.Offsetof(shapeOfArgs.dNext))
	argC       = at(unsafe.Offsetof(shapeOfArgs.c))
	argCStep   = at(unsafe.Offsetof(shapeOfArgs.cStep))
	argTiles   = at(unsafe.Offsetof(shapeOfArgs.tiles))
	argFlags   = at(unsafe.Offsetof(shapeOfArgs.flags))
	argAlpha   = at(unsafe.Offsetof(shapeOfArgs.alpha))
	argBeta    = at(unsafe.Offsetof(shapeOfArgs.beta))
	argMask    = at(unsafe.Offsetof(shapeOfArgs.mask))
	argWords   = at(unsafe.Offsetof(shapeOfArgs.words))
	argSrc     = at(unsafe.Offsetof(shapeOfArgs.src))
	argSrcNx   = at(unsafe.Offsetof(shapeOfArgs.srcNext))
	argDst     = at(unsafe.Offsetof(shapeOfArgs.dst))
	argSrcSt   = at(unsafe.Offsetof(shapeOfArgs.srcStep))
	argDstSt   = at(unsafe.Offsetof(shapeOfArgs.dstStep))
	argCount   = at(unsafe.Offsetof(shapeOfArgs.count))
	argFetched = at(unsafe.Offsetof(shapeOfArgs.fetched))
	argADst    = at(unsafe.Offsetof(shapeOfArgs.aDst))
	argADstS   = at(unsafe.Offsetof(shapeOfArgs.aDstStep))
)

// sum is the register of a row's vector of sums.
func (g *maker) sum(row, col int) x86.Reg { return g.first + x86.Reg(row*g.s.cols+col) }

// row is the register of a vector of B's row.
func (g *maker) row(col int) x86.Reg { return x86.Reg(g.s.rows*g.s.cols + col) }

// temp is one of the registers beyond.
func (g *maker) temp(n int) x86.Reg { return g.row(g.s.cols) + x86.Reg(n) }

// maskReg is AVX2's mask, the last register.
func (g *maker) maskReg() x86.Reg { return x86.Reg(g.m.registers() - 1) }

// last reports whether column col is the one that is masked.
func (g *maker) last(col int) bool { return g.s.mask && col == g.s.cols-1 }

func (g *maker) op(f *x86.Form, d, a, b x86.Reg) {
	g.Emit(f, x86.Inst{VL: g.m.bytes, D: d, A: a, B: b})
}

func (g *maker) load(d x86.Reg, m x86.Mem, masked bool) {
	switch {
	case !masked:
		g.Emit(g.f.load, x86.Inst{VL: g.m.bytes, D: d, IsMem: true, Mem: m})
	case g.m.evex:
		g.Emit(g.f.load, x86.Inst{VL: g.m.bytes, D: d, IsMem: true, Mem: m, K: 1, Zero: true})
	default:
		g.Emit(g.f.maskLoad, x86.Inst{VL: g.m.bytes, D: d, A: g.maskReg(), IsMem: true, Mem: m})
	}
}

func (g *maker) store(m x86.Mem, s x86.Reg, masked bool) {
	in := x86.Inst{VL: g.m.bytes, D: s, IsMem: true, Mem: m}
	if masked { // of AVX-512 alone: storeParts
		in.K = 1
	}
	g.Emit(g.f.store, in)
}

func (g *maker) broadcast(d x86.Reg, m x86.Mem) {
	g.Emit(g.f.bcast, x86.Inst{VL: g.m.bytes, D: d, IsMem: true, Mem: m})
}

// save saves registers.
func (g *maker) save() {
	for _, r := range kept {
		g.Push(r)
	}
}

// begin saves registers and fetches the mask.
func (g *maker) begin() {
	g.save()
	g.loadMask()
}

// loadMask fetches the mask of the last vector.
func (g *maker) loadMask() {
	if g.s.mask && g.m.evex {
		g.Emit(x86.KMovW, x86.Inst{VL: 16, D: 1, IsMem: true, Mem: argMask})
	} else if g.s.mask {
		g.Emit(x86.MovUPS, x86.Inst{VL: g.m.bytes, D: g.maskReg(), IsMem: true, Mem: argMask})
	}
}

// leave restores registers and returns.
func (g *maker) leave() {
	g.VZeroUpper()
	for i := range kept {
		g.Pop(kept[len(kept)-1-i])
	}
	g.Ret()
}

// end is the end of what has no constants.
func (g *maker) end() ([]byte, error) {
	g.leave()
	err := g.Finish()
	return g.Code, err
}

// element is A's element of a row, u columns on.
func (g *maker) element(row, u int) x86.Mem {
	if !g.s.along {
		return x86.At(regA, int32(row)*int32(g.s.t.size()))
	}
	return multiples[row%len(multiples)].of(bases[row/len(multiples)], u*int(g.s.t.size()))
}

// bases returns how many bases the rows are reached from.
func (g *maker) bases() int { return (g.s.rows + len(multiples) - 1) / len(multiples) }

// steps sets the multiples of the step from row to row that rows are reached by.
func (g *maker) steps() {
	n := min(g.s.rows, len(multiples))
	for _, x := range []struct {
		least        int
		d, base, idx x86.Reg
		scale        uint8
	}{{4, x86.RBX, x86.R9, x86.R9, 2}, {6, x86.RBP, x86.R9, x86.R9, 4}, {8, x86.R12, x86.RBX, x86.R9, 4}, {10, x86.R13, x86.R9, x86.R9, 8},
		{12, x86.R14, x86.RBX, x86.R9, 8}} {
		if n >= x.least {
			g.Lea(x.d, x86.Mem{Base: x.base, Index: x.idx, Scale: x.scale})
		}
	}
}

// clear makes a register zero.
func (g *maker) clear(r x86.Reg) {
	if r < 16 {
		g.Emit(x86.Xor, x86.Inst{VL: 16, D: r, A: r, B: r})
	} else {
		g.Emit(x86.XorD, x86.Inst{VL: g.m.bytes, D: r, A: r, B: r})
	}
}

// zero makes the sums zero, or what they begin from.
func (g *maker) zero() {
	for i := range g.s.rows * g.s.cols {
		g.clear(g.first + x86.Reg(i))
	}
	skip := g.NewLabel()
	g.Load(x86.W64, x86.RAX, argFlags)
	g.OpImm(x86.AND, x86.W32, x86.RAX, flagBegin)
	g.Jcc(x86.E, skip)
	g.each(argT, argTStep, func(sum x86.Reg, m x86.Mem, masked bool) { g.load(sum, m, masked) })
	g.Bind(skip)
}

const unroll = 4

// micro is a micro-kernel: for each of its tiles the sums of k products, in order
// of k from zero, and what follows them. One that streams fetches B's rows into the L2, so
// many bytes ahead as args say.
func micro(m machine, s tile, stream bool) ([]byte, error) {
	g := newMaker(m, s)
	g.stream = stream
	g.begin()
	g.Load(x86.W64, regAStep, argAStep)
	if s.along {
		g.steps()
	}
	again := g.NewLabel()
	g.Bind(again)
	g.zero()
	g.factors()
	fetches := !s.packs && g.bases() < 3 && s.rows*s.cols > fewSums
	if fetches {
		g.beginToFetch()
	}
	g.Load(x86.W64, regBStep, argBStep)
	var list ahead
	for i := range s.lists() {
		g.Load(x86.W64, aheadRegs[i], argAhead(i, unsafe.Offsetof(list.at)))
	}
	if stream {
		g.Load(x86.W64, streamReg, at(unsafe.Offsetof(shapeOfArgs.ahead)))
	}
	if s.packs {
		g.Load(x86.W64, packReg, argDst)
		g.Load(x86.W64, packAheadReg, at(unsafe.Offsetof(shapeOfArgs.ahead)))
	}
	if s.packsA {
		g.Load(x86.W64, packAReg, argADst)
		g.Load(x86.W64, packAStepReg, argADstS)
	}
	if s.along {
		for i := 1; i < g.bases(); i++ { // 13 rows on
			g.Lea(bases[i], x86.Mem{Base: x86.R14, Index: x86.R9, Scale: 2})
			g.Op(x86.ADD, x86.W64, bases[i], bases[i-1])
		}
	}
	loop, tail, rest, done := g.NewLabel(), g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.OpImm(x86.SUB, x86.W64, regCount, unroll)
	g.Jcc(x86.L, tail)
	g.Bind(loop)
	for u := range unroll {
		g.round(u)
		if u == 1 && fetches {
			g.fetchResult()
		}
		if u%2 == 0 && u/2 < s.lists() {
			g.PrefetchL2(x86.At(aheadRegs[u/2], 0))
			g.OpMem(x86.ADD, x86.W64, aheadRegs[u/2], argAhead(u/2, unsafe.Offsetof(list.step)))
		}
	}
	g.forward(unroll)
	g.OpImm(x86.SUB, x86.W64, regCount, unroll)
	g.Jcc(x86.GE, loop)
	g.Bind(tail)
	g.OpImm(x86.ADD, x86.W64, regCount, unroll)
	g.Jcc(x86.E, done)
	g.Bind(rest)
	g.round(0)
	g.forward(1)
	g.OpImm(x86.SUB, x86.W64, regCount, 1)
	g.Jcc(x86.NE, rest)
	g.Bind(done)
	if s.byColumns {
		g.finishByColumns()
	} else {
		g.finish()
	}
	if s.packs {
		g.Load(x86.W64, x86.RAX, argDstSt)
		g.OpTo(x86.ADD, x86.W64, argDst, x86.RAX)
	}
	for i := range s.lists() {
		g.Load(x86.W64, x86.RAX, argAhead(i, unsafe.Offsetof(list.tile)))
		g.OpTo(x86.ADD, x86.W64, argAhead(i, unsafe.Offsetof(list.at)), x86.RAX)
	}
	g.next(again)
	return g.end()
}

// streamReg is how far ahead of B what streams fetches.
const streamReg = x86.RAX

// round adds the products of one k.
func (g *maker) round(u int) {
	s := &g.s
	if g.stream {
		for at := 0; at < s.cols*g.m.bytes; at += 64 {
			g.PrefetchL2(x86.Mem{Base: regB, Index: streamReg, Scale: 1, Disp: int32(at)})
		}
	}
	if s.packsA {
		g.packColumn()
	}
	if s.rows == 1 && s.t.float() && !s.packs {
		g.broadcast(g.temp(0), g.element(0, u))
		for v := range s.cols {
			from := x86.At(regB, int32(v*g.m.bytes))
			if g.last(v) {
				g.load(g.row(v), from, true)
				g.op(g.f.fma, g.sum(0, v), g.temp(0), g.row(v))
				continue
			}
			g.Emit(g.f.fma, x86.Inst{VL: g.m.bytes, D: g.sum(0, v), A: g.temp(0), IsMem: true, Mem: from})
		}
	} else {
		for v := range s.cols {
			g.load(g.row(v), x86.At(regB, int32(v*g.m.bytes)), g.last(v))
			if s.t == f64 && s.rows == deepRows && g.m.evex && !s.packs && !g.stream { // no L1 holds what a tile needs of B
				g.Prefetch(x86.Mem{Base: regB, Index: regBStep, Scale: 8, Disp: int32(v * g.m.bytes)})
			}
			if s.packs {
				g.store(x86.At(packReg, int32((u*s.cols+v)*g.m.bytes)), g.row(v), false)
			}
		}
		for at := 0; s.packs && at < s.cols*g.m.bytes; at += 64 {
			g.PrefetchL2(x86.Mem{Base: regB, Index: packAheadReg, Scale: 1, Disp: int32(at)})
		}
		for i := range s.rows {
			if s.cols == 1 && g.m.evex && s.t.float() {
				g.Emit(g.f.fma, x86.Inst{VL: g.m.bytes, D: g.sum(i, 0), A: g.row(0), IsMem: true, Mem: g.element(i, u), Broadcast: true})
				continue
			}
			temp := g.temp(0)
			if g.m.evex {
				temp = g.temp(i & 1)
			}
			g.broadcast(temp, g.element(i, u))
			for v := range s.cols {
				if s.t.float() {
					g.op(g.f.fma, g.sum(i, v), temp, g.row(v))
					continue
				}
				product := g.temp(1)
				if g.m.evex {
					product = g.temp(2 + v&1)
				}
				g.op(g.f.mul, product, temp, g.row(v))
				g.op(g.f.add, g.sum(i, v), g.sum(i, v), product)
			}
		}
	}
	g.Op(x86.ADD, x86.W64, regB, regBStep)
	if !s.along {
		g.Op(x86.ADD, x86.W64, regA, regAStep)
	}
}

// forward moves on by n columns of A that lie side by side.
func (g *maker) forward(n int) {
	if g.s.packs {
		g.OpImm(x86.ADD, x86.W64, packReg, int32(n*g.s.cols*g.m.bytes))
	}
	if g.s.along {
		for i := range g.bases() {
			g.OpImm(x86.ADD, x86.W64, bases[i], int32(n)*int32(g.s.t.size()))
		}
	}
}

// factors fetches where the tile's A and B are, and moves both on already, so that the next
// tile need not wait for it.
func (g *maker) factors() {
	g.Load(x86.W64, regCount, argK)
	for _, x := range []struct {
		r        x86.Reg
		at, next x86.Mem
	}{{regA, argA, argANext}, {regB, argB, argBNext}} {
		g.Load(x86.W64, x.r, x.at)
		g.Load(x86.W64, x86.RAX, x.next)
		g.OpTo(x86.ADD, x86.W64, x.at, x86.RAX)
	}
}

// next goes on to the next tile, if there is one.
func (g *maker) next(again x86.Label) {
	g.Load(x86.W64, x86.RAX, argDNext)
	for _, m := range []x86.Mem{argT, argS, argD, argC} {
		g.OpTo(x86.ADD, x86.W64, m, x86.RAX)
	}
	g.OpMemImm(x86.SUB, x86.W64, argTiles, 1)
	g.Jcc(x86.NE, again)
}
