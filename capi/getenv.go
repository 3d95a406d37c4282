//go:build !windows

package main

// #include <stdlib.h>
import "C"

import (
	"unsafe"

	"github.com/hologram-project/hologram/core"
)

// C's environment is what a program that loads the library has changed, as Python does by
// os.environ.
func init() {
	core.Environment(func(name string) string {
		at := C.CString(name)
		defer C.free(unsafe.Pointer(at))
		return C.GoString(C.getenv(at)) // of NULL: ""
	})
}
