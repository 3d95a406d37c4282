// Package analysis finds out about canonical programs what backends need to
// run them fast and what core needs to wait for them well. It changes no
// program, and whoever ignores it gets the same bits.
//
// Cost estimates how many instructions a launch runs.
//
// All of it rests on one machine. A tape holds what of a Func matters to the
// question at hand; a launch, of which much or little is known, runs it
// through a state. A value is a form, c + Σ coefficient · atom, where atoms
// are what is known by an interval alone: a lane's place, the round of a loop,
// what a division or wrapping leaves. What is known of atoms together is a
// list of facts, forms that are ≥ 0: rounds end before the count, a minimum
// is below both, quotient and remainder make up the dividend, and a guard
// holds in its region. Bounds of a form come from adding facts so that atoms
// cancel. Forms are mathematical integers, so nothing is affine that wraps: a
// sum that is not proved to fit its type is a new atom.
package analysis
