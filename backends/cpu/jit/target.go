package jit

import "github.com/hologram-project/hologram/backends/cpu/jit/x86"

// target is a machine to make code for: its vectors and registers.
type target struct {
	name  string
	evex  bool // AVX-512: masks, 32 registers
	bytes int  // of a vector
	temps [2]x86.Reg
	files files
}

// Level is a set of instructions that code is made for.
type Level int

// The levels.
const (
	None   Level = iota
	AVX2         // with FMA, F16C, BMI1, BMI2, LZCNT
	AVX512       // F, CD, BW, DQ, VL, beside those
)

// String returns the level's name.
func (l Level) String() string { return [...]string{"none", "avx2", "avx512"}[l] }

var general = []x86.Reg{x86.R9, x86.R10, x86.RBX, x86.R12, x86.R13, x86.R15}

func vectors(n x86.Reg) (r []x86.Reg) {
	for i := range n {
		r = append(r, i)
	}
	return r
}

var targets = map[Level]*target{
	AVX2: {name: "avx2", bytes: 32, temps: [2]x86.Reg{14, 15},
		files: files{classVec: vectors(14), classGPR: general}},
	AVX512: {name: "avx512", evex: true, bytes: 64, temps: [2]x86.Reg{30, 31},
		files: files{classVec: vectors(30), classMask: []x86.Reg{1, 2, 3, 4, 5}, classGPR: general}},
}

// saved reports whether C's calling convention demands that r be kept.
func saved(r x86.Reg) bool {
	return r == x86.RBX || r == x86.RBP || r >= x86.R12
}
