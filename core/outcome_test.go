package core

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/asynctest"
	"github.com/hologram-project/hologram/isa"
)

// TestWhatAFaultLeaves: residues are told whatever else a launch did, element 0 of the output
// only where all went well.
func TestWhatAFaultLeaves(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, "program p\nslot c u32\nparam at u64\nldp.u64 i, at\nmov.u8 k, 3\nmov.u64 v, 7\nres_accum k, v\nldg.u32 x, c[i]\nstg.u32 5, c[index]\nexit")
		c, err := ex.Allocate(4, isa.U32, true)
		require.NoError(t, err)
		for _, at := range []int64{0, 1 << 20, 4, 1 << 30} {
			var residue, want [NumClasses]uint64
			first := uint64(99)
			made := (&LaunchArgs{Slots: []*Buffer{c}, Params: []Scalar{Int(at)}, Residue: &residue}).call(p)
			if ex.device.Info.HostVisible {
				made.First = &first
			}
			err := wait(ex.Call(made))
			want[3] = 4 * 7
			require.Equal(t, want, residue, at)
			if at < 16 {
				require.NoError(t, err)
				require.Equal(t, ex.device.Info.HostVisible, first == 5, at)
			} else {
				wants(t, err, Faulted, "stray access")
				require.EqualValues(t, 99, first, at)
			}
		}
	})
}

// TestFuelIsEachLaunchsOwn, more or less than that of the launch before.
func TestFuelIsEachLaunchsOwn(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, "program p\nslot c u32\nparam n u32\nldp.u32 k, n\nmov.u32 x, 0\nloop k, end\nadd.u32 x, x, 1\nend:\nstg.u32 x, c[index]\nexit")
		c, err := ex.Allocate(4, isa.U32, true)
		require.NoError(t, err)
		for _, fuel := range []uint64{1000, 10, 1000, 5, 0, 10} {
			_, err := ex.Launch(p, &LaunchArgs{Slots: []*Buffer{c}, Params: []Scalar{Int(100)}, Fuel: fuel})
			require.Equal(t, fuel != 0 && fuel < 100, CodeOf(wait(settledAfter(ex, err))) == Faulted, fuel)
		}
	})
}

// settledAfter is the outcome of a launch, wherever that is told.
func settledAfter(ex *Executor, err error) (*Event, error) {
	if err != nil {
		return nil, err
	}
	return ex.Synchronize()
}

// TestBuffersThatComeTooLate, while their executor closes, leave nothing.
func TestBuffersThatComeTooLate(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		b, err := ex.AllocateBoundary(1, 2, 3, isa.U8)
		require.NoError(t, err)
		users, used := b.mem.Users(), ex.Used()
		close := func(closed bool) {
			ex.mu.Lock()
			ex.closed = closed // what Close sets before it frees the buffers
			ex.mu.Unlock()
		}
		close(true)
		for name, made := range map[string]func() (*Buffer, error){
			"allocate": func() (*Buffer, error) { return ex.Allocate(1000, isa.F32, false) },
			"boundary": func() (*Buffer, error) { return ex.AllocateBoundary(2, 1, 1, isa.U8) },
			"view":     func() (*Buffer, error) { return b.View(0, []int64{2}, nil) },
		} {
			_, err := made()
			wants(t, err, BadHandle, "executor is freed")
			require.Equal(t, used, ex.Used(), name)
			require.Equal(t, users, b.mem.Users(), name)
		}
		close(false)
	})
}

// TestMemoryThatIsNotImported: whoever owns what a device does not take is told once.
func TestMemoryThatIsNotImported(t *testing.T) {
	for fail := range 3 {
		b := asynctest.New(asynctest.Options{HostVisible: true, DLPackType: 8, FailImport: fail})
		ex := executorOn(t, openAsync(t, b, 0))
		host, err := executorOn(t, testDevices(t)["cpu"]).Allocate(8, isa.F32, true)
		require.NoError(t, err)
		in, out := host.Layout(), host.Layout()
		in.Shape[0], out.Shape[0], out.Addr = 4, 4, in.Addr+16
		told := 0
		err = wait(ex.Call(&Call{Op: opNamed(t, "copy"), Operands: []Operand{{View: in, DeviceType: dlpackCPU}, {View: out, DeviceType: dlpackCPU}},
			Deleter: func() { told++ }}))
		if fail > 0 {
			require.ErrorIs(t, err, asynctest.ErrInjected)
		} else {
			require.NoError(t, err)
		}
		require.NoError(t, ex.Close())
		require.Equal(t, 1, told, fail)
		counts := b.Counts()
		require.Equal(t, counts.Imports-counts.Injected, counts.Forgets)
	}
}

// TestRefusedCallsKeepNoCode: what was prepared for a call that is then refused goes with its
// program, and an executor's own memory with it.
func TestRefusedCallsKeepNoCode(t *testing.T) {
	b := asynctest.New(asynctest.Options{})
	d := openAsync(t, b, 0)
	ex, err := d.NewExecutor()
	require.NoError(t, err)
	host := d.host.Stats().InUse
	p, err := Assemble("test", "program p\nslot c u8\nparam k u8\nldp.u8 x, k\nstg.u8 x, c[index]\nexit", nil)
	require.NoError(t, err)
	c, err := ex.Allocate(4, isa.U8, true)
	require.NoError(t, err)
	for range 3 {
		for _, k := range []Scalar{Int(256), Int(-1), Float(0.5), {}} {
			_, err := ex.Launch(p, &LaunchArgs{Slots: []*Buffer{c}, Params: []Scalar{k}})
			require.Error(t, err)
		}
	}
	require.Positive(t, b.Counts().Kernels)
	p.Close()
	d.kernels.Clear()
	require.Zero(t, b.Counts().Kernels)
	require.NoError(t, ex.Close())
	require.Less(t, d.host.Stats().InUse, host)
	for range 3 {
		ex, err := d.NewExecutor()
		require.NoError(t, err)
		require.NoError(t, ex.Close())
	}
	require.Zero(t, d.host.Stats().InUse)
}

// TestResultsThatCannotBe: of freed buffers, and of more dimensions than there may be.
func TestResultsThatCannotBe(t *testing.T) {
	ex := executorOn(t, testDevices(t)["cpu"])
	x := floats(t, ex, 1, 2)
	_, err := ResultOf(&Call{Op: opNamed(t, "vector_neg"), Operands: []Operand{{Buffer: x}}})
	require.NoError(t, err)
	x.Free()
	_, err = ResultOf(&Call{Op: opNamed(t, "vector_neg"), Operands: []Operand{{Buffer: x}}})
	wants(t, err, BadHandle, "vector_neg: a: the buffer is freed")
	for rank := isa.MaxRank - 1; rank <= isa.MaxRank; rank++ {
		table, index := backends.View{Type: isa.F32, Rank: 2}, backends.View{Type: isa.I64, Rank: rank}
		table.Shape[0], table.Shape[1] = 3, 4
		for i := range rank {
			index.Shape[i] = 1
		}
		r, err := ResultOf(&Call{Op: opNamed(t, "embedding"), Operands: []Operand{{View: table}, {View: index}}})
		if rank < isa.MaxRank {
			require.NoError(t, err)
			require.Len(t, r.Shape, isa.MaxRank)
		} else {
			wants(t, err, Invalid, "embedding: the result has 9 dimensions; at most 8")
		}
	}
}
