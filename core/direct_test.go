package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

// TestWhatIsPublishedEnds once: with its prepared call, which gives way to others, or when
// the number of threads is chosen, and not if it was forgotten before.
func TestWhatIsPublishedEnds(t *testing.T) {
	ex, err := NewExecutor("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, ex.Close()) }()
	if info := &ex.Device().Info; info.Enters == nil {
		t.Skipf("machine code is missing: calls on %s cannot be entered", info.Name)
	}
	call := func(n int64) *Call {
		c := &Call{Op: opNamed(t, "vector_add")}
		for range 3 {
			b, err := ex.Allocate(n, isa.F32, false)
			require.NoError(t, err)
			t.Cleanup(b.Free)
			c.Operands = append(c.Operands, Operand{Buffer: b})
		}
		return c
	}
	made := call(5)
	_, err = ex.Call(made)
	require.NoError(t, err)
	var published []*Direct
	ended := make([]int, 3)
	publish := func(i int) {
		ex.Direct(made, func(d *Direct) Retire {
			require.Len(t, published, i)
			published = append(published, d)
			return func() func() { ended[i]++; return nil }
		})
	}
	publish(0)
	require.NotEmpty(t, published)
	require.NotEmpty(t, published[0].Steps)
	publish(1)
	published[1].Forget()
	require.NoError(t, SetThreads(ex.Device().Threads())) // by which it was made
	require.Equal(t, []int{1, 0, 0}, ended)
	publish(2)
	for n := int64(6); n < 6+4*preparedOps && ended[2] == 0; n++ {
		_, err := ex.Call(call(n))
		require.NoError(t, err)
	}
	require.Equal(t, []int{1, 0, 1}, ended)
}

// TestWhatIsPublishedIsTried: what those may enter that hold locks they could make with Try,
// so that refuses none of it; and it refuses what takes long, which says so if it is entered.
func TestWhatIsPublishedIsTried(t *testing.T) {
	ex, err := NewExecutor("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, ex.Close()) }()
	if info := &ex.Device().Info; info.Enters == nil {
		t.Skipf("machine code is missing: calls on %s cannot be entered", info.Name)
	}
	threads := ex.Device().Threads()
	require.NoError(t, SetThreads(1)) // else what threads would share is not published
	defer func() { require.NoError(t, SetThreads(threads)) }()
	longest, refused, long := 0.0, 0, 0
	for n := int64(1 << 10); n <= 1<<21; n += n / 4 {
		c := &Call{Op: opNamed(t, "vector_exp")}
		for range 2 {
			b, err := ex.Allocate(n, isa.F32, false)
			require.NoError(t, err)
			defer b.Free()
			c.Operands = append(c.Operands, Operand{Buffer: b})
		}
		_, err := ex.Call(c)
		require.NoError(t, err)
		try := *c
		try.Try = true
		_, err = ex.Call(&try)
		if CodeOf(err) == Busy {
			refused++
		} else {
			require.NoError(t, err)
		}
		ex.Direct(c, func(d *Direct) Retire {
			took := 0.0
			for _, s := range d.Steps {
				took += s.Nanoseconds
			}
			switch {
			case d.Long:
				long++
				require.Greater(t, took, backends.Held)
			case took > 0:
				longest = max(longest, took)
				require.Zero(t, refused, "%d elements, some %v ns", n, took)
			}
			return nil
		})
	}
	require.Positive(t, refused)
	require.Positive(t, long)
	require.Greater(t, longest, backends.Held/2)
	require.LessOrEqual(t, longest, backends.Held)
}

// TestWhatIsNotPublished: calls that others are to be told of, wait for, or count.
func TestWhatIsNotPublished(t *testing.T) {
	ex, err := NewExecutor("cpu")
	require.NoError(t, err)
	defer func() { require.NoError(t, ex.Close()) }()
	for name, change := range map[string]func(*Call){
		"a deleter": func(c *Call) { c.Deleter = func() {} },
		"residues":  func(c *Call) { c.Residue = new([isa.NumClasses]uint64) },
		"a stream":  func(c *Call) { c.Stream = 1 },
		"fuel":      func(c *Call) { c.Fuel = 1 },
		"a fault":   func(c *Call) { c.Operands = c.Operands[:2] },
		"no element": func(c *Call) {
			c.Operands[0].Buffer, _ = ex.Allocate(0, isa.F32, false)
		},
	} {
		c := &Call{Op: opNamed(t, "vector_add")}
		for range 3 {
			b, err := ex.Allocate(4, isa.F32, false)
			require.NoError(t, err)
			c.Operands = append(c.Operands, Operand{Buffer: b})
		}
		_, err := ex.Call(c)
		require.NoError(t, err)
		change(c)
		ex.Direct(c, func(d *Direct) Retire {
			require.Empty(t, d.Steps, name)
			return nil
		})
	}
}

func opNamed(t *testing.T, name string) *Operation {
	for _, o := range Ops() {
		if o.Name == name {
			return o
		}
	}
	t.Fatal(name)
	return nil
}
