package jit

import "golang.org/x/sys/cpu"

// enter runs machine code on the goroutine's own stack. Until it is back the
// goroutine cannot be stopped, so it is for short work; see run.go.
func enter(code, args uintptr)

// Detect returns the best level of this machine.
func Detect() Level {
	x := &cpu.X86
	switch {
	case !x.HasAVX2 || !x.HasFMA || !x.HasF16C || !x.HasBMI1 || !x.HasBMI2 || !x.HasLZCNT || !x.HasPOPCNT:
		return None
	case x.HasAVX512F && x.HasAVX512CD && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL:
		return AVX512
	}
	return AVX2
}
