package jit

import (
	"fmt"

	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
)

// target is a machine to make code for: its vectors and registers.
type target struct {
	evex    bool // AVX-512: masks, 32 registers
	bytes   int  // of a vector
	fetches bool // what will be come to is fetched by itself, what is stored to too
	halves  bool // vectors of 64 bytes are done as two
	temps   [2]x86.Reg
	files   files
}

// features are what code may ask of the machine beside AVX2.
func (t *target) features() x86.Features {
	if t.evex {
		return x86.AVX512
	}
	return 0
}

// Level is a set of instructions that code is made for.
type Level int

// The levels.
const (
	None   Level = iota
	AVX2         // with FMA, F16C, BMI1, BMI2, LZCNT
	AVX512       // F, CD, BW, DQ, VL, beside those

	// Few, added to a level, deals out few registers, so that most values go to
	// memory: for tests.
	Few Level = 8
)

// String returns the level's name.
func (l Level) String() string {
	names := [...]string{"none", "avx2", "avx512"}
	name := fmt.Sprintf("level %d", int(l&^Few))
	if int(l&^Few) < len(names) {
		name = names[l&^Few]
	}
	if l&Few != 0 {
		name += "-few"
	}
	return name
}

var general = []x86.Reg{x86.R9, x86.R10, x86.RBX, x86.R12, x86.R13, x86.R15}

func vectors(n x86.Reg) (r []x86.Reg) {
	for i := range n {
		r = append(r, i)
	}
	return r
}

func targetOf(l Level) *target {
	t := &target{bytes: 32, temps: [2]x86.Reg{14, 15}, files: files{classVec: vectors(14), classGPR: general}}
	if l&^Few == AVX512 {
		t = &target{evex: true, bytes: 64, temps: [2]x86.Reg{30, 31},
			files: files{classVec: vectors(30), classMask: []x86.Reg{1, 2, 3, 4, 5}, classGPR: general}}
	}
	t.fetches, t.halves = fetchesStores, t.evex && halvesVectors
	if l&Few != 0 {
		for c := range t.files {
			t.files[c] = t.files[c][:min(len(t.files[c]), 3-c)]
		}
	}
	return t
}

// saved reports whether C's calling convention demands that r be kept.
func saved(r x86.Reg) bool {
	return r == x86.RBX || r == x86.RBP || r >= x86.R12
}
