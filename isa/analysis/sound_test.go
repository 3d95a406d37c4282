package analysis

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/isa/isatest/progen"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// tally says how much a sound analysis proved, so that one which proves
// nothing shows.
type tally struct {
	sites, proved, accesses, affine, values, uniform, runs int
}

// sound runs a launch lane by lane and holds everything that the analysis says
// against what happens: intervals and forms of values, proofs of sites, Affine
// offsets, Vary, rounds, cost.
func sound(t testing.TB, f *ir.Func, l *Launch, seed uint64, sum *tally) {
	a := New(f)
	var p Proof
	a.Prove(l, &p)
	s := newState(a.tape)
	s.in.of(f, l)
	s.run()
	cost := NewCost(f)
	insts, bounded := cost.Of(l.N, l.Params)

	access := map[*ir.Node]int{}
	for i := range a.Accesses {
		access[a.Accesses[i].Node] = i
		sum.accesses++
		if o := a.Accesses[i].Offset; p.Affine(i) && (len(o) != 1 || len(o[0].Symbols) != 1 || o[0].Symbols[0].Kind != SymValue) {
			sum.affine++
		}
	}
	for i, n := range f.Sites {
		if n.CanFault() {
			sum.sites++
			if p.Site(i) {
				sum.proved++
			}
		}
	}
	loops := map[*ir.Node]int{}
	for i := range a.Loops {
		loops[a.Loops[i].Node] = i
	}
	type place struct {
		value  int
		rounds uint64 // a hash of them
		block  [3]uint32
	}
	vary := map[place]uint64{}
	w := &walk{f: f, l: l, seed: seed}
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s\nlane %d, rounds %v, launch %+v\n%v", fmt.Sprintf(format, args...), w.lane, w.rounds, *l, f)
	}
	rounds := 0.0
	values := func(y *Symbol) uint64 {
		switch y.Kind {
		case SymSpecial:
			return w.special(y.Special)
		case SymParam:
			return extend(y.Value.Type, l.Params[y.Param])
		case SymRound:
			for k, n := range w.loops {
				if loops[n] == y.Loop {
					return w.rounds[k]
				}
			}
			fail("an offset has the round of a loop that is not around it")
		}
		return extend(y.Value.Type, w.cells[y.Value.ID])
	}
	w.onMem = func(n *ir.Node, off int64) {
		i := access[n]
		if n.Mem.Mode == isa.AddrIndex || !p.Affine(i) {
			return
		}
		got := uint64(0)
		for _, term := range a.Accesses[i].Offset {
			x := uint64(term.Coef)
			for _, y := range term.Symbols {
				x *= values(y)
			}
			got += x
		}
		if got != uint64(off) {
			fail("offset of %v is %d, by its form %v it is %d", n.Op, off, a.Accesses[i].Offset, int64(got))
		}
	}
	w.onFault = func(n *ir.Node) {
		if p.Site(n.Site) {
			fail("site %d is proved and faults", n.Site)
		}
	}
	w.onRound = func(n *ir.Node, round uint64) {
		rounds++
		k := loops[n]
		if r := a.Loops[k].Rounds; r >= 0 && round >= uint64(r) && !n.Free {
			fail("loop %d runs more than %d rounds", k, r)
		}
		if r := s.rounds[k]; r.hi < inf && round >= uint64(r.hi) && !n.Free {
			fail("loop %d runs more than %d rounds in this launch", k, r.hi)
		}
	}
	w.onValue = func(v *ir.Value, cell uint64) {
		if i := a.tape.index[v.ID]; i >= 0 {
			r := s.values[i].interval
			x, fits := signedCell(v.Type, cell) // what does not fit is beyond an open end
			if v.Type.Integer() && (fits && (r.lo > x || r.hi < x) || !fits && r.fits(v.Type)) {
				fail("%%%d is %#x, known to be in %v", v.ID, cell, r)
			}
		}
		if level := a.Vary(v); level < PerLane {
			key := place{value: v.ID}
			for _, r := range w.rounds {
				key.rounds = (key.rounds + r + 1) * 0x9e3779b97f4a7c15
			}
			if level == PerBlock {
				key.block = w.block
			}
			if isNaN(v.Type, cell) {
				cell = isa.CanonicalNaN(v.Type)
			}
			if was, ok := vary[key]; ok && was != cell {
				fail("%%%d varies: %#x and %#x, said to be the same per %v", v.ID, was, cell, level)
			}
			vary[key] = cell
		}
	}
	for _, v := range a.vary {
		sum.values++
		if v < PerLane {
			sum.uniform++
		}
	}
	lanes := min(l.N, 150)
	finished := true
	for i := range lanes {
		at := i * l.N / lanes
		finished = w.run(at) && finished
	}
	if all := rounds / float64(max(lanes, 1)) * float64(l.N); bounded && finished && lanes == l.N && all > insts {
		fail("%v rounds in all, the cost is %v", all, insts)
	}
	sum.runs++
}

