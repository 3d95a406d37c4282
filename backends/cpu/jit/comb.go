package jit

import (
	"sync"
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit/mem"
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/backends/hostmem"
)

// A comb takes elements that lie apart out of the vectors that they are in, byte by byte, so
// that one piece of machine code serves for elements of all sizes, any steps between them, also
// downwards, and rows too short for a vector, some at a time: tables say which byte comes from
// where. There is code for each number of vectors: of 64 bytes, which AVX512-VBMI permutes,
// or else of 16. Vectors of 32 bytes are no faster than those of 64, nor is to ask for lines ahead.

const (
	mostCombed = 8    // vectors that a comb takes elements out of
	combReach  = 4096 // bytes between elements, at most: what is between two lies in the pages of these
)

// comber is the comb of a view, of which groups of elements are taken.
type comber struct {
	key    combKey
	code   *mem.Code // nil: the view has none
	vector int64     // bytes
	lanes  int64     // of a vector
	rows   int64     // of a group, if they are shorter than that
	low    int64     // where the lowest of a group's elements begins, from its first
	span   int64     // bytes from there to behind the highest
	call   combCall
	aside  [128]byte // a copy of the end of memory, behind which nothing may be read
}

// combKey is what a comb is made for.
type combKey struct {
	vector, size, inner, stride, around int64
}

// combCall is what its code is told.
type combCall struct {
	from             uintptr
	to               unsafe.Pointer
	count            int64
	fromStep, toStep int64
	at               [mostCombed]int64 // where the vectors begin
	masks            [mostCombed]uint64
	index            [mostCombed][64]byte
}

// combFor returns the comb of a view for a target, which c becomes; nil: it has none.
func (c *comber) combFor(t *target, w *view) *comber {
	k := combKey{vector: 16, size: w.size}
	if t.evex && permutesBytes {
		k.vector = 64
	}
	k.inner, k.stride = w.inner()
	if k.inner < k.vector/k.size {
		if w.rank == 1 {
			return nil
		}
		k.around = w.stride[w.rank-2]
	} else {
		k.inner = 0
	}
	if c.key != k {
		c.make(k)
	}
	if c.code == nil {
		return nil
	}
	return c
}

// make makes c the comb for k.
func (c *comber) make(k combKey) {
	c.key, c.code, c.vector, c.lanes, c.rows = k, nil, k.vector, k.vector/k.size, 1
	if abs(k.stride) > combReach || abs(k.around) > combReach {
		return
	}
	n := c.lanes
	at := func(lane int64) int64 { return lane * k.stride }
	if k.inner > 0 {
		c.rows = c.lanes / k.inner
		n = c.rows * k.inner
		at = func(lane int64) int64 { return lane/k.inner*k.around + lane%k.inner*k.stride }
	}
	low, high := int64(0), int64(0)
	for i := range n {
		low, high = min(low, at(i)), max(high, at(i))
	}
	c.low, c.span = low, high-low+k.size
	count, left := 0, n
	var done [64]bool
	for ; left > 0; count++ {
		if count == mostCombed || count > 2 && int64(count) >= n/2 {
			return // one by one is as fast
		}
		first := c.span
		for i := range n {
			if !done[i] {
				first = min(first, at(i)-low)
			}
		}
		first = min(first, max(c.span-k.vector, 0))
		c.call.at[count], c.call.masks[count] = first, 0
		for i := range c.call.index[count] {
			c.call.index[count][i] = 0x80 // nothing, of vectors of 16 bytes
		}
		for i := range n {
			if x := at(i) - low - first; !done[i] && x >= 0 && x+k.size <= k.vector {
				done[i] = true
				left--
				for b := range k.size {
					c.call.index[count][i*k.size+b] = byte(x + b)
					c.call.masks[count] |= 1 << (i*k.size + b)
				}
			}
		}
	}
	c.code = combCode(k.vector == 64, count)
}

// takeRows copies some of so many rows of n elements that are so many bytes apart, and returns how many.
func (c *comber) takeRows(to unsafe.Pointer, from uintptr, rows, n, around int64) int64 {
	if n < c.lanes {
		rows -= rows % c.rows
		if rows > 0 {
			c.take(to, from, rows/c.rows, c.rows*n, c.rows*around)
		}
		return rows
	}
	if abs(around) > combReach || rows*c.lanes < n {
		c.takeRow(to, from, n)
		return 1
	}
	for lane := int64(0); lane < n; lane += c.lanes {
		lane := min(lane, n-c.lanes) // some of the ones before again
		c.take(unsafe.Add(to, lane*c.key.size), from+uintptr(lane*c.key.stride), rows, n, around)
	}
	return rows
}

// takeRow copies a row of n elements, at least as many as a vector has.
func (c *comber) takeRow(to unsafe.Pointer, from uintptr, n int64) {
	c.take(to, from, n/c.lanes, c.lanes, c.lanes*c.key.stride)
	if n%c.lanes > 0 { // some of these again
		lane := n - c.lanes
		c.take(unsafe.Add(to, lane*c.key.size), from+uintptr(lane*c.key.stride), 1, c.lanes, 0)
	}
}

