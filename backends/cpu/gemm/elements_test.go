package gemm

import (
	"math"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// Numbers of 16 bits are widened and rounded as conversions are: all there are, and each
// with what lies around it and in the middle to the next.
func TestHalvesAreConverted(t *testing.T) {
	for _, c := range []struct {
		t    isa.Type
		from func(uint16) float32
		to   func(float32) uint16
	}{{isa.F16, fromF16, toF16}, {isa.BF16, fromBF16, toBF16}} {
		for x := uint32(0); x < 1<<16; x += uint32(brief.Or(1, 7)) {
			want := math.Float32frombits(uint32(isa.Convert(isa.F32, c.t, uint64(x))))
			got := c.from(uint16(x))
			if math.Float32bits(got) != math.Float32bits(want) && (want == want || got == got) {
				t.Fatalf("%v %#x is %x, to be %x", c.t, x, got, want)
			}
			tried := []uint32{math.Float32bits(want)}
			for _, by := range []uint32{1, 0xffff} { // to the next one away from 0 there is as much as from the last, or twice that
				beside := math.Float32frombits(uint32(isa.Convert(isa.F32, c.t, uint64(x+by&0xffff))))
				middle := math.Float32bits(float32(float64(want) + math.Abs(float64(beside)-float64(want))*math.Copysign(0.5, float64(want))))
				tried = append(tried, middle-1, middle, middle+1)
			}
			for _, bits := range tried {
				f := math.Float32frombits(bits)
				if want, got := isa.Convert(c.t, isa.F32, uint64(bits)), c.to(f); uint64(got) != want && (f == f || isa.Convert(isa.F32, c.t, uint64(got))&0x7fffffff <= 0x7f800000) {
					t.Fatalf("%x as %v is %#x, to be %#x", f, c.t, got, want)
				}
			}
		}
	}
}
