// Package brief says how much of the same a test does.
package brief

import "testing"

// On reports whether tests are to be short: with -short, and under the race
// detector, which slows what they compute some tenfold and sees nothing in what
// one goroutine computes alone.
func On() bool { return raced || testing.Short() }

// Or is how many cases of a kind a test takes: all, or few if tests are to be
// short.
func Or(all, few int) int {
	if On() {
		return few
	}
	return all
}

// Skips reports whether tests that are to be short leave out case i, keeping
// one of each n. Neighbours in a table differ most, so n should share no factor
// with the length of its rows.
func Skips(i, n int) bool { return On() && i%n != 0 }

// Alone ends a test, visibly, under the race detector, which sees nothing in it: one
// goroutine computes, or those do that other tests have, whose accesses are the same
// whatever they compute.
func Alone(t testing.TB) {
	t.Helper()
	if raced {
		t.Skip("shows the race detector nothing that others do not")
	}
}
