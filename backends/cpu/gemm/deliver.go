package gemm

import "github.com/hologram-project/hologram/backends/cpu/jit/x86"

// What follows the sums of units: they are scaled, C is added, and they become elements of the
// result, line by line.

// Registers of delivery: where a line of sums and of elements is.
const (
	lineSums     = x86.R12
	lineElements = x86.R13
	lineStep     = x86.R14
)

// lines are those of a tile, or of tiles side by side and one below the other.
type lines struct {
	*maker
	high, wide int                  // of tiles; as the result has them
	place      func(h, w int) int32 // of their sums
}

// partMasks have which elements of a line's two vectors there are; K1 has both vectors'.
var partMasks = [2]x86.Reg{2, 3}

// deliver makes the result of the sums. RAX has the flags.
func (g *maker) deliver() {
	l := lines{g, g.s.rows, g.s.cols, func(h, w int) int32 { return int32(tileSum(h, w)) * tileBytes }}
	if g.s.along != g.turned {
		for i := range l.high {
			for j := range l.wide {
				g.transposeTile(x86.RSI, int32(tileSum(i, j))*tileBytes)
			}
		}
	}
	if g.s.along {
		l.high, l.wide = l.wide, l.high
		l.place = func(h, w int) int32 { return int32(tileSum(w, h)) * tileBytes }
	}
	mask := tileMask
	g.Emit(x86.KMovQ, x86.Inst{VL: 16, D: 1, IsMem: true, Mem: mask})
	for w := range l.wide {
		mask.Disp = tileMask.Disp + int32(2*w)
		g.Emit(x86.KMovW, x86.Inst{VL: 16, D: partMasks[w], IsMem: true, Mem: mask})
	}
	switch {
	case !g.s.unit.float():
		l.integers()
	case g.s.out == 4:
		l.parts(func(sums, at x86.Mem, k x86.Reg) {
			g.load(0, sums, false)
			g.Emit(x86.StoreUPS, x86.Inst{VL: 64, D: 0, IsMem: true, Mem: at, K: k})
		})
	default:
		l.halves()
	}
}

// each does one for each line of each row of tiles.
func (l lines) each(one func(h int)) {
	const count = x86.RCX
	l.Load(x86.W64, lineElements, tileC)
	l.Load(x86.W64, lineStep, tileCStep)
	for h := range l.high {
		m := tileLines
		m.Disp += int32(8 * h)
		loop := l.NewLabel()
		l.Mov(x86.W64, lineSums, x86.RSI)
		l.Load(x86.W64, count, m)
		l.Bind(loop)
		one(h)
		l.OpImm(x86.ADD, x86.W64, lineSums, 64)
		l.Op(x86.ADD, x86.W64, lineElements, lineStep)
		l.OpImm(x86.SUB, x86.W64, count, 1)
		l.Jcc(x86.NE, loop)
	}
}

// parts does one for each vector of each line, which has k of its elements at a place.
func (l lines) parts(one func(sums, at x86.Mem, k x86.Reg)) {
	l.each(func(h int) {
		for w := range l.wide {
			one(x86.At(lineSums, l.place(h, w)), x86.At(lineElements, int32(w*tileRows*int(l.s.out))), partMasks[w])
		}
	})
}

// ways does what the flags in RAX say: nothing but store the sums, or begin, and scale them,
// and if C is read add it.
func (l lines) ways(plain, begin func(), scaled func(reads bool)) {
	slow, beta, done := l.NewLabel(), l.NewLabel(), l.NewLabel()
	l.OpImm(x86.AND, x86.W32, x86.RAX, flagScale|flagBeta)
	l.Jcc(x86.NE, slow)
	plain()
	l.Jmp(done)
	l.Bind(slow)
	begin()
	l.OpImm(x86.AND, x86.W32, x86.RAX, flagBeta)
	l.Jcc(x86.NE, beta)
	scaled(false)
	l.Jmp(done)
	l.Bind(beta)
	scaled(true)
	l.Bind(done)
}

// The registers of alpha and beta.
const alphaReg, betaReg x86.Reg = 8, 9

