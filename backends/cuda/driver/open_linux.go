package driver

import "github.com/ebitengine/purego"

const library = "libcuda.so.1"

func open(name string) (uintptr, error) {
	return purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

func find(lib uintptr, symbol string) (uintptr, error) { return purego.Dlsym(lib, symbol) }

func register(f any, at uintptr) { purego.RegisterFunc(f, at) }

func invoke(at uintptr, args ...uintptr) Result {
	r, _, _ := purego.SyscallN(at, args...)
	return Result(int32(r))
}
