package conformance

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/fpenv"
	"github.com/hologram-project/hologram/isa"
)

const endless = `
program endless
slot z u32
  mov.u32 s, 1
again:
  or.u32 s, s, 1
  set.ne.u32 p, s, 0
  bra again, p
  stg.u32 s, z[index]
  exit
`

// runCancellation cancels a launch that would never end, after which the
// stream must serve again.
func runCancellation(t *testing.T, b backends.Backend) {
	r := newRig(t, b)
	defer r.close()
	for _, lanes := range []uint32{1, 5000} {
		v := assemble(t, endless)
		k, err := r.kernel(v)
		if err != nil || k == nil {
			t.Fatalf("endless: %v", err)
		}
		a, err := r.newArray(int64(lanes)*4, 0)
		require.NoError(t, err)
		defer r.give(a.mem)
		view := backends.View{Addr: a.addr(), Type: isa.U32, Rank: 1}
		view.Shape[0], view.Stride[0] = int64(lanes), 1
		l := &backends.Launch{Slots: []backends.View{view}, Grid: [3]uint32{(lanes + 255) / 256, 1, 1}, Block: [3]uint32{256, 1, 1},
			Rank: 1, N: uint64(lanes)}
		l.Record, _ = r.record()
		l.Shape[0] = int64(lanes)
		done := make(chan error, 1)
		go func() { done <- r.launch(k, l) }()
		time.Sleep(20 * time.Millisecond)
		l.Record.Stop()
		select {
		case err := <-done:
			if !errors.Is(err, backends.ErrCancelled) {
				t.Errorf("%d lanes: cancelled launch gives %v, want ErrCancelled", lanes, err)
			}
		case <-time.After(30 * time.Second):
			t.Fatalf("%d lanes: a cancelled launch did not end", lanes)
		}
	}
	if err := r.elementwise(addition(t), []int64{100}, 0, 32); err != nil {
		t.Errorf("after a cancelled launch: %v", err)
	}
}

// runCallerStates runs arithmetic that other floating-point states would
// change, under each state a caller may come with.
func runCallerStates(t *testing.T, b backends.Backend) {
	cases, err := Corpus()
	require.NoError(t, err)
	r := newRig(t, b)
	defer r.close()
	names := map[string]bool{}
	for _, s := range []string{"add", "mul", "div", "fma", "sqrt", "exp"} {
		names[s+"/f32"], names[s+"/f64"] = true, true
	}
	ran := 0
	for _, c := range cases {
		if !names[c.Name] {
			continue
		}
		ran++
		for _, caller := range fpenv.Callers() {
			var err error
			kept := caller.Run(func() { err = r.elementwise(c, []int64{int64(c.elements())}, 0, 256) })
			if err != nil || !kept {
				t.Errorf("%s under a caller with %s: %v; the caller's state was kept: %v", c.Name, caller.Name, err, kept)
			}
		}
	}
	if ran != len(names) {
		t.Errorf("ran %d cases of %d", ran, len(names))
	}
}

// addition is a small element-wise case.
func addition(t *testing.T) *Case {
	c := &Case{Name: "addition", Program: assemble(t, `
program addition
slot x u32
slot y u32
slot z u32
  ldg.u32 x, x[index]
  ldg.u32 y, y[index]
  add.u32 x, x, y
  stg.u32 x, z[index]
  exit
`), In: map[string][]uint64{"x": {1, 2, 3}, "y": {10, 20, 30}}, Out: map[string][]uint64{"z": {11, 22, 33}}}
	return c
}

func assemble(t testing.TB, text string) *isa.Verified {
	t.Helper()
	p, err := isa.Assemble("conformance", text)
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	return v
}
