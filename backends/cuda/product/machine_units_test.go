package product_test

import (
	"encoding/binary"
	"math"
	"unsafe"

	"github.com/hologram-project/hologram/isa"
)

func cellOf(b []byte) uint64 {
	var c [8]byte
	copy(c[:], b)
	return binary.LittleEndian.Uint64(c[:])
}

// float is a 16-bit float's value.
func float(t isa.Type, bits uint16) float64 {
	return math.Float64frombits(isa.Convert(isa.F64, t, uint64(bits)))
}

// warps does what lanes of a warp do together, and reports whether it is that.
func (m *machine) warps(all []*thread, in *instruction, touch func(t, from, n int, write bool)) bool {
	switch in.parts[0] {
	case "ldmatrix":
		for w := 0; w < len(all); w += 32 {
			m.matrices(all[w:w+32], w, in, touch)
		}
	case "mma":
		for w := 0; w < len(all); w += 32 {
			multiplied(all[w:w+32], in)
		}
	case "shfl":
		for w := 0; w < len(all); w += 32 {
			var sent [32]uint64
			for l, t := range all[w : w+32] {
				sent[l] = t.get(in.args[1].reg)
			}
			for l, t := range all[w : w+32] {
				t.set(in.args[0].reg, sent[l^int(in.args[2].number)])
			}
		}
	default:
		return false
	}
	return true
}

// matrices loads four matrices of 8 × 8: row r of number q is where lane 8q + r says, and
// lane l gets elements 2(l mod 4) and one more of row l/4 or, turned, of column l/4.
func (m *machine) matrices(warp []*thread, first int, in *instruction, touch func(t, from, n int, write bool)) {
	turned := in.parts[len(in.parts)-3] == "trans"
	var rows [32][8]uint16
	for l, t := range warp {
		at := t.value(&in.args[1])
		if at%16 != 0 {
			panic("misaligned")
		}
		touch(first+l, int(at), 16, false)
		for e := range 8 {
			rows[l][e] = binary.LittleEndian.Uint16(m.shared[int(at)+2*e:])
		}
	}
	for l, t := range warp {
		for q, r := range in.args[0].list {
			var pair [2]uint16
			for e := range 2 {
				if turned {
					pair[e] = rows[8*q+l%4*2+e][l/4]
				} else {
					pair[e] = rows[8*q+l/4][l%4*2+e]
				}
			}
			t.set(r, uint64(pair[0])|uint64(pair[1])<<16)
		}
	}
}

// multiplied is what m16n8k16 does, with one rounding where units have several.
func multiplied(warp []*thread, in *instruction) {
	typ := isa.BF16
	if in.typ == "f32" && in.parts[len(in.parts)-2] == "f16" {
		typ = isa.F16
	}
	var a [16][16]float64
	var b [16][8]float64
	half := func(t *thread, r, e int) float64 { return float(typ, uint16(t.get(r)>>(16*e))) }
	for l, t := range warp {
		for q, r := range in.args[1].list {
			for e := range 2 {
				a[l/4+q%2*8][l%4*2+q/2*8+e] = half(t, r, e)
			}
		}
		for q, r := range in.args[2].list {
			for e := range 2 {
				b[l%4*2+q*8+e][l/4] = half(t, r, e)
			}
		}
	}
	for l, t := range warp {
		var sums [4]uint64
		for e := range sums {
			row, col := l/4+e/2*8, l%4*2+e%2
			sum := float64(math.Float32frombits(uint32(t.get(in.args[3].list[e]))))
			for p := range 16 {
				sum += a[row][p] * b[p][col]
			}
			sums[e] = uint64(math.Float32bits(float32(sum)))
		}
		for e, r := range in.args[0].list {
			defer t.set(r, sums[e])
		}
	}
}

// halves does what has to do with registers of 16 bits, and reports whether it is that.
func (m *machine) halves(t *thread, in *instruction) bool {
	f32 := func(v float64) uint64 { return uint64(math.Float32bits(float32(v))) }
	switch in.op {
	case "mov.b32":
		if len(in.args[1].list) != 2 {
			return false
		}
		low, high := t.get(in.args[1].list[0]), t.get(in.args[1].list[1])
		t.set(in.args[0].reg, low&0xffff|high&0xffff<<16)
	case "cvt.u32.u16":
		t.set(in.args[0].reg, t.get(in.args[1].reg)&0xffff)
	case "cvt.f32.f16":
		t.set(in.args[0].reg, f32(float(isa.F16, uint16(t.get(in.args[1].reg)))))
	case "cvt.rn.f16.f32":
		t.set(in.args[0].reg, isa.Convert(isa.F16, isa.F32, t.get(in.args[1].reg)))
	case "cvt.rn.bf16.f32":
		t.set(in.args[0].reg, isa.Convert(isa.BF16, isa.F32, t.get(in.args[1].reg)))
	default:
		return false
	}
	return true
}

func addressOf(b []byte) int { return int(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
