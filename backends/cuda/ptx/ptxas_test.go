package ptx

import (
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/conformance"
	"github.com/hologram-project/hologram/backends/cuda/ptxas"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/isa/isatest/progen"
	"github.com/hologram-project/hologram/kernels"
)

var (
	architectures = []string{"sm_75", "sm_80", "sm_89", "sm_90a", "sm_100"}
	everywhere    = flag.Bool("everywhere", false, "assemble every program for every architecture, not each for one")
)

// program is one to be assembled, with the variants that it has.
type program struct {
	name string
	p    *Program
}

func compiled(t testing.TB, name string, v *isa.Verified, opts ...ir.Option) program {
	t.Helper()
	f, _, err := ir.Canonical(v, opts...)
	require.NoError(t, err, name)
	p, err := Compile(f)
	require.NoError(t, err, name)
	return program{name, p}
}

// library is every program of the library's operations.
func library(t testing.TB) []program {
	var all []program
	seen := map[*isa.Verified]bool{}
	add := func(name string, v *isa.Verified) {
		if !seen[v] {
			seen[v] = true
			all = append(all, compiled(t, name, v))
		}
	}
	for _, op := range kernels.All {
		for _, typ := range op.Types.List() {
			if op.Elementwise {
				v, err := op.Program(typ)
				require.NoError(t, err)
				add(op.Name+"."+typ.String(), v)
				continue
			}
			for _, n := range []int64{1, 100, 10_000, 1_000_000} {
				dims := make([]int64, len(op.Dims))
				for i := range dims {
					dims[i] = min(n, 2000)
				}
				dims[len(dims)-1] = n
				plan, err := op.Plan(typ, dims)
				if err != nil {
					continue // the operation does not take such sizes
				}
				for _, s := range plan.Steps {
					add(op.Name+"."+typ.String(), s.Program)
				}
			}
		}
	}
	for _, typ := range [][2]isa.Type{{isa.I8, isa.I32}, {isa.U16, isa.I64}} { // of integers in wider ones
		for _, n := range []int64{100, 2000} {
			plan, err := kernels.Gemm.PlanShapes([]kernels.Layout{kernels.Packed(typ[0], n, n), kernels.Packed(typ[0], n, n), kernels.Packed(typ[1], n, n)}, -1)
			require.NoError(t, err)
			for _, s := range plan.Steps {
				add(fmt.Sprintf("gemm.%v.%v", typ[1], typ[0]), s.Program)
			}
		}
	}
	return all
}

// entry is a variant of a program.
type entry struct {
	name string
	opt  Options
}

func (e entry) String() string { return fmt.Sprintf("%s (%+v)", e.name, e.opt) }

// modules writes programs into modules of some hundred entries, in the
// variants that opts gives.
func modules(t testing.TB, all []program, opts func(*Program) []Options) (texts []string, names map[string]entry) {
	const perModule = 40
	names = map[string]entry{}
	var b strings.Builder
	k, modern, hopper := 0, false, false
	flush := func() {
		if b.Len() > 0 {
			texts = append(texts, Header(true, modern, hopper)+b.String())
			b.Reset()
		}
	}
	variants := make([][]Options, len(all))
	for i, x := range all {
		variants[i] = opts(x.p)
	}
	for _, target := range [][2]bool{{false, false}, {true, false}, {true, true}} {
		modern, hopper = target[0], target[1]
		for i, x := range all {
			for _, o := range variants[i] {
				if o.Modern != modern || (o.Meeting > 0 || o.Waits) != hopper {
					continue
				}
				o.Entry = fmt.Sprintf("k%d", k)
				names[o.Entry] = entry{x.name, o}
				text, err := x.p.Text(o)
				require.NoError(t, err)
				b.WriteString(Body(text))
				if k++; k%perModule == 0 {
					flush()
				}
			}
		}
		flush()
	}
	return texts, names
}

// targets are the architectures for which a module can be assembled.
func targets(text string) []string {
	if strings.Contains(text, "\n.target "+modernTarget+"\n") {
		return architectures[1:]
	}
	if strings.Contains(text, "\n.target "+hopperTarget+"\n") {
		return architectures[3:]
	}
	return architectures
}

// each assembles modules, two at a time; each module for one of the
// architectures in turn unless all is set.
func each(t *testing.T, texts []string, all bool, report func(arch string, u map[string]ptxas.Usage)) {
	tool := ptxas.Tool(t)
	var mu sync.Mutex
	var wait sync.WaitGroup
	free := make(chan bool, 2)
	for i, text := range texts {
		for j, arch := range targets(text) {
			if !all && i%len(targets(text)) != j {
				continue
			}
			wait.Add(1)
			free <- true
			go func() {
				defer func() { <-free; wait.Done() }()
				u, err := ptxas.Assemble(t, tool, arch, text)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
					return
				}
				if report != nil {
					report(arch, u)
				}
			}()
		}
	}
	wait.Wait()
}

