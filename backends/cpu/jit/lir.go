package jit

import "github.com/hologram-project/hologram/backends/cpu/jit/x86"

// vreg is a virtual register. 0 is none. It may be written more than once, and
// must be written on every way, in the order of the code, before it is read.
type vreg int32

// class is the file of registers that a vreg is in.
type class uint8

const (
	classVec  class = iota
	classMask       // AVX-512's; elsewhere masks are vectors
	classGPR
	numClasses
)

// vinfo is what is known of a vreg.
type vinfo struct {
	class class
	// A constant comes from the pool, and takes no place where it has no register.
	constant bool
	bits     uint64
	size     uint8     // of a constant: 4 or 8 bytes
	pooled   x86.Label // its place in the pool, if it has one
	values   uint8     // how many values it is the register of at a time, from 2 on: several

	start, end int32   // interval, in half instructions; end < 0: never used
	weight     float64 // how often it is read and written
	reg        x86.Reg // None: spilled
	slot       int32   // of a spilled one: number of its place
	hint       vreg
}

// mref is a place in memory: [base + index·scale + disp], with base a vreg or
// a fixed register, and index the number of the group's first lane.
type mref struct {
	base    vreg
	fixed   x86.Reg // if base is none
	indexed bool
	scale   uint8
	disp    int32
	label   x86.Label
}

// inst is an instruction on virtual registers. Most are a form of the table
// with operands as in x86.Inst; the others have an emit function of their own,
// and list what they read in a, b, c and k.
type inst struct {
	f     *x86.Form
	vl    int
	d     vreg
	a     vreg
	b     vreg
	c     vreg
	k     vreg
	mem   *mref
	imm   uint8
	zero  bool // masked-off lanes become 0
	merge bool // d is read as well
	early bool // d is written before the sources are read
	inner bool // emit's jumps do not lead out of it
	pure  bool // emit does nothing but write d
	rare  bool // groups jump over it that have no lane for it
	asks  bool // for a page: see askPage
	fma   *fmaForms
	emit  func(e *encoder, in *inst)
	label x86.Label // bound here, if not 0
	src   int32     // 1 + the instruction of the program as written that it is for; 0: none
}

// fmaForms are the three orders of operands of a multiplication and addition.
type fmaForms struct {
	f132, f213, f231 *x86.Form
	i132, i213, i231 uint8 // their immediates
}

// span is a loop, from its first instruction to the last.
type span struct{ first, last int32 }

// unit is the code of a function before registers are allocated.
type unit struct {
	info  []vinfo // by vreg
	code  []inst
	loops []span // inner ones before those around them
}

func (u *unit) newReg(c class) vreg {
	u.info = append(u.info, vinfo{class: c, end: -1, reg: x86.None})
	return vreg(len(u.info) - 1)
}