func extend(t isa.Type, cell uint64) uint64 {
	v, _ := signedCell(t, cell)
	return uint64(v)
}

func isNaN(t isa.Type, cell uint64) bool {
	if !t.Float() {
		return false
	}
	inf := (uint64(1)<<t.ExponentBits() - 1) << t.MantissaBits()
	return cell&(t.Mask()>>1) > inf
}

// TestSoundOnRandomPrograms holds the analysis against programs from the
// instruction table.
func TestSoundOnRandomPrograms(t *testing.T) {
	n := 600
	if brief.On() {
		n = 100
	}
	var sum tally
	for seed := range uint64(n) {
		src := isatest.FromSeed(seed)
		c := progen.New(src, progen.Config{Size: 5 + int(seed%60), Lanes: seed%3 > 0, Math: seed%5 == 0, Atlas: seed%2 == 0, Faults: seed%4 == 0})
		f := canonicalOf(t, c.Program)
		if seed%7 == 0 {
			var err error
			f, err = ir.Expand(f)
			require.NoError(t, err)
		}
		l := &Launch{N: c.N, Params: c.Params, Grid: c.Grid, Block: c.Block}
		for i := range c.Slots {
			l.SlotBytes = append(l.SlotBytes, int64(len(c.Slots[i].Data)))
		}
		sound(t, f, l, seed, &sum)
	}
	t.Logf("%+v", sum)
	require.Greater(t, sum.proved, sum.sites/4)
	require.Greater(t, sum.uniform, sum.values/10)
}

// addresses makes programs that compute addresses in every way that integers
// allow: from lanes, parameters, rounds and memory, with guards and loops.
type addresses struct {
	s      isatest.Source
	b      strings.Builder
	vars   map[string][]string // by type
	names  int
	labels int
	depth  int
	slots  int
}

var addressTypes = []string{"u32", "u64", "i32", "i64", "u8", "i16"}

func newAddresses(s isatest.Source, size int) string {
	g := &addresses{s: s, vars: map[string][]string{}, slots: 3}
	g.b.WriteString("program addresses\nslot a u8\nslot b i32\nslot c u64\nparam p u32\nparam q u64\nparam r i32\nparam s i64\n")
	if s.Intn(3) == 0 {
		g.b.WriteString("shared 256\n")
	} else {
		g.b.WriteString("shared 64\n")
	}
	for _, l := range []string{"ldp.u32 v0, p", "ldp.u64 v1, q", "ldp.i32 v2, r", "ldp.i64 v3, s", "sreg v4, lane.x", "sreg v5, block.x",
		"sreg v6, global_lane", "sreg v7, n", "sreg v8, block_dim.x", "sreg v9, lane.y", "sreg v10, block.y"} {
		g.line("%s", l)
	}
	g.vars = map[string][]string{"u32": {"v0", "v4", "v5", "v8", "v9", "v10"}, "u64": {"v1", "v6", "v7"}, "i32": {"v2"}, "i64": {"v3"}}
	g.names = 11
	for range size {
		g.statement()
	}
	g.line("exit")
	return g.b.String()
}

func (g *addresses) line(format string, args ...any) {
	fmt.Fprintf(&g.b, "  "+format+"\n", args...)
}

