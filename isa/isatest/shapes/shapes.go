// Package shapes writes large programs of shapes on which a careless algorithm
// needs time or memory that grows faster than the program.
package shapes

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Shape is a family of programs. Text returns one of about n instructions,
// which verifies.
type Shape struct {
	Name string
	Text func(n int) string
}

// writer writes a program's text.
type writer struct{ strings.Builder }

func (w *writer) line(format string, a ...any) {
	fmt.Fprintf(w, format, a...)
	w.WriteByte('\n')
}

// start begins a program with one slot of u32, of which v holds the lane's element.
func start() *writer {
	w := &writer{}
	w.line("program p\nslot x u32\nldg.u32 v, x[index]")
	return w
}

// spread gives count registers a0, a1 … values.
func (w *writer) spread(count int) {
	for i := range count {
		w.line("add.u32 a%d, v, %d", i, i)
	}
}

// gather adds these registers to v.
func (w *writer) gather(count int) {
	for i := range count {
		w.line("add.u32 v, v, a%d", i)
	}
}

// end stores v.
func (w *writer) end() string {
	w.line("stg.u32 v, x[index]\nexit")
	return w.String()
}

// regs is how many registers the shapes with many of them use.
const regs = 240

// All lists the shapes.
var All = []Shape{
	{"chain", func(n int) string {
		w := start()
		for i := range n {
			w.line("add.u32 v, v, %d", i%7)
		}
		return w.end()
	}},
	{"multiplications and additions", func(n int) string {
		w := &writer{}
		w.line("program p\nslot x f32\nldg.f32 v, x[index]\nmov.f32 acc, v")
		for range n {
			w.line("mad.f32 acc, acc, v, v")
		}
		w.line("stg.f32 acc, x[index]\nexit")
		return w.String()
	}},
	{"mixed chain", func(n int) string {
		w := start()
		for i := range n {
			w.line("%s.u32 v, v, %d", []string{"mul", "xor", "add", "sub"}[i%4], 2*i+1)
		}
		return w.end()
	}},
	{"wide", func(n int) string {
		w := start()
		w.spread(regs)
		for i := range n {
			w.line("xor.u32 a%d, a%d, a%d", i*31%regs, i*17%regs, (i*5+1)%regs)
		}
		w.gather(regs)
		return w.end()
	}},
	{"random straight", func(n int) string {
		w, r := start(), rand.New(rand.NewPCG(1, 1))
		w.spread(regs)
		for range n {
			w.line("%s.u32 a%d, a%d, a%d", []string{"mul", "xor", "add", "sub", "min", "and"}[r.IntN(6)], r.IntN(regs), r.IntN(regs), r.IntN(regs))
		}
		w.gather(regs)
		return w.end()
	}},
	{"independent", func(n int) string { // ready all at once
		w := start()
		for i := range n / 2 {
			w.line("add.u32 t, v, %d\nstg.u32 t, x[%d]", i, 4*i)
		}
		return w.end()
	}},
	{"immediates", func(n int) string {
		w := start()
		for i := range n {
			w.line("add.u32 v, v, 0x%x", uint32(i)*2654435761)
		}
		return w.end()
	}},
	{"forward branches", func(n int) string {
		w := start()
		w.line("mov.u32 a, 0")
		for i := range n / 3 {
			w.line("set.lt.u32 p%d, v, %d\nbra l%d, p%d\nadd.u32 a, a, %d\nl%d:", i%15, i, i, i%15, i, i)
		}
		w.line("mov.u32 v, a")
		return w.end()
	}},
	{"branches to one end", func(n int) string {
		w := start()
		w.spread(regs)
		for i := range n / 3 {
			w.line("set.lt.u32 p0, a%d, %d\nbra e, p0\nadd.u32 a%d, a%d, %d", i%regs, i, i*7%regs, i%regs, i)
		}
		w.line("e:")
		w.gather(regs)
		return w.end()
	}},
	{"branches back", func(n int) string {
		w := start()
		w.spread(regs)
		w.line("h:")
		for i := range n / 3 {
			w.line("add.u32 a%d, a%d, %d\nset.lt.u32 p0, a%d, %d\nbra h, p0", i%regs, i*3%regs, i, i%regs, i)
		}
		w.gather(regs)
		return w.end()
	}},
	{"branches back, few registers", func(n int) string {
		w := start()
		w.line("h:")
		for i := range n / 3 {
			w.line("add.u32 v, v, %d\nset.lt.u32 p0, v, %d\nbra h, p0", i, i)
		}
		return w.end()
	}},
	{"joins of many registers", func(n int) string {
		w := start()
		w.spread(regs)
		for i := range n / 10 {
			w.line("set.lt.u32 p0, a%d, %d\nbra l%d, p0", i%regs, i, i)
			for j := range 8 {
				w.line("add.u32 a%d, a%d, %d", (i*7+j)%regs, (i+j)%regs, j)
			}
			w.line("l%d:", i)
		}
		w.gather(regs)
		return w.end()
	}},
	{"nested ifs", func(n int) string {
		w := start()
		d := n / 5
		for i := range d {
			w.line("set.lt.u32 p0, v, %d\nbra e%d, p0\nadd.u32 v, v, 1", i, i)
		}
		for i := d - 1; i >= 0; i-- {
			w.line("bra f%d\ne%d:\nadd.u32 v, v, 2\nf%d:", i, i, i)
		}
		return w.end()
	}},
	{"nested guards", func(n int) string {
		w := start()
		d := n / 3
		for i := range d {
			w.line("set.lt.u32 p0, v, %d\nbra e%d, p0", i, i)
		}
		for i := d - 1; i >= 0; i-- {
			w.line("e%d:\nadd.u32 v, v, %d", i, i)
		}
		return w.end()
	}},
	{"switch", func(n int) string {
		w := start()
		d := n / 4
		for i := range d {
			w.line("set.eq.u32 p0, v, %d\nbra e%d, p0", i, i)
		}
		for i := range d {
			w.line("e%d:\nadd.u32 v, v, %d", i, i)
		}
		return w.end()
	}},
	{"switch with breaks", func(n int) string {
		w := start()
		d := n / 5
		for i := range d {
			w.line("set.eq.u32 p0, v, %d\nbra e%d, p0", i, i)
		}
		w.line("bra end")
		for i := range d {
			w.line("e%d:\nadd.u32 v, v, %d\nbra end", i, i)
		}
		w.line("end:")
		return w.end()
	}},
	{"exits", func(n int) string {
		w := start()
		for i := range n / 3 {
			w.line("set.eq.u32 p0, v, %d\nbra done, p0\nadd.u32 v, v, 1", i)
		}
		w.line("stg.u32 v, x[index]\ndone:\nexit")
		return w.String()
	}},
	{"loops in turn", func(n int) string {
		w := start()
		for i := range n / 2 {
			w.line("loop v, g%d\nadd.u32 v, v, %d\ng%d:", i, i, i)
		}
		return w.end()
	}},
	{"loops of work", func(n int) string {
		w := start()
		w.line("mov.u32 a0, 0\nmov.u32 a1, 0\nmov.u32 a2, 0")
		for i := range n * 2 / 15 {
			w.line("loop %d, w%d", i%3+1, i)
			for k := range 3 {
				w.line("mad.u32 a%d, v, %d, %d\nxor.u32 v, v, a%d", k, i*31+k, i+k, k)
			}
			w.line("w%d:", i)
		}
		return w.end()
	}},
	{"branches over work", func(n int) string {
		w := start()
		w.spread(10)
		for i := range n / 22 {
			w.line("set.lt.u32 p0, v, %d\nbra b%d, p0", i, i)
			for k := range 10 {
				w.line("mad.u32 a%d, v, %d, %d\nxor.u32 v, v, a%d", k, i*31+k, i+k, k)
			}
			w.line("b%d:", i)
		}
		return w.end()
	}},
	{"loops of many registers", func(n int) string {
		w := start()
		w.spread(regs)
		for i := range n / 10 {
			w.line("loop v, g%d", i)
			for j := range 9 {
				w.line("add.u32 a%d, a%d, %d", (i*7+j)%regs, (i*3+j)%regs, j)
			}
			w.line("g%d:", i)
		}
		w.gather(regs)
		return w.end()
	}},
	{"deep loops", func(n int) string {
		w := start()
		const depth = 60
		for k := range n / (2 * depth) {
			for i := range depth {
				w.line("loop 2, g%d.%d\nadd.u32 v, v, %d", k, i, i)
			}
			for i := depth - 1; i >= 0; i-- {
				w.line("g%d.%d:", k, i)
			}
		}
		return w.end()
	}},
	{"deep loops of many registers", func(n int) string {
		w := start()
		w.spread(regs)
		const depth = 60
		for k := range n / (2 * depth) {
			for i := range depth {
				w.line("loop 2, g%d.%d\nadd.u32 a%d, a%d, %d", k, i, (k+i*4)%regs, (k+i*4+1)%regs, i)
			}
			for i := depth - 1; i >= 0; i-- {
				w.line("g%d.%d:", k, i)
			}
		}
		w.gather(regs)
		return w.end()
	}},
	{"while loops", func(n int) string {
		w := start()
		for i := range n / 3 {
			w.line("h%d:\nadd.u32 v, v, %d\nset.lt.u32 p0, v, %d\nbra h%d, p0", i, i, i, i)
		}
		return w.end()
	}},
	{"nested while loops", func(n int) string {
		w := start()
		const depth = 60
		for k := range n / (3 * depth) {
			for i := range depth {
				w.line("h%d.%d:\nadd.u32 v, v, %d", k, i, i)
			}
			for i := depth - 1; i >= 0; i-- {
				w.line("set.lt.u32 p0, v, %d\nbra h%d.%d, p0", i, k, i)
			}
		}
		return w.end()
	}},
	{"rotating loop", func(n int) string { // one loop, its parameters change places
		w := start()
		w.spread(regs)
		w.line("h:")
		w.line("mov.u32 t, a0")
		for i := range regs - 1 {
			w.line("mov.u32 a%d, a%d", i, i+1)
		}
		w.line("mov.u32 a%d, t", regs-1)
		for i := range n {
			w.line("add.u32 v, v, a%d", i%regs)
		}
		w.line("set.lt.u32 p0, v, 9\nbra h, p0")
		w.gather(regs)
		return w.end()
	}},
	{"calls", func(n int) string {
		w := start()
		for range n / 8 {
			w.line("call f")
		}
		w.line("stg.u32 v, x[index]\nexit\nf:")
		for i := range 8 {
			w.line("mul.u32 v, v, %d", 3+2*i)
		}
		w.line("ret")
		return w.String()
	}},
	{"calls with branches", func(n int) string {
		w := start()
		for range n / 13 {
			w.line("call f")
		}
		w.line("stg.u32 v, x[index]\nexit\nf:")
		for i := range 4 {
			w.line("set.lt.u32 p0, v, %d\nbra a%d, p0\nadd.u32 v, v, 1\na%d:", i, i, i)
		}
		w.line("ret")
		return w.String()
	}},
	{"functions", func(n int) string {
		w := start()
		for i := range n / 3 {
			w.line("call f%d", i)
		}
		w.line("stg.u32 v, x[index]\nexit")
		for i := range n / 3 {
			w.line("f%d:\nadd.u32 v, v, %d\nret", i, i)
		}
		return w.String()
	}},
	{"loads and stores", func(n int) string {
		w := start()
		for i := range n / 2 {
			w.line("stg.u32 %d, x[index]\nldg.u32 v, x[index]", i)
		}
		return w.end()
	}},
	{"loads by byte", func(n int) string {
		w := start()
		w.line("mov.u32 s, 0")
		for i := range n / 2 {
			w.line("ldg.u32 t, x[v + %d]\nxor.u32 s, s, t", 4*i)
		}
		w.line("mov.u32 v, s")
		return w.end()
	}},
	{"shared memory", func(n int) string {
		w := &writer{}
		w.line("program p\nslot x u32\nshared 49152\nldg.u32 v, x[index]")
		for i := range n / 2 {
			w.line("sts.u32 %d, shared[%d]\nlds.u32 v, shared[%d]", i, i*4%49000, i*8%49000)
		}
		return w.end()
	}},
	{"barriers", func(n int) string {
		w := start()
		for range n {
			w.line("bar_sync 0")
		}
		return w.end()
	}},
	{"scans", func(n int) string {
		w := start()
		for range n {
			w.line("block_scan_add.u32 v, v")
		}
		return w.end()
	}},
	{"pools", func(n int) string {
		w := start()
		w.line("mov.u64 o, 0")
		for i := range n / 2 {
			if i < 1000 {
				w.line("pool_alloc h%d, 16", i%200)
			}
			w.line("pool_store.u8 1, h%d, o", i%min(200, n/2))
		}
		return w.end()
	}},
	{"tables", func(n int) string {
		w := &writer{}
		w.line("program p\nslot x u32")
		for i := range 1000 {
			w.line("data t%d u8 { %d, %d, %d }", i, i&255, i>>2, 7)
		}
		w.line("ldg.u32 v, x[index]\nrem.u32 v, v, 3\nmov.u8 s, 0")
		for i := range n / 2 {
			w.line("ldc.u8 w, t%d[v]\nadd.u8 s, s, w", i%1000)
		}
		w.line("cvt.u32.u8 v, s")
		return w.end()
	}},
	{"predicates", func(n int) string {
		w := start()
		for i := range n / 2 {
			w.line("set.lt.u32 p%d, v, %d\nsel.u32 v, p%d, v, %d", i%15, i, i%15, i)
		}
		return w.end()
	}},
	{"functions of math", func(n int) string {
		w := &writer{}
		w.line("program p\nslot x f32\nldg.f32 v, x[index]")
		for range n / 40 {
			w.line("abs.f32 v, v\nexp.f32 v, v")
		}
		w.line("stg.f32 v, x[index]\nexit")
		return w.String()
	}},
	{"register reductions", func(n int) string {
		w := start()
		for i := 1; i < 250; i++ {
			w.line("add.u32 r%d, v, %d", i, i)
		}
		for i := range n / 250 {
			w.line("reduce_add.u32 r%d, r1, 249", 1+i%249)
		}
		w.line("add.u32 v, r1, r2")
		return w.end()
	}},
	{"empty loops", func(n int) string {
		w := start()
		for i := range n {
			w.line("loop 1, e%d\ne%d:", i, i)
		}
		return w.end()
	}},
	{"a large table", func(n int) string {
		w := &writer{}
		w.line("program p\nslot x u32\ndata t u8 {")
		for range n / 16 {
			w.line("%s", strings.Repeat("7, ", 64))
		}
		w.line("}\nldg.u32 v, x[index]\nmov.u8 s, 0")
		for i := range n / 3 {
			w.line("ldc.u8 w, t[v]\nadd.u8 s, s, w\nadd.u32 v, v, %d", i)
		}
		w.line("cvt.u32.u8 v, s")
		return w.end()
	}},
	{"labels", func(n int) string {
		w := start()
		for i := range n {
			w.line("l%d: add.u32 v, v, 1", i)
		}
		return w.end()
	}},
	{"maze", func(n int) string {
		w := start()
		r := rand.New(rand.NewPCG(2, 2))
		m := n / 3
		for i := range m {
			w.line("l%d: add.u32 v, v, %d\nset.lt.u32 p0, v, %d\nbra l%d, p0", i, i, i, min(i+1+r.IntN(97), m))
		}
		w.line("l%d:", m)
		return w.end()
	}},
	{"maze of many registers", func(n int) string {
		w := start()
		w.spread(regs)
		r := rand.New(rand.NewPCG(2, 2))
		m := n / 3
		for i := range m {
			w.line("l%d: add.u32 a%d, a%d, %d\nset.lt.u32 p0, a%d, %d\nbra l%d, p0", i, r.IntN(regs), r.IntN(regs), i, r.IntN(regs), i, min(i+1+r.IntN(97), m))
		}
		w.line("l%d:", m)
		w.gather(regs)
		return w.end()
	}},
	{"diamonds", func(n int) string {
		w := start()
		for i := range n / 5 {
			w.line("set.lt.u32 p0, v, %d\nbra e%d, p0\nadd.u32 v, v, 1\nbra f%d\ne%d:\nmul.u32 v, v, 3\nf%d:", i, i, i, i, i)
		}
		return w.end()
	}},
	{"breaks out of deep blocks", func(n int) string {
		w := start()
		w.spread(60)
		d := n / 4
		for i := range d {
			w.line("set.lt.u32 p0, v, %d\nbra e%d, p0\nadd.u32 a%d, a%d, 1", i, i*7%d, i%60, (i+1)%60)
		}
		for i := range d {
			w.line("e%d:\nadd.u32 v, v, a%d", i, i%60)
		}
		return w.end()
	}},
	{"one branch over everything", func(n int) string {
		w := start()
		w.spread(regs)
		w.line("set.lt.u32 p0, v, 7\nbra e, p0")
		for i := range n {
			w.line("xor.u32 a%d, a%d, a%d", i*31%regs, i*17%regs, (i*5+1)%regs)
		}
		w.line("e:")
		w.gather(regs)
		return w.end()
	}},
	{"equal computations", func(n int) string {
		w := start()
		w.spread(regs)
		for i := range n / 2 {
			w.line("mul.u32 t, v, %d\nxor.u32 a%d, a%d, t", i%5, i%regs, i%regs)
		}
		w.gather(regs)
		return w.end()
	}},
	{"dead", func(n int) string {
		w := start()
		w.line("mov.u32 t, 0")
		for i := range n {
			w.line("add.u32 t, t, %d", i)
		}
		return w.end()
	}},
	{"dead loop parameters", func(n int) string {
		w := start()
		w.spread(regs)
		w.line("loop v, e")
		for i := range n {
			w.line("add.u32 a%d, a%d, a%d", i%regs, i%regs, (i+1)%regs)
		}
		w.line("e:")
		return w.end()
	}},
	{"constants to fold", func(n int) string {
		w := start()
		w.line("mov.u32 t, 1")
		for i := range n {
			w.line("mul.u32 t, t, %d", 3+2*(i%5))
		}
		w.line("add.u32 v, v, t")
		return w.end()
	}},
	{"branches to fold", func(n int) string {
		w := start()
		w.line("mov.u32 t, 1")
		for i := range n / 4 {
			w.line("set.lt.u32 p0, t, 5\nbra e%d, p0\nadd.u32 v, v, 1\ne%d:\nadd.u32 t, t, 1", i, i)
		}
		return w.end()
	}},
}
