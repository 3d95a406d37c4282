// Package graph is the Atlas part of the instruction set that is pure
// arithmetic: the graph of 96 classes with its mirror, neighbours and unity
// set, the class of a byte, Φ-addresses and the phase. The numbering is
//
//	class = 48·e1 + 24·e2 + 12·e3 + 6·e6 + 3·e7 + (d45 + 1)
//
// with e1 … e7 in {0, 1} and d45 in {−1, 0, 1}. The package imports nothing.
package graph

// The sizes of the graph and of the boundary pool.
const (
	Classes       = 96
	ClassBytes    = 12288
	PagesPerClass = 48
	PageBytes     = 256
	Phases        = 768
)

// strides are the weights of the bits whose flip leads to a neighbour. The
// mirror's bit, weight 3, is not one of them: no mirror pair is adjacent.
var strides = [...]uint8{48, 24, 12, 6}

// flip changes the bit of class c that has the given weight.
func flip(c, weight uint8) uint8 {
	if c/weight%2 == 0 {
		return c + weight
	}
	return c - weight
}

// Mirror returns the mirror of class c < 96: the class with e7 flipped.
func Mirror(c uint8) uint8 { return flip(c, 3) }

// Unity reports whether class c is in the unity set {1, 4}.
func Unity(c uint8) bool { return UnityDistance(c) == 0 }

// UnityDistance returns the distance from c to the nearest class of the unity set.
func UnityDistance(c uint8) uint8 {
	d := func(u uint8) uint8 { return max(c, u) - min(c, u) }
	return min(d(1), d(4))
}

// Neighbours returns the neighbours of class c < 96, ascending: the classes
// one flip of a stride away, and those next to it on the path d45 = −1, 0, 1.
func Neighbours(c uint8) []uint8 { return neighbours[c] }

var neighbours = func() (all [Classes][]uint8) {
	adjacent := func(a, b uint8) bool {
		for _, s := range strides {
			if b == flip(a, s) {
				return true
			}
		}
		return a/3 == b/3 && max(a, b)-min(a, b) == 1
	}
	for a := range uint8(Classes) {
		for b := range uint8(Classes) {
			if adjacent(a, b) {
				all[a] = append(all[a], b)
			}
		}
	}
	return all
}()

// OfByte returns the class of a byte: its bits 0 … 4 are e1, e2, e3, e6, e7,
// and bits 5 and 6, mod 3, are d45 + 1.
func OfByte(b byte) uint8 {
	bit := func(i int) uint8 { return b >> i & 1 }
	return 48*bit(0) + 24*bit(1) + 12*bit(2) + 6*bit(3) + 3*bit(4) + (b>>5&3)%3
}

// OfBlock returns the class of the block with the given x index.
func OfBlock(x uint32) uint8 { return uint8(x % Classes) }

// Phi returns the boundary pool's byte offset of Φ(class, page, b), and
// whether class and page exist; 0 if not.
func Phi(class, page, b uint8) (offset uint64, ok bool) {
	if class >= Classes || page >= PagesPerClass {
		return 0, false
	}
	return uint64(class)*ClassBytes + uint64(page)*PageBytes + uint64(b), true
}

// AdvancePhase returns the phase delta after p, mod 768.
func AdvancePhase(p, delta uint16) uint16 {
	return uint16((uint32(p) + uint32(delta)) % Phases)
}
