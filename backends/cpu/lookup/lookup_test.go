package lookup_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/lookup"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/kernels"
)

// planned is the launch that the library plans of n places of a table's rows, which lie pitch
// elements apart, as the places and the output's rows lie spread apart; and its program.
func planned(t *testing.T, ty isa.Type, table, index, out []uint64, rows, cols, pitch, n, spread int64) (*isa.Verified, *backends.Launch) {
	t.Helper()
	l := []kernels.Layout{
		{Type: ty, Shape: []int64{rows, cols}, Stride: []int64{pitch, 1}},
		{Type: isa.I64, Shape: []int64{n}, Stride: []int64{spread}},
		{Type: ty, Shape: []int64{n, cols}, Stride: []int64{cols * spread, 1}},
	}
	plan, err := kernels.Embedding.PlanShapes(l, -1)
	require.NoError(t, err)
	require.Len(t, plan.Steps, 1)
	step := plan.Steps[0]
	lo := &backends.Launch{Block: [3]uint32{256, 1, 1}, N: uint64(n * cols), Record: new(backends.Record)}
	lo.Grid = [3]uint32{uint32((lo.N + 255) / 256), 1, 1}
	lo.Rank, lo.Shape[0], lo.Shape[1] = 2, n, cols
	index1, out1 := []int64{spread, 0}, []int64{cols * spread, 1}
	switch { // dimensions of one element are left out
	case cols == 1:
		lo.Rank, lo.Shape[1] = 1, 0
	case n == 1:
		lo.Rank, lo.Shape[0], lo.Shape[1] = 1, cols, 0
		index1, out1 = []int64{0}, []int64{1}
	}
	for i, x := range [][]uint64{table, index, out} {
		v := backends.View{Addr: uintptr(unsafe.Pointer(&x[0])), Type: step.Slots[i].Type, Rank: lo.Rank, Shape: lo.Shape}
		switch i {
		case 0:
			v.Rank, v.Shape, v.Bytes = 1, [isa.MaxRank]int64{}, ((rows-1)*pitch+cols)*int64(ty.Size())
			v.Shape[0], v.Stride[0] = v.Bytes/int64(ty.Size()), 1
		case 1:
			copy(v.Stride[:lo.Rank], index1)
		case 2:
			copy(v.Stride[:lo.Rank], out1)
		}
		lo.Slots = append(lo.Slots, v)
	}
	for _, p := range step.Params {
		lo.Params = append(lo.Params, p.Value)
	}
	return step.Program, lo
}

// embedding runs it on a backend.
func embedding(t *testing.T, b backends.Backend, program *isa.Verified, lo *backends.Launch) error {
	t.Helper()
	d, err := b.Open(0)
	require.NoError(t, err)
	s, err := d.NewStream()
	require.NoError(t, err)
	f, _, err := ir.Canonical(program)
	require.NoError(t, err)
	k, err := d.Compile(&backends.Unit{Source: program, IR: f}, backends.Variant{})
	require.NoError(t, err)
	defer k.Release()
	ticket, err := s.Launch(k, lo)
	if err == nil {
		err = s.Wait(ticket, time.Minute)
	}
	if err == nil {
		err = lo.Record.Outcome()
	}
	return err
}

// never is the other engine of launches that the kernel does not decline.
type never struct{ t *testing.T }

func (n never) Run(*backends.Launch, *workers.Pool) error {
	n.t.Error("the launch was declined")
	return nil
}
func (never) Estimate(uint64, float64) float64 { return 0 }
func (never) Release()                         {}

// What the library plans is not declined, and other programs are.
func TestThePlansLaunchesAreTaken(t *testing.T) {
	table, index, out := []uint64{1, 2, 3, 4, 5, 6}, []uint64{2, 0}, make([]uint64, 4)
	other := func() (lookup.Program, error) { return never{t}, nil }
	for _, n := range []int64{1, 2} {
		for _, cols := range []int64{1, 2} {
			program, lo := planned(t, isa.F64, table, index, out, 3, cols, 2, n, 1)
			k, err := lookup.Compile(program, other)
			require.NoError(t, err)
			require.NoError(t, k.Run(lo, workers.New(1)))
			require.Equal(t, []uint64{5, 6}[:cols], out[:cols])
		}
	}
	fill, err := kernels.Fill.Program(isa.F32)
	require.NoError(t, err)
	_, err = lookup.Compile(fill, other)
	require.ErrorAs(t, err, new(*backends.Unsupported))
}

// enters is one all of whose launches can be entered.
type enters struct{ never }

func (enters) Direct(*backends.Launch, float64) []backends.Direct { return make([]backends.Direct, 1) }

