package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Cumulative sums of rows. A block has some chunks of a row, one beside the other, a lane
// an element of each, and keeps them in registers: each element is read and written once,
// where the library's plan does so twice. Of rows of several blocks the blocks meet, and
// tell each other their chunks' sums. Of so many rows that the device is full of them a
// block has a row instead, some chunks after the others: it waits for no other block, and
// more such blocks are at work at once. Where a row's blocks are too many, or can't meet, one
// launch finds the chunks' sums, another what is before each, and a third reads the elements
// again.

const scanChunk = kernels.ScanChunk

// mostTotals is how many chunks' sums a row of blocks that meet has, by which a lane has a
// few: their own sums are chunks of these.
const mostTotals = 4 * scanChunk

// scanPart is what a launch of blocks does.
type scanPart int

const (
	scanRow    scanPart = iota // all, of rows of so many blocks
	scanTotals                 // writes the sum of each chunk to slot m
	scanFinish                 // reads what is before each chunk, and itself, from slot m
	scanRounds                 // all, a block of a row, by as many rounds as a row else has blocks
)

// roundChunks is how many chunks of f32 a block has in a round: three blocks are at work
// on a multiprocessor then, where it has the registers for two of mostRegisters. Where there
// are several chunks of sums, each is of whole rounds. Rows of fewer than fewestRounds aren't
// worth it: of two, blocks that meet are as fast, of a little more they are faster.
const (
	roundChunks  = 32
	fewestRounds = 3
)

// scanShape is which chunks a block has.
type scanShape struct {
	part         scanPart
	t, out       isa.Type
	blocks, each int64 // of a row, 0: as many as a parameter says; chunks of a block
	exact        bool  // rows have just as many elements
}

// scan is cumsum of rows from elements of type t to those of another, packed.
func scan(t, out isa.Type, rows, cols int64, d Device) (*kernels.Plan, error) {
	if rows < 1 || cols <= scanChunk {
		return nil, nil
	}
	p := &kernels.Plan{}
	ok, err := scanSteps(p, t, out, kernels.Binding{Operand: 0, Type: t}, kernels.Binding{Operand: 1, Type: out}, rows, cols, d)
	if err != nil || !ok {
		return nil, err
	}
	return p, nil
}

// scanSteps appends the steps to a plan; not ok are more blocks than a launch has.
func scanSteps(p *kernels.Plan, t, out isa.Type, x, y kernels.Binding, rows, cols int64, d Device) (ok bool, err error) {
	acc := kernels.Accumulator(out)
	chunks, wide := ceil(cols, scanChunk), ceil(int64(acc.Size()), 4)
	registers := int64(mostRegisters)
	if t.Size() < 4 {
		registers -= 16 // for what of an element is in two at a time
	}
	s := scanShape{part: scanRow, t: t, out: out, blocks: ceil(chunks*wide, registers)}
	s.each = ceil(chunks, s.blocks)
	if rounds := chunks * wide / roundChunks; rounds >= fewestRounds && chunks <= mostTotals && full(rows, chunks, t, d) {
		s.part, s.each = scanRounds, roundChunks/wide
		s.blocks = ceil(chunks, s.each)
		if chunks <= scanChunk {
			s.each = ceil(chunks, s.blocks)
		}
	} else if s.blocks > 1 && (s.blocks > d.meet(s.blocks) || s.blocks*s.each > mostTotals) {
		s.part, s.each = scanTotals, warpRegisters/wide
		s.blocks = ceil(chunks, s.each)
	}
	blocks, grid := s.blocks, rows*s.blocks
	if s.part == scanRounds {
		grid = rows
	}
	if grid > maxBlocks {
		return false, nil
	}
	s.exact = blocks*s.each*scanChunk == cols
	params := func(s scanShape) (list []int64) {
		if !s.exact {
			list = append(list, cols)
		}
		if s.blocks == 0 {
			list = append(list, blocks)
		}
		return list
	}
	add := func(s scanShape, slots ...kernels.Binding) error {
		v, err := s.program(acc)
		if err != nil {
			return err
		}
		one := step(v, grid, slots, params(s)...)
		one.InPlace = true
		if s.part == scanRow {
			one.Meeting = meeting(s.blocks)
		}
		p.Steps = append(p.Steps, one)
		return nil
	}
	switch {
	case s.alone():
		return true, add(s, x, y)
	case s.part == scanRow:
		return true, add(s, x, y, between(p, acc, rows*blocks*s.each))
	}
	totals, before := between(p, acc, rows*blocks*s.each), between(p, acc, rows*blocks*s.each)
	s.blocks = 0
	if err := add(s, x, totals); err != nil {
		return false, err
	}
	if ok, err := scanSteps(p, acc, acc, totals, before, rows, blocks*s.each, d); err != nil || !ok {
		return false, err
	}
	s.part = scanFinish
	return true, add(s, x, before, y)
}

