#include "textflag.h"

// func enter(code, args uintptr)
//
// Machine code uses less than 100 bytes of the stack, saved registers for the most part.
// Below every function that is checked for room are 800 (internal/abi, StackNosplitBase).
TEXT ·enter(SB), 0, $16-16
	MOVQ code+0(FP), AX
	MOVQ args+8(FP), DI
	CALL AX
	RET

// func cpuid(leaf uint32) (eax, ebx, ecx, edx uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-24
	MOVL leaf+0(FP), AX
	XORL CX, CX
	CPUID
	MOVL AX, eax+8(FP)
	MOVL BX, ebx+12(FP)
	MOVL CX, ecx+16(FP)
	MOVL DX, edx+20(FP)
	RET
