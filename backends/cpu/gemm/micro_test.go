package gemm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/isa/isatest/brief"
)

// TestTiles makes the code of tiles of every shape that products may have, with all ways in which their matrices
// lie and are packed, and has each do two tiles: whole numbers, so that any order of sums has the same bits.
// What is not the result keeps its bytes, and calls that are written down leave what follows as the code does.
func TestTiles(t *testing.T) {
	if err := jit.Available(jit.AVX2); err != nil {
		t.Skipf("AVX2 is missing: %v", err)
	}
	libraries := []*library{narrow(), narrow().half}
	if l := wideLibrary(t); l != nil {
		libraries = append(libraries, l, l.half, l.half.half)
	}
	r := rand.New(rand.NewPCG(21, 22))
	for _, l := range libraries {
		for typ := range numbers {
			if typ == i64 && !l.m.evex { // which AVX2 doesn't multiply
				_, err := micro(l.m, tile{t: typ, rows: 1, cols: 1}, false)
				require.ErrorContains(t, err, "is for machines with AVX-512")
				continue
			}
			t.Run(fmt.Sprint(l.m, typ), func(t *testing.T) {
				made := 0
				for rows := 1; rows <= maxRows; rows++ {
					for cols := 1; cols <= l.m.widest(typ, rows); cols++ {
						for _, s := range waysOf(l.m, tile{t: typ, rows: rows, cols: cols}) {
							if made++; !brief.Skips(made, 7) {
								tryTile(t, r, l, s.tile, s.stream)
							}
						}
					}
				}
				t.Logf("%d tiles", made)
			})
		}
	}
}

type tileWay struct {
	tile
	stream bool
}

// waysOf are all flags that a tile of such a shape may have.
func waysOf(m machine, s tile) (all []tileWay) {
	p := product{lib: &library{m: m}, t: s.t, out: element{size: s.t.size()}, crs: s.t.size()}
	byColumns := p.byColumns() && s.cols <= int(m.widestByColumns(s.t, int64(s.rows)))
	for flags := range 1 << 7 {
		is := func(i int) bool { return flags>>i&1 == 1 }
		w := tileWay{s, is(6)}
		w.mask, w.far, w.packs, w.byColumns, w.along, w.packsA = is(0), is(1), is(2), is(3), is(4), is(5)
		switch {
		case w.mask && m.lanes(s.t) == 1, w.along && w.packsA, w.byColumns && !byColumns,
			w.packs && s.rows > int(packsMost), w.stream && (w.far || w.packs || w.packsA || w.byColumns):
			continue
		}
		all = append(all, w)
	}
	return all
}

