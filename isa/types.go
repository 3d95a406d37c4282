// Package isa defines the Atlas instruction set: its types, the one table of
// instructions, programs, and the forms a program takes (text, binary,
// builder), together with the verifier that every program must pass before
// anything may run it.
//
// Everything that knows about instructions reads the table in table.go:
// assembler, disassembler, binary codec, verifier, constant folder,
// interpreter and the reference page. The package imports nothing of ours.
package isa

import "strings"

// Type is the type of a register, immediate, slot or parameter.
type Type uint8

// The twelve numeric types, and Pred, the one-bit type of predicate registers.
// The numeric values are part of the binary form.
const (
	NoType Type = iota
	I8
	I16
	I32
	I64
	U8
	U16
	U32
	U64
	F16
	BF16
	F32
	F64
	Pred
)

// NumericTypes lists the twelve types in the order of their codes.
var NumericTypes = []Type{I8, I16, I32, I64, U8, U16, U32, U64, F16, BF16, F32, F64}

var typeInfo = [...]struct {
	name string
	size uint8
	kind typeKind
	// eb and mb are the widths of exponent and stored mantissa of a float.
	eb, mb uint8
}{
	NoType: {"none", 0, 0, 0, 0},
	I8:     {"i8", 1, kindSigned, 0, 0},
	I16:    {"i16", 2, kindSigned, 0, 0},
	I32:    {"i32", 4, kindSigned, 0, 0},
	I64:    {"i64", 8, kindSigned, 0, 0},
	U8:     {"u8", 1, kindUnsigned, 0, 0},
	U16:    {"u16", 2, kindUnsigned, 0, 0},
	U32:    {"u32", 4, kindUnsigned, 0, 0},
	U64:    {"u64", 8, kindUnsigned, 0, 0},
	F16:    {"f16", 2, kindFloat, 5, 10},
	BF16:   {"bf16", 2, kindFloat, 8, 7},
	F32:    {"f32", 4, kindFloat, 8, 23},
	F64:    {"f64", 8, kindFloat, 11, 52},
	Pred:   {"pred", 0, kindPred, 0, 0},
}

type typeKind uint8

const (
	kindSigned typeKind = iota + 1
	kindUnsigned
	kindFloat
	kindPred
)

// Valid reports whether t is one of the twelve numeric types or Pred.
func (t Type) Valid() bool { return t > NoType && t <= Pred }

// Numeric reports whether t is one of the twelve numeric types.
func (t Type) Numeric() bool { return t > NoType && t < Pred }

// String returns the type's name in text form, such as "f32".
func (t Type) String() string {
	if int(t) < len(typeInfo) {
		return typeInfo[t].name
	}
	return "invalid"
}

// Size returns the size of a value in bytes: 1, 2, 4 or 8; 0 for Pred.
func (t Type) Size() int { return int(typeInfo[t].size) }

// Bits returns the width of a numeric type in bits.
func (t Type) Bits() int { return 8 * t.Size() }

// Float reports whether t is f16, bf16, f32 or f64.
func (t Type) Float() bool { return typeInfo[t].kind == kindFloat }

// Signed reports whether t is a signed integer type.
func (t Type) Signed() bool { return typeInfo[t].kind == kindSigned }

// Unsigned reports whether t is an unsigned integer type.
func (t Type) Unsigned() bool { return typeInfo[t].kind == kindUnsigned }

// Integer reports whether t is a signed or unsigned integer type.
func (t Type) Integer() bool { return t.Signed() || t.Unsigned() }

// ExponentBits and MantissaBits give a float type's field widths.
func (t Type) ExponentBits() int { return int(typeInfo[t].eb) }

// MantissaBits returns the number of stored mantissa bits of a float type.
func (t Type) MantissaBits() int { return int(typeInfo[t].mb) }

// Mask returns the bits that a value of type t occupies in a uint64 cell.
// Every value of an Atlas program is carried as such a cell: the value's bit
// pattern in the low bits, all higher bits zero. A predicate is 0 or 1.
func (t Type) Mask() uint64 {
	if t == Pred {
		return 1
	}
	return ^uint64(0) >> (64 - t.Bits())
}

// TypeNamed returns the type with the given text name, and whether it exists.
func TypeNamed(name string) (Type, bool) {
	for t := I8; t <= Pred; t++ {
		if typeInfo[t].name == name {
			return t, true
		}
	}
	return NoType, false
}

// TypeSet is a set of types, one bit each.
type TypeSet uint16

