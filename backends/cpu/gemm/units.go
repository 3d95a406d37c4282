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

// Detect returns the units of this machine that are worth it and that the system lets be
// used, and why there are none if it is the system that refuses them. Dots are not: on a
// processor with both, products in f32 are as quick, keep the written order to the bit,
// and subnormals. How they are on one without AMX was not measured.
func Detect() (u Units, why error) {
	switch err := Available(Tiles); {
	case err == nil:
		return Tiles, nil
	case errors.Is(err, errRefused):
		return NoUnits, err
	}
	return NoUnits, nil
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

// unitCode keeps code that was made, by the rows, columns and flags of its shape, which is
// never far.
var unitCode struct {
	mu   sync.Mutex
	made [unitKinds][stepWide + 1][3][4]atomic.Pointer[mem.Code]
}

func codeOf(kind unitKind, s tile) (*mem.Code, error) {
	return codeAt(&unitCode.made[kind][s.rows][s.cols][s.way()], &unitCode.mu, func() ([]byte, error) {
		return [unitKinds]func(tile) ([]byte, error){tiler, dotter, interleaver, tilesOfColumns, tilesOfRows}[kind](s)
	})
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