// full reports whether a device is full of rows that have a block each, on average while the
// launch lasts three fifths of what it has at once. Elements of two bytes are many for the bytes
// there are to read, so that fewer blocks do where rows aren't long.
func full(rows, chunks int64, t isa.Type, d Device) bool {
	if t.Size() < 4 && chunks <= mostTotals/2 {
		return rows >= d.Processors
	}
	atOnce := max(1, 3*d.Processors)
	return rows >= atOnce && 5*rows >= 3*atOnce*ceil(rows, atOnce)
}

// alone reports whether a block has a whole row.
func (s scanShape) alone() bool {
	return s.part == scanRounds || s.part == scanRow && s.blocks == 1
}

// program is the program of a launch's blocks.
func (s scanShape) program(acc isa.Type) (*isa.Verified, error) {
	return program(s, func(w *writer) {
		w.t, w.acc = s.t, acc
		wide := int64(acc.Size())
		total := s.blocks * s.each // chunks of a row that blocks know all of
		sums := ceil(total, scanChunk)
		w.line("program scan\nslot x %v", s.t)
		if s.part == scanRow || s.part == scanRounds {
			w.line("slot y %v", s.out)
		}
		if !s.alone() {
			w.line("slot m %v", acc)
		}
		switch s.part {
		case scanFinish:
			w.line("slot y %v", s.out)
		case scanRow, scanRounds: // the chunks' sums, what is before each, and the sums of these
			w.line("shared %d", (2*scanChunk*sums+sums)*wide)
		}
		if !s.exact {
			w.line("param cols u64")
		}
		w.line("block %d", scanChunk)
		if s.blocks == 0 {
			w.line("param parts u32\n  ldp.u32 parts, parts")
		} else {
			w.line("  mov.u32 parts, %d", s.blocks)
		}
		w.line("  sreg q, lane.x\n  sreg b, block.x\n  cvt.u64.u32 k64, q")
		if s.part == scanRounds {
			w.line("  mov.u32 row, b\n  mov.u32 part, 0\n  mov.u32 rounds, parts\n  loop rounds, done\n  mul.u32 b, row, parts\n  add.u32 b, b, part")
		} else {
			w.line("  div.u32 row, b, parts\n  rem.u32 part, b, parts")
		}
		x := make([]string, s.each)
		for j := range x {
			x[j] = name("x", 0, int64(j))
		}
		s.loads(w, x)
		for _, x := range x {
			w.widen(x)
		}
		for _, x := range x {
			w.line("  block_scan_add.%v %s, %[2]s", acc, x)
		}
		w.line("  cvt.u64.u32 own, b\n  mul.u64 own, own, %d", s.each*wide)
		switch s.part {
		case scanTotals:
			s.lastLane(w, x, "stg.%v %s, m[own + %d]")
			w.line("  exit")
			return
		case scanFinish:
			w.line("  max.u64 first, own, %d\n  sub.u64 first, first, %[1]d", wide)
			s.add(w, x, "ldg.%v before, m[first]", func(j int64) string { return fmt.Sprintf("ldg.%v before, m[own + %d]", acc, (j-1)*wide) })
		case scanRow, scanRounds:
			s.before(w, x, total, sums)
		}
		s.stores(w, x)
		if s.part == scanRounds {
			w.line("  add.u32 part, part, 1\ndone:")
		}
		w.line("  exit")
	})
}

// loads begins to load a lane's elements. Where rows are not exact, what is beyond their end
// is their last element, which is in no sum of theirs.
func (s scanShape) loads(w *writer, x []string) {
	size := int64(s.t.Size())
	if s.exact {
		w.line("  cvt.u64.u32 at, b\n  mul.u64 at, at, %d\n  add.u64 at, at, k64\n  mul.u64 from, at, %d", s.each*scanChunk, size)
		for j, x := range x {
			w.load(x, fmt.Sprintf("x[from + %d]", int64(j)*scanChunk*size))
		}
		return
	}
	w.line("  ldp.u64 pitch, cols\n  cvt.u64.u32 base, row\n  mul.u64 base, base, pitch")
	w.line("  cvt.u64.u32 first, part\n  mul.u64 first, first, %d\n  add.u64 base, base, first", s.each*scanChunk)
	w.line("  sub.u64 left, pitch, first\n  min.u64 left, left, %d\n  cvt.u32.u64 last, left\n  sub.u32 last, last, 1", s.each*scanChunk)
	for j, x := range x {
		w.line("  add.u32 k, q, %d\n  min.u32 k, k, last\n  cvt.u64.u32 at, k\n  add.u64 at, at, base\n  mul.u64 at, at, %d", int64(j)*scanChunk, size)
		w.load(x, "x[at]")
	}
}

// stores writes the sums.
func (s scanShape) stores(w *writer, x []string) {
	size := int64(s.out.Size())
	if s.exact {
		w.line("  mul.u64 to, at, %d", size)
		for j, x := range x {
			w.store(s.out, x, fmt.Sprintf("y[to + %d]", int64(j)*scanChunk*size))
		}
		return
	}
	// The same as q, which the compiler does not see: see rowText.places.
	w.line("  set.eq.u64 none, pitch, 0\n  sel.u32 again, none, last, q")
	for j, x := range x {
		w.line("  add.u32 k, again, %d\n  set.gt.u32 beyond, k, last\n  bra end, beyond\n  min.u32 k, k, last\n  cvt.u64.u32 to, k\n  add.u64 to, to, base\n  mul.u64 to, to, %d", int64(j)*scanChunk, size)
		w.store(s.out, x, "y[to]")
	}
	w.line("end:")
}

