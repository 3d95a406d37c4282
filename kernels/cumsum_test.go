package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// prefix are the sums of a row up to each element, as docs/REDUCTIONS.md has them.
func (t arithmetic) prefix(x []value) []value {
	out := make([]value, len(x))
	var totals []value
	for at := 0; at < len(x); at += 256 {
		chunk := make([]value, 256)
		for i := range chunk {
			chunk[i] = math.Copysign(0, -1)
		}
		copy(chunk, x[at:])
		for w := 1; w < 256; w *= 2 {
			before := append([]value{}, chunk...)
			for q := w; q < 256; q++ {
				chunk[q] = t.add(before[q-w], before[q])
			}
		}
		copy(out[at:], chunk)
		totals = append(totals, chunk[255])
	}
	if len(totals) > 1 {
		before := t.prefix(totals)
		for i := 256; i < len(x); i++ {
			out[i] = t.add(before[i/256-1], out[i])
		}
	}
	return out
}

// multiplied is the product of a row in the order of sums.
func (t arithmetic) multiplied(x []value) value {
	var results []value
	for len(x) > 0 {
		chunk := x[:min(len(x), 8192)]
		x = x[len(chunk):]
		var s [256]value
		for i := range s {
			s[i] = 1
		}
		for i, v := range chunk {
			s[i%256] = t.mul(s[i%256], v)
		}
		for w := 128; w > 0; w /= 2 {
			for q := range w {
				s[q] = t.mul(s[q], s[q+w])
			}
		}
		results = append(results, s[0])
	}
	switch len(results) {
	case 0:
		return 1
	case 1:
		return results[0]
	}
	return t.multiplied(results)
}

func TestCumsumAndProdBitForBit(t *testing.T) {
	brief.Alone(t)
	r := rand.New(rand.NewPCG(12, 1))
	for _, shape := range [][2]int{{1, 1}, {3, 5}, {2, 255}, {2, 256}, {2, 257}, {70, 3}, {2, 700}, {0, 4}, {3, 0}, {1, 256*256 + 3}} {
		rows, cols := shape[0], shape[1]
		for _, typ := range append([]isa.Type{isa.I8, isa.U32}, floats...) {
			if cols > 1000 && (typ != isa.F32 || brief.On()) {
				continue
			}
			dims := []int64{int64(rows), int64(cols)}
			what := fmt.Sprintf("%v %v", typ, shape)
			if typ.Integer() {
				x := make([]uint64, rows*cols)
				for i := range x {
					x[i] = r.Uint64() & typ.Mask()
				}
				sums := call(t, kernels.Cumsum, typ, dims, [][]uint64{x, make([]uint64, len(x))})[1]
				products := call(t, kernels.ReduceProd, typ, dims, [][]uint64{x, make([]uint64, rows)})[1]
				for i := range rows {
					total, product := uint64(0), uint64(1)
					for k := range cols {
						total, product = total+x[i*cols+k], product*x[i*cols+k]
						require.Equal(t, total&typ.Mask(), sums[i*cols+k], "%s", what)
					}
					require.Equal(t, product&typ.Mask(), products[i], "%s", what)
				}
				continue
			}
			ar := arithmetic{kernels.Accumulator(typ)}
			x, v := random(r, typ, rows*cols, r.IntN(3) == 0)
			sums := call(t, kernels.Cumsum, typ, dims, [][]uint64{x, make([]uint64, len(x))})[1]
			products := call(t, kernels.ReduceProd, typ, dims, [][]uint64{x, make([]uint64, rows)})[1]
			for i := range rows {
				row := v[i*cols : (i+1)*cols]
				for k, want := range ar.prefix(row) {
					requireCell(t, typ, want, sums[i*cols+k], "%s [%d, %d]", what, i, k)
				}
				requireCell(t, typ, ar.multiplied(row), products[i], "%s, product of row %d", what, i)
			}
		}
	}
}

// Any strides, several axes, and a wider type of the output.
func TestCumsumOfShapes(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 1))
	for _, c := range []struct {
		shape []int64
		axes  int
	}{{[]int64{3, 5}, 1}, {[]int64{4, 3, 100}, 2}, {[]int64{2, 300}, 1}, {[]int64{9}, 0}, {[]int64{}, 0},
		{[]int64{20}, 1}, {[]int64{300}, 1}, {[]int64{3, 5}, 2}, {[]int64{4, 3, 30}, 3}} {
		for _, gaps := range []bool{false, true} {
			in := draw(r, layout(r, isa.BF16, gaps, c.shape...))
			got := on(t, kernels.Cumsum, c.axes, []*strided{in, draw(r, layout(r, isa.F64, gaps, c.shape...))})
			cols := 1
			for _, d := range c.shape[len(c.shape)-c.axes:] {
				cols *= int(d)
			}
			for at := 0; at < len(in.values); at += cols {
				for k, want := range (arithmetic{isa.F64}).prefix(in.values[at : at+cols]) {
					requireCell(t, isa.F64, want, got[at+k], "%v, %d axes, gaps %v: element %d", c.shape, c.axes, gaps, at+k)
				}
			}
		}
	}
	// Over all dimensions it is one row, which a packed output takes in any shape, and no other.
	in, flat := draw(r, layout(r, isa.F32, true, 3, 5)), draw(r, kernels.Packed(isa.F32, 15))
	got := on(t, kernels.Cumsum, 2, []*strided{in, flat})
	for k, want := range (arithmetic{isa.F32}).prefix(in.values) {
		requireCell(t, isa.F32, want, got[k], "element %d", k)
	}
	apart := kernels.Layout{Type: isa.F32, Shape: []int64{15}, Stride: []int64{2}}
	_, err := kernels.Cumsum.PlanShapes([]kernels.Layout{in.Layout, apart}, 2)
	require.ErrorContains(t, err, "cumsum: input has shape (3, 5), and output has (15,)")
	_, err = kernels.Cumsum.PlanShapes([]kernels.Layout{kernels.Packed(isa.F32, 3, 4), kernels.Packed(isa.F32, 3)}, 1)
	require.ErrorContains(t, err, "cumsum: input has shape (3, 4), and output has (3,)")
}
