package core

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// scaled is a program whose launches can be a batch: b += a·s.
const scaled = "program p\nslot a f32\nslot b f32\nparam s f32\nldp.f32 s, s\nldg.f32 x, a[index]\nldg.f32 y, b[index]\nfma.f32 y, x, s, y\nstg.f32 y, b[index]\nexit"

// copied is another: b = a.
const copied = "program p\nslot a f32\nslot b f32\nldg.f32 x, a[index]\nstg.f32 x, b[index]\nexit"

// batchRig is memory of others on which launches of a program are made.
type batchRig struct {
	backend *asynctest.Backend
	ex      *Executor
	theirs  *asynctest.Foreign
	others  []*asynctest.Foreign
	memory  backends.Memory
	call    Call
}

func newBatchRig(t testing.TB, o asynctest.Options, text string, elements int64) *batchRig {
	t.Helper()
	o.Variants, o.DLPackType, o.Unified = backends.Variant{Packed: true, Proved: true, NoFuel: true}, 12, !o.HostVisible
	b := asynctest.New(o)
	dev, err := b.Open(0)
	require.NoError(t, err)
	d, err := newDevice("async", b, dev)
	require.NoError(t, err)
	ex, err := d.NewExecutor()
	require.NoError(t, err)
	x := &batchRig{backend: b, ex: ex, theirs: b.NewForeign(0)}
	t.Cleanup(func() {
		require.NoError(t, wait(ex.Synchronize()))
		require.NoError(t, ex.Close())
		for _, s := range append(x.others, x.theirs) {
			s.Close()
		}
	})
	x.memory, err = b.NewForeignMemory(0, 4*elements)
	require.NoError(t, err)
	p, err := Assemble("p.atlas", text, nil)
	require.NoError(t, err)
	x.call = Call{Program: p, Stream: x.theirs.Native(), Ordered: true, Operands: make([]Operand, len(p.Source().Slots))}
	for range p.Source().Params {
		x.call.Scalars = append(x.call.Scalars, Float(2))
	}
	return x
}

// view is n elements of the memory from element at on.
func (x *batchRig) view(at, n int64) Operand {
	v := backends.View{Addr: x.memory.Addr + uintptr(4*at), Type: isa.F32, Rank: 1}
	v.Shape[0], v.Stride[0] = n, 1
	return Operand{View: v, DeviceType: 12}
}

// batch makes launches on these operands together, prepared first if need be.
func (x *batchRig) batch(all [][]Operand) (done bool, err error) {
	c := x.call
	next := func(i int) error { copy(c.Operands, all[i]); return nil }
	c.Try = true
	if done, err = x.ex.LaunchBatch(&c, len(all), next); CodeOf(err) != Busy {
		return done, err
	}
	c.Try = false
	if err := x.ex.PrepareBatch(&c, len(all), next); err != nil {
		return false, err
	}
	c.Try = true
	return x.ex.LaunchBatch(&c, len(all), next)
}

// fill sets elements to their numbers; values returns them.
func (x *batchRig) fill(t testing.TB, n int64) {
	t.Helper()
	ramp := make([]float32, n)
	for i := range ramp {
		ramp[i] = float32(i)
	}
	x.copy(t, Operand{Buffer: floats(t, x.ex, ramp...)}, x.view(0, n))
}

func (x *batchRig) values(t testing.TB, n int64) []float32 {
	t.Helper()
	out := floats(t, x.ex, make([]float32, n)...)
	x.copy(t, x.view(0, n), Operand{Buffer: out})
	return values(t, out)
}

func (x *batchRig) copy(t testing.TB, from, to Operand) {
	t.Helper()
	require.NoError(t, wait(x.ex.Call(&Call{Op: kernels.Copy, Operands: []Operand{from, to}, Stream: x.theirs.Native(), Ordered: true})))
}

