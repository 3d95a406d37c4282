#include "textflag.h"

// func numbered() bool
TEXT ·numbered(SB), NOSPLIT, $0-1
	MOVB $0, ret+0(FP)
	MOVL $0x80000000, AX
	CPUID
	CMPL AX, $0x80000001
	JB   no
	MOVL $0x80000001, AX
	CPUID
	SHRL $27, DX
	ANDL $1, DX
	MOVB DX, ret+0(FP)
no:
	RET

// func number() int32
TEXT ·number(SB), NOSPLIT, $0-4
	RDTSCP
	ANDL $0xfff, CX // above is the node
	MOVL CX, ret+0(FP)
	RET
