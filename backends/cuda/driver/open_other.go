//go:build !linux && !windows

package driver

import (
	"errors"
	"runtime"
)

const library = "libcuda"

func open(string) (uintptr, error) {
	return 0, errors.New("there is none for " + runtime.GOOS)
}

func find(uintptr, string) (uintptr, error) { return 0, errors.New("no library is open") }

func register(any, uintptr) {}

func invoke(uintptr, ...uintptr) Result { panic("no library is open") }
