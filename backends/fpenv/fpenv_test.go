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

// TestEnter takes the states that a caller may come with, and sees what
// arithmetic does before, inside and after.
func TestEnter(t *testing.T) {
	if len(Callers()) == 0 {
		t.Skipf("no floating-point control on %s", runtime.GOARCH)
	}
	want := results()
	for _, c := range Callers() {
		t.Run(c.Name, func(t *testing.T) {
			kept := c.Run(func() {
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
			})
			if !kept {
				t.Error("Leave did not restore the caller's state")
			}
			if results() != want {
				t.Error("Run left its state behind")
			}
		})
	}
}
