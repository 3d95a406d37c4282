#include "textflag.h"

// The loops take n lanes, a multiple of 8, and read and write at any
// alignment. Go's order of operands: sources first, destination last.

#define LOOP2(OP) \
	CMPQ CX, $32 \
	JLT  rest    \
	PCALIGN $32  \
wide: \
	VMOVUPS (SI)(AX*1), Y0         \
	VMOVUPS 32(SI)(AX*1), Y1       \
	VMOVUPS 64(SI)(AX*1), Y2       \
	VMOVUPS 96(SI)(AX*1), Y3       \
	OP      (DX)(AX*1), Y0, Y0     \
	OP      32(DX)(AX*1), Y1, Y1   \
	OP      64(DX)(AX*1), Y2, Y2   \
	OP      96(DX)(AX*1), Y3, Y3   \
	VMOVUPS Y0, (DI)(AX*1)         \
	VMOVUPS Y1, 32(DI)(AX*1)       \
	VMOVUPS Y2, 64(DI)(AX*1)       \
	VMOVUPS Y3, 96(DI)(AX*1)       \
	ADDQ $128, AX \
	SUBQ $32, CX  \
	CMPQ CX, $32  \
	JGE  wide     \
rest: \
	TESTQ CX, CX \
	JEQ  done    \
	VMOVUPS (SI)(AX*1), Y0     \
	OP      (DX)(AX*1), Y0, Y0 \
	VMOVUPS Y0, (DI)(AX*1)     \
	ADDQ $32, AX \
	SUBQ $8, CX  \
	JMP  rest    \
done: \
	VZEROUPPER \
	RET

