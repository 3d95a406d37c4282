package cpu_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// pick returns one of some things.
func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// once reports true in one case of n.
func (w *writer) once(n int) bool { return w.r.IntN(n) == 0 }

// edge is a constant of a type beside one at which numbers of some width or sign end.
func (w *writer) edge(t string) string {
	v := uint64(1)<<pick(w.r, 31, 32, 60, 61, 62, 63, 64) - uint64(pick(w.r, 0, 1, 16, 1023, 1024, w.r.IntN(700))) + uint64(w.r.IntN(3))
	switch t {
	case "u32":
		return fmt.Sprint(uint32(v))
	case "i32":
		return fmt.Sprint(int32(uint32(v)))
	case "i64":
		return fmt.Sprint(int64(v))
	}
	return fmt.Sprint(v)
}

// placed sets at, and the same with a sign, to a byte of each lane, of most beside the last lane's.
func (w *writer) placed() {
	w.line("sreg lane, lane.x")
	w.line("sreg block, block.x")
	w.line("sreg gl, global_lane")
	w.line("cvt.u64.u32 lane64, lane")
	w.line("cvt.u64.u32 block64, block")
	switch w.r.IntN(5) {
	case 0:
		w.line("mul.u64 at, block64, %d", 4*w.r.IntN(400))
		w.line("mad.u64 at, lane64, %d, at", pick(w.r, 4, 4, 4, 8, 12))
	case 1:
		w.line("mul.u64 at, block64, %d", 4*w.r.IntN(60))
		w.line("mad.u64 at, gl, 4, at")
	case 2: // a row's
		w.line("ldg.u32 t, in[%d]", 4*w.r.IntN(8))
		w.line("and.u32 t, t, 255")
		w.line("cvt.u64.u32 t64, t")
		w.line("add.u64 t64, t64, lane64")
		w.line("mul.u64 at, t64, 4")
	default:
		w.line("mul.u64 at, gl, 4")
	}
	if w.once(2) {
		w.line("sub.u64 at, at, %d", 4*w.r.IntN(60))
	}
	w.line("cvt.i64.u64 signed, at")
}

// loaded has a register take what lies at such a byte, or beside it.
func (w *writer) loaded() string {
	v := w.reg()
	w.line("ldg.u32 z, in[%s + %d]", pick(w.r, "at", "signed"), 4*pick(w.r, 0, 0, w.r.IntN(100), w.r.IntN(100)-50))
	w.line("%s.u32 %s, %s, z", pick(w.r, "add", "xor", "sub"), v, v)
	return v
}

// limited writes a branch that lanes take by a number that counts them and a limit of any size, so that
// the first of them do, the last, all or none, and what these load and store.
func (w *writer) limited(depth int) {
	t := pick(w.r, "u32", "u32", "u64", "u64", "i32", "i64")
	limit, count := "limit"+t, "count"+t
	w.placed()
	switch w.r.IntN(5) {
	case 0:
		w.line("mov.u32 t, %d", w.r.IntN(300))
	case 1, 2:
		w.line("mul.u32 t, block, %d", w.r.IntN(300))
		w.line("add.u32 t, t, %d", w.r.IntN(300))
		w.line("and.u32 t, t, %d", pick(w.r, 15, 63, 255, 511))
	case 3:
		w.line("sub.u32 t, %d, block", w.r.IntN(4))
	case 4:
		w.line("ldg.u32 t, in[%d]", 4*w.r.IntN(8))
		w.line("and.u32 t, t, %d", pick(w.r, 31, 127, 511))
	}
	if t == "u32" {
		w.line("mov.u32 %s, t", limit)
		w.line("mov.u32 %s, lane", count)
	} else {
		w.line("cvt.%s.u32 %s, t", t, limit)
		w.line("cvt.%s.u32 %s, lane", t, count)
	}
	if t == "u64" && w.once(4) {
		w.line("mov.u64 %s, gl", count)
	}
	edge, which := w.edge(t), w.r.IntN(6)
	if which < 3 {
		w.line("add.%s %s, %[2]s, %s", t, limit, edge)
	}
	if which == 2 || which == 3 {
		w.line("add.%s %s, %[2]s, %s", t, count, edge)
	}
	if w.once(4) {
		w.line("add.%s %s, %[2]s, %d", t, count, w.r.IntN(40))
	}
	w.line("mul.u64 mine, gl, 4")
	w.line("set.ne.u32 found, %s, 0", w.reg())

	cond, x, y, not, end, others := "ge", count, limit, "", w.label(), ""
	if w.once(3) {
		cond, not = pick(w.r, "lt", "le", "gt", "ge", "eq", "ne"), pick(w.r, "", "!")
	}
	if w.once(4) {
		cond, x, y = map[string]string{"ge": "le", "gt": "lt", "le": "ge", "lt": "gt", "eq": "eq", "ne": "ne"}[cond], y, x
	}
	away := end
	if w.once(6) {
		others = w.label()
		away = others
	}
	w.line("set.%s.%s under, %s, %s", cond, t, x, y)
	w.line("bra %s, %sunder", away, not)
	for range 1 + w.r.IntN(3) {
		w.underLimit(depth, end)
	}
	if others != "" {
		w.line("bra %s", end)
		w.line("%s:", others)
		w.line("add.u32 %s, %s, 77", w.reg(), w.reg())
	}
	w.line("%s:", end)
	w.line("sel.u32 t, %s, 5, 0", pick(w.r, "found", "found", "found", "under"))
	w.line("add.u32 %s, %s, t", w.reg(), w.reg())
}

