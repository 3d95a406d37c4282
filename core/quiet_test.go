package core

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
)

// TestCallsThatAreQuiet: a call is left to the device if nothing is ever told of it, nor has
// to stay until it is over.
func TestCallsThatAreQuiet(t *testing.T) {
	o := asynctest.Options{DLPackType: 2, Unified: true, HostVisible: true, Enters: true}
	o.Variants.Proved = true
	ex := executorOn(t, openAsync(t, asynctest.New(o), 0))
	buffer := func() Operand {
		b, err := ex.Allocate(64, isa.F32, true)
		require.NoError(t, err)
		return Operand{Buffer: b}
	}
	x, y, out := buffer(), buffer(), buffer()
	wrapped, err := ex.Wrap(x.Buffer.Layout().Addr, isa.F32, []int64{64}, nil, false, func() {})
	require.NoError(t, err)
	add := opNamed(t, "vector_add")
	copies := assemble(t, "program p\nslot a f32\nslot b f32\nldg.f32 v, a[index]\nstg.f32 v, b[index]\nexit")
	ints := Operand{Buffer: integers(t, ex, 64)}
	var first uint64
	for name, c := range map[string]struct {
		call  Call
		quiet bool
	}{
		"an operation":         {Call{Op: add, Operands: []Operand{x, y, out}}, true},
		"one with a workspace": {Call{Op: opNamed(t, "softmax"), Operands: []Operand{x, out}}, true},
		"a launch":             {Call{Program: copies, Operands: []Operand{x, out}}, true},
		"memory of others":     {Call{Op: add, Operands: []Operand{x, {Buffer: wrapped}, out}}, false},
		"an element told":      {Call{Op: add, Operands: []Operand{x, y, out}, First: &first}, false},
		"fuel":                 {Call{Program: copies, Operands: []Operand{x, out}, Fuel: 100}, false},
		"what may be stray":    {Call{Program: assemble(t, "program p\nslot a u32\nslot b u32\nldg.u32 v, a[index]\nldg.u32 w, a[v]\nstg.u32 w, b[index]\nexit"), Operands: []Operand{ints, {Buffer: integers(t, ex, 64)}}}, false},
		"rounds by a number":   {Call{Program: assemble(t, "program p\nslot a u32\nparam n u32\nldp.u32 n, n\nmov.u32 i, 0\nagain:\nadd.u32 i, i, 1\nset.lt.u32 p, i, n\nbra again, p\nstg.u32 i, a[index]\nexit"), Operands: []Operand{ints}, Scalars: []Scalar{Int(3)}}, false},
		"the phase":            {Call{Program: assemble(t, "program p\nslot a f32\nphase_adv 1\nstg.f32 1.0, a[index]\nexit"), Operands: []Operand{x}}, false},
		"residues":             {Call{Program: assemble(t, "program p\nslot c f32\nmov.u8 k, 3\nmov.u64 v, 7\nres_accum k, v\nstg.f32 1.0, c[index]\nexit"), Operands: []Operand{x}}, false},
	} {
		d := ex.draft(&c.call)
		b, _, err := ex.bind(d, &c.call, nil)
		require.NoError(t, err, name)
		require.Equal(t, c.quiet, b.Quiet(), name)
		if c.quiet {
			p, err := NewProfile(0)
			require.NoError(t, err)
			require.False(t, b.Quiet(), "%s, profiled", name)
			p.Stop()
			p.Close()
		}
		b.Release()
		d.release()
	}
}

// TestAQuietCallThatPanics has the device panic after it has queued a launch, or a step of
// several, of a call that was to be quiet: the call is watched as others are.
func TestAQuietCallThatPanics(t *testing.T) {
	for step := 1; step <= 2; step++ {
		var told atomic.Pointer[string]
		o := asynctest.Options{Delay: 10 * time.Millisecond, DLPackType: 2, Unified: true, Enters: true, PanicLaunch: step, Report: func(s string) { told.Store(&s) }}
		o.Variants.Proved = true
		ex := executorOn(t, openAsync(t, asynctest.New(o), 0))
		const n = 1 << 16
		x, err := ex.Allocate(n, isa.F32, true)
		require.NoError(t, err)
		out, err := ex.Allocate(n, isa.F32, true)
		require.NoError(t, err)
		ev, err := ex.Op("reduce_sum", []*Buffer{x, out}, nil, []int64{1, n})
		wants(t, wait(ev, err), Internal, "panic: "+asynctest.ErrInjected.Error())
		require.NoError(t, wait(ex.Synchronize()), "the error is told twice")
		require.NoError(t, wait(ex.Op("copy", []*Buffer{x, out}, nil, nil)))
		require.NoError(t, wait(ex.Synchronize()))
		require.NoError(t, ex.Close())
		if s := told.Load(); s != nil {
			t.Error(*s)
		}
	}
}