// integers makes integers of sums that wrap, of as many bytes as the result's have. What
// their sign is, no low bits show.
func (l lines) integers() {
	size := l.s.out
	wide := map[uint8]*x86.Form{1: x86.ZxBD, 2: x86.ZxWD, 4: x86.MovUPS}[size]
	narrow := map[uint8]*x86.Form{1: x86.DB, 2: x86.DW, 4: x86.StoreUPS}[size]
	store := func(at x86.Mem, k x86.Reg) {
		l.Emit(narrow, x86.Inst{VL: 64, D: 0, IsMem: true, Mem: at, K: k})
	}
	l.ways(func() {
		l.parts(func(sums, at x86.Mem, k x86.Reg) {
			l.load(0, sums, false)
			store(at, k)
		})
	}, func() {
		l.Emit(x86.BcastD, x86.Inst{VL: 64, D: alphaReg, IsMem: true, Mem: tileAlpha})
		l.Emit(x86.BcastD, x86.Inst{VL: 64, D: betaReg, IsMem: true, Mem: tileBeta})
	}, func(reads bool) {
		l.parts(func(sums, at x86.Mem, k x86.Reg) {
			l.Emit(x86.MulLD, x86.Inst{VL: 64, D: 0, A: alphaReg, IsMem: true, Mem: sums})
			if reads {
				l.Emit(wide, x86.Inst{VL: 64, D: 1, IsMem: true, Mem: at, K: k, Zero: true})
				l.op(x86.MulLD, 1, 1, betaReg)
				l.op(x86.AddD, 0, 0, 1)
			}
			store(at, k)
		})
	})
}

// halves makes bf16 of sums in f32.
func (l lines) halves() {
	const half, one, nan x86.Reg = 10, 11, 12
	l.ways(func() {
		// What the units give has no subnormals, so the instruction that takes these for zero rounds right.
		l.each(func(h int) {
			l.load(0, x86.At(lineSums, l.place(h, 0)), false)
			vl := 32
			if l.wide > 1 {
				vl = 64
				l.load(1, x86.At(lineSums, l.place(h, 1)), false)
				l.op(x86.PSs2B16, 0, 1, 0)
			} else {
				l.Emit(x86.PS2B16, x86.Inst{VL: 64, D: 0, B: 0})
			}
			l.Emit(x86.StoreW, x86.Inst{VL: vl, D: 0, IsMem: true, Mem: x86.At(lineElements, 0), K: 1})
		})
	}, func() {
		l.Emit(x86.BcastSS, x86.Inst{VL: 64, D: alphaReg, IsMem: true, Mem: tileAlpha})
		l.Emit(x86.BcastSS, x86.Inst{VL: 64, D: betaReg, IsMem: true, Mem: tileBeta})
		for _, c := range []struct {
			r  x86.Reg
			is uint64
		}{{half, 0x7FFF}, {one, 1}, {nan, 0x7FC0}} {
			l.MovImm(x86.RCX, c.is)
			l.Emit(x86.BcastDGPR, x86.Inst{VL: 64, D: c.r, B: x86.RCX})
		}
	}, func(reads bool) {
		l.parts(func(sums, at x86.Mem, k x86.Reg) {
			l.Emit(x86.MulPS, x86.Inst{VL: 64, D: 0, A: alphaReg, IsMem: true, Mem: sums})
			if reads {
				l.Emit(x86.ZxWD, x86.Inst{VL: 64, D: 1, IsMem: true, Mem: at, K: k, Zero: true})
				l.Emit(x86.SllD, x86.Inst{VL: 64, D: 1, B: 1, Imm: 16})
				l.op(x86.FMA231PS, 0, betaReg, 1)
			}
			l.Emit(x86.SrlD, x86.Inst{VL: 64, D: 2, B: 0, Imm: 16})
			l.op(x86.AndD, 2, 2, one)
			l.op(x86.AddD, 2, 2, half)
			l.op(x86.AddD, 2, 2, 0)
			l.Emit(x86.SrlD, x86.Inst{VL: 64, D: 2, B: 2, Imm: 16})
			l.Emit(x86.CmpPS, x86.Inst{VL: 64, D: 4, A: 0, B: 0, Imm: 3}) // unordered
			l.Emit(x86.MovAPS, x86.Inst{VL: 64, D: 2, B: nan, K: 4})
			l.Emit(x86.DW, x86.Inst{VL: 64, D: 2, IsMem: true, Mem: at, K: k})
		})
	})
}
