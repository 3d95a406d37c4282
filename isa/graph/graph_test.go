package graph

import "testing"

// The expectations come from the seeds' fact sheet: degrees, edges, the rule
// for neighbours by c mod 3, the mirror by ⌊c/3⌋.

func TestGraph(t *testing.T) {
	degrees, ends := map[int]int{}, 0
	for c := range uint8(Classes) {
		n := Neighbours(c)
		degrees[len(n)]++
		ends += len(n)
		want := map[uint8]bool{}
		for _, s := range []int{48, 24, 12, 6} {
			if int(c)/s%2 == 0 {
				want[c+uint8(s)] = true
			} else {
				want[c-uint8(s)] = true
			}
		}
		switch c % 3 {
		case 0:
			want[c+1] = true
		case 1:
			want[c-1], want[c+1] = true, true
		case 2:
			want[c-1] = true
		}
		if len(n) != len(want) {
			t.Errorf("class %d: neighbours %v, want %v", c, n, want)
		}
		for i, b := range n {
			if !want[b] {
				t.Errorf("class %d: %d is not a neighbour", c, b)
			}
			if i > 0 && n[i-1] >= b {
				t.Errorf("class %d: neighbours %v do not ascend", c, n)
			}
			if b == Mirror(c) {
				t.Errorf("class %d is next to its mirror", c)
			}
			back := false
			for _, d := range Neighbours(b) {
				back = back || d == c
			}
			if !back {
				t.Errorf("%d is a neighbour of %d but not the other way round", b, c)
			}
		}
	}
	if degrees[5] != 64 || degrees[6] != 32 || len(degrees) != 2 {
		t.Errorf("degrees %v, want 64 of 5 and 32 of 6", degrees)
	}
	if ends != 2*256 {
		t.Errorf("%d edge ends, want 512", ends)
	}
}

func TestMirror(t *testing.T) {
	for c := range uint8(Classes) {
		want := c + 3
		if c/3%2 == 1 {
			want = c - 3
		}
		if Mirror(c) != want || Mirror(Mirror(c)) != c || Mirror(c) == c || Mirror(c) >= Classes {
			t.Errorf("Mirror(%d) = %d, want %d", c, Mirror(c), want)
		}
	}
	if Mirror(1) != 4 {
		t.Error("the unity set is not a mirror pair")
	}
}

func TestUnity(t *testing.T) {
	for c := range uint8(Classes) {
		if Unity(c) != (c == 1 || c == 4) {
			t.Errorf("Unity(%d) = %v", c, Unity(c))
		}
	}
	for c, want := range map[uint8]uint8{0: 1, 1: 0, 2: 1, 3: 1, 4: 0, 5: 1, 95: 91} {
		if got := UnityDistance(c); got != want {
			t.Errorf("UnityDistance(%d) = %d, want %d", c, got, want)
		}
	}
}

func TestOfByte(t *testing.T) {
	for b, want := range map[byte]uint8{0: 0, 1: 48, 2: 24, 4: 12, 8: 6, 16: 3, 32: 1, 64: 2, 96: 0, 128: 0, 0x1f: 93, 0x5f: 95, 0xff: 93} {
		if got := OfByte(b); got != want {
			t.Errorf("OfByte(%#x) = %d, want %d", b, got, want)
		}
	}
	seen := map[uint8]bool{}
	for b := range 256 {
		seen[OfByte(byte(b))] = true
	}
	if len(seen) != Classes {
		t.Errorf("bytes reach %d classes, want all", len(seen))
	}
	if OfBlock(95) != 95 || OfBlock(96) != 0 || OfBlock(1<<32-1) != (1<<32-1)%96 {
		t.Error("OfBlock is not x mod 96")
	}
}

func TestPhi(t *testing.T) {
	var next uint64
	for class := range uint8(Classes) {
		for page := range uint8(PagesPerClass) {
			for b := range 256 {
				got, ok := Phi(class, page, uint8(b))
				if !ok || got != next {
					t.Fatalf("Phi(%d, %d, %d) = %d, %v, want %d", class, page, b, got, ok, next)
				}
				next++
			}
		}
	}
	if next != 1179648 {
		t.Errorf("the pool has %d bytes, want 1179648", next)
	}
	for _, p := range [][2]uint8{{96, 0}, {255, 0}, {0, 48}, {95, 255}} {
		if off, ok := Phi(p[0], p[1], 7); ok || off != 0 {
			t.Errorf("Phi(%d, %d, 7) = %d, %v, want 0, false", p[0], p[1], off, ok)
		}
	}
}

func TestAdvancePhase(t *testing.T) {
	for _, c := range [][3]uint16{{0, 0, 0}, {767, 1, 0}, {700, 100, 32}, {767, 65535, (767 + 65535) % 768}} {
		if got := AdvancePhase(c[0], c[1]); got != c[2] {
			t.Errorf("AdvancePhase(%d, %d) = %d, want %d", c[0], c[1], got, c[2])
		}
	}
}
