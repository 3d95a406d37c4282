package gemm

import (
	"errors"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/jit/mem"
)

// Units are what multiplies pairs of 16-bit floats.
type Units int

// The units. Without any, bf16 is widened and multiplied as f32.
const (
	NoUnits Units = iota
	Dots          // AVX512-BF16
	Tiles         // AMX, beside it
)

// String returns the units' name.
func (u Units) String() string { return [...]string{"", "avx512_bf16", "amx"}[u] }

// Detect returns the best units of this machine that the system lets be used, and why there
// are no better ones if it is the system that refuses these.
func Detect() (u Units, why error) {
	for u = Tiles; u > NoUnits; u-- {
		err := Available(u)
		if err == nil {
			break
		}
		if errors.Is(err, errRefused) {
			why = err
		}
	}
	return u, why
}

// errRefused is in errors of what the processor has and the system does not give.
var errRefused = errors.New("the system refuses AMX's registers")

// unitKind is a kind of code for units.
type unitKind uint8

const (
	tiled unitKind = iota
	dotted
	interleaves
	tilesByColumns
	tilesByRows
	unitKinds
)

// unitCode keeps code that was made, by the rows, columns and flags of its shape.
var unitCode struct {
	mu   sync.Mutex
	made [unitKinds][stepWide + 1][3][4]atomic.Pointer[mem.Code]
}

func codeOf(kind unitKind, s tile) (*mem.Code, error) {
	way := 0
	if s.along {
		way |= 1
	}
	if s.mask {
		way |= 2
	}
	place := &unitCode.made[kind][s.rows][s.cols][way]
	if c := place.Load(); c != nil {
		return c, nil
	}
	unitCode.mu.Lock()
	defer unitCode.mu.Unlock()
	if c := place.Load(); c != nil {
		return c, nil
	}
	code, err := [unitKinds]func(tile) ([]byte, error){tiler, dotter, interleaver, tilesOfColumns, tilesOfRows}[kind](s)
	if err != nil {
		return nil, err
	}
	c, err := jit.Put(code)
	if err == nil {
		place.Store(c)
	}
	return c, err
}

// enter runs code for units on the worker's arguments for it.
func (w *worker) enter(kind unitKind, s tile) {
	if w.err != nil {
		return
	}
	c, err := codeOf(kind, s)
	if err != nil {
		w.err = err
		return
	}
	jit.Enter(c, unsafe.Pointer(w.unit))
}
