package jit

import (
	"unsafe"

	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
)

// What lies apart is copied to memory in which it is contiguous, a piece at a time, and back: by
// machine code where a comb takes it out of few vectors, see comb.go, and else one by one.

// stage copies n elements from g on between the view and contiguous memory, behind which as much
// as a vector may be written too. c has the view's comb; nil: it has none.
func (w *view) stage(c *comber, buf unsafe.Pointer, g uint64, n int, out bool) {
	switch w.size {
	case 1:
		stageAs[uint8](w, c, buf, g, n, out)
	case 2:
		stageAs[uint16](w, c, buf, g, n, out)
	case 4:
		stageAs[uint32](w, c, buf, g, n, out)
	default:
		stageAs[uint64](w, c, buf, g, n, out)
	}
}

func stageAs[T uint8 | uint16 | uint32 | uint64](w *view, c *comber, buf unsafe.Pointer, g uint64, n int, out bool) {
	var at [isa.MaxRank]int64
	in, off := w.rank-1, int64(0)
	for i, r := in, int64(g); i >= 0; i-- {
		at[i] = r % w.shape[i]
		off += at[i] * w.stride[i]
		r /= w.shape[i]
	}
	x, inner, stride := unsafe.Slice((*T)(buf), n), w.shape[in], w.stride[in]
	for {
		k := min(int64(len(x)), inner-at[in])
		p := hostmem.Pointer(w.base + uintptr(off))
		rows := int64(1)
		switch {
		case out:
			scatter(x[:k], p, stride)
		case c == nil:
			gather(x[:k], p, stride)
		case in > 0 && k == inner && inner < c.lanes*mostCombed:
			rows = min(int64(len(x))/inner, w.shape[in-1]-at[in-1])
			rows = c.takeRows(unsafe.Pointer(&x[0]), uintptr(p), rows, inner, w.stride[in-1])
			if rows == 0 {
				rows = 1
				gather(x[:k], p, stride)
			}
		case k >= c.lanes:
			c.takeRow(unsafe.Pointer(&x[0]), uintptr(p), k)
		default:
			gather(x[:k], p, stride)
		}
		if x = x[rows*k:]; len(x) == 0 {
			return
		}
		// On to the next run: at the end of a dimension the one around it steps.
		if rows > 1 {
			at[in-1] += rows - 1
			off += (rows - 1) * w.stride[in-1]
		}
		at[in] += k
		off += k * stride
		for i := in; i > 0 && at[i] == w.shape[i]; i-- {
			off += w.stride[i-1] - at[i]*w.stride[i]
			at[i] = 0
			at[i-1]++
		}
	}
}

// gather loads what lies so many bytes apart from p on, four at a time: one by one takes half as long again.
func gather[T uint8 | uint16 | uint32 | uint64](x []T, p unsafe.Pointer, stride int64) {
	off := int64(0)
	for len(x) >= 4 {
		q := unsafe.Add(p, off)
		x[0], x[1] = *(*T)(q), *(*T)(unsafe.Add(q, stride))
		x[2], x[3] = *(*T)(unsafe.Add(q, 2*stride)), *(*T)(unsafe.Add(q, 3*stride))
		x, off = x[4:], off+4*stride
	}
	for i := range x {
		x[i] = *(*T)(unsafe.Add(p, off))
		off += stride
	}
}

// scatter stores what gather loads.
func scatter[T uint8 | uint16 | uint32 | uint64](x []T, p unsafe.Pointer, stride int64) {
	off := int64(0)
	for len(x) >= 4 {
		q := unsafe.Add(p, off)
		*(*T)(q), *(*T)(unsafe.Add(q, stride)) = x[0], x[1]
		*(*T)(unsafe.Add(q, 2*stride)), *(*T)(unsafe.Add(q, 3*stride)) = x[2], x[3]
		x, off = x[4:], off+4*stride
	}
	for _, v := range x {
		*(*T)(unsafe.Add(p, off)) = v
		off += stride
	}
}