// TestBatch has launches made together exactly where they may be, with what they would do one by one.
func TestBatch(t *testing.T) {
	const half = "slot a f32\nslot b f32\n"
	one := func(a, na, b, nb int64) [4]int64 { return [4]int64{a, na, b, nb} }
	for name, c := range map[string]struct {
		text     string
		launches [][4]int64 // where a and b begin, and how many elements they have
		done     bool
	}{
		"apart":                        {scaled, [][4]int64{one(0, 8, 100, 8), one(8, 3, 108, 3), one(20, 50, 120, 50)}, true},
		"in place":                     {scaled, [][4]int64{one(0, 8, 0, 8), one(8, 8, 8, 8)}, true},
		"one reads what all read":      {scaled, [][4]int64{one(0, 8, 100, 8), one(0, 8, 108, 8), one(4, 8, 120, 8)}, true},
		"without elements":             {scaled, [][4]int64{one(0, 0, 100, 0), one(0, 8, 108, 8)}, true},
		"one":                          {scaled, [][4]int64{one(0, 8, 100, 8)}, true},
		"one twice":                    {scaled, [][4]int64{one(0, 8, 100, 8), one(0, 8, 100, 8)}, false},
		"writes overlap":               {scaled, [][4]int64{one(0, 8, 107, 8), one(8, 8, 100, 8)}, false},
		"one reads what another wrote": {scaled, [][4]int64{one(0, 8, 100, 8), one(107, 8, 120, 8)}, false},
		"one writes what another read": {scaled, [][4]int64{one(100, 8, 120, 8), one(0, 8, 107, 8)}, false},
		"within another's":             {scaled, [][4]int64{one(0, 50, 100, 50), one(60, 2, 120, 2), one(70, 8, 160, 8)}, false},
		"behind a longer one":          {copied, [][4]int64{one(0, 40, 100, 40), one(10, 2, 160, 2), one(180, 8, 20, 8)}, false},
		"may fault":                    {"program p\n" + half + "sreg i, global_lane\nmul.u64 i, i, 4\nldg.f32 x, a[i]\nstg.f32 x, b[index]\nexit", [][4]int64{one(0, 8, 100, 16), one(8, 8, 120, 16)}, false},
		"phase":                        {"program p\n" + half + "phase_adv 1\nldg.f32 x, a[index]\nstg.f32 x, b[index]\nexit", [][4]int64{one(0, 8, 100, 8), one(8, 8, 120, 8)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			x := newBatchRig(t, asynctest.Options{Delay: 20 * time.Microsecond, Specialize: true}, c.text, 200)
			var all [][]Operand
			for _, l := range c.launches {
				all = append(all, []Operand{x.view(l[0], l[1]), x.view(l[2], l[3])})
			}
			x.fill(t, 200)
			done, err := x.batch(all)
			require.NoError(t, err)
			require.Equal(t, c.done, done)
			got := x.values(t, 200)
			x.fill(t, 200)
			for _, operands := range all {
				l := x.call
				l.Operands = operands
				if name != "may fault" && done {
					require.NoError(t, wait(x.ex.Call(&l)))
				}
			}
			require.Equal(t, x.values(t, 200), got)
		})
	}
}

// TestBatchIsAllOrNothing has a launch that is refused keep the others from being made.
func TestBatchIsAllOrNothing(t *testing.T) {
	x := newBatchRig(t, asynctest.Options{}, scaled, 200)
	x.fill(t, 200)
	before := x.values(t, 200)
	odd := x.view(20, 8)
	odd.View.Addr++
	done, err := x.batch([][]Operand{{x.view(0, 8), x.view(100, 8)}, {odd, x.view(120, 8)}})
	wants(t, err, Invalid, "slot a: address 0x")
	require.False(t, done)
	done, err = x.batch([][]Operand{{x.view(0, 8), x.view(100, 8)}, {x.view(0, 8), x.view(120, 9)}})
	require.Error(t, err)
	require.False(t, done)
	require.Equal(t, before, x.values(t, 200))
	other := x.call
	other.Ordered, other.Stream = false, 0
	done, err = x.ex.LaunchBatch(&other, 2, func(int) error { other.Operands = []Operand{x.view(0, 8), x.view(100, 8)}; return nil })
	require.NoError(t, err)
	require.False(t, done, "memory of which somebody has to be told")
	d, err := DeviceFor("cpu")
	require.NoError(t, err)
	host := executorOn(t, d)
	done, err = host.LaunchBatch(&x.call, 2, func(int) error { return nil })
	require.NoError(t, err)
	require.False(t, done, "a device that works while called")
}

// many are so many launches, of 8 elements each, that have nothing to do with each other.
func (x *batchRig) many(n int64) (all [][]Operand) {
	for i := range n {
		all = append(all, []Operand{x.view(8*i, 8), x.view(8*(n+i), 8)})
	}
	return all
}

// TestBatchThatFails has one launch of three fail, or panic: it is told, once, and that there were others.
func TestBatchThatFails(t *testing.T) {
	for n := range 3 {
		for what, o := range map[string]asynctest.Options{"fails": {FailLaunch: n + 1}, "panics": {PanicLaunch: n + 1}} {
			x := newBatchRig(t, o, scaled, 200)
			done, err := x.batch(x.many(3))
			require.True(t, done, "launch %d %s", n, what)
			require.Equal(t, what == "panics", err != nil)
			told := wait(x.ex.Synchronize())
			if what == "fails" {
				wants(t, told, Internal, asynctest.ErrInjected.Error())
			}
			require.NoError(t, wait(x.ex.Synchronize()))
		}
	}
}