// Every program of the library is assembled: as it is for every architecture, in its
// other variants for each in turn. None spills, but of those whose registers are bounded
// the two registers that vector.go says are worth it.
func TestLibraryAssembles(t *testing.T) {
	ptxas.Tool(t)
	all := library(t)
	variants := func(p *Program) []Options {
		o := []Options{{Lanes: 256}}
		if p.Indexed {
			o = append(o, Options{Rank: 3, Lanes: 256})
		}
		if s := p.fn.Block; p.Collective && s[0] > 0 {
			o = append(o, Options{Block: int(s[0]), Proved: true, Modern: true})
		} else if p.Collective {
			o = append(o, Options{Block: 19}, Options{Block: 96, Proved: true, Modern: true})
		}
		if p.Vector > 0 {
			o = append(o, Options{Vector: p.Vector, Groups: p.Groups, Lanes: VectorLanes, Modern: true})
		} else {
			o = append(o, Options{Proved: true, Lanes: 256, Modern: true})
		}
		if p.Batches {
			batch := o[len(o)-1]
			batch.Proved, batch.Batch = true, WideBatch
			o = append(o, batch)
		}
		return o
	}
	most, entries := map[string]ptxas.Usage{}, 0
	for _, others := range []bool{false, true} {
		texts, names := modules(t, all, func(p *Program) []Options {
			if o := variants(p); others {
				return o[1:]
			} else {
				return o[:1]
			}
		})
		each(t, texts, !others || *everywhere, func(arch string, u map[string]ptxas.Usage) {
			for entry, x := range u {
				entries++
				allowed := 0
				if o := names[entry].opt; o.bounded() {
					allowed = 2 * 8 // two registers, stored and loaded
				}
				if x.Spills > allowed {
					t.Errorf("%s: %s spills %d bytes", arch, names[entry], x.Spills)
				}
				if x.Registers > most[arch].Registers {
					most[arch] = x
				}
			}
		})
	}
	t.Logf("%d programs, %d entries assembled; most registers: %v", len(all), entries, most)
}

// Every program of the conformance corpus is assembled: as it is with fuel, or
// without some passes (so that operations on constants stay) in another variant.
func TestCorpusAssembles(t *testing.T) {
	ptxas.Tool(t)
	cases, err := conformance.Corpus()
	require.NoError(t, err)
	var all []program
	seen := map[string]bool{}
	for _, c := range cases {
		var opts []ir.Option
		if len(all)%2 == 1 {
			opts = append(opts, ir.Without("fold", "simplify"))
		}
		if key := string(isa.Encode(c.Program.Program)); !seen[key] {
			seen[key] = true
			all = append(all, compiled(t, c.Name, c.Program, opts...))
		}
	}
	k := 0
	texts, _ := modules(t, all, func(p *Program) []Options {
		o := []Options{{Rank: 4, Fuel: true}, {Rank: 8, Wide: true}}
		if !*everywhere {
			k++
			o = o[k%2:][:1]
		}
		if p.Vector > 0 {
			o = append(o, Options{Rank: k % 4, Wide: k%8 == 7, Vector: p.Vector, Groups: p.Groups, Lanes: VectorLanes, Single: uint64(k) &^ p.writes, Odd: k%4 == 2 && k%8 != 2, Proved: k%2 == 0, Modern: k%3 == 0})
		}
		if p.Collective && p.fn.Block[0] == 0 {
			o = append(o, Options{Block: []int{1, 7, 32, 64, 1024}[k%5], Proved: k%2 == 0, Modern: k%3 == 0})
		}
		if p.Batches {
			o = append(o, Options{Rank: k % 4, Lanes: 256, Batch: NarrowBatch, Proved: true, Modern: k%3 == 0})
		}
		return o
	})
	each(t, texts, *everywhere, nil)
	t.Logf("%d programs", len(all))
}

// random makes a program as conformance does, half of them without some passes.
func random(t testing.TB, seed uint64) program {
	s := isatest.FromSeed(seed)
	c := progen.New(s, progen.Config{
		Size: 5 + s.Intn(40), Lanes: s.Intn(4) > 0, Math: s.Intn(8) == 0, Atlas: s.Intn(2) == 0, Faults: s.Intn(2) == 0,
		Space: seed%3 == 0,
	})
	var off []string
	for _, p := range ir.Passes {
		if seed%2 == 1 && s.Intn(2) == 0 {
			off = append(off, p.Name)
		}
	}
	v, err := isa.Verify(c.Program)
	require.NoError(t, err)
	return compiled(t, fmt.Sprint("seed ", seed), v, ir.Without(off...))
}

// Every random program has its text.
func TestRandomCompile(t *testing.T) {
	brief.Alone(t)
	for seed := range uint64(brief.Or(3000, 300)) {
		random(t, seed)
	}
}

// Random programs are assembled.
func TestRandomAssemble(t *testing.T) {
	ptxas.Tool(t)
	var all []program
	for seed := range uint64(200) {
		all = append(all, random(t, seed))
	}
	texts, _ := modules(t, all, func(p *Program) []Options {
		o := []Options{{Rank: 2, Fuel: true}}
		if p.Vector > 0 {
			o = append(o, Options{Vector: p.Vector, Groups: p.Groups, Lanes: VectorLanes})
		}
		return o
	})
	each(t, texts, *everywhere, nil)
}
