package core

import (
	"testing"

	"github.com/hologram-project/hologram/backends/fpenv"
)

// TestProgramUnderCallersState makes a program under the floating-point states
// that a caller may come with: its constants are rounded and folded as ever.
func TestProgramUnderCallersState(t *testing.T) {
	const text = `
slot out f32
  mov.f32 x, 0x1p-127
  mul.f32 x, x, 0x1p-1
  stg.f32 x, out[index]
  mov.f32 y, -1.0
  div.f32 y, y, 3.3
  stg.f32 y, out[index]
  exit`
	canonical := func() string {
		p, err := Assemble("state.atlas", text, nil)
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.Canonical(nil)
		if err != nil {
			t.Fatal(err)
		}
		return p.Disassemble() + c
	}
	want := canonical()
	for _, c := range fpenv.Callers() {
		var got string
		if kept := c.Run(func() { got = canonical() }); got != want || !kept {
			t.Errorf("%s (kept: %v):\n%s\nwant\n%s", c.Name, kept, got, want)
		}
	}
}
