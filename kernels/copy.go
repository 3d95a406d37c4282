package kernels

import "github.com/hologram-project/hologram/isa"

// Copy is dst = src, bit for bit; it packs strided and broadcast operands.
var Copy = ofBools(bitwise(elementwise("copy", isa.SetNumeric, "dst = src, bit for bit; it packs strided and broadcast operands.", `
slot src {{.T}}
slot dst {{.T}}
  ldg.{{.T}} z, src[index]
  stg.{{.T}} z, dst[index]
  exit
`)))

// bitwise has an operation work on unsigned integers as wide as its elements: what
// a program loads as a float it may store as another NaN.
func bitwise(op *Op) *Op {
	words := map[int]isa.Type{1: isa.U8, 2: isa.U16, 4: isa.U32, 8: isa.U64}
	of := op.program
	op.program = func(t isa.Type) (*isa.Verified, error) { return of(words[t.Size()]) }
	return op
}
