//go:build race

package isa

// The race detector makes the verifier's tests ten times slower and has
// nothing to find in them.
func init() { randomPrograms, largeInsts = 2000, 5000 }