func tryTile(t *testing.T, r *rand.Rand, l *library, s tile, stream bool) {
	t.Helper()
	const tiles, most = 2, 11
	size, lanes := int(s.t.size()), l.m.lanes(s.t)
	k := r.IntN(most + 1)
	n := s.cols * lanes // columns
	if s.mask {
		n -= 1 + r.IntN(lanes-1)
	}
	code, err := micro(l.m, s, stream)
	require.NoError(t, err)
	c, err := jit.Put(code)
	require.NoError(t, err)
	defer c.Release()

	// matrix makes one whose tiles lie next bytes apart, or, if that is 0, one behind the other.
	matrix := func(high, wide int, columns bool, next int) *tileMatrix {
		if columns {
			high, wide = wide, high
		}
		x := &tileMatrix{t: s.t, columns: columns, step: (wide + r.IntN(3)) * size, next: next}
		if next == 0 {
			x.next = high*x.step + 8*r.IntN(9)
		}
		x.bytes = make([]byte, tiles*x.next+64) // of which the last are nobody's
		for i := range x.bytes {
			x.bytes[i] = 0xAA
		}
		for tile := range tiles {
			for i := range high {
				for j := range wide {
					x.set(tile*x.next+i*x.step+j*size, int64(r.IntN(9)-4))
				}
			}
		}
		return x
	}
	a, b := matrix(s.rows, max(k, 1), !s.along, 0), matrix(max(k, 1), n, false, 0)
	next := (s.rows + 2) * (n + 2) * size // of all that is moved on alike
	d, before, was := matrix(s.rows, n, s.byColumns, next), matrix(s.rows, n, s.byColumns, next), matrix(s.rows, n, s.byColumns, next)
	begin := matrix(s.rows, n, false, next)
	w := &worker{p: &product{lib: l, t: s.t}}
	x := &w.args
	x.flags = uint64(r.IntN(16))
	if s.byColumns {
		x.flags &^= flagBegin
	}
	alpha, beta := int64(3), int64(-2)
	x.alpha, x.beta = bitsOf(s.t, alpha), bitsOf(s.t, beta)
	x.a, x.aStep, x.aNext = start(a.bytes), uintptr(a.step), uintptr(a.next)
	if s.packsA {
		x.aNext = 0
	}
	x.b, x.bStep, x.bNext = start(b.bytes), uintptr(b.step), uintptr(b.next)
	x.t, x.tStep = start(begin.bytes), uintptr(begin.step)
	x.s, x.sStep, x.c, x.cStep = start(before.bytes), uintptr(before.step), start(was.bytes), uintptr(was.step)
	x.d, x.dStep, x.dNext = start(d.bytes), uintptr(d.step), uintptr(d.next)
	x.k, x.tiles = int64(k), tiles
	w.setMask(int64(n))
	vectors := s.cols * l.m.bytes
	packed, packedA := make([]byte, tiles*k*vectors+64), make([]byte, k*(s.rows*size+8)+64)
	x.dst, x.dstStep = start(packed), uintptr(k*vectors)
	x.aDst, x.aDstStep = start(packedA), uintptr(s.rows*size+8)
	for i := range x.next {
		x.next[i] = ahead{start(b.bytes), 64, 64}
	}

	wantD, wantPacked, wantPackedA := &tileMatrix{t: s.t, bytes: bytes.Clone(d.bytes)}, make([]byte, len(packed)), make([]byte, len(packedA))
	for tile := range tiles {
		ofA := tile
		if s.packsA {
			ofA = 0
		}
		for i := range s.rows {
			for j := range n {
				sum := int64(0)
				if x.flags&flagBegin != 0 {
					sum = begin.at(tile, i, j)
				}
				for u := range k {
					sum += a.at(ofA, i, u) * b.at(tile, u, j)
				}
				if x.flags&flagAdd != 0 {
					sum += before.at(tile, i, j)
				}
				if x.flags&flagScale != 0 {
					sum *= alpha
				}
				if x.flags&flagBeta != 0 {
					sum += beta * was.at(tile, i, j)
				}
				wantD.set(d.place(tile, i, j), sum)
			}
		}
		for u := range k {
			if s.packs {
				copy(wantPacked[(tile*k+u)*vectors:], b.bytes[b.place(tile, u, 0):][:n*size])
			}
			if s.packsA {
				copy(wantPackedA[u*(s.rows*size+8):], a.bytes[a.place(0, 0, u):][:s.rows*size])
			}
		}
	}
	written, kind := w.args, multiplies
	if stream {
		kind = streams
	}
	require.NoError(t, new(sequenceOf).add(kind, s, c, &written))
	jit.Enter(c, unsafe.Pointer(x))
	for _, y := range [][]byte{a.bytes, b.bytes, begin.bytes, before.bytes, was.bytes} {
		runtime.KeepAlive(y)
	}
	what := fmt.Sprintf("%+v, stream %v, %d steps, %d columns, flags %b", s, stream, k, n, x.flags)
	require.True(t, bytes.Equal(wantD.bytes, d.bytes), what)
	require.True(t, bytes.Equal(wantPacked, packed), "packed B: %s", what)
	require.True(t, bytes.Equal(wantPackedA, packedA), "packed A: %s", what)
	x.fetched = 0 // the code's alone
	require.Equal(t, written, *x, "arguments as they are left: %s", what)
}

// tileMatrix is what tiles of a matrix lie in, next bytes apart, with rows or columns of each step bytes apart.
type tileMatrix struct {
	t          number
	columns    bool
	step, next int
	bytes      []byte
}

func (m *tileMatrix) place(tile, i, j int) int {
	if m.columns {
		i, j = j, i
	}
	return tile*m.next + i*m.step + j*int(m.t.size())
}

func (m *tileMatrix) at(tile, i, j int) int64 {
	b := m.bytes[m.place(tile, i, j):]
	switch m.t {
	case f32:
		return int64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
	case f64:
		return int64(math.Float64frombits(binary.LittleEndian.Uint64(b)))
	case i32:
		return int64(int32(binary.LittleEndian.Uint32(b)))
	}
	return int64(binary.LittleEndian.Uint64(b))
}

func (m *tileMatrix) set(at int, x int64) {
	if bits := bitsOf(m.t, x); m.t.size() == 4 {
		binary.LittleEndian.PutUint32(m.bytes[at:], uint32(bits))
	} else {
		binary.LittleEndian.PutUint64(m.bytes[at:], bits)
	}
}

// bitsOf is the bits of a number.
func bitsOf(t number, x int64) uint64 {
	switch t {
	case f32:
		return uint64(math.Float32bits(float32(x)))
	case f64:
		return math.Float64bits(float64(x))
	}
	return uint64(x)
}
