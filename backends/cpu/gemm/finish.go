package gemm

import "github.com/hologram-project/hologram/backends/cpu/jit/x86"

// What a micro-kernel does with its sums when the last step of k is done.

// eachSum calls f for sums with the place of each in a matrix whose address and step are fields of args.
type eachSum func(start, step x86.Mem, f func(sum x86.Reg, m x86.Mem, masked bool))

// each is that of all sums of a tile whose result lies as rows do.
func (g *maker) each(start, step x86.Mem, f func(sum x86.Reg, m x86.Mem, masked bool)) {
	g.Load(x86.W64, x86.RSI, start)
	g.Load(x86.W64, x86.RDX, step)
	for i := range g.s.rows {
		for v := range g.s.cols {
			f(g.sum(i, v), x86.At(x86.RSI, int32(v*g.m.bytes)), g.last(v))
		}
		g.Op(x86.ADD, x86.W64, x86.RSI, x86.RDX)
	}
}

// finish does with the sums what the flags say, and stores them.
func (g *maker) finish() {
	var sums []x86.Reg
	for i := range x86.Reg(g.s.rows * g.s.cols) {
		sums = append(sums, g.first+i)
	}
	g.follow(sums, g.free[0], g.free[1], g.each)
}

// follow does it with some of the sums, by way of two registers.
func (g *maker) follow(sums []x86.Reg, value, beta x86.Reg, each eachSum) {
	first, scaled, store := g.NewLabel(), g.NewLabel(), g.NewLabel()
	g.Load(x86.W64, x86.RAX, argFlags)
	test := func(flag int32, otherwise x86.Label) {
		g.Mov(x86.W32, x86.RCX, x86.RAX)
		g.OpImm(x86.AND, x86.W32, x86.RCX, flag)
		g.Jcc(x86.E, otherwise)
	}
	test(flagAdd, first)
	each(argS, argSStep, func(sum x86.Reg, m x86.Mem, masked bool) {
		g.load(value, m, masked)
		g.op(g.f.add, sum, value, sum)
	})
	g.Bind(first)
	if g.second != 0 {
		for i, sum := range sums {
			g.op(g.f.add, sum, sum, g.second+x86.Reg(i))
		}
	}
	test(flagScale, scaled)
	g.broadcast(value, argAlpha)
	for _, sum := range sums {
		g.op(g.f.mul, sum, value, sum)
	}
	g.Bind(scaled)
	test(flagBeta, store)
	g.broadcast(beta, argBeta)
	each(argC, argCStep, func(sum x86.Reg, m x86.Mem, masked bool) {
		g.load(value, m, masked)
		if g.s.t.float() {
			g.op(g.f.fma, sum, beta, value)
			return
		}
		g.op(g.f.mul, value, beta, value)
		g.op(g.f.add, sum, value, sum)
	})
	g.Bind(store)
	if g.s.mask && !g.m.evex {
		g.storeParts(each)
		return
	}
	each(argD, argDStep, func(sum x86.Reg, m x86.Mem, masked bool) { g.store(m, sum, masked) })
}

// storeParts stores the sums where AVX2 has masks: those that are whole, then four words, two and one of the last vector of
// each row, as many as it has. AMD's processors before those with AVX-512 take 18 and more operations for a store with a mask.
func (g *maker) storeParts(each eachSum) {
	each(argD, argDStep, func(sum x86.Reg, m x86.Mem, masked bool) {
		if !masked {
			g.store(m, sum, false)
		}
	})
	const done = x86.RCX // bytes of the last vector
	g.MovImm(done, 0)
	for _, part := range []struct {
		words int32
		store func(m x86.Mem, sum x86.Reg) // and has what follows begin the register
	}{
		{4, func(m x86.Mem, sum x86.Reg) {
			g.Emit(x86.StoreUPS, x86.Inst{VL: 16, D: sum, IsMem: true, Mem: m})
			g.Emit(x86.Extract128, x86.Inst{VL: 32, D: sum, B: sum, Imm: 1})
		}},
		{2, func(m x86.Mem, sum x86.Reg) {
			g.Emit(x86.StoreQ, x86.Inst{VL: 16, D: sum, IsMem: true, Mem: m})
			g.Emit(x86.AlignB, x86.Inst{VL: 16, D: sum, A: sum, B: sum, Imm: 8})
		}},
		{1, func(m x86.Mem, sum x86.Reg) {
			g.Emit(x86.MovDTo, x86.Inst{VL: 16, D: sum, IsMem: true, Mem: m})
		}},
	} {
		if int64(part.words) < g.s.t.size()/4 || int(part.words) >= g.m.bytes/4 {
			continue
		}
		none := g.NewLabel()
		g.Load(x86.W64, x86.RAX, argWords)
		g.OpImm(x86.AND, x86.W32, x86.RAX, part.words)
		g.Jcc(x86.E, none)
		each(argD, argDStep, func(sum x86.Reg, m x86.Mem, masked bool) {
			if masked {
				m.Index, m.Scale = done, 1
				part.store(m, sum)
			}
		})
		g.OpImm(x86.ADD, x86.W64, done, 4*part.words)
		g.Bind(none)
	}
}