func (g *addresses) pick(list ...string) string { return list[g.s.Intn(len(list))] }

func (g *addresses) operand(typ string) string {
	if vars := g.vars[typ]; len(vars) > 0 && g.s.Intn(4) > 0 {
		return g.pick(vars...)
	}
	if typ[0] == 'i' && g.s.Intn(4) == 0 {
		return g.pick("-1", "-2", "-8", "-100")
	}
	return g.pick("0", "1", "2", "3", "4", "7", "8", "16", "60", "100")
}

// define writes an instruction to a new variable, or now and then an old one.
func (g *addresses) define(typ, format string, args ...any) {
	name := fmt.Sprintf("v%d", g.names)
	if vars := g.vars[typ]; g.names > 180 || len(vars) > 3 && g.s.Intn(5) == 0 {
		if len(vars) == 0 {
			return
		}
		name = g.pick(vars...)
		g.line(format, append([]any{name}, args...)...)
		return
	}
	g.names++
	g.line(format, append([]any{name}, args...)...)
	g.vars[typ] = append(g.vars[typ], name)
}

func (g *addresses) compute() {
	typ := g.pick(append([]string{"u32", "u64", "u64", "i64"}, addressTypes...)...)
	switch g.s.Intn(10) {
	case 0, 1, 2:
		g.define(typ, g.pick("add", "sub", "add", "mul")+"."+typ+" %s, %s, %s", g.operand(typ), g.operand(typ))
	case 3:
		g.define(typ, g.pick("min", "max", "and", "or", "xor")+"."+typ+" %s, %s, %s", g.operand(typ), g.operand(typ))
	case 4:
		g.define(typ, g.pick("div", "rem", "shr", "shl")+"."+typ+" %s, %s, %s", g.operand(typ), g.pick("1", "2", "3", "4", "8", g.operand(typ)))
	case 5, 6:
		from := g.pick(addressTypes...)
		if len(g.vars[from]) > 0 {
			g.define(typ, "cvt."+typ+"."+from+" %s, %s", g.pick(g.vars[from]...))
		}
	case 7:
		g.define(typ, "mul."+typ+" %s, %s, %s", g.operand(typ), g.pick("2", "3", "4", "8"))
	case 8:
		g.define(typ, "rem."+typ+" %s, %s, %s", g.operand(typ), g.pick("4", "8", "16", g.operand(typ)))
	case 9:
		if typ[0] == 'i' && len(g.vars[typ]) > 0 {
			g.define(typ, g.pick("neg", "abs", "not")+"."+typ+" %s, %s", g.pick(g.vars[typ]...))
			return
		}
		g.define("i32", "ldg.i32 %s, b[index]")
	}
}

func (g *addresses) access() {
	typ := g.pick("u32", "u64", "i32", "i64", "u64")
	if len(g.vars[typ]) == 0 {
		return
	}
	at := g.pick(g.vars[typ]...)
	off := g.pick("", "", "+4", "+16", "-8")
	switch g.s.Intn(6) {
	case 0, 1:
		g.define("u8", "ldg.u8 %s, a["+at+off+"]")
	case 2:
		g.define("i32", "ldg.i32 %s, b["+at+off+"]")
	case 3:
		if len(g.vars["u64"]) > 0 {
			g.line("stg.u64 %s, c[%s%s]", g.pick(g.vars["u64"]...), at, off)
		}
	case 4:
		g.define("u32", "lds.u32 %s, shared["+at+off+"]")
	case 5:
		g.define("u64", "ldg.u64 %s, c["+at+off+"]")
	}
}

func (g *addresses) label() string {
	g.labels++
	return fmt.Sprintf("L%d", g.labels)
}

// scope runs f; variables made in it are gone afterwards.
func (g *addresses) scope(f func()) {
	was := map[string][]string{}
	for k, v := range g.vars {
		was[k] = v[:len(v):len(v)]
	}
	g.depth++
	f()
	g.depth--
	g.vars = was
}

func (g *addresses) body() {
	for range 1 + g.s.Intn(5) {
		g.statement()
	}
}

