// Package analysis finds out about canonical programs what engines need to run
// them fast, and core to wait for them well. It changes no program, and who
// ignores it gets the same bits.
//
// New analyses a Func once; the Analysis goes with the compiled unit. It has
//
//   - Vary: whether a value is the same for the launch, for a block, or
//     differs from lane to lane;
//   - Accesses: where each load, store and atomic goes, as a sum of terms in
//     lane and block indices, rounds of loops, parameters and values that
//     nothing more is known of. AlongLanes and AlongRound say how it steps:
//     what becomes a vector load, a broadcast, a gather;
//   - Loops: the most rounds, instructions in a round, induction variables;
//     Short says which need no polling;
//   - Class: map, reduction, product or other, with the loops to replace;
//   - String: all that, for people.
//
// Prove says, from the sizes of a launch alone, which sites cannot fault and
// which Offsets hold. Code may leave out the checks of sites that are proved,
// and use Offsets that hold, for lanes that come there: what a mask keeps away
// may be anywhere. A Proof with All is the usual one; the variant of the code
// that rests on it is chosen when a call is prepared, and Launch.Open names
// the parameters that each call brings anew.
//
// NewCost, which needs none of this, estimates how many instructions a launch
// runs.
//
// # How it works
//
// A tape holds what of a Func matters to the questions at hand: integers that
// addresses, counts and guards are made of, in program order. It is read in
// two ways. Once without numbers (affine.go), which gives the Offsets. And by
// each launch, with its numbers (state.go), which gives proofs and rounds.
//
// There a value is a form, c + Σ coefficient · atom, where atoms are what is
// known by an interval alone: an index of the lane, the round of a loop, what
// a division or wrapping leaves. What is known of atoms together are facts,
// forms that are ≥ 0: rounds end before the count, a minimum is below both,
// quotient and divisor make up the dividend but for the rest, the lane's place
// is below the size of the index space, a guard holds in its region. A bound
// of a form comes from adding multiples of facts so that atoms cancel
// (search.go), as in Fourier's and Motzkin's elimination, but looking at a
// bounded number of ways, the most promising first.
//
// Forms are mathematical integers, so nothing is affine that wraps: a sum that
// is not proved to fit its type is a new atom. Offsets need less, since
// addresses are computed modulo 2^64; what is computed in narrower types on
// the way must not wrap, and that is what Proof.Affine says.
//
// Loops that are not counted, and parameters of loops that do not grow evenly,
// take further passes: in the first nothing is known of what comes back, in
// each later one what came back in the last. Whatever holds after a pass
// holds.
//
// Work is bounded: by the tape, which is linear in the program, and by limits
// on terms, ways and passes. Beyond them less is proved.
package analysis