// take copies so many groups of n elements from where the first one's first lies on, which are so many
// bytes apart.
func (c *comber) take(to unsafe.Pointer, from uintptr, count, n, step int64) {
	toStep := n * c.key.size
	from += uintptr(c.low)
	beside := int64(0) // groups whose vector would end behind all
	if over := c.vector - c.span; over > 0 {
		switch {
		case step == 0:
			beside = count
		default:
			beside = min(count, (over+abs(step)-1)/abs(step))
		}
	}
	if step >= 0 && count > beside {
		c.run(to, from, count-beside, toStep, step)
		if beside > 0 { // else what is behind may be nothing that a pointer may be to
			to, from = unsafe.Add(to, (count-beside)*toStep), from+uintptr((count-beside)*step)
		}
	}
	if beside > 0 {
		length, first := (beside-1)*abs(step)+c.span, from
		if step < 0 {
			first += uintptr((beside - 1) * step)
		}
		copy(c.aside[:], unsafe.Slice((*byte)(hostmem.Pointer(first)), length))
		c.run(to, uintptr(unsafe.Pointer(&c.aside))+from-first, beside, toStep, step)
	}
	if step < 0 && count > beside {
		c.run(unsafe.Add(to, beside*toStep), from+uintptr(beside*step), count-beside, toStep, step)
	}
}

func (c *comber) run(to unsafe.Pointer, from uintptr, count, toStep, fromStep int64) {
	if count == 0 {
		return
	}
	x := &c.call
	x.from, x.to, x.count, x.fromStep, x.toStep = from, to, count, fromStep, toStep
	enter(c.code.Entry, uintptr(unsafe.Pointer(x)))
	x.to = nil
}

var combCodes struct {
	sync.Mutex
	made [2][mostCombed + 1]*mem.Code
}

// combCode returns the code for so many vectors; nil if there is no room for it.
func combCode(wide bool, count int) *mem.Code {
	i := 0
	if wide {
		i = 1
	}
	combCodes.Lock()
	defer combCodes.Unlock()
	if combCodes.made[i][count] == nil {
		if code, err := writeComb(wide, count); err == nil {
			combCodes.made[i][count], _ = Put(code)
		}
	}
	return combCodes.made[i][count]
}

// writeComb writes it.
func writeComb(wide bool, count int) ([]byte, error) {
	a := &x86.Asm{}
	vl, form := 16, x86.ShufB
	if wide {
		a.Has, vl, form = x86.AVX512|x86.VBMI, 64, x86.PermB
	}
	at := [mostCombed]x86.Reg{x86.RAX, x86.R10, x86.R11, x86.RBX, x86.R12, x86.R13, x86.R15, x86.RDI} // the last is what holds all of them
	var c combCall
	for i := range count {
		if saved(at[i]) {
			a.Push(at[i])
		}
	}
	for i := range count {
		a.Emit(x86.MovUPS, x86.Inst{VL: vl, D: x86.Reg(i), IsMem: true, Mem: x86.At(x86.RDI, int32(unsafe.Offsetof(c.index))+int32(64*i))})
		if wide && i > 0 {
			a.Emit(x86.KMovQ, x86.Inst{VL: 16, D: x86.Reg(i), IsMem: true, Mem: x86.At(x86.RDI, int32(unsafe.Offsetof(c.masks))+int32(8*i))})
		}
	}
	for i, r := range []x86.Reg{x86.RSI, x86.RDX, x86.RCX, x86.R8, x86.R9} { // the call's first fields
		a.Load(x86.W64, r, x86.At(x86.RDI, int32(8*i)))
	}
	for i := range count {
		a.Load(x86.W64, at[i], x86.At(x86.RDI, int32(unsafe.Offsetof(c.at))+int32(8*i)))
	}
	again := a.NewLabel()
	a.Bind(again)
	for i := range count {
		from := x86.Mem{Base: x86.RSI, Index: at[i], Scale: 1}
		d := x86.Reg(8)
		if wide {
			in := x86.Inst{VL: vl, D: d, A: x86.Reg(i), IsMem: true, Mem: from}
			if i > 0 {
				in.K = x86.Reg(i)
			}
			a.Emit(form, in)
			continue
		}
		if i > 0 {
			d = 9
		}
		a.Emit(x86.MovUPS, x86.Inst{VL: vl, D: d, IsMem: true, Mem: from})
		a.Emit(form, x86.Inst{VL: vl, D: d, A: d, B: x86.Reg(i)})
		if i > 0 {
			a.Emit(x86.Or, x86.Inst{VL: vl, D: 8, A: 8, B: d})
		}
	}
	a.Emit(x86.StoreUPS, x86.Inst{VL: vl, D: 8, IsMem: true, Mem: x86.At(x86.RDX, 0)})
	a.Op(x86.ADD, x86.W64, x86.RSI, x86.R8)
	a.Op(x86.ADD, x86.W64, x86.RDX, x86.R9)
	a.OpImm(x86.SUB, x86.W64, x86.RCX, 1)
	a.Jcc(x86.NE, again)
	for i := count - 1; i >= 0; i-- {
		if saved(at[i]) {
			a.Pop(at[i])
		}
	}
	a.VZeroUpper()
	a.Ret()
	return a.Code, a.Finish()
}