func (g *addresses) condition() string {
	typ := g.pick("u32", "u64", "i32", "i64")
	p := g.pick("p0", "p1")
	g.line("set.%s.%s %s, %s, %s", g.pick("lt", "le", "gt", "ge", "eq", "ne"), typ, p, g.register(typ), g.operand(typ))
	if g.s.Intn(4) == 0 {
		typ := g.pick("u32", "u64")
		g.line("set.%s.%s p2, %s, %s", g.pick("lt", "le", "gt", "ge"), typ, g.register(typ), g.operand(typ))
		g.line("%s.pred %s, %s, p2", g.pick("and", "or"), p, p)
	}
	return p
}

func (g *addresses) register(typ string) string {
	if vars := g.vars[typ]; len(vars) > 0 {
		return g.pick(vars...)
	}
	g.define(typ, "mov."+typ+" %s, 3")
	return g.vars[typ][0]
}

func (g *addresses) statement() {
	k := g.s.Intn(16)
	switch {
	case k < 8 || g.depth > 3:
		g.compute()
	case k < 12:
		g.access()
	case k == 12: // guard
		p := g.condition()
		skip := g.label()
		if g.s.Intn(4) == 0 {
			g.line("bra %s, %s", skip, p)
			g.scope(g.body)
			g.line("%s:", skip)
			return
		}
		other := g.label()
		g.line("bra %s, %s", other, p)
		g.scope(g.body)
		g.line("bra %s", skip)
		g.line("%s:", other)
		g.scope(g.body)
		g.line("%s:", skip)
	case k == 13: // counted, with a variable that grows
		end := g.label()
		count := g.pick("3", "0", "5", g.register("u32"))
		typ := g.pick("u32", "u64", "i64", "i32")
		at := g.register(typ)
		g.line("loop %s, %s", count, end)
		g.scope(func() {
			g.body()
			if g.s.Intn(4) == 0 {
				g.line("bra %s, %s", end, g.condition())
			}
			g.line("%s.%s %s, %s, %s", g.pick("add", "add", "sub", "mul", "shr", "div"), typ, at, at, g.pick("1", "4", "3", g.operand(typ)))
		})
		g.line("%s:", end)
		g.line("mov.u32 dead, 0")
	case k == 14: // while
		again, out := g.label(), g.label()
		typ := g.pick("u32", "u64", "i64", "i32")
		i := fmt.Sprintf("v%d", g.names)
		g.names++
		g.line("mov.%s %s, %s", typ, i, g.pick("0", "1", g.operand(typ)))
		bound := g.operand(typ)
		g.line("%s:", again)
		g.scope(func() {
			g.vars[typ] = append(g.vars[typ], i)
			early := g.s.Intn(2) == 0
			if early {
				g.line("set.%s.%s p3, %s, %s", g.pick("ge", "gt"), typ, i, bound)
				g.line("bra %s, p3", out)
			}
			g.body()
			g.line("add.%s %s, %s, %s", typ, i, i, g.pick("1", "2", "3"))
			if !early {
				g.line("set.%s.%s p3, %s, %s", g.pick("lt", "le"), typ, i, bound)
				g.line("bra %s, p3", again)
			} else {
				g.line("bra %s", again)
			}
		})
		g.line("%s:", out)
		g.line("mov.u32 dead, 0")
	case k == 15:
		if g.s.Intn(2) == 0 && g.depth == 0 {
			p := g.condition()
			skip := g.label()
			g.line("bra %s, %s", skip, p)
			g.line("exit")
			g.line("%s:", skip)
		}
	}
}

