package gemm

import (
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/jit/mem"
)

// library keeps code. It is made when it is first needed, and stays: there are
// some hundreds of shapes, of 1 to 5 KB each.
type library struct {
	m    machine
	half *library // nil: there are no narrower vectors
	mu   sync.Mutex
	made [codeKinds][numbers]atomic.Pointer[shapes]
}

// shapes are the codes of a kind and a type.
type shapes [maxRows + 1][maxCols + 1][ways]atomic.Pointer[mem.Code]

type codeKind uint8

const (
	multiplies codeKind = iota
	streams
	copies
	transposes
	moves
	sequences
	rowwise
	chunkwise
	fewwise
	fewChunkwise
	dotwise
	widens
	narrows
	outers
	codeKinds
)

// The libraries of AVX2 and of AVX-512, each with those of narrower vectors.
var (
	narrow = sync.OnceValue(func() *library { return newLibrary(machine{false, 32}) })
	wide   = sync.OnceValue(func() *library { return newLibrary(machine{true, 64}) })
)

func newLibrary(m machine) *library {
	l := &library{m: m}
	if m.bytes > 16 {
		l.half = newLibrary(machine{m.evex, m.bytes / 2})
	}
	return l
}

// around is the library of the narrowest vectors that hold so many bytes, or of the widest.
func (l *library) around(bytes int64) *library {
	for l.half != nil && bytes <= int64(l.half.m.bytes) {
		l = l.half
	}
	return l
}

// ways is how many combinations of flags a shape may have.
const ways = 3 * 16

// way numbers the flags of a shape, of which along and packsA exclude each other.
func (s tile) way() int {
	way := 0
	for i, flag := range []bool{s.mask, s.far, s.packs, s.byColumns} {
		if flag {
			way |= 1 << i
		}
	}
	switch way *= 3; {
	case s.along:
		way++
	case s.packsA:
		way += 2
	}
	return way
}

// codeAt returns the code that a place has; what write writes goes there first if there is none.
func codeAt(place *atomic.Pointer[mem.Code], mu *sync.Mutex, write func() ([]byte, error)) (*mem.Code, error) {
	if c := place.Load(); c != nil {
		return c, nil
	}
	mu.Lock()
	defer mu.Unlock()
	if c := place.Load(); c != nil {
		return c, nil
	}
	code, err := write()
	if err != nil {
		return nil, err
	}
	c, err := jit.Put(code)
	if err == nil {
		place.Store(c)
	}
	return c, err
}

func (l *library) get(kind codeKind, s tile) (*mem.Code, error) {
	of := l.made[kind][s.t].Load()
	if of == nil {
		l.made[kind][s.t].CompareAndSwap(nil, new(shapes))
		of = l.made[kind][s.t].Load()
	}
	return codeAt(&of[s.rows][s.cols][s.way()], &l.mu, func() (code []byte, err error) {
		switch kind {
		case multiplies:
			code, err = micro(l.m, s, false)
		case streams:
			code, err = micro(l.m, s, true)
		case copies:
			code, err = copier(l.m, s)
		case transposes:
			code, err = transposer(s)
		case moves:
			code, err = mover(l.m, s)
		case sequences:
			code, err = sequence(l.m, s)
		case rowwise:
			code, err = byRows(l.m, s, false, false)
		case chunkwise:
			code, err = byRows(l.m, s, true, false)
		case fewwise:
			code, err = byRows(l.m, s, false, true)
		case fewChunkwise:
			code, err = byRows(l.m, s, true, true)
		case dotwise:
			code, err = chunkSums(l.m, s)
		case widens:
			code, err = widener(l.m, s)
		case narrows:
			code, err = narrower(l.m, s)
		case outers:
			code, err = outer(l.m, s)
		}
		return code, err
	})
}

// call runs code on the worker's args, or writes down that it is to be run.
func (w *worker) call(kind codeKind, s tile) {
	if w.err != nil {
		return
	}
	c, err := w.p.lib.get(kind, s)
	if err != nil {
		w.err = err
		return
	}
	if w.written != nil {
		w.err = w.written.add(kind, s, c, &w.args)
		return
	}
	jit.Enter(c, unsafe.Pointer(&w.args))
}
