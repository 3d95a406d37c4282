//go:build race

package isa_test

// The race detector makes the hostile inputs ten times slower and has nothing
// to find in them.
func init() { hostileInputs = 5_000 }
