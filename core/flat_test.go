package core

import (
	"encoding/binary"
	"fmt"
	"math/big"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
)

// integers makes a buffer of u32 values, 0 … n−1.
func integers(t *testing.T, ex *Executor, n int64) *Buffer {
	t.Helper()
	b, err := ex.Allocate(n, isa.U32, true)
	require.NoError(t, err)
	data := hostBytes(4 * n)
	for i := range n {
		binary.LittleEndian.PutUint32(data[4*i:], uint32(i))
	}
	require.NoError(t, wait(b.Write(addressOf(data), 0, 4*n)))
	runtime.KeepAlive(data)
	return b
}

func cells(t *testing.T, b *Buffer) []uint32 {
	t.Helper()
	data := hostBytes(4 * b.Len())
	require.NoError(t, wait(b.Read(addressOf(data), 0, int64(len(data)))))
	out := make([]uint32, b.Len())
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return out
}

// TestFlatAddresses loads, stores and adds to each element of views by its number,
// in an order of its own, and looks at all of the memory that they lie in. All slots
// are bound to a view, or one of them, and the others to packed elements.
func TestFlatAddresses(t *testing.T) {
	const text = `program flat
slot x u32
slot y u32
slot c u32
  sreg    g, global_lane
  sreg    n, n
  sub.u64 last, n, 1
  sub.u64 i, last, g          ; from the end
  ldg.u32 v, x[flat i]
  stg.u32 v, y[flat g]
  atom_add.u32 old, c[flat i], v
  exit
`
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, text)
		for _, x := range []struct {
			offset        int64
			shape, stride []int64
		}{
			{0, []int64{24}, nil}, {5, []int64{7}, nil}, {1, []int64{8}, []int64{3}}, {23, []int64{24}, []int64{-1}},
			{22, []int64{6}, []int64{-4}}, {0, []int64{4, 6}, nil}, {0, []int64{2, 3, 4}, nil}, {23, []int64{4, 6}, []int64{-6, -1}},
			{1, []int64{4, 3}, []int64{6, 2}}, {3, []int64{3, 1, 2}, []int64{8, 5, 4}}, {9, []int64{1}, []int64{-3}}, {9, []int64{}, nil},
			{0, []int64{5, 0}, nil},
		} {
			for _, so := range [][3]bool{{true, true, true}, {true, false, false}, {false, true, false}, {false, false, true}} { // which; the others are packed
				var all, views [3]*Buffer
				var at [3][]int64 // numbers of elements, in all
				for k := range all {
					all[k] = integers(t, ex, 24)
					v, err := all[k].View(x.offset, x.shape, x.stride)
					require.NoError(t, err)
					if n := v.Len(); !so[k] {
						v, err = all[k].View(0, []int64{n}, nil)
						require.NoError(t, err)
					}
					views[k] = v
					layout := v.Layout()
					layout.Addr = 0
					for _, p := range placesOf(&layout) { // in bytes from element 0
						if at[k] = append(at[k], p/4); so[k] {
							at[k][len(at[k])-1] += x.offset
						}
					}
				}
				n := views[0].Len()
				require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: views[:], Shape: []int64{n}})), "%v %v", x.shape, x.stride)
				y, c := make([]uint32, 24), make([]uint32, 24)
				for i := range y {
					y[i], c[i] = uint32(i), uint32(i)
				}
				for i := range n {
					y[at[1][i]] = uint32(at[0][n-1-i])
					c[at[2][i]] += uint32(at[0][i])
				}
				require.Equal(t, y, cells(t, all[1]), "%v %v, %v", x.shape, x.stride, so)
				require.Equal(t, c, cells(t, all[2]), "%v %v, %v", x.shape, x.stride, so)
			}
		}
	})
}

// TestFlatBeyondAView: what lies in the buffer and not in the view is out of reach.
func TestFlatBeyondAView(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		p := assemble(t, "program beyond\nslot x u32\nslot i i64\nslot y u32\nldg.i64 k, i[index]\nldg.u32 v, x[flat k]\nstg.u32 9, x[flat k]\nstg.u32 v, y[index]\nexit")
		for _, stride := range []int64{1, 2, -1, -3} {
			b, out := integers(t, ex, 24), integers(t, ex, 8)
			x, err := b.View(12, []int64{4}, []int64{stride})
			require.NoError(t, err)
			i, err := ex.Allocate(8, isa.I64, true)
			require.NoError(t, err)
			data := hostBytes(64)
			for k, v := range []int64{-1, 4, 1 << 61, -1 << 63, 1<<63 - 1, 2, 1 << 62, -4} {
				binary.LittleEndian.PutUint64(data[8*k:], uint64(v))
			}
			require.NoError(t, wait(i.Write(addressOf(data), 0, 64)))
			runtime.KeepAlive(data)
			err = wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{x, i, out}}))
			if err == nil {
				err = wait(ex.Synchronize())
			}
			wants(t, err, Faulted, "of slot x, which has 4")
			want := cells(t, integers(t, ex, 24))
			inside := 12 + 2*stride
			require.Equal(t, []uint32{0, 0, 0, 0, 0, want[inside], 0, 0}, cells(t, out))
			want[inside] = 9
			require.Equal(t, want, cells(t, b), "stride %d", stride)
		}
	})
}