// lastLane has the last lane, which has the chunks' sums, store them.
func (s scanShape) lastLane(w *writer, x []string, store string) {
	w.line("  set.ne.u32 other, q, %d\n  bra told, other", scanChunk-1)
	for j, x := range x {
		w.line("  "+store, w.acc, x, int64(j)*int64(w.acc.Size()))
	}
	w.line("told:")
}

// add adds to each chunk's sums what is before it, which the first of a row has nothing of.
func (s scanShape) add(w *writer, x []string, first string, next func(j int64) string) {
	if s.blocks != 1 {
		w.line("  "+first+"\n  add.%[1]v before, before, %s\n  set.eq.u32 begins, part, 0\n  sel.%[1]v %[2]s, begins, %[2]s, before", w.acc, x[0])
	}
	for j, x := range x {
		if j > 0 {
			w.line("  %s\n  add.%v %s, before, %[3]s", next(int64(j)), w.acc, x)
		}
	}
}

// before finds what is before each chunk of a row of which its blocks know all chunks' sums,
// by chunks of these, and adds it.
func (s scanShape) before(w *writer, x []string, total, sums int64) {
	wide := int64(w.acc.Size())
	after := sums * scanChunk * wide // the first's place is that of the sums of chunks
	tops := 2 * after
	tell, hear := "sts.%v %s, shared[mine + %d]", fmt.Sprintf("lds.%v", w.acc)+" %s, shared[spot]"
	w.line("  mov.u32 none, 0\n  mul.u32 mine, part, %d", s.each*wide)
	if !s.alone() {
		tell, hear = "stg.%v %s, m[own + %d]", fmt.Sprintf("ldg.%v", w.acc)+" %s, m[spot64]"
		w.line("  div.u32 start, b, parts\n  mul.u32 start, start, %d", total)
	}
	s.lastLane(w, x, tell)
	w.line("  bar_sync 0")
	z := make([]string, sums)
	for i := range z {
		z[i] = name("z", 0, int64(i))
		w.line("  add.u32 spot, q, %d\n  min.u32 spot, spot, %d", int64(i)*scanChunk, total-1)
		if !s.alone() {
			w.line("  add.u32 spot, spot, start\n  cvt.u64.u32 spot64, spot\n  mul.u64 spot64, spot64, %d", wide)
		} else {
			w.line("  mul.u32 spot, spot, %d", wide)
		}
		w.line("  "+hear, z[i])
	}
	for _, z := range z {
		w.line("  block_scan_add.%v %s, %[2]s", w.acc, z)
	}
	w.line("  mul.u32 at32, q, %d", wide)
	if sums > 1 { // few enough for each lane to find what is before them
		w.line("  set.ne.u32 other, q, %d\n  bra topped, other", scanChunk-1)
		for i, z := range z[:sums-1] {
			w.line("  sts.%v %s, shared[none + %d]", w.acc, z, tops+int64(i)*wide)
		}
		w.line("topped:\n  bar_sync 0")
		top := func(i int) string {
			w.line("  lds.%v top%d, shared[none + %d]", w.acc, i, tops+int64(i)*wide)
			return fmt.Sprintf("top%d", i)
		}
		a := top(0)
		w.line("  add.%v %s, %s, %[2]s", w.acc, z[1], a)
		if sums > 2 {
			b := top(1)
			w.line("  add.%v both, %s, %s\n  add.%[1]v %[4]s, both, %[4]s", w.acc, a, b, z[2])
			if sums > 3 {
				w.line("  add.%v both, %s, %s\n  add.%[1]v both, %[4]s, both\n  add.%[1]v %[5]s, both, %[5]s", w.acc, b, top(2), a, z[3])
			}
		}
	}
	for i, z := range z {
		w.line("  sts.%v %s, shared[at32 + %d]", w.acc, z, after+int64(i)*scanChunk*wide)
	}
	w.line("  bar_sync 0\n  max.u32 first, mine, %d\n  sub.u32 first, first, %[1]d", wide)
	s.add(w, x, fmt.Sprintf("lds.%v before, shared[first + %d]", w.acc, after), func(j int64) string {
		return fmt.Sprintf("lds.%v before, shared[mine + %d]", w.acc, after+(j-1)*wide)
	})
}

// scanOf is scan of operands with shapes, whose rows are the last axes dimensions.
func scanOf(l []kernels.Layout, axes int, d Device) (*kernels.Plan, error) {
	if len(l) != 2 || !l[0].Packed() || !l[1].Packed() || l[0].Elements() != l[1].Elements() {
		return nil, nil
	}
	rows, cols := int64(1), int64(1)
	for k, n := range l[0].Shape {
		if k < len(l[0].Shape)-axes {
			rows *= n
		} else {
			cols *= n
		}
	}
	return scan(l[0].Type, l[1].Type, rows, cols, d)
}
