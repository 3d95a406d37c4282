// Package jit is the engine of the CPU backend that makes machine code for
// x86-64, with AVX-512 or with AVX2 and FMA. What it declines runs on strips,
// and Compile's error says why.
//
// A canonical function, with its expansions in place, becomes one function that
// runs a range of lanes. Lanes lie side by side in vectors, in groups of as
// many as the widest type of the program allows: 16 or 8 (AVX-512), 8 or 4
// (AVX2), or more of narrow integers, so that every value of a group is one register.
// Values stay there from load to store.
//
// # Stages, a file each
//
//	gen.go      looks the program over; lays out the loops over groups
//	target.go   machines: their vectors and registers
//	rules.go    what each instruction becomes; convert.go, memory.go, tables.go, bytes.go,
//	            lanes.go (a lane at a time), masks.go, extremum.go, quotient.go, whole.go,
//	            invariant.go, root.go, special.go and asked.go have those of a kind
//	constants.go numbers that all lanes have
//	apart.go    numbers of 64 bits that the launch shares, where lanes have none
//	packed.go   integers of 8 and 16 bits that take no more in registers
//	halved.go   vectors of half the length, where a processor does long ones as two
//	pages.go    pages that loops will come to, of which they ask where they lie
//	control.go  branches and loops, by masks; joint.go: by all groups together; firsts.go: branches
//	            of a block's first lanes
//	inplace.go  results of branches in the registers of what they take the place of
//	linear.go   finds integers that step evenly along lanes; heads.go computes them
//	blocks.go   programs that run block after block; arrays.go: what is kept between their
//	            segments; access.go: their memory; spaced.go: that which lies apart;
//	            slots.go: where slots are, kept in registers in loops; blockgroups.go: how many
//	            groups of a block do a segment together
//	atomics.go  atomic operations; shared.go: a block's shared memory
//	soon.go     puts what adds up what loops leave right behind them
//	collective.go  what the lanes of a block come to together; running.go: scans by which each
//	            group goes from its loads to its stores; columnscans.go: those of columns side by
//	            side; interleaved.go: stores side by side
//	lir.go      instructions on virtual registers, which those write
//	tidy.go     joins copies with what they copy, and leaves out what nothing reads
//	fold.go     makes loads operands of what they are for
//	schedule.go puts instructions in the order in which they could begin
//	alloc.go    registers, by linear scan
//	encode.go   machine code, by package x86
//	kernel.go   variants, which launches ask for
//	dump.go     the stages as text
//	decline.go  what runs the launches that a kernel declines
//	view.go     how slots lie in memory; staging.go: what lies apart, copied to lie side by side;
//	            comb.go: by permutations of the vectors that it is in
//	hoist.go    what is the same in all lanes, once
//	head.go     lanes up to where a line of the first result begins, and what all lanes store
//	downwards.go  lanes from the last to the first, where loads would wait for stores
//	run.go      launches, in chunks and calls
//	direct.go   launches for others to enter
//	share.go    other packages' machine code; enter_*.go: what the processor
//	            has, and how code is entered
//
// # Values
//
// An element takes 4 or 8 bytes in a register: integers of up to 32 bits are
// kept extended by their own sign, and wrapped after what may leave their
// range; f16 and bf16 are kept as f32 and rounded after each instruction, as
// they are defined. Where a program does nothing with integers of 8 and 16 bits but what
// there are packed instructions for, they are packed, and up to 64 lanes are a group. A
// predicate is a mask register, or in AVX2 a vector of ones
// and zeros. All lanes compute, also those that do not run: no instruction
// traps. Masks matter to stores, to what ways that meet hold, and to faults.
// What is the same for the launch is computed once, before the loop; where nothing else has
// 64 bits, such numbers are no reason for smaller groups.
//
// The main loop does whole groups, some at a time where they are short, and
// without masks; a second one, with a mask of the lanes that there are, does
// the rest, so that nothing beside an array is ever touched. In large launches
// whose first result begins within a line, that one does the lanes up to the next line too, first.
//
// # Blocks
//
// A program in which lanes meet, or address memory by bytes that step evenly along
// them, runs block after block, where blocks are rows of lanes. The body is cut
// where lanes meet, at barriers and reductions; all groups of a block run a segment,
// in loops of their own, before the next begins. What varies and is used in a later
// segment lies in an array of the frame meanwhile, one element for each lane, and so
// do the masks of lanes, once some may have left.
//
// Indices, addresses and counts are heads: one number in a general register, that of
// the block's first lane, with the step from lane to lane known beforehand. They are
// computed once a block, or once a round of a loop (also what all lanes load from a slot
// that nothing writes, as a row's number), and become vectors only where
// something asks for one. So 64-bit addresses don't make f32 programs narrow, and an
// access whose step is its element's size is a vector load or store, after one check
// for all groups that are done together. The check takes no proof: what would stray,
// or is masked at the end of a slot, goes a lane at a time, by way of a buffer.
// Elements that lie a few elements apart, as those of short rows do, are permuted out of
// the vectors in which they are; those up to a few hundred bytes apart are collected with
// general registers.
//
// A comparison of what counts lanes with what they share, as of lanes with a row's
// length, is a number of lanes, and takes no vector: so a program on narrow integers
// has nothing wider in vectors, and they are packed in blocks too.
//
// A reduction's operand goes to an array filled up with the identity to a power of
// two, or stays in registers where all groups are done together, and is halved: whole
// groups by a tree of which few branches are held at a time, and then within the group. That is the
// written order, and the only one. Groups that share a loop with the same rounds do it together, up to 64
// if it is short, so that memory is read in its own order; a sum's partials stay in registers as far as
// there are some.
//
// A scan works in such an array, group by group, and what is between scans with it where that is
// straight. Columns side by side are scanned as they lie in memory. Scans of many groups go from
// the array's end to its start, once for each distance.
//
// Shared memory is a slot that lies in the frame (shared.go). Atomic operations are done a lane at a time
// (atomics.go). Lanes that meet within a branch or a loop are declined, as are launches of programs whose lanes meet, or
// share memory, and whose blocks have more than one row.
//
// # Memory
//
// A variant is made for a shape: which of the slots accessed by index stand for
// one element, where all others are contiguous, or how large blocks are; and, for what launches
// of such sizes and places do faster, whether results go past the caches, lanes up to a line come first,
// vectors are short, and pages are asked for. Of these ways a kernel has but so many (kernel.go). Rows of strided views are done one after the other, in one call as far as
// they lie evenly in all views; what is strided within a row goes through memory in
// which it is contiguous.
//
// # Calls
//
// A function takes the address of its arguments (layout.go), which lie outside
// of stacks, since those move. It keeps C's calling convention, uses less
// than 100 bytes of stack and calls nothing. It is entered directly, on the goroutine's
// stack. While it runs the goroutine cannot be stopped: signals that preempt or
// profile land in code that Go knows nothing of, which it lets go on. The
// collector waits for it, so a call is for some 50 µs of work. Where a loop
// may make a lane take longer, the function is called as C's are (45 ns), and
// the collector does not wait. Loops that are not short look whether the launch
// is cancelled. Launches with fuel, if there are loops, run on strips.
// Code that others enter (direct.go) was chosen for one launch and is right for any addresses, aligned to
// elements alone: nothing in it may rest on where memory lay then.
//
// # Another machine
//
// What imports package x86 is for x86-64: the rules, control, memory and blocks, whose emit functions name
// registers, and the encoder. target.go tells AVX-512 from AVX2 there, by evex and the bytes of a
// vector. What finds out about programs (linear.go, soon.go, blockgroups.go, most of inplace.go,
// asked.go, special.go and packed.go, and blocks.go up to its code) and about launches (kernel.go, run.go, view.go,
// direct.go) asks for no machine, but for times and sizes of caches, which were measured on two of them: in
// run.go, pages.go, halved.go, head.go, downwards.go and blockgroups.go.
//
// # What may go wrong
//
//   - Wrong bits: conformance runs over each width, and again with so few
//     registers that all goes through memory; an encoding is held against GNU as.
//   - Instructions that the machine has not: the encoder refuses AVX-512's in code for AVX2.
//   - Memory that is not ours: element-wise accesses cover the lanes of the
//     launch alone, by masks; addresses by bytes are checked, a lane at a time.
//   - Code that others write: the executable view cannot be written (package mem).
//   - A number of the first lane taken for all: only what steps by a constant in
//     every lane is linear (linear.go), modulo 2^32 or 2^64; what may have wrapped is
//     not widened; parameters of loops are so as long as all lanes are in one round.
//   - A value of another segment that was never stored: random programs whose lanes
//     meet (backends/cpu, TestRandomMeetings) run in blocks of all sizes.
//   - A mask that is stale where ways meet: see control.go, whose rule is that
//     code runs only while a lane does, and that a construct which no lane
//     leaves for farther out gives back the mask that it was given.
package jit