// func addAVX(d, a, b unsafe.Pointer, n int)
TEXT ·addAVX(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
	XORQ AX, AX
	LOOP2(VADDPS)

// func subAVX(d, a, b unsafe.Pointer, n int)
TEXT ·subAVX(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
	XORQ AX, AX
	LOOP2(VSUBPS)

// func mulAVX(d, a, b unsafe.Pointer, n int)
TEXT ·mulAVX(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
	XORQ AX, AX
	LOOP2(VMULPS)

// func divAVX(d, a, b unsafe.Pointer, n int)
TEXT ·divAVX(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
	XORQ AX, AX
	LOOP2(VDIVPS)

// MAXPS and MINPS give their second source if either is NaN or both are
// zeros. So the two orders of the operands differ just there: their AND (for
// the maximum) or OR is right for zeros, and lanes with a NaN get all ones.
#define EXTREME(OP, JOIN) \
	TESTQ CX, CX \
	JEQ  done    \
	PCALIGN $16  \
loop: \
	VMOVUPS (SI)(AX*1), Y0 \
	VMOVUPS (DX)(AX*1), Y1 \
	OP      Y1, Y0, Y2     \
	OP      Y0, Y1, Y3     \
	VCMPPS  $3, Y1, Y0, Y4 \
	JOIN    Y2, Y3, Y2     \
	VORPS   Y4, Y2, Y2     \
	VMOVUPS Y2, (DI)(AX*1) \
	ADDQ $32, AX \
	SUBQ $8, CX  \
	JNE  loop    \
done: \
	VZEROUPPER \
	RET

// func maxAVX(d, a, b unsafe.Pointer, n int)
TEXT ·maxAVX(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
	XORQ AX, AX
	EXTREME(VMAXPS, VANDPS)

// func minAVX(d, a, b unsafe.Pointer, n int)
TEXT ·minAVX(SB), NOSPLIT, $0-32
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ n+24(FP), CX
	XORQ AX, AX
	EXTREME(VMINPS, VORPS)

#define LOOP3(MOVE, OP) \
	CMPQ CX, $32 \
	JLT  rest    \
	PCALIGN $32  \
wide: \
	MOVE    (R8)(AX*1), Y0           \
	MOVE    32(R8)(AX*1), Y1         \
	MOVE    64(R8)(AX*1), Y2         \
	MOVE    96(R8)(AX*1), Y3         \
	MOVE    (SI)(AX*1), Y4           \
	MOVE    32(SI)(AX*1), Y5         \
	MOVE    64(SI)(AX*1), Y6         \
	MOVE    96(SI)(AX*1), Y7         \
	OP      (DX)(AX*1), Y4, Y0       \
	OP      32(DX)(AX*1), Y5, Y1     \
	OP      64(DX)(AX*1), Y6, Y2     \
	OP      96(DX)(AX*1), Y7, Y3     \
	MOVE    Y0, (DI)(AX*1)           \
	MOVE    Y1, 32(DI)(AX*1)         \
	MOVE    Y2, 64(DI)(AX*1)         \
	MOVE    Y3, 96(DI)(AX*1)         \
	ADDQ $128, AX \
	SUBQ $32, CX  \
	CMPQ CX, $32  \
	JGE  wide     \
rest: \
	TESTQ CX, CX \
	JEQ  done    \
	MOVE    (R8)(AX*1), Y0     \
	MOVE    (SI)(AX*1), Y4     \
	OP      (DX)(AX*1), Y4, Y0 \
	MOVE    Y0, (DI)(AX*1)     \
	ADDQ $32, AX \
	SUBQ $8, CX  \
	JMP  rest    \
done: \
	VZEROUPPER \
	RET

// func fmaAVX(d, a, b, c unsafe.Pointer, n int)
TEXT ·fmaAVX(SB), NOSPLIT, $0-40
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ c+24(FP), R8
	MOVQ n+32(FP), CX
	XORQ AX, AX
	LOOP3(VMOVUPS, VFMADD231PS)

// func fmaAVX64(d, a, b, c unsafe.Pointer, n int)
// n counts float32s, of which two make a value.
TEXT ·fmaAVX64(SB), NOSPLIT, $0-40
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ c+24(FP), R8
	MOVQ n+32(FP), CX
	XORQ AX, AX
	LOOP3(VMOVUPD, VFMADD231PD)

// LOOPX is LOOP3 with one operand the same in all lanes: Y8 holds it. FIRST
// brings the accumulator and OP the product's factors for a vector at AX.
#define LOOPX(FIRST, OP) \
	CMPQ CX, $32 \
	JLT  rest    \
	PCALIGN $32  \
wide: \
	FIRST(0, Y0)   \
	FIRST(32, Y1)  \
	FIRST(64, Y2)  \
	FIRST(96, Y3)  \
	OP(0, Y0, Y4)  \
	OP(32, Y1, Y5) \
	OP(64, Y2, Y6) \
	OP(96, Y3, Y7) \
	VMOVUPS Y0, (DI)(AX*1)   \
	VMOVUPS Y1, 32(DI)(AX*1) \
	VMOVUPS Y2, 64(DI)(AX*1) \
	VMOVUPS Y3, 96(DI)(AX*1) \
	ADDQ $128, AX \
	SUBQ $32, CX  \
	CMPQ CX, $32  \
	JGE  wide     \
rest: \
	TESTQ CX, CX \
	JEQ  done    \
	FIRST(0, Y0)  \
	OP(0, Y0, Y4) \
	VMOVUPS Y0, (DI)(AX*1) \
	ADDQ $32, AX \
	SUBQ $8, CX  \
	JMP  rest    \
done: \
	VZEROUPPER \
	RET

#define LOADC(O, Y) VMOVUPS O(R8)(AX*1), Y
#define COPYC(O, Y) VMOVAPS Y8, Y
#define TIMESA(O, Y, T) VFMADD231PS O(DX)(AX*1), Y8, Y
#define TIMESAB(O, Y, T) \
	VMOVUPS     O(SI)(AX*1), T    \
	VFMADD231PS O(DX)(AX*1), T, Y

// func fmaAVXa(d, a, b, c unsafe.Pointer, n int)
// a points to one value for all lanes.
TEXT ·fmaAVXa(SB), NOSPLIT, $0-40
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ c+24(FP), R8
	MOVQ n+32(FP), CX
	XORQ AX, AX
	VBROADCASTSS (SI), Y8
	LOOPX(LOADC, TIMESA)

// func fmaAVXc(d, a, b, c unsafe.Pointer, n int)
// c points to one value for all lanes.
TEXT ·fmaAVXc(SB), NOSPLIT, $0-40
	MOVQ d+0(FP), DI
	MOVQ a+8(FP), SI
	MOVQ b+16(FP), DX
	MOVQ c+24(FP), R8
	MOVQ n+32(FP), CX
	XORQ AX, AX
	VBROADCASTSS (R8), Y8
	LOOPX(COPYC, TIMESAB)