// TestFlatBeyondEveryNumber counts from registers that hold numbers far beyond a view,
// with constants that lead back over the ends of their types: no sum wraps into it.
func TestFlatBeyondEveryNumber(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		const n, most = 4, isa.MaxFlatOffset
		for _, typ := range []isa.Type{isa.U64, isa.I64} {
			for _, constant := range []int64{1, n - 1, -1, most, -most} {
				p := assemble(t, fmt.Sprintf("program beyond\nslot x u32\nslot i %v\nslot y u32\nldg.%[1]v k, i[index]\nldg.u32 v, x[flat k + %d]\nstg.u32 v, y[index]\nexit", typ, constant))
				var numbers []uint64
				for _, end := range []uint64{0, 1 << 61, 1 << 62, 1 << 63, 3 << 62} {
					for d := range uint64(n + 1) {
						numbers = append(numbers, end-uint64(constant)+d, end+d, end-1-d)
					}
				}
				for _, stride := range []int64{1, -2, 1 << 14, -1 << 14} { // by the latter bytes wrap, far from the view
					first := 12 - (n-1)*min(0, stride)
					b, out := integers(t, ex, 24+(n-1)*max(stride, -stride)), integers(t, ex, int64(len(numbers)))
					x, err := b.View(first, []int64{n}, []int64{stride})
					require.NoError(t, err)
					i, err := ex.Allocate(int64(len(numbers)), typ, true)
					require.NoError(t, err)
					data := hostBytes(8 * int64(len(numbers)))
					want := make([]uint32, len(numbers))
					for k, v := range numbers {
						binary.LittleEndian.PutUint64(data[8*k:], v)
						at := new(big.Int).SetUint64(v)
						if typ == isa.I64 {
							at.SetInt64(int64(v))
						}
						if at.Add(at, big.NewInt(constant)); at.IsInt64() && at.Int64() >= 0 && at.Int64() < n {
							want[k] = uint32(first + at.Int64()*stride)
						}
					}
					require.NoError(t, wait(i.Write(addressOf(data), 0, int64(len(data)))))
					runtime.KeepAlive(data)
					err = wait(ex.Launch(p, &LaunchArgs{Slots: []*Buffer{x, i, out}}))
					if err == nil {
						err = wait(ex.Synchronize())
					}
					wants(t, err, Faulted, "of slot x, which has 4")
					require.Equal(t, want, cells(t, out), "%v + %d, stride %d", typ, constant, stride)
				}
			}
		}
	})
}

// TestFlatRefused lists what cannot be bound to a slot that is accessed by number.
func TestFlatRefused(t *testing.T) {
	onEach(t, func(t *testing.T, ex *Executor) {
		const head = "program flat\nslot x u32\nslot y u32\nldg.u32 v, x[flat 0]\n"
		alone, both := assemble(t, head+"stg.u32 v, y[index]\nexit"), assemble(t, head+"ldg.u32 w, x[index]\nadd.u32 v, v, w\nstg.u32 v, y[index]\nexit")
		bytes := assemble(t, head+"ldg.u32 w, x[4]\nadd.u32 v, v, w\nstg.u32 v, y[index]\nexit")
		raw := assemble(t, "program raw\nslot x u8\nslot y u32\nldg.u8 v, x[flat 0]\ncvt.u32.u8 w, v\nstg.u32 w, y[index]\nexit")
		x, y := integers(t, ex, 24), integers(t, ex, 4)
		view := func(b *Buffer, offset int64, shape, stride []int64) *Buffer {
			v, err := b.View(offset, shape, stride)
			require.NoError(t, err)
			return v
		}
		for _, c := range []struct {
			p    *Program
			x, y *Buffer
			code Code
			text string // or empty
		}{
			{alone, view(x, 0, []int64{4, 6}, []int64{1, 4}), y, Invalid, "slot x is accessed by [flat …], which counts elements that lie one step apart; the array has shape (4, 6) and strides of (1, 4) elements"},
			{alone, view(x, 0, []int64{4, 3}, []int64{6, 1}), y, Invalid, "make a contiguous copy"},
			{alone, view(x, 0, []int64{4}, []int64{0}), y, Invalid, "strides of (0,) elements"},
			{alone, view(x, 3, []int64{4}, []int64{-1}), y, Invalid, ""},
			{both, view(x, 3, []int64{4}, []int64{-1}), y, Invalid, "slot x is accessed both by [index] and by [flat …], and the array runs backwards"},
			{both, view(x, 3, []int64{4}, []int64{2}), y, Invalid, ""},
			{bytes, view(x, 3, []int64{4}, []int64{2}), y, Invalid, "slot x is addressed by bytes, which demands a contiguous array"},
			{bytes, view(x, 3, []int64{4}, nil), y, Invalid, ""},
			{raw, x, y, BadType, "slot x: dtype is u32; expected u8"},
			{alone, x, view(x, 2, []int64{4}, nil), Invalid, "slot y overlaps x in memory: only the identical array may be both, and only where both are accessed by [index]"},
			{alone, view(x, 0, []int64{4}, nil), view(x, 0, []int64{4}, nil), Invalid, "slot y overlaps x in memory"},
			{alone, view(x, 0, []int64{4}, []int64{2}), view(x, 1, []int64{4}, []int64{2}), Invalid, ""},
		} {
			err := wait(ex.Launch(c.p, &LaunchArgs{Slots: []*Buffer{c.x, c.y}}))
			if c.text == "" {
				require.NoError(t, err)
			} else {
				wants(t, err, c.code, c.text)
			}
		}
	})
}

