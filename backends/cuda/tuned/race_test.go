//go:build race

package tuned_test

// The race detector makes the interpreter ten times slower, and sees no more of
// long rows than of short ones.
func init() { slowed = true }