// Others enter few rows of one element; many are sooner done by the package.
func TestManyRowsOfOneElementAreNotEntered(t *testing.T) {
	for _, n := range []int64{1 << 10, 1<<10 + 1} {
		program, lo := planned(t, isa.F32, make([]uint64, 1), make([]uint64, n), make([]uint64, n), 1, 1, 1, n, 1)
		k, err := lookup.Compile(program, func() (lookup.Program, error) { return enters{never{t}}, nil })
		require.NoError(t, err)
		require.Equal(t, n > 1<<10, k.Direct(lo, 5e6) == nil, n)
	}
}

// A launch is cancelled within a few of its rows if these are long: before its end, where a number
// names no row.
func TestLongRowsAreCancelled(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // by whom, unless they are, could not run
	const n, cols = 1 << 14, 1 << 19
	table, index, out := make([]uint64, cols), make([]uint64, n), make([]uint64, cols)
	index[n-1] = 1
	program, lo := planned(t, isa.F64, table, index, out, 1, cols, cols, n, 1)
	lo.Slots[2].Stride[0] = 0 // all rows are one, or there would be 64 GB
	k, err := lookup.Compile(program, func() (lookup.Program, error) { return never{t}, nil })
	require.NoError(t, err)
	time.AfterFunc(10*time.Millisecond, lo.Record.Stop)
	require.ErrorIs(t, k.Run(lo, workers.New(1)), backends.ErrCancelled)
}

// Rows of each number of bytes come bit for bit, and nothing else is written; a number that
// names no row is the fault that it is to the interpreter, and gives zeros.
func TestRowsComeAsTheyAre(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	portable, err := cpu.NewFor(2, jit.None)
	require.NoError(t, err)
	backs := map[string]backends.Backend{"machine": cpu.New(2), "portable": portable}
	for _, ty := range []isa.Type{isa.F16, isa.F32, isa.F64} {
		size := int64(ty.Size())
		for cols := int64(1); cols*size <= 136; cols++ {
			for _, shape := range [][4]int64{{11, 30, cols, 1}, {11, 30, cols + 3, 2}, {1, 1, cols, 1}, {5, 1, cols + 1, 1}, {2, 700, cols, 1}} {
				rows, n, pitch, spread := shape[0], shape[1], shape[2], shape[3]
				table := make([]uint64, ((rows-1)*pitch+cols)*size/8+1)
				for i := range table {
					table[i] = r.Uint64()
				}
				index := make([]uint64, n*spread)
				for i := range index {
					index[i] = uint64(r.IntN(int(rows)))
				}
				for _, none := range []uint64{0, uint64(rows), 1 << 61, math.MaxUint64} {
					if bad := r.Int64N(n) * spread; none != 0 {
						index[bad] = none
					}
					outs := map[string][]uint64{}
					for name, b := range map[string]backends.Backend{"interp": interp.New(), "machine": backs["machine"], "portable": backs["portable"]} {
						out := make([]uint64, n*spread*cols*size/8+2)
						for i := range out {
							out[i] = 0xa5a5a5a5a5a5a5a5
						}
						outs[name] = out
						what := fmt.Sprintf("%v %v of %d columns, none %#x, %s", ty, shape, cols, none, name)
						program, lo := planned(t, ty, table, index, out, rows, cols, pitch, n, spread)
						err := embedding(t, b, program, lo)
						if none == 0 {
							require.NoError(t, err, what)
							continue
						}
						fault := (*backends.ProgramFault)(nil)
						require.ErrorAs(t, err, &fault, what)
						require.Equal(t, isa.FaultAccess, fault.Kind, what)
						first := int64(0)
						for index[first*spread] < uint64(rows) {
							first++
						}
						require.EqualValues(t, first*cols, fault.Lane, what)
					}
					require.Equal(t, outs["interp"], outs["machine"], "%v %v of %d columns, none %#x", ty, shape, cols, none)
					require.Equal(t, outs["interp"], outs["portable"], "%v %v of %d columns, none %#x", ty, shape, cols, none)
					if none != 0 {
						for i := range index {
							index[i] %= uint64(rows)
						}
					}
				}
			}
		}
	}
}

// noting is the other engine of launches that the kernel may decline.
type noting struct{ ran *int }

func (n noting) Run(*backends.Launch, *workers.Pool) error        { *n.ran++; return nil }
func (noting) Estimate(uint64, float64) float64                   { return 0 }
func (noting) Release()                                           {}
func (noting) Direct(*backends.Launch, float64) []backends.Direct { return make([]backends.Direct, 1) }

