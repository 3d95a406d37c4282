package tuned_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cuda/tuned"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/kernels"
)

// What is planned of norms and gradients has the library's bits: of rows that a block
// holds and of those whose blocks meet, even and odd, with operands along rows, one for
// each, and one for all.
func TestRowwiseHasTheLibrarysBits(t *testing.T) {
	brief.Alone(t)
	r := newRig(t)
	types := []isa.Type{isa.F32, isa.BF16, isa.F64, isa.F16}
	sizes := [][]int64{{1, 1}, {5, 3}, {9, 32}, {7, 100}, {3, 257}, {9, 512}, {2, 4096}, {2, 8192}, {2, 8200}, {2, 16384}, {1, 20001}, {1, 32768}, {1, 40960}, {1, 50_000}}
	number := 0
	for _, op := range kernels.All {
		if op.Rowwise() == nil || !op.MakesElements() && op.Broadcasts() { // see TestNumbersOfColumnsHaveTheLibrarysBits
			continue
		}
		for i, d := range sizes {
			number++
			ty := types[(number/len(sizes)+i)%4]
			if brief.On() && d[1] > 9000 && ty != isa.F32 {
				continue
			}
			t.Run(fmt.Sprintf("%s %v %v", op.Name, ty, d), func(t *testing.T) {
				r.TB = t
				r.rowwise(op, ty, d, number%4, tuned.Device{Processors: 132, Meet: []int64{0, 8, 2, 4}[(i+number/16)%4]})
			})
		}
	}
}

func (r *rig) rowwise(op *kernels.Op, ty isa.Type, d []int64, form int, device tuned.Device) {
	r.Helper()
	var l []kernels.Layout
	var theirs, ours [][]byte
	for i, share := range op.Rowwise().Shares {
		shape := [][]int64{d, [][]int64{{d[1]}, {d[0], 1}, {1}, {1, d[1]}}[form], d[:1]}[share]
		of := kernels.Packed(op.TypeOf(i, ty), shape...)
		b := elements(of.Type, of.Elements()/of.Shape[len(of.Shape)-1], of.Shape[len(of.Shape)-1])
		if share == kernels.Row {
			b = elements(of.Type, 1, d[0])
			for k := range b { // a variance is not below 0
				if (k+1)%of.Type.Size() == 0 {
					b[k] &= 0x7f
				}
			}
		}
		l, theirs, ours = append(l, of), append(theirs, b), append(ours, append([]byte(nil), b...))
	}
	plan, err := tuned.PlanShapes(op, l, 1, device)
	require.NoError(r, err)
	held, beside := int64(0), int64(1) // registers of a lane
	if ty != isa.F64 && d[1]%2 == 0 {  // of elements by pairs there are twice as many
		beside = 2
	}
	for i, o := range op.Operands {
		if o.Reads && op.Rowwise().Shares[i] == kernels.Whole {
			held += (d[1] + 255) / 256 * int64(kernels.Accumulator(ty).Size()) / 4
		}
	}
	if plan == nil { // too long: the library's
		require.Greater(r, held, int64(64))
		return
	}
	require.Equal(r, plan.Steps[0].Meeting.Blocks > 0, device.Meet > 0 && held*beside > 64 && d[1] > kernels.ChunkElements)
	library, err := op.PlanShapes(l, 1)
	require.NoError(r, err)
	r.runAll(library, theirs, false)
	r.runAll(plan, ours, true) // with every access in its slot, as the sizes prove: else each is checked
	for i, o := range op.Operands {
		require.Equal(r, oneNaN(theirs[i], l[i].Type), oneNaN(ours[i], l[i].Type), "%s", o.Name)
	}
	if len(l) == 2 { // by sizes too
		again, err := tuned.Plan(op, ty, d, device)
		require.NoError(r, err)
		require.Equal(r, plan.Steps[0].Program, again.Steps[0].Program)
	}
}
