package jit

import (
	"encoding/binary"

	"golang.org/x/sys/cpu"
)

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

// maker is who made the processor, in the twelve letters that CPUID has for it.
func maker() (ebx, edx, ecx uint32)

// fetchesStores reports whether the processor fetches by itself what stores will come
// to, as it does what is loaded. No bit of CPUID tells, so makers do: AMD's and Hygon's
// train on stores, Intel's nearest cache on loads alone.
var fetchesStores = func() bool {
	var name []byte
	b, d, c := maker()
	for _, x := range [...]uint32{b, d, c} {
		name = binary.LittleEndian.AppendUint32(name, x)
	}
	return string(name) == "AuthenticAMD" || string(name) == "HygonGenuine"
}()
