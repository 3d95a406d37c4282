package fpenv

import (
	"math"
	"runtime"
	"testing"
)

var tiny, third = math.Float32frombits(1 << 22), float32(3)

// results are the bits of operations that each of the states changes.
func results() [2]uint32 {
	return [2]uint32{math.Float32bits(tiny * 0.5), math.Float32bits(-1 / third)}
}

// TestEnter sets the states that a caller may come with, and sees what
// arithmetic does before, inside and after.
func TestEnter(t *testing.T) {
	states := map[string]map[string]uint64{
		"amd64": {"flush to zero": 0x1f80 | 1<<15, "denormals are zero": 0x1f80 | 1<<6, "round up": 0x1f80 | 2<<13},
		"arm64": {"flush to zero": 1 << 24, "round up": 1 << 22},
	}[runtime.GOARCH]
	if states == nil {
		t.Skipf("no floating-point control on %s", runtime.GOARCH)
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	want := results()
	for name, c := range states {
		t.Run(name, func(t *testing.T) {
			setControl(c)
			defer setControl(standard)
			if results() == want {
				t.Error("the state changes nothing, so the test shows nothing")
			}
			s := Enter()
			inner := Enter()
			if results() != want {
				t.Error("Enter left the caller's state")
			}
			Leave(inner)
			Leave(s)
			if control() != c {
				t.Errorf("after Leave the state is %#x, want %#x", control(), c)
			}
		})
	}
}
