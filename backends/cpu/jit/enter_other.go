//go:build !amd64

package jit

func enter(code, args uintptr) { panic("jit: machine code of another machine") }

// Detect returns the best level of this machine: none.
func Detect() Level { return None }

const fetchesStores, halvesVectors, permutesBytes = false, false, false