// TestBatchOfManyLayouts has more of them than programs keep of single launches' at first, some of whose hashes fall together.
func TestBatchOfManyLayouts(t *testing.T) {
	const n = 200
	x := newBatchRig(t, asynctest.Options{Specialize: true}, scaled, 2*n*n)
	var all [][]Operand
	for i := range int64(n) {
		all = append(all, []Operand{x.view(i*n, 1+i), x.view(n*n+i*n, 1+i)})
	}
	for range 2 {
		done, err := x.batch(all)
		require.NoError(t, err)
		require.True(t, done)
	}
	require.NoError(t, wait(x.ex.Synchronize()))
	graph := x.theirs.BeginCapture()
	done, err := x.batch(all)
	require.NoError(t, err)
	require.True(t, done)
	x.theirs.EndCapture()
	graph.Destroy()
}

// TestBatchNeverWaits has more launches than a device takes at once while it does nothing.
func TestBatchNeverWaits(t *testing.T) {
	x := newBatchRig(t, asynctest.Options{}, scaled, 1<<16)
	hold := make(chan struct{})
	_, err := x.batch(x.many(mostBatched)) // prepared
	require.NoError(t, err)
	require.NoError(t, wait(x.ex.Synchronize()))
	x.theirs.Do(0, func() { <-hold })
	for found := 0; ; found++ {
		done, err := x.batch(x.many(mostBatched))
		if CodeOf(err) == Busy {
			require.Positive(t, found)
			break
		}
		require.NoError(t, err)
		require.True(t, done)
		require.Less(t, found, 3)
	}
	close(hold)
	done, err := x.batch(x.many(mostBatched + 1))
	require.NoError(t, err)
	require.False(t, done)
}

// TestBatchOfImports has a device that is told of memory of others, until it is done with it.
func TestBatchOfImports(t *testing.T) {
	x := newBatchRig(t, asynctest.Options{HostVisible: true}, scaled, 200)
	done, err := x.batch(x.many(3))
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, wait(x.ex.Synchronize()))
	counts := x.backend.Counts()
	require.Positive(t, counts.Imports)
	require.Equal(t, counts.Imports, counts.Forgets)
}

// TestPrepareBatchIsCancelled between two of the launches that it looks at.
func TestPrepareBatchIsCancelled(t *testing.T) {
	x := newBatchRig(t, asynctest.Options{Specialize: true}, scaled, 200)
	c, all := x.call, x.many(3)
	err := x.ex.PrepareBatch(&c, 3, func(i int) error {
		if copy(c.Operands, all[i]); i == 2 {
			x.ex.Cancel()
		}
		return nil
	})
	wants(t, err, Cancelled, "cancelled before it began")
}

// TestBatchOfBuffers leaves buffers to single calls, and in use by none.
func TestBatchOfBuffers(t *testing.T) {
	x := newBatchRig(t, asynctest.Options{}, scaled, 200)
	b := floats(t, x.ex, make([]float32, 8)...)
	done, err := x.batch([][]Operand{{x.view(0, 8), x.view(100, 8)}, {x.view(8, 8), {Buffer: b}}})
	require.NoError(t, err)
	require.False(t, done)
	b.Free()
	require.Zero(t, x.ex.device.MemoryStats().InUse)
}

