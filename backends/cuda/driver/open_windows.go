package driver

import (
	"github.com/ebitengine/purego"
	"golang.org/x/sys/windows"
)

const library = "nvcuda.dll"

func open(name string) (uintptr, error) {
	h, err := windows.LoadLibraryEx(name, 0, windows.LOAD_LIBRARY_SEARCH_SYSTEM32)
	return uintptr(h), err
}

func find(lib uintptr, symbol string) (uintptr, error) {
	return windows.GetProcAddress(windows.Handle(lib), symbol)
}

func register(f any, at uintptr) { purego.RegisterFunc(f, at) }

func invoke(at uintptr, args ...uintptr) Result {
	r, _, _ := purego.SyscallN(at, args...)
	return Result(int32(r))
}
