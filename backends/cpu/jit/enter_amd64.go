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

// cpuid is what the instruction of that name says of a leaf.
func cpuid(leaf uint32) (eax, ebx, ecx, edx uint32)

// amd is whether AMD made the processor, or Hygon after it, and of which family it is.
var amd, family = func() (bool, uint32) {
	_, b, c, d := cpuid(0)
	var name []byte
	for _, x := range [...]uint32{b, d, c} {
		name = binary.LittleEndian.AppendUint32(name, x)
	}
	a, _, _, _ := cpuid(1)
	f := a >> 8 & 0xf
	if f == 0xf {
		f += a >> 20 & 0xff
	}
	return string(name) == "AuthenticAMD" || string(name) == "HygonGenuine", f
}()

// fetchesStores reports whether the processor fetches by itself what stores will come
// to, as it does what is loaded. No bit of CPUID tells, so makers do: AMD's and Hygon's
// train on stores, Intel's nearest cache on loads alone.
var fetchesStores = amd

// halvesVectors reports whether the processor does vectors of 64 bytes as two halves: Zen 4,
// whose family had none before.
var halvesVectors = amd && family == 0x19

// permutesBytes reports whether the processor permutes the bytes of vectors of 64 bytes: AVX512-VBMI.
var permutesBytes = cpu.X86.HasAVX512VBMI