// underLimit writes what lanes do that a limit lets in.
func (w *writer) underLimit(depth int, end string) {
	if w.once(5) {
		w.placed()
	}
	v := w.loaded()
	switch w.r.IntN(24) {
	case 0:
		w.line("and.u32 z, z, 1")
		w.line("div.u32 %s, %s, z", v, w.reg())
	case 1:
		w.line("stg.u32 %s, out[index]", v)
	case 2, 3:
		w.line(pick(w.r, "stg.u32 %s, own[mine + %d]", "atom_add.u32 %s, own[mine + %d], 7"), v, 4*w.own)
	case 4:
		w.line("ldg.u32 %s, a[index]", v)
	case 5:
		if depth > 0 {
			w.limited(depth - 1)
		}
	case 6:
		w.condition()
		w.line("bra %s, p", pick(w.r, append(w.inside, end)...))
	case 7, 8:
		w.line("%s.u32 %s, %s, %s", pick(w.r, "mul", "min", "max"), v, w.reg(), w.reg())
	case 9, 10:
		w.line("set.gt.u32 found, z, %s", w.reg())
	}
}

// within writes a limit, or what is loaded without one, in loops and branches that all lanes of a block go through.
func (w *writer) within(depth int) {
	kind := 0
	if depth > 0 {
		kind = w.r.IntN(8)
	}
	end := w.label()
	switch kind {
	case 6:
		w.line("loop %d, %s", w.r.IntN(4), end)
	case 7:
		w.line("sreg block, block.x")
		w.line("and.u32 t, block, %d", pick(w.r, 1, 1, 2))
		w.line("set.%s.u32 p, t, 0", pick(w.r, "eq", "ne"))
		w.line("bra %s, p", end)
	case 5:
		w.placed()
		w.loaded()
		return
	default:
		w.limited(1)
		return
	}
	for range 1 + w.r.IntN(2) {
		w.within(depth - 1)
	}
	w.line("%s:", end)
}

// limitsProgram writes a program of few statements, as those of the library are, whose lanes mostly go by limits.
func limitsProgram(r *rand.Rand) string {
	w := &writer{r: r, budget: 12}
	w.begin()
	for range 1 + r.IntN(3) {
		if w.once(4) {
			w.statement(0)
		}
		w.within(2)
		switch v := w.reg(); r.IntN(6) {
		case 0, 1:
			w.line("block_reduce_%s.u32 %s, %s", pick(r, "add", "max", "min"), v, v)
		case 2:
			w.line("bar_sync 0")
		}
	}
	w.end()
	return w.String()
}

// randomLimits compares such programs with the interpreter, each in blocks of several sizes.
func randomLimits(t *testing.T, open func() backends.Backend) {
	const one = 25 // of as many other programs
	count, first := conformance.Seeds(brief.Or(one*200, one*20))
	tested, oracle := open(), interp.New()
	for i := first; i < first+uint64((count+one-1)/one); i++ {
		r := rand.New(rand.NewPCG(i, 13))
		text := limitsProgram(r)
		p, err := isa.Assemble("limits.atlas", text)
		require.NoError(t, err, text)
		v, err := isa.Verify(p)
		require.NoError(t, err, text)
		want, got := newReady(t, oracle, v), newReady(t, tested, v)
		for range 3 {
			block := pick(r, 32, 64, 100, 256, 1+r.Int64N(300))
			n := 1 + r.Int64N(600)
			if r.IntN(2) == 0 {
				n = block * (1 + r.Int64N(3))
			}
			contents := randomContents(r, v, n)
			for k := range pick(r, 0, 300, 2500) {
				contents[0] = append(contents[0], byte(r.Uint32()), byte(k), 1, 0)
			}
			sh := linear(n, block)
			a, b := want.run(t, new(host).block, sh, contents, nil, nil), got.run(t, new(host).block, sh, contents, nil, nil)
			require.NoError(t, same(v, b, a), "program %d, %d lanes in blocks of %d:\n%s", i, n, block, text)
		}
		want.k.Release()
		got.k.Release()
	}
}
