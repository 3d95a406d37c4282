#include "textflag.h"

// func fmaVector(d, a, b, c *float32, n int)
TEXT ·fmaVector(SB), NOSPLIT, $0-40
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ c+24(FP), CX
	MOVQ n+32(FP), BX
	XORQ AX, AX
next:
	VMOVUPS      (SI)(AX*4), Y0
	VMOVUPS      (DX)(AX*4), Y1
	VFMADD213PS  (CX)(AX*4), Y1, Y0
	VMOVUPS      Y0, (DI)(AX*4)
	ADDQ         $8, AX
	CMPQ         AX, BX
	JLT          next
	VZEROUPPER
	RET
