package gemm

import "syscall"

// Of Linux's arch/x86/include/uapi/asm/prctl.h, and the number of the state component in
// Intel's manual (volume 1, 13.1).
const (
	archReqXcompPerm = 0x1023
	tileData         = 18
)

func askForTiles() error {
	if _, _, errno := syscall.RawSyscall(syscall.SYS_ARCH_PRCTL, archReqXcompPerm, tileData, 0); errno != 0 {
		return errno
	}
	return nil
}