// The sets that rows of the table are made of.
const (
	SetSigned   TypeSet = 1<<I8 | 1<<I16 | 1<<I32 | 1<<I64
	SetUnsigned TypeSet = 1<<U8 | 1<<U16 | 1<<U32 | 1<<U64
	SetInt              = SetSigned | SetUnsigned
	SetFloat    TypeSet = 1<<F16 | 1<<BF16 | 1<<F32 | 1<<F64
	SetNumeric          = SetInt | SetFloat
	SetPred     TypeSet = 1 << Pred
	SetWide     TypeSet = 1<<I32 | 1<<I64 | 1<<U32 | 1<<U64
)

// Has reports whether t is in the set.
func (s TypeSet) Has(t Type) bool { return t.Valid() && s&(1<<t) != 0 }

// List returns the types of the set in the order of their codes.
func (s TypeSet) List() []Type {
	var l []Type
	for t := I8; t <= Pred; t++ {
		if s.Has(t) {
			l = append(l, t)
		}
	}
	return l
}

// String lists the names of the set's types, separated by spaces.
func (s TypeSet) String() string {
	var names []string
	for _, t := range s.List() {
		names = append(names, t.String())
	}
	return strings.Join(names, " ")
}

// Cond is the condition of SET.
type Cond uint8

// The conditions. The U ones compare unsigned and stand with unsigned types
// only; on those the plain ones mean the same.
const (
	NoCond Cond = iota
	EQ
	NE
	LT
	LE
	GT
	GE
	LTU
	LEU
	GTU
	GEU
)

var condNames = [...]string{"", "eq", "ne", "lt", "le", "gt", "ge", "ltu", "leu", "gtu", "geu"}

// String returns the condition's name in text form.
func (c Cond) String() string {
	if int(c) < len(condNames) {
		return condNames[c]
	}
	return "invalid"
}

// UnsignedOnly reports whether the condition is one of LTU, LEU, GTU, GEU.
func (c Cond) UnsignedOnly() bool { return c >= LTU && c <= GEU }

// Signed returns the plain condition for an unsigned one, and c itself otherwise.
func (c Cond) Signed() Cond {
	if c.UnsignedOnly() {
		return c - (LTU - LT)
	}
	return c
}

// Scope is how far MEM_FENCE orders memory.
type Scope uint8

// The scopes, from narrow to wide.
const (
	ScopeThread Scope = iota
	ScopeBlock
	ScopeDevice
	ScopeSystem
)

var scopeNames = [...]string{"thread", "block", "device", "system"}

// String returns the scope's name in text form.
func (s Scope) String() string {
	if int(s) < len(scopeNames) {
		return scopeNames[s]
	}
	return "invalid"
}

// Special is a value that the launch gives each lane, read by SREG.
type Special uint8

// The special values. Lane, block, block size and grid size are u32; the
// lane's number in the grid, its place in the index space and the sizes of the
// index space are u64.
const (
	LaneX Special = iota
	LaneY
	LaneZ
	BlockX
	BlockY
	BlockZ
	BlockDimX
	BlockDimY
	BlockDimZ
	GridDimX
	GridDimY
	GridDimZ
	GlobalLane // block_linear · lanes_per_block + lane_linear, x fastest
	N          // the number of elements of the index space

	RowIndex    // the place along the last axis but one, 0 if there is one axis
	ColumnIndex // the place along the last axis
	RowCount    // the size of the last axis but one, 1 if there is one axis
	ColumnCount // the size of the last axis
	Index0      // the place along axis 0, and so on to axis 7: 0 along axes that there are not
	Index1
	Index2
	Index3
	Index4
	Index5
	Index6
	Index7
	Size0 // the size of axis 0, and so on to axis 7: 1 of axes that there are not
	Size1
	Size2
	Size3
	Size4
	Size5
	Size6
	Size7
)

// NumSpecials is the number of special values. Those up to N engines know; the
// others are made of them and of what a launch tells (see ir.Given).
const NumSpecials = int(Size7) + 1

var specialNames = [...]string{
	"lane.x", "lane.y", "lane.z", "block.x", "block.y", "block.z",
	"block_dim.x", "block_dim.y", "block_dim.z", "grid_dim.x", "grid_dim.y", "grid_dim.z",
	"global_lane", "n", "row", "column", "rows", "columns",
	"index.0", "index.1", "index.2", "index.3", "index.4", "index.5", "index.6", "index.7",
	"size.0", "size.1", "size.2", "size.3", "size.4", "size.5", "size.6", "size.7",
}

// String returns the special value's name in text form.
func (s Special) String() string {
	if int(s) < len(specialNames) {
		return specialNames[s]
	}
	return "invalid"
}

// Type returns the type of the special value: u32, or u64 from GlobalLane on.
func (s Special) Type() Type {
	if s >= GlobalLane {
		return U64
	}
	return U32
}
