//go:build !linux

package mem

import (
	"fmt"
	"runtime"
)

func mapTwice(int) ([]byte, uintptr, error) {
	return nil, 0, fmt.Errorf("there is no way yet on %s", runtime.GOOS)
}
