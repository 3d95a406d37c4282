// Package gemm is the engine of the CPU backend for the library's matrix
// products: micro-kernels of machine code for AVX-512, or AVX2 with FMA, with
// blocks and panels around them as in BLIS, and exactly the bits of the written
// order (docs/REDUCTIONS.md).
//
// # Why nothing is lost by the order
//
// An element is a sum of chunks of 512 products, each a chain of FMAs from +0.0 in
// order of k; the chunks' results are added in order. A blocked product goes
// through k in blocks anyway, keeps a tile's sums in registers through one, and
// adds them to what the blocks before gave. So the block of k is 512, whatever the
// caches; a tile's sums begin from zero; and its last step adds the sum before,
// and, in the last chunk, multiplies by alpha and does FMA(beta, C, ·). Vectors
// lie along C's rows, or its columns, never along k. (Beyond 512 chunks the
// library's plan launches the groups apart, as parts.)
//
// # What it takes
//
// Compile recognises the programs that kernels.Gemm and kernels.Matvec launch, by
// identity (kernels.ProductOf), and Run checks everything that a launch says:
// who takes the program from a dump may launch it with other sizes and smaller
// slots. Launches that are not as a plan has them, and those with fuel, run on
// strips, whose accesses are checked one by one. The device says that it needs
// few lanes (backends.Info.FewLanes), so that plans leave k whole where C is small.
//
// Programs of users are package contraction's, which has Chains do their loops alone,
// into scratch, and runs them with a load of that in the loop's place. Such a loop is one
// chain however long, so that a chunk begins with the sums of the one before.
//
// # Files
//
//	micro.go     the micro-kernel, for any number of rows and vectors
//	finish.go    what it does with its sums, and how they are stored
//	pack.go      what is packed of A and B
//	copy.go      its code: copies and transpositions
//	machine.go   the vectors and registers that there are
//	bycolumns.go what a tile does whose result lies by columns
//	rows.go      the kernel for up to six columns (matvec by rows, few rows times a
//	             transposed matrix): squares are transposed in registers; rows go side
//	             by side as an L1 has places for them, also fewer than a vector holds, and
//	             where they are few their chunks two by two
//	dot.go       few elements that are long sums: their chunks side by side, or those of a
//	             stack of rows by columns
//	stream.go    few rows times a large matrix as it lies (matvec by columns)
//	outer.go     a column times a row, of which only the result is large
//	stacks.go    stacks of small matrices, many at a time
//	product.go   products, a thread's memory, and which of all this serves a product
//	plan.go      a block of the result by panels and tiles: how it is done, and doing it
//	shape.go     how a product is cut into blocks and tiles, and threads share it
//	ahead.go     what is fetched meanwhile
//	elements.go  the types that are converted on the way
//	widened.go   … once, and what are products of numbers then
//	units.go     what multiplies groups of short elements, if the machine has such;
//	             detect*.go: whether it has
//	panels.go    the blocks of such products
//	tiles.go     their micro-kernels, of AMX's tiles and of vectors of groups
//	lines.go     rows by one column of integers, along k
//	turned.go    few columns by vectors of groups: rows are transposed in registers
//	deliver.go   what follows their sums
//	groups.go    how groups are packed
//	gemm.go      launches, tasks, threads
//	chain.go     products for package contraction, along one chain
//	direct.go    short products, written down as code that their callers enter
//	code.go      code that was made
//
// # A tile
//
// Of rows × vectors of C, as many as registers hold: 14 × 2 (AVX-512), 6 × 2
// (AVX2), fewer rows where there are fewer, dealt out evenly, and then more
// vectors, up to 28 × 1 and 1 × 8; of f64 8 × 3 where k is deep, as an L1 holds 8
// rows of 512. In each step of k it loads a row of B and
// broadcasts a column of A, which lies as rows do (a register for each multiple of
// their distance) or as columns do. The last columns are masked, so nothing beside
// an array is touched, and no panel need be padded.
//
// # Blocks
//
//	for rows of A, 2 MB of a chunk, or 1 MB where all of B stays packed for the next ones
//	  for chunks of k
//	    for columns of B, 1 KB wide or less: a quarter of an L2, packed in tiles
//	      for panels of A: what a tile's rows need, which the L1 holds
//	        one call: the panel by all tiles, 20 µs or so
//
// Meanwhile the next panel of A is fetched, and the next block of B that is to be packed. A block that
// can be loaded as it lies is packed by its first panel, which stores each row of a tile that it loads, and
// a panel of columns by its first tile.
//
// Threads share packed blocks of B where a product is large, of which each chunk is packed in pieces by those
// that need it (shape.go). Of a small one, or where B is small for the rows of the result, each packs what its tasks
// need by itself, once, and threads have all columns of a band of rows, one or a few of them: two that meet at a border of
// columns write to the same lines in each row, which costs more. Each begins with its own stretch of tasks and, done,
// helps with what is left of another's. So a thread that comes late, or shares its core, holds up none
// (docs/RATIONALE.md). Within a task a chunk that is shared meets all rows before the next, so that it stays in
// the L2. Of a B of more than 160 MB the columns behind come later.
//
// Short panels are done many in a call, which goes from tile to tile downwards, and then the next tiles to the right:
// 1,000 rows by 24 columns and 20 steps took twice as long by calls for each panel.
//
// B is used in place where it is small or few panels see it (AVX-512's of f32 seven, whose vectors are loaded
// from two lines each); it has to be packed where its rows are what lies apart. A is used in place but where its rows, or its
// columns, lie a multiple of a page apart, and so compete for few places of the
// caches, or its columns in so many pages that the processor does not remember where
// they are from tile to tile (a column of 1,000 rows: 1.19 times the speed when
// packed); in place it need not be moved first, which takes a tenth of the time that
// 1,024 rows by as many columns take. Of a
// product whose B has to be transposed, or its transposed product, Cᵀ = BᵀAᵀ, that
// is done which moves less.
//
// Of a stack of small matrices a call does the same tile of each of a run of them: tiles
// follow each other at the matrices' distances as they do side by side in a matrix. A product
// of 3 by 3 takes 5 ns so; what Go did for each took 120.
//
// Sums of chunks wait in C, also where it lies by columns: a tile then transposes them in registers
// (of 64 bytes; narrower ones go by way of scratch). Where C is read at the end, or is of another type, they
// wait in scratch.
//
// bf16 and integers of up to 16 bits are multiplied by units where there are some, bf16 in
// their order, with blocks of their own (panels.go). f16, and bf16 elsewhere, are packed as
// f32 and rounded when they are stored; integers of up to 32 bits are multiplied as such of
// 32 elsewhere, which wrap alike.
//
// # What may go wrong
//
//   - Wrong bits: tests hold all layouts, types and edges, over both widths,
//     against strips, and demand that no launch was declined.
//   - Holding up the collector, which waits for machine code: a call is a panel by
//     a block, or less; between two the launch looks whether it is cancelled.
//   - Tiles of AMX that a thread still has when it goes on to something else: the system
//     would keep 8 KB for it from then on. A call configures them and gives them back. Linux
//     grants their registers to a process that asks, once; where it does not, the device's
//     name says why, and vectors multiply.
//   - A launch that is not the library's: prepare proves from its numbers that
//     all accesses lie within the slots, or declines.
package gemm