// randomLaunch makes a launch of the programs of addresses: small, so that
// proofs are near the edge.
func randomLaunch(s isatest.Source) *Launch {
	l := &Launch{Block: [3]uint32{1, 1, 1}, Grid: [3]uint32{uint32(1 + s.Intn(4)), 1, 1}}
	l.Block[0] = uint32([]int{1, 4, 8, 32}[s.Intn(4)])
	if s.Intn(3) == 0 {
		l.Block[1] = uint32(1 + s.Intn(3))
	}
	if s.Intn(4) == 0 {
		l.Grid[1] = 2
	}
	all := uint64(l.Grid[0]) * uint64(l.Grid[1]) * uint64(l.Block[0]) * uint64(l.Block[1])
	l.N = all - uint64(s.Intn(int(min(all, 5))))
	small := func() uint64 {
		if s.Intn(8) == 0 {
			return s.Uint64()
		}
		return uint64(s.Intn(20))
	}
	l.Params = []uint64{small() & math.MaxUint32, small(), small() & math.MaxUint32, small()}
	if s.Intn(4) == 0 {
		l.Params[3] = -l.Params[3]
	}
	for _, size := range []int64{1, 4, 8} {
		l.SlotBytes = append(l.SlotBytes, max(size*int64(l.N), int64(s.Intn(400))))
	}
	return l
}

func TestSoundOnAddresses(t *testing.T) {
	brief.Alone(t)
	n := 3000
	if brief.On() {
		n = 500
	}
	var sum tally
	refused := 0
	for seed := range uint64(n) {
		s := isatest.FromSeed(seed)
		text := newAddresses(s, 3+s.Intn(30))
		p, err := isa.Assemble("addresses", text)
		require.NoError(t, err, "%s", text)
		v, err := isa.Verify(p)
		if err != nil {
			refused++
			continue
		}
		var opts []ir.Option
		if seed%3 == 0 { // shapes that the passes would tidy up
			opts = append(opts, ir.Without(ir.Passes[seed/3%uint64(len(ir.Passes))].Name))
		}
		f, _, err := ir.Canonical(v, opts...)
		require.NoError(t, err)
		sound(t, f, randomLaunch(s), seed, &sum)
	}
	t.Logf("%d refused; %+v", refused, sum)
	require.Less(t, refused, n/10)
	require.Greater(t, sum.proved, sum.sites/4)
	require.Greater(t, sum.affine, sum.accesses/4)
}

