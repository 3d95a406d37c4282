package accuracy

import "golang.org/x/sys/cpu"

// fmaVector sets d to a·b + c rounded once, eight lanes at a time: n is rounded
// up to a multiple of eight, which the vectors must hold.
//
//go:noescape
func fmaVector(d, a, b, c *float32, n int)

var hasFMA = cpu.X86.HasAVX2 && cpu.X86.HasFMA
