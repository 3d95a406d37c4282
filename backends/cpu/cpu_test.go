package cpu_test

import (
	"errors"
	"runtime"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/isa/ir"
)

func TestDevice(t *testing.T) {
	b := cpu.New(0)
	infos, err := b.Devices()
	if err != nil || len(infos) != 1 || !infos[0].HostVisible || infos[0].Asynchronous || b.Threads() != runtime.GOMAXPROCS(0) {
		t.Errorf("devices %+v, %v", infos, err)
	}
	if b.SetThreads(3); b.Name() != "cpu" {
		t.Errorf("the name is %q", b.Name())
	}
	if _, err := b.Open(1); err == nil {
		t.Error("device 1 was opened")
	}
	d, err := b.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	if n := b.Threads(); n != 3 {
		t.Errorf("%d threads after SetThreads(3)", n)
	}
	if _, err := d.Alloc(1 << 62); !errors.Is(err, backends.ErrOutOfMemory) {
		t.Errorf("2^62 bytes: %v", err)
	}
	m, err := d.Alloc(100)
	if err != nil || m.Addr%64 != 0 || m.Bytes != 100 {
		t.Fatalf("memory %+v, %v", m, err)
	}
	s, err := d.NewStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Copy(m.Addr+50, m.Addr, 50); err != nil {
		t.Errorf("copy: %v", err)
	}
	if _, err := s.Copy(m.Addr, m.Addr, -1); err == nil {
		t.Error("copied -1 bytes")
	}
	if err := errors.Join(s.Close(), d.Free(m), d.Close()); err != nil {
		t.Error(err)
	}
}

// TestRefused launches what doesn't fit together.
func TestRefused(t *testing.T) {
	v := verify(t, flows["if both sides"])
	f, _, err := ir.Canonical(v)
	if err != nil {
		t.Fatal(err)
	}
	b := cpu.New(1)
	d, _ := b.Open(0)
	other, _ := b.Open(0)
	k, err := d.Compile(&backends.Unit{Source: v, IR: f}, backends.Variant{})
	if err != nil {
		t.Fatal(err)
	}
	defer k.Release()
	if n := k.Workspace(&backends.Launch{N: 100}); n != 0 {
		t.Errorf("a workspace of %d bytes", n)
	}
	s, _ := other.NewStream()
	if _, err := s.Launch(k, &backends.Launch{}); err == nil {
		t.Error("a kernel ran on another device")
	}
	s, _ = d.NewStream()
	whole := backends.Launch{Slots: make([]backends.View, 2)}
	for what, l := range map[string]*backends.Launch{
		"without slots": {}, "of too few slots": {Slots: whole.Slots[:1]}, "of too many": {Slots: make([]backends.View, 3)},
		"with a parameter": {Slots: whole.Slots, Params: []uint64{1}},
	} {
		if _, err := s.Launch(k, l); err == nil {
			t.Errorf("a launch %s ran", what)
		}
	}
	if _, err := s.Launch(k, &whole); err != nil { // of no lanes
		t.Error(err)
	}
}