// TestSoundOnCorners runs programs in which a rule that is nearly right goes
// wrong. All have the slots and parameters of addresses.
func TestSoundOnCorners(t *testing.T) {
	brief.Alone(t)
	header := "program p\nslot a u8\nslot b i32\nslot c u64\nparam p u32\nparam q u64\nparam r i32\nparam s i64\ndata t u32 { 1, 2, 3 }\ndata far i64 { 4611686018427387904, 4611686018427387912 }\n" +
		"sreg x, lane.x\nsreg y, lane.y\nsreg bx, block.x\nsreg by, block.y\nsreg dx, block_dim.x\nsreg g, global_lane\nldp.u32 p, p\nldp.u64 q, q\nldp.i64 s, s\n" +
		"mov.u32 z, 0\nmov.u32 one, 1\n"
	store := "ldg.u8 v, a[z]\nexit"
	for name, body := range map[string]string{
		// Lanes skip the second branch by the first, which is not around it.
		"a Br past a Block":           "set.lt.u32 p0, x, 2\nset.eq.u32 p1, bx, 0\nbra b, p0\nmov.u32 z, 5\nbra t, p1\nmov.u32 z, 6\nb:\nadd.u32 z, z, 1\nt:\n" + store,
		"a Br past a Block of a loop": "loop 3, e\nset.lt.u32 p0, x, 2\nset.eq.u32 p1, bx, 0\nbra b, p0\nbra t, p1\nb:\nadd.u32 z, z, 1\ne:\nmov.u32 z, 9\nt:\n" + store,
		"lanes in other rounds leave": "mov.u32 i, 0\na:\nadd.u32 i, i, 1\nset.gt.u32 p1, i, 9\nbra t, p1\nset.eq.u32 p0, i, x\nbra a, p0\n" +
			"and.u32 k, i, 3\nset.eq.u32 p2, k, 2\nbra u, p2\nbra a\nu:\nmov.u32 z, i\nt:\n" + store,
		"a counted loop ends before the way out": "mov.u32 k, 0\nloop x, e\nadd.u32 k, k, 1\nset.eq.u32 p0, k, 3\nmov.u32 z, 7\nbra t, p0\ne:\nmov.u32 z, 8\nt:\n" + store,
		"a step that is a parameter":             "mov.u64 i, 0\nmov.u64 k, 1\nloop 5, e\nldg.u8 v, a[i]\nadd.u64 i, i, k\nadd.u64 k, k, 1\ne:\n" + store,
		"another step that is a parameter":       "mov.u64 k, 0\nmov.u64 i, 1\nloop 5, e\nldg.u8 v, a[k]\nldg.u8 v, a[i]\nadd.u64 k, k, i\nadd.u64 i, i, 1\ne:\n" + store,
		"a way out that some go past":            "loop 5, e\nset.lt.u32 p0, x, 2\nbra e, p0\nmov.u32 z, 7\nbra t\ne:\nmov.u32 z, 8\nt:\n" + store,
		"lanes of a grid": "mul.u32 i, y, dx\nadd.u32 i, i, x\nsreg dy, block_dim.y\nmul.u32 j, dx, dy\nmul.u32 j, j, bx\nadd.u32 i, i, j\nldg.u8 v, a[i]\n" +
			"mul.u32 i, i, 4\nldg.i32 v, b[i]\nexit",
		"a step made in the loop":     "mov.u64 i, 0\nloop 5, e\nldg.u8 v, a[i]\ncvt.u64.u8 w, v\nadd.u64 i, i, w\ne:\n" + store,
		"counts down unsigned":        "mov.u32 i, 9\nloop 8, e\nldg.u8 v, a[i]\nsub.u32 i, i, 1\nmul.u32 j, i, 4\nldg.i32 w, b[j]\ne:\nloop 3, f\nsub.u32 i, i, 1\nldg.u8 v, a[i]\nf:\n" + store,
		"less almost all":             "mov.u32 i, 3\nloop 3, e\nldg.u8 v, a[i]\nsub.u32 i, i, 4294967295\ne:\n" + store,
		"a chosen slot":               "min.u32 h, x, 3\nldg.u8 v, @h[z]\nmin.u32 h, x, 2\nldg.u8 v, @h[z]\nldg.u8 v, @h[z+3]\nldg.u8 v, @q[z]\nexit",
		"a table":                     "min.u32 h, x, 3\nldc.u32 v, t[h]\nmin.u32 h, x, 2\nldc.u32 v, t[h]\nldg.u8 w, a[v]\nexit",
		"what a stray index gives":    "min.u32 h, x, 3\nldc.u32 v, t[h]\nldg.u8 w, a[v-1]\nsub.u32 d, v, 1\nldg.u8 w, a[d]\ndiv.u32 d, 7, v\nldg.u8 w, a[d]\nexit",
		"halved":                      "mov.u32 w, 16\nloop 9, e\nldg.u8 v, a[w]\nadd.u32 h, w, x\nldg.u8 v, a[h]\nshr.u32 w, w, 1\ne:\n" + store,
		"halved and more":             "mov.u32 w, 16\nloop 9, e\nldg.u8 v, a[w]\nshr.u32 w, w, 1\nset.eq.u32 p0, w, 2\nbra e, p0\nadd.u32 w, w, p\ne:\n" + store,
		"halved below zero":           "cvt.i64.u32 h, x\nsub.i64 w, h, 9\nloop 9, e\nldg.u8 v, a[w+9]\nshr.i64 w, w, 1\ne:\n" + store,
		"halved by one that is not":   "mov.u32 w, 16\nmov.u32 u, 8\nloop 9, e\nldg.u8 v, a[w]\nldg.u8 v, a[u]\nshr.u32 w, u, 1\nmul.u32 u, u, 3\nrem.u32 u, u, 31\ne:\n" + store,
		"one less":                    "sub.u64 h, g, 1\nldg.u8 v, a[h]\nadd.u64 h, h, 2\nldg.u8 v, a[h]\nset.eq.u64 p0, g, 0\nbra o, p0\nsub.u64 h, g, 1\nmul.u64 h, h, 4\nldg.i32 v, b[h]\no:\n" + store,
		"one less in a narrower type": "sub.u32 h, x, 1\nldg.u8 v, a[h]\nset.eq.u32 p0, x, 0\nbra o, p0\nmul.u32 h, h, 4\nldg.i32 v, b[h]\ncvt.u64.u32 k, h\nldg.i32 v, b[k+4]\no:\n" + store,
		"with something added":        "mul.u64 h, g, q\nldg.u8 v, a[h+4]\nadd.u64 h, h, 7\nldg.u8 v, a[h+1]\nexit",
		"what division leaves":        "div.u64 d, g, 4\nmul.u64 d, d, 4\nsub.u64 d, g, d\nldg.u8 v, a[d]\nadd.u64 d, d, 1\nldg.i32 w, b[d]\n" + store,
		"what is left from below":     "div.u64 d, g, 3\nmul.u64 d, d, 3\nsub.u64 d, d, g\nadd.u64 d, d, 2\nldg.u8 v, a[d]\nexit",
		"shifted below zero":          "cvt.i64.u64 h, g\nsub.i64 h, h, 5\nshr.i64 d, h, 1\nadd.i64 d, d, 3\nldg.u8 v, a[d]\nmul.i64 d, d, 2\nsub.i64 d, h, d\nldg.u8 v, a[d+7]\nexit",
		"the larger":                  "cvt.u64.u32 m, x\nmax.u64 m, m, q\nldg.u8 v, a[m]\nsub.u64 m, m, q\nldg.u8 v, a[m]\nexit",
		"the smaller":                 "cvt.u64.u32 m, x\nmin.u64 m, m, q\nldg.u8 v, a[m]\nsub.u64 m, q, m\nldg.u8 v, a[m]\nexit",
		"rows of blocks":              "mul.u32 i, by, 5\nldg.u8 v, a[i]\nmad.u32 i, bx, dx, x\nldg.u8 v, a[i]\nmul.u32 i, i, 4\nldg.i32 v, b[i]\n" + store,
		"wraps back":                  "mov.u32 i, 0xfffffff0\nloop 9, e\nadd.u32 i, i, 4\nldg.u8 v, a[i]\nadd.u32 w, i, 32\nldg.u8 v, a[w]\ne:\n" + store,
		"wraps by a guard's value":    "sub.u32 w, x, 1\nset.lt.u32 p0, w, p\nbra o, p0\nldg.u8 v, a[w]\no:\n" + store,
		"counts down past zero":       "mov.u32 i, p\na:\nldg.u8 v, a[i]\nsub.u32 i, i, 3\nset.gt.u32 p0, i, 2\nbra a, p0\n" + store,
		"too large on the way": "rem.u32 k, x, 2\nldc.i64 k, far[k]\nmax.i64 k, k, 4611686018427387904\nrem.u32 m, y, 2\nldc.i64 m, far[m]\nmax.i64 m, m, 4611686018427387904\n" +
			"rem.u32 d, bx, 2\nldc.i64 d, far[d]\nmax.i64 d, d, 4611686018427387904\nsub.i64 k, k, m\nsub.i64 k, k, d\nldg.u8 v, a[k+4611686018427387904]\nexit",
		"rounds over all numbers":       "mov.i64 i, -9223372036854775806\na:\nset.ge.i64 p0, i, 4611686018427387904\nbra t, p0\nshr.i64 j, i, 61\nldg.u8 v, a[j+4]\nadd.i64 i, i, 2305843009213693952\nbra a\nt:\n" + store,
		"rounds over all numbers, down": "mov.i64 i, 9223372036854775805\na:\nset.le.i64 p0, i, -4611686018427387904\nbra t, p0\nshr.i64 j, i, 61\nsub.i64 j, 3, j\nldg.u8 v, a[j]\nsub.i64 i, i, 2305843009213693952\nbra a\nt:\n" + store,
		"huge parameters":               "mul.u64 o, q, 8\nldg.u64 v, c[o]\nadd.i64 o, s, 9223372036854775807\nldg.u64 v, c[o]\nmul.i64 o, s, s\nldg.u64 v, c[o+8]\nexit",
	} {
		t.Run(name, func(t *testing.T) {
			var sum tally
			for seed := range uint64(60) {
				s := isatest.FromSeed(seed)
				var opts []ir.Option
				if seed%2 == 0 {
					opts = append(opts, ir.Without(ir.Passes[s.Intn(len(ir.Passes))].Name))
				}
				l := randomLaunch(s)
				for k := range l.SlotBytes { // so that what is proved wrongly strays
					l.SlotBytes[k] = int64(1 + s.Intn(40))
				}
				sound(t, canonical(t, header+body, opts...), l, seed, &sum)
			}
		})
	}
}

