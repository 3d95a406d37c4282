package product_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/product"
	"github.com/hologram-project/hologram/backends/cuda/tuned"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// bounds returns, of each element of a launch's result, the exact value and how far
// off a product of 16-bit floats may be: k · 2⁻²³ · Σ |a·b|, and what rounds the
// result. Its operands are read as the launch's parameters say.
func bounds(typ isa.Type, p *kernels.Product, l *backends.Launch, arrays [][]byte, s shape) (exact, off []float64) {
	view := func(slot int) []byte {
		for _, a := range arrays {
			if at := int(l.Slots[slot].Addr) - addressOf(a); at >= 0 && at < len(a) {
				return a[at:]
			}
		}
		panic("no array")
	}
	a, b := view(0), view(1)
	v := l.Params
	m, n, k, stack, parts, part := int(v[0]), int(v[1]), int(v[2]), 1, 1, int(v[2])
	cells, aBatch, bBatch := 8, 0, 0
	if p.Batched {
		stack, aBatch, bBatch, cells = int(l.Grid[2]), int(v[9]), int(v[10]), 11
	}
	if p.Split {
		parts, part = int(v[cells]), int(v[cells+1])
	}
	element := func(b []byte, at int) float64 { return float(typ, uint16(cell(b[at:at+2]))) }
	ulp := map[isa.Type]float64{isa.F16: 0x1p-10, isa.BF16: 0x1p-7, isa.F32: 0x1p-22}[p.Out]
	for w := range parts {
		for z := range stack {
			for i := range m {
				for j := range n {
					sum, size := 0.0, 0.0
					for q := w * part; q < min(k, (w+1)*part); q++ {
						x := element(a, z*aBatch+i*int(v[3])+q*int(v[4])) * element(b, z*bBatch+j*int(v[6])+q*int(v[5]))
						sum, size = sum+x, size+math.Abs(x)
					}
					off = append(off, float64(k)*0x1p-23*size)
					if !p.Split {
						c := arrays[2][2*((z*m+i)*n+j):]
						off[len(off)-1] *= math.Abs(s.alpha)
						if sum *= s.alpha; s.beta != 0 {
							sum += s.beta * element(c, 0)
						}
					}
					off[len(off)-1] += ulp*math.Abs(sum) + 0x1p-24
					exact = append(exact, sum)
				}
			}
		}
	}
	return exact, off
}

// Products by matrix units are within the bound, in every shape of blocks, walk and
// layout, with all that they do with shared memory in order; and an element's bits
// are k's alone, whatever the tile and walk.
func TestProductsOfHalvesAreWithinTheirBound(t *testing.T) {
	brief.Alone(t)
	more := []shape{
		{m: 1, n: 40, k: 530, alpha: 1},
		{m: 17, n: 24, k: 4500, alpha: 1, beta: 1},
		{m: 33, n: 1, k: 70, transA: true, alpha: 1},
		{m: 1, n: 1, k: 1, alpha: -1},
		{m: 64, n: 64, k: 64, alpha: 1, transB: true, gap: 8},
		{m: 70, n: 65, k: 100, alpha: 1, transA: true, gap: 3},
	}
	forms := map[product.Form]bool{}
	for number, s := range slices.Concat(more, shapes) {
		typ := []isa.Type{isa.BF16, isa.F16}[number%2]
		if brief.On() && s.k > 600 {
			continue
		}
		plan, all, arrays := launches(t, typ, s)
		for i, l := range all {
			v := plan.Steps[i].Program
			p := kernels.ProductOf(v)
			if p == nil {
				continue // adds up the parts
			}
			form, ok := product.Match(*p, l, h200)
			require.True(t, ok, "%v %+v", typ, s)
			out := arrays[2]
			if p.Split {
				out = arrays[3]
			}
			before := slices.Clone(out)
			exact, off := bounds(typ, p, l, arrays, s)
			var first []byte
			for tile := range product.TilesOf(typ) {
				f := form.InTile(tile)
				if f != form && (brief.On() || !f.HasRegisters() || (number+tile)%2 != 0) {
					continue
				}
				t.Run(fmt.Sprintf("%v %+v tile %d", typ, s, tile), func(t *testing.T) {
					forms[f] = true
					copy(out, before)
					require.NoError(t, play(t, v, l, f))
					size := p.Out.Size()
					for e := range exact {
						c := cell(out[e*size : (e+1)*size])
						got := math.Float64frombits(isa.Convert(isa.F64, p.Out, c))
						if math.IsNaN(exact[e]) || math.IsInf(exact[e], 0) {
							continue // which of these, the order says
						}
						if !(math.Abs(got-exact[e]) <= off[e]) {
							t.Fatalf("element %d: %v, exactly %v, at most %v off", e, got, exact[e], off[e])
						}
					}
					if first == nil {
						first = slices.Clone(out)
					}
					require.Equal(t, first, out, "the tile decides bits")
				})
			}
		}
	}
	t.Logf("%d forms", len(forms))
}

// A cancelled one ends between chunks, too.
func TestCancelledProductOfHalves(t *testing.T) {
	defer product.PollAfter(2)()
	plan, all, arrays := launches(t, isa.BF16, shape{m: 9, n: 12, k: 5 * tuned.UnitChunk, alpha: 1})
	f, ok := product.Match(*kernels.ProductOf(plan.Steps[0].Program), all[0], h200)
	require.True(t, ok)
	all[0].Record.Stop()
	before := slices.Clone(arrays[2])
	require.NoError(t, play(t, plan.Steps[0].Program, all[0], f))
	require.ErrorIs(t, all[0].Record.Outcome(), backends.ErrCancelled)
	require.Equal(t, before, arrays[2])
}
