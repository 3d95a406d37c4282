package strips

import (
	"math/bits"
	"unsafe"
)

// mask is a set of lanes: a byte of 1 for each lane in it, else 0. A set of
// all lanes of the strip needs no bytes: p is nil. count is always right.
type mask struct {
	p     unsafe.Pointer
	count int
}

// has reports whether lane i is in the set.
func (m mask) has(i int) bool {
	return m.p == nil || *(*uint8)(unsafe.Add(m.p, i)) != 0
}

// Masks are worked on eight bytes at a time; every mask and predicate has room
// for whole words. tail selects the bytes of the last, incomplete, word that
// belong to the strip.
func tail(n int) uint64 { return 1<<(8*uint(n&7)) - 1 }

// maskSplit writes to d the lanes of m in which the predicates at q hold, and
// to e those in which they don't, and returns how many lanes d has.
func maskSplit(d, e unsafe.Pointer, m mask, q unsafe.Pointer, n int) int {
	words := (n + 7) / 8
	x, y, z := lanes[uint64](d, words), lanes[uint64](e, words), lanes[uint64](q, words)
	const all = 0x0101010101010101
	count := 0
	for i := range x {
		in := uint64(all)
		if m.p != nil {
			in = *(*uint64)(unsafe.Add(m.p, 8*i))
		} else if i == n/8 {
			in = all & tail(n)
		}
		t := in & z[i]
		x[i], y[i] = t, in&^z[i]
		count += bits.OnesCount64(t)
	}
	return count
}

// maskOr writes a ∪ b, two disjoint sets that are not everything, to d.
func maskOr(d unsafe.Pointer, a, b mask, n int) mask {
	switch {
	case a.count == 0:
		return maskCopy(d, b, n)
	case b.count == 0:
		return maskCopy(d, a, n)
	}
	words := (n + 7) / 8
	x, y, z := lanes[uint64](d, words), lanes[uint64](a.p, words), lanes[uint64](b.p, words)
	for i := range x {
		x[i] = y[i] | z[i]
	}
	return mask{d, a.count + b.count}
}

// maskCopy copies m to d, unless it has all lanes, or none, or is there already.
func maskCopy(d unsafe.Pointer, m mask, n int) mask {
	if m.p == nil || m.count == 0 || m.p == d {
		return m
	}
	move(1, d, m.p, (n+7)&^7)
	return mask{d, m.count}
}