// TestSoundOnWhatIsWritten writes a slot in each way that there is and reads the same
// place in each: what a lane finds there is not what another does.
func TestSoundOnWhatIsWritten(t *testing.T) {
	const head = "program p\nslot a u32\nslot b u32\nparam p u32\nsreg x, lane.x\nldp.u32 p, p\nmov.u32 h, 1\nmov.u32 z, 4\n"
	stores := map[string]string{
		"index":             "stg.u32 x, b[index]",
		"bytes":             "stg.u32 x, b[4]",
		"bytes, register":   "stg.u32 x, b[z]",
		"elements":          "stg.u32 x, b[flat 1]",
		"handle":            "stg.u32 x, @h[4]",
		"handle, parameter": "stg.u32 x, @p[z]",
		"atomic":            "atom_add.u32 v, b[4], x",
		"atomic, handle":    "atom_add.u32 v, @h[4], x",
		"nested":            "set.lt.u32 q, x, 9\nbra o, q\nexit\no:\nloop 2, e\nstg.u32 x, @h[4]\ne:",
	}
	loads := map[string]string{
		"index":             "ldg.u32 w, b[index]",
		"bytes":             "ldg.u32 w, b[4]",
		"bytes, register":   "ldg.u32 w, b[z]",
		"elements":          "ldg.u32 w, b[flat 1]",
		"handle":            "ldg.u32 w, @h[4]",
		"handle, parameter": "ldg.u32 w, @p[z]",
	}
	for stored, store := range stores {
		for loaded, load := range loads {
			t.Run(stored+"; "+loaded, func(t *testing.T) {
				for _, order := range []string{store + "\n" + load, "loop 2, again\n" + load + "\nadd.u32 y, w, 1\n" + store + "\nagain:\nmov.u32 w, 1"} {
					f := canonical(t, head+order+"\nstg.u32 w, a[index]\nexit")
					l := &Launch{N: 8, Params: make([]uint64, 1+len(f.Given)), Grid: [3]uint32{2, 1, 1}, Block: [3]uint32{4, 1, 1}, SlotBytes: []int64{32, 32}}
					l.Params[0] = 1
					for i := 1; i < len(l.Params); i++ { // strides of a packed view, and how many elements it has
						l.Params[i] = 8
					}
					var sum tally
					for seed := range uint64(3) {
						sound(t, f, l, seed, &sum)
					}
				}
			})
		}
	}
}

func TestFloor(t *testing.T) {
	for _, c := range [][3]int64{{7, 2, 3}, {-7, 2, -4}, {-8, 2, -4}, {0, 3, 0}, {-1, 3, -1}} {
		require.Equal(t, c[2], floor(c[0], c[1]), "%v", c)
	}
}

func TestSoundRapid(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := isatest.FromRapid(rt)
		p, err := isa.Assemble("addresses", newAddresses(s, 1+s.Intn(12)))
		require.NoError(rt, err)
		v, err := isa.Verify(p)
		if err != nil {
			return
		}
		f, _, err := ir.Canonical(v)
		require.NoError(rt, err)
		var sum tally
		sound(tb{t, rt}, f, randomLaunch(s), s.Uint64(), &sum)
	})
}

// tb lets helpers that take a testing.TB fail a rapid check, so that it shrinks.
type tb struct {
	testing.TB
	rt *rapid.T
}

func (b tb) Helper()                      { b.rt.Helper() }
func (b tb) Fatalf(s string, args ...any) { b.rt.Fatalf(s, args...) }
