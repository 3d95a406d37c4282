#include "textflag.h"

// func mxcsr() uint32
TEXT ·mxcsr(SB), NOSPLIT, $0-4
	STMXCSR ret+0(FP)
	RET

// func setMXCSR(uint32)
TEXT ·setMXCSR(SB), NOSPLIT, $0-4
	LDMXCSR arg+0(FP)
	RET