// TestBatchesLeaveNothing makes batches that are done, refused and prepared, among single launches of the same layout.
func TestBatchesLeaveNothing(t *testing.T) {
	x := newBatchRig(t, asynctest.Options{Specialize: true}, scaled, 2000)
	x.fill(t, 2000)
	all := func(n int64) (list [][]Operand) {
		for i := range n {
			list = append(list, []Operand{x.view(4*i, 4), x.view(1000+4*i, 4)})
		}
		return list
	}
	from := func(c *Call, list [][]Operand) func(int) error {
		return func(i int) error { copy(c.Operands, list[i]); return nil }
	}
	single := x.call
	single.Operands = all(1)[0]
	for i, n := range []int64{2, 3, 240, 2, 3} {
		done, err := x.batch(all(n))
		require.NoError(t, err)
		require.True(t, done)
		require.NoError(t, wait(x.ex.Call(&single)))
		c := x.call
		require.NoError(t, x.ex.PrepareBatch(&c, int(n), from(&c, all(n))))
		require.NoError(t, wait(x.ex.Call(&single)))
		for _, list := range [][][]Operand{all(5), {{x.view(1, 4), x.view(1001, 4)}, {x.view(5, 4), x.view(1005, 4)}}} {
			if c.Try = true; i == 0 { // code of another number of launches, or alignment, is missing
				_, err := x.ex.LaunchBatch(&c, len(list), from(&c, list))
				wants(t, err, Busy, "")
			}
		}
		require.NoError(t, wait(x.ex.Synchronize()))
	}
	doubled := all(1)
	done, err := x.batch(append(doubled, doubled...))
	require.NoError(t, err)
	require.False(t, done)
	for name, change := range map[string]func(c *Call){
		"fuel":     func(c *Call) { c.Fuel = 1 << 40 },
		"residues": func(c *Call) { c.Residue = new([NumClasses]uint64) },
		"first":    func(c *Call) { c.First = new(uint64) },
	} {
		c := x.call
		change(&c)
		done, err := x.ex.LaunchBatch(&c, 2, from(&c, all(2)))
		require.NoError(t, err, name)
		require.False(t, done, name)
	}
	long := newBatchRig(t, asynctest.Options{}, "program p\nslot a f32\nslot b f32\nparam n u32\nldp.u32 n, n\nldg.f32 x, a[index]\nloop n, done\nadd.f32 x, x, 1.0\ndone:\nstg.f32 x, b[index]\nexit", 100)
	for rounds, done := range map[int64]bool{3: true, 1 << 31: false} {
		long.call.Scalars[0] = Int(rounds)
		c := long.call
		require.NoError(t, long.ex.PrepareBatch(&c, 2, func(i int) error {
			copy(c.Operands, []Operand{long.view(int64(8*i), 4), long.view(int64(40+8*i), 4)})
			return nil
		}))
		c.Try = true
		found, err := long.ex.LaunchBatch(&c, 2, func(i int) error {
			copy(c.Operands, []Operand{long.view(int64(8*i), 4), long.view(int64(40+8*i), 4)})
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, done, found, "%d rounds", rounds)
	}
}

// TestBatchOfAGuest records a batch in the graph of the stream's owner.
func TestBatchOfAGuest(t *testing.T) {
	x := newBatchRig(t, asynctest.Options{Specialize: true}, scaled, 200)
	all := [][]Operand{{x.view(0, 8), x.view(100, 8)}, {x.view(8, 8), x.view(120, 8)}}
	x.fill(t, 200)
	done, err := x.batch(all)
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, wait(x.ex.Synchronize()))
	graph := x.theirs.BeginCapture()
	done, err = x.batch(all)
	require.NoError(t, err)
	require.True(t, done)
	x.theirs.EndCapture()
	for range 2 {
		<-graph.Replay(x.theirs)
	}
	got := x.values(t, 200)
	require.Equal(t, []float32{100, 101 + 6, 102 + 12}, got[100:103], "three times")
	require.Equal(t, float32(127+3*2*15), got[127])
	graph.Destroy()
}

// TestBatchOnAnUnseenStream is where an owner's capture is: on a stream that nothing was launched on.
func TestBatchOnAnUnseenStream(t *testing.T) {
	x := newBatchRig(t, asynctest.Options{Specialize: true}, scaled, 200)
	all := [][]Operand{{x.view(0, 8), x.view(100, 8)}, {x.view(8, 8), x.view(120, 8)}}
	_, err := x.batch(all)
	require.NoError(t, err)
	for range 2 {
		other := x.backend.NewForeign(0)
		x.others = append(x.others, other)
		x.call.Stream = other.Native()
		graph := other.BeginCapture()
		done, err := x.batch(all)
		require.NoError(t, err)
		require.True(t, done)
		other.EndCapture()
		graph.Destroy()
	}
}

func BenchmarkBatch(b *testing.B) {
	const n = 400
	text := "program p\n"
	for i := range 7 {
		text += fmt.Sprintf("slot s%d f32\n", i)
	}
	for i := range 4 {
		text += fmt.Sprintf("ldg.f32 x%d, s%d[index]\n", i, i)
	}
	text += "add.f32 x0, x0, x1\nadd.f32 x2, x2, x3\nstg.f32 x0, s4[index]\nstg.f32 x2, s5[index]\nstg.f32 x1, s6[index]\nexit"
	x := newBatchRig(b, asynctest.Options{}, text, 8*n*6)
	var all [][]Operand
	for i := range int64(n) {
		list := make([]Operand, 7)
		for k := range int64(4) {
			list[k] = x.view(8*(4*i+k), 3+i%6)
		}
		list[4], list[5], list[6] = list[0], list[2], list[3]
		all = append(all, list)
	}
	b.Run("prepared", func(b *testing.B) { // what core does of it
		b.ReportAllocs()
		c := x.call
		for b.Loop() {
			require.NoError(b, x.ex.PrepareBatch(&c, n, func(i int) error { copy(c.Operands, all[i]); return nil }))
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/launch")
	})
}