// Launches that are not such as the library plans are the program's, with the output as it was.
func TestOtherLaunchesAreDeclined(t *testing.T) {
	const rows, cols, n = 3, 2, 4
	for name, change := range map[string]func(l *backends.Launch, at, out []uint64){
		"":                         func(*backends.Launch, []uint64, []uint64) {},
		"elements apart in rows":   func(l *backends.Launch, _, _ []uint64) { l.Params[3] = 2 },
		"elements apart in output": func(l *backends.Launch, _, _ []uint64) { l.Slots[2].Stride[1] = 2 },
		"other columns":            func(l *backends.Launch, _, _ []uint64) { l.Params[1] = 1 },
		"no rows":                  func(l *backends.Launch, _, _ []uint64) { l.Params[0] = 0 },
		"more rows than memory":    func(l *backends.Launch, _, _ []uint64) { l.Params[0]++ },
		"rows too far apart":       func(l *backends.Launch, _, _ []uint64) { l.Params[2]++ },
		"fewer elements":           func(l *backends.Launch, _, _ []uint64) { l.N-- },
		"fewer lanes":              func(l *backends.Launch, _, _ []uint64) { l.Block[0] = n*cols - 1 },
		"a number each column":     func(l *backends.Launch, _, _ []uint64) { l.Slots[1].Stride = [isa.MaxRank]int64{1, 1} },
		"one row of such": func(l *backends.Launch, _, _ []uint64) {
			l.Rank, l.N = 1, cols
			for i := 1; i < 3; i++ {
				l.Slots[i].Rank, l.Slots[i].Stride = 1, [isa.MaxRank]int64{1}
			}
			l.Shape = [isa.MaxRank]int64{cols}
		},
		"three dimensions":        func(l *backends.Launch, _, _ []uint64) { l.Rank = 3 },
		"numbers in the output":   func(l *backends.Launch, at, out []uint64) { l.Slots[1].Addr = addressOf(out[n*cols-1:]) },
		"numbers before, into it": func(l *backends.Launch, at, out []uint64) { l.Slots[2].Addr = addressOf(at[n-1:]) },
		"numbers backwards to it": func(l *backends.Launch, at, out []uint64) {
			l.Slots[1].Addr, l.Slots[1].Stride[0] = addressOf(out[n*cols+n-2:]), -1
		},
		"rows backwards to them": func(l *backends.Launch, at, out []uint64) {
			l.Slots[2].Addr, l.Slots[2].Stride[0] = addressOf(at[n-1+(n-1)*cols:]), -cols
		},
	} {
		t.Run(name, func(t *testing.T) {
			at, out := make([]uint64, 4*n*cols), make([]uint64, 4*n*cols)
			program, lo := planned(t, isa.F64, []uint64{1, 2, 3, 4, 5, 6}, at, out, rows, cols, cols, n, 1)
			ran := 0
			k, err := lookup.Compile(program, func() (lookup.Program, error) { return noting{&ran}, nil })
			require.NoError(t, err)
			lo.Grid, lo.Block = [3]uint32{1, 1, 1}, [3]uint32{n * cols, 1, 1}
			change(lo, at, out)
			require.NoError(t, k.Run(lo, workers.New(1)))
			require.Equal(t, name != "", ran == 1)
			if name != "" {
				require.Equal(t, make([]uint64, len(at)+len(out)), append(at, out...))
			}
			require.Len(t, k.Direct(lo, 1), 1)
		})
	}
}

func addressOf(x []uint64) uintptr { return uintptr(unsafe.Pointer(&x[0])) }

// Many rows, which threads share, are all moved, whether the numbers lie forwards or backwards;
// one that names no row has the program run, and a launch that is stopped says so.
func TestManyRows(t *testing.T) {
	const rows, cols, n = 1000, 3, 200_001
	table, at, out := make([]uint64, rows*cols), make([]uint64, n), make([]uint64, n*cols)
	for i := range table {
		table[i] = uint64(i + 1)
	}
	for i := range at {
		at[i] = uint64(i*7919) % rows
	}
	for _, threads := range []int{1, 2, 5} {
		pool := workers.New(threads)
		defer pool.Close()
		for _, back := range []bool{false, true} {
			clear(out)
			program, lo := planned(t, isa.F64, table, at, out, rows, cols, cols, n, 1)
			if back {
				lo.Slots[1].Addr, lo.Slots[1].Stride[0] = addressOf(at[n-1:]), -1
			}
			ran := 0
			k, err := lookup.Compile(program, func() (lookup.Program, error) { return noting{&ran}, nil })
			require.NoError(t, err)
			require.NoError(t, k.Run(lo, pool))
			require.Zero(t, ran)
			for i, x := range out {
				which := at[i/cols]
				if back {
					which = at[n-1-i/cols]
				}
				if x != table[int(which)*cols+i%cols] {
					t.Fatalf("%d threads, backwards %v: element %d is %d", threads, back, i, x)
				}
			}
			for _, stray := range []int{0, 1<<14 - 1, 1 << 14, n - 1} {
				was := at[stray]
				at[stray] = rows
				ran = 0
				require.NoError(t, k.Run(lo, pool))
				require.Equal(t, 1, ran)
				at[stray] = was
			}
			lo.Record.Stop()
			ran = 0
			require.ErrorIs(t, k.Run(lo, pool), backends.ErrCancelled)
			require.Zero(t, ran)
		}
	}
}
