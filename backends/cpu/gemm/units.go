package gemm

import (
	"errors"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/jit/mem"
	"github.com/hologram-project/hologram/backends/cpu/jit/x86"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/isa"
)

// Units are what multiplies several elements of 8 or 16 bits at once and adds them up in 32.
// Each has what those before it have.
type Units int

// The units. Without them, elements are widened and multiplied in 32 bits.
const (
	NoUnits Units = iota
	Words         // AVX512-VNNI: pairs of integers, whose bits are those of any other way
	Dots          // AVX512-BF16: pairs of bf16
	Tiles         // AMX: pairs of bf16 and fours of integers, in tiles
)

// String returns the units' name.
func (u Units) String() string { return [...]string{"", "avx512_vnni", "avx512_bf16", "amx"}[u] }

// Detect returns the units of this machine that are worth it and that the system lets be
// used, and why AMX is not among them if it is the system that refuses it. Dots are not on a processor
// with AMX: products in f32 are as quick there, keep the written order to the bit,
// and subnormals. On a Zen 4 they are twice as quick.
func Detect() (u Units, why error) {
	err := Available(Tiles)
	refused := errors.Is(err, errRefused)
	switch {
	case err == nil:
		return Tiles, nil
	case !refused:
		err = nil
		if Available(Dots) == nil {
			return Dots, nil
		}
	}
	if Available(Words) == nil {
		return Words, err
	}
	return NoUnits, err
}

// Products for which units are no use: of fewer steps of k, and of integers, whose bits no unit
// changes, those of so little work. (With floats a row's would depend on how many others there are.)
const (
	leastUnitSteps = 16
	fewUnitWork    = 16 * 16 * 16
)

// tooSmallForUnits reports whether to fill units takes longer than to multiply numbers.
func (p *product) tooSmallForUnits() bool {
	if p.unit == noMultiplier || p.k < leastUnitSteps {
		return true
	}
	q := *p
	q.unit = noMultiplier
	return !p.t.float() && p.m*p.n*p.k <= fewUnitWork && q.isWidened()
}

// multiplier is a way in which units multiply.
type multiplier uint8

const (
	noMultiplier multiplier = iota
	tilesBF16
	tilesI8
	tilesU8
	dotsBF16
	dotsI16
	dotsI8
	dotsU8
	multipliers
)

// multiplierOf is the one for elements of a type, whose sums have type acc and whose result
// type out; scaled: these are multiplied before they are stored.
func (u Units) multiplierOf(t, acc, out isa.Type, scaled bool) multiplier {
	switch {
	case t == isa.BF16 && u >= Dots && (out == isa.BF16 || out == isa.F32 && !scaled):
		if u >= Tiles {
			return tilesBF16
		}
		return dotsBF16
	case u < Words || acc.Float() || acc.Size() > 4:
	case t == isa.I8 && u >= Tiles:
		return tilesI8
	case t == isa.U8 && u >= Tiles:
		return tilesU8
	case t == isa.I8:
		return dotsI8
	case t == isa.U8:
		return dotsU8
	case t == isa.I16 || t == isa.U16 && acc.Size() == 2: // of 16 bits of a sum all signs are one
		return dotsI16
	}
	return noMultiplier
}

func (u multiplier) float() bool { return u == tilesBF16 || u == dotsBF16 }

func (u multiplier) tiles() bool { return u >= tilesBF16 && u <= tilesU8 }

// size is how many bytes an element has.
func (u multiplier) size() int64 {
	if u == dotsBF16 || u == dotsI16 || u == tilesBF16 {
		return 2
	}
	return 1
}

// group is how many elements along k lie in 32 bits, which a sum takes at once.
func (u multiplier) group() int64 { return 4 / u.size() }

// stepWide is how many elements of k a step takes.
func (u multiplier) stepWide() int64 { return 64 / u.size() }

// rounds is in how many of restRounds vectors go through a step of which so many elements are
// not filled up, and a group of zeros more, after which −0.0, which an underflow leaves, is +0.0 as after them all.
func (u multiplier) rounds(k int64) int64 {
	return min(ceil((ceil(k, u.group())+1)*restRounds, tileRows), restRounds)
}

// flips: the instruction takes one factor's bytes with a sign and the other's without, and both have
// the same. So B is packed with the highest bit of each turned over, which adds 128 to those with a sign,
// and takes 128 from those without: for every row of A its sum of elements so many times is in its
// sums too much, or too little, which the micro-kernels make good. What of A is filled up is zero and
// counts for nothing; what B has there does not matter.
func (u multiplier) flips() bool { return u == dotsI8 || u == dotsU8 }

// signBits are the highest bits of bytes.
const signBits = 0x80808080

// pack packs one element.
func (u multiplier) pack(dst, src uintptr) {
	from, to := hostmem.Pointer(src), hostmem.Pointer(dst)
	if u.size() == 1 {
		*(*uint8)(to) = *(*uint8)(from)
		return
	}
	*(*uint16)(to) = *(*uint16)(from)
}

// dot is the instruction that adds products to sums.
func (u multiplier) dot() *x86.Form {
	return [multipliers]*x86.Form{tilesBF16: x86.TileDotB16, tilesI8: x86.TileDotI8, tilesU8: x86.TileDotU8,
		dotsBF16: x86.DotB16, dotsI16: x86.DotI16, dotsI8: x86.DotU8I8, dotsU8: x86.DotU8I8}[u]
}

// features are what code that multiplies so may ask of its machine beside AVX-512.
func (u multiplier) features() x86.Features {
	switch {
	case u.tiles():
		return x86.VNNI | x86.BF16 | x86.AMX
	case u == dotsBF16:
		return x86.VNNI | x86.BF16
	case u != noMultiplier:
		return x86.VNNI
	}
	return 0
}

// errRefused is in errors of what the processor has and the system does not give.
var errRefused = errors.New("the system refuses AMX's registers")

// unitKind is a kind of code for units.
type unitKind uint8

const (
	tiled unitKind = iota
	dotted
	turnedDots
	linesOfDots
	interleaves
	tilesByColumns
	tilesByRows
	unitKinds
)

// unitCode keeps code that was made, by how it multiplies, the result's size, and the rows,
// columns and flags of its shape.
var unitCode struct {
	mu   sync.Mutex
	made [unitKinds][multipliers][3][mostStep + 1][3][ways / 4]atomic.Pointer[mem.Code]
}

func codeOf(kind unitKind, s tile) (*mem.Code, error) {
	return codeAt(&unitCode.made[kind][s.unit][s.out>>1][s.rows][s.cols][s.way()], &unitCode.mu, func() ([]byte, error) {
		return [unitKinds]func(tile) ([]byte, error){tiler, dotter, turnedDotter, lineDotter, interleaver, tilesOfColumns, tilesOfRows}[kind](s)
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
	if w.written != nil {
		w.err = w.written.addUnits(kind, s, c, w.tile)
		return
	}
	jit.Enter(c, unsafe.Pointer(w.tile))
}
