// Package jit is the engine of the CPU backend that makes machine code for
// x86-64, with AVX-512 or with AVX2 and FMA. What it declines runs on strips,
// and Compile's error says why.
//
// A canonical function, with its expansions in place, becomes one function that
// runs a range of lanes. Lanes lie side by side in vectors, in groups of as
// many as the widest type of the program allows: 16 or 8 (AVX-512), 8 or 4
// (AVX2), so that every value of a group is one register. Values stay there
// from load to store.
//
// # Stages, a file each
//
//	gen.go      looks the program over; lays out the loops over groups
//	rules.go    what each instruction becomes; convert.go, memory.go, bytes.go,
//	            lanes.go (a lane at a time) and masks.go have those of a kind
//	control.go  branches and loops, by masks
//	lir.go      instructions on virtual registers, which those write
//	alloc.go    registers, by linear scan
//	encode.go   machine code, by package x86
//	kernel.go   variants, which launches ask for
//	view.go     how slots lie in memory
//	run.go      launches, in chunks and calls
//
// # Values
//
// An element takes 4 or 8 bytes in a register: integers of up to 32 bits are
// kept extended by their own sign, and wrapped after what may leave their
// range; f16 and bf16 are kept as f32 and rounded after each instruction, as
// they are defined. A predicate is a mask register, or in AVX2 a vector of ones
// and zeros. All lanes compute, also those that do not run: no instruction
// traps. Masks matter to stores, to what ways that meet hold, and to faults.
// What is the same for the launch is computed once, before the loop.
//
// The main loop does whole groups, some at a time where they are short, and
// without masks; a second one, with a mask of the lanes that there are, does
// the rest, so that nothing beside an array is ever touched.
//
// # Memory
//
// A variant is made for a shape: which of the slots accessed by index stand for
// one element, and whether results go past the caches. All others are
// contiguous. Rows of strided views are launches of their own; what is strided
// within a row goes through memory in which it is contiguous.
//
// # Calls
//
// A function takes the address of its arguments (layout.go), which lie outside
// of stacks, since those move. It keeps C's calling convention, uses some 50
// bytes of stack and calls nothing. It is entered directly, on the goroutine's
// stack. While it runs the goroutine cannot be stopped: signals that preempt or
// profile land in code that Go knows nothing of, which it lets go on. The
// collector waits for it, so a call is for some 50 µs of work. Where a loop
// may make a lane take longer, the function is called as C's are (45 ns), and
// the collector does not wait. Loops that are not short look whether the launch
// is cancelled. Launches with fuel, if there are loops, run on strips.
//
// # What may go wrong
//
//   - Wrong bits: conformance runs over each width, and again with so few
//     registers that all goes through memory; an encoding is held against GNU as.
//   - Memory that is not ours: element-wise accesses cover the lanes of the
//     launch alone, by masks; addresses by bytes are checked, a lane at a time.
//   - Code that others write: the executable view cannot be written (package mem).
//   - A mask that is stale where ways meet: see control.go, whose rule is that
//     code runs only while a lane does, and that a construct which no lane
//     leaves for farther out gives back the mask that it was given.
package jit
