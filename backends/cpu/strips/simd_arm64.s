#include "textflag.h"

// func fmaNEON(d, a, b, c unsafe.Pointer, n int)
// n is a multiple of 4.
TEXT ·fmaNEON(SB), NOSPLIT, $0-40
	MOVD d+0(FP), R0
	MOVD a+8(FP), R1
	MOVD b+16(FP), R2
	MOVD c+24(FP), R3
	MOVD n+32(FP), R4
	CBZ  R4, done

loop:
	VLD1.P 16(R1), [V1.S4]
	VLD1.P 16(R2), [V2.S4]
	VLD1.P 16(R3), [V0.S4]
	VFMLA  V1.S4, V2.S4, V0.S4
	VST1.P [V0.S4], 16(R0)
	SUBS   $4, R4
	BNE    loop

done:
	RET