// TestPlacesInTheIndexSpace: places and sizes are those of the shape that the
// caller gave, whatever dimensions a device is told of.
func TestPlacesInTheIndexSpace(t *testing.T) {
	names := []string{"row", "column", "rows", "columns", "index.0", "index.1", "index.2", "index.7", "size.0", "size.1", "size.2", "size.7"}
	onEach(t, func(t *testing.T, ex *Executor) {
		text := "program places\n"
		for i := range names {
			text += fmt.Sprintf("slot s%d u32\n", i)
		}
		for i, name := range names {
			text += fmt.Sprintf("sreg v, %s\ncvt.u32.u64 w, v\nstg.u32 w, s%d[index]\n", name, i)
		}
		p := assemble(t, text+"exit")
		for _, c := range []struct {
			bound, stride, shape []int64 // of the arrays, of the launch
			grid, block          [3]uint32
			space                []int64
		}{
			{[]int64{24}, nil, nil, [3]uint32{}, [3]uint32{}, []int64{24}},
			{[]int64{4, 6}, nil, nil, [3]uint32{}, [3]uint32{}, []int64{4, 6}},
			{[]int64{2, 3, 4}, nil, nil, [3]uint32{}, [3]uint32{}, []int64{2, 3, 4}},
			{[]int64{2, 1, 12}, nil, nil, [3]uint32{}, [3]uint32{}, []int64{2, 1, 12}},
			{[]int64{24, 1}, nil, nil, [3]uint32{}, [3]uint32{}, []int64{24, 1}},
			{[]int64{4, 6}, nil, []int64{24}, [3]uint32{}, [3]uint32{}, []int64{24}},
			{[]int64{24}, nil, []int64{3, 8}, [3]uint32{}, [3]uint32{}, []int64{3, 8}},
			{[]int64{24}, nil, []int64{20}, [3]uint32{}, [3]uint32{}, []int64{20}},
			{[]int64{4, 6}, nil, nil, [3]uint32{2, 2, 2}, [3]uint32{4, 2, 1}, []int64{4, 6}},
			{[]int64{}, nil, nil, [3]uint32{}, [3]uint32{}, []int64{}},
			{[]int64{6, 4}, []int64{1, 6}, []int64{24}, [3]uint32{}, [3]uint32{}, []int64{24}},
			{[]int64{6, 4}, []int64{1, 6}, nil, [3]uint32{}, [3]uint32{}, []int64{6, 4}},
		} {
			var all, slots []*Buffer
			for range names {
				b := integers(t, ex, 24)
				v, err := b.View(0, c.bound, c.stride)
				require.NoError(t, err)
				all, slots = append(all, b), append(slots, v)
			}
			require.NoError(t, wait(ex.Launch(p, &LaunchArgs{Slots: slots, Shape: c.shape, Grid: c.grid, Block: c.block})), "%v", c)
			size := func(axis int) uint32 {
				if axis < 0 || axis >= len(c.space) {
					return 1
				}
				return uint32(c.space[axis])
			}
			lanes := uint32(1)
			for d := range c.space {
				lanes *= size(d)
			}
			last := len(c.space) - 1
			var got [][]uint32
			for _, b := range all {
				got = append(got, cells(t, b))
			}
			layout := slots[0].Layout()
			layout.Addr = 0
			at := placesOf(&layout)
			for g := range lanes {
				place := func(axis int) uint32 {
					k := g
					for d := last; d > axis; d-- {
						k /= size(d)
					}
					return k % size(axis)
				}
				for i, want := range []uint32{place(last - 1), place(last), size(last - 1), size(last), place(0), place(1), place(2), place(7),
					size(0), size(1), size(2), size(7)} {
					if len(c.space) == 1 && names[i] == "row" {
						want = 0
					}
					require.Equal(t, want, got[i][at[g]/4], "%s of lane %d in %v", names[i], g, c.space)
				}
			}
		}
	})
}
