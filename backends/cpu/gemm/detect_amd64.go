package gemm

import (
	"errors"
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/cpu"
)

// Available reports whether this machine has units, and the system lets them be used: nil,
// or why not. What the system is asked for, the process has from then on.
func Available(u Units) error {
	x := &cpu.X86
	switch {
	case u == NoUnits:
		return nil
	case !x.HasAVX512VNNI || !x.HasAVX512BW || !x.HasAVX512VL || !x.HasAVX512DQ:
		return errors.New("the processor, or the system, has no AVX512-VNNI")
	case u >= Dots && !x.HasAVX512BF16:
		return errors.New("the processor, or the system, has no AVX512-BF16")
	case u == Tiles && (!x.HasAMXTile || !x.HasAMXBF16 || !x.HasAMXInt8):
		return errors.New("the processor has no AMX for bf16 and integers of 8 bits")
	case u == Tiles:
		return tilesAllowed()
	}
	return nil
}

// tilesAllowed asks the system for the tiles' registers, which Linux saves for those
// processes alone that asked.
var tilesAllowed = sync.OnceValue(func() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("whether %s keeps AMX's registers is not known", runtime.GOOS)
	}
	if err := askForTiles(); err != nil {
		return fmt.Errorf("%w: %w", errRefused, err)
	}
	return nil
})
