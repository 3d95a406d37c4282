#include "textflag.h"

// func enter(code, args uintptr)
//
// Machine code uses some 50 bytes of the stack, which every function that is
// checked for room has below it.
TEXT ·enter(SB), 0, $16-16
	MOVQ code+0(FP), AX
	MOVQ args+8(FP), DI
	CALL AX
	RET

// func maker() (ebx, edx, ecx uint32)
TEXT ·maker(SB), NOSPLIT, $0-12
	XORL AX, AX
	XORL CX, CX
	CPUID
	MOVL BX, ebx+0(FP)
	MOVL DX, edx+4(FP)
	MOVL CX, ecx+8(FP)
	RET
