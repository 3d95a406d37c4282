package asynctest

import (
	"fmt"
	"strings"
	"sync"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

var _ backends.Planner = (*device)(nil)

// PlanShapes is backends.Planner's: only rows in memory are planned here.
func (*device) PlanShapes(*kernels.Op, []kernels.Layout, int) (*kernels.Plan, error) { return nil, nil }

// Plan has softmax's rows of up to a chunk in two launches rather than three:
// one finds a row's maximum and its sum. Both go in the library's written order,
// so the bits are the library's. The last step goes by index, as the library's
// does, so that the output may be the input.
func (d *device) Plan(op *kernels.Op, t isa.Type, dims []int64) (*kernels.Plan, error) {
	o := &d.backend.options
	if !o.Plans || op != kernels.Softmax {
		return nil, nil
	}
	if _, err := op.Extent(t, dims); err != nil {
		return nil, err
	}
	rows, cols := dims[0], dims[1]
	if rows == 0 || cols == 0 || cols > kernels.ChunkElements || o.MaxGrid[0] > 0 && rows > int64(o.MaxGrid[0]) {
		return nil, nil
	}
	sums, err := softmaxPrograms.get(softmaxSums, t, cols)
	if err != nil {
		return nil, err
	}
	divide, err := softmaxPrograms.get(softmaxDivide, t, 0)
	if err != nil {
		return nil, err
	}
	acc := kernels.Accumulator(t)
	bytes := (rows*int64(acc.Size()) + 63) &^ 63
	scratch := func(offset int64, shape, stride []int64) kernels.Binding {
		return kernels.Binding{Operand: kernels.Workspace, Offset: offset, Type: acc, Shape: shape, Stride: stride}
	}
	shape, packed, byRow := []int64{rows, cols}, []int64{cols, 1}, []int64{1, 0}
	flat, one := []int64{rows}, []int64{1}
	d.backend.mu.Lock()
	d.backend.counts.Plans++
	d.backend.mu.Unlock()
	return &kernels.Plan{
		Workspace: 2 * bytes,
		Steps: []kernels.Step{{
			Program: sums,
			Slots:   []kernels.Binding{{Operand: 0, Type: t}, scratch(0, flat, one), scratch(bytes, flat, one)},
			Grid:    [3]uint32{uint32(rows), 1, 1},
			Block:   [3]uint32{kernels.Partials, 1, 1},
			Shape:   []int64{rows * kernels.Partials},
		}, {
			Program: divide,
			Slots: []kernels.Binding{{Operand: 0, Type: t, Shape: shape, Stride: packed},
				scratch(0, shape, byRow), scratch(bytes, shape, byRow), {Operand: 1, Type: t, Shape: shape, Stride: packed}},
			Shape: shape,
		}},
	}, nil
}

// The programs, of which $T is the elements' type, $A the accumulator's, $COLS
// the row's length, $LOAD what loads x from the address that follows, and $STORE
// what stores z there.
const (
	softmaxSums = `
program softmax_sums
slot a $T
slot m $A
slot s $A
block 256
  sreg q, lane.x
  sreg row, block.x
  cvt.u64.u32 lane, q
  cvt.u64.u32 at, row
  mul.u64 first, at, $COLS
  add.u64 first, first, lane
  mul.u64 first, first, $SIZE_T
  sub.u64 len, $LAST, lane       ; this lane's elements: ⌈(cols − lane) / 256⌉
  shr.u64 len, len, 8
  cvt.u32.u64 rounds, len

  mov.u64 off, first
  mov.$A high, -inf
  loop rounds, found
    $LOAD a[off]
    max.$A high, high, x
    add.u64 off, off, $STEP
found:
  block_reduce_max.$A high, high

  mov.u64 off, first
  mov.$A sum, -0.0
  loop rounds, added
    $LOAD a[off]
    sub.$A z, x, high
    exp.$A z, z
    add.$A sum, sum, z
    add.u64 off, off, $STEP
added:
  block_reduce_add.$A sum, sum

  set.ne.u32 p, q, 0
  bra end, p
  mul.u64 at, at, $SIZE_A
  stg.$A high, m[at]
  stg.$A sum, s[at]
end:
  exit
`
	softmaxDivide = `
program softmax_divide
slot a $T
slot m $A
slot s $A
slot c $T
  $LOAD a[index]
  ldg.$A high, m[index]
  ldg.$A sum, s[index]
  sub.$A z, x, high
  exp.$A z, z
  div.$A z, z, sum
  $STORE c[index]
  exit
`
)

// programs are those made so far. A row's length stands in its program, which a
// device that cared for speed would make a parameter.
type programs struct {
	mu   sync.Mutex
	made map[programKey]*isa.Verified
}

type programKey struct {
	text string
	t    isa.Type
	cols int64
}

var softmaxPrograms = programs{made: map[programKey]*isa.Verified{}}

func (p *programs) get(text string, t isa.Type, cols int64) (*isa.Verified, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := programKey{text, t, cols}
	if v := p.made[k]; v != nil {
		return v, nil
	}
	acc := kernels.Accumulator(t)
	load, store := "ldg.$T x,", "stg.$T z,"
	if t != acc {
		load = "ldg.$T narrow, $ADDR\n  cvt.$A.$T x, narrow"
		store = "cvt.$T.$A narrow, z\n  stg.$T narrow,"
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if before, addr, ok := strings.Cut(line, "$LOAD "); ok && t != acc {
			line = before + strings.Replace(load, "$ADDR", strings.TrimSpace(addr), 1) + "\n"
		}
		b.WriteString(line)
	}
	full := strings.NewReplacer("$LOAD", load, "$STORE", store).Replace(b.String())
	full = strings.NewReplacer("$COLS", fmt.Sprint(cols), "$LAST", fmt.Sprint(cols+kernels.Partials-1),
		"$SIZE_T", fmt.Sprint(t.Size()), "$SIZE_A", fmt.Sprint(acc.Size()),
		"$STEP", fmt.Sprint(kernels.Partials*t.Size()), "$T", t.String(), "$A", acc.String()).Replace(full)
	parsed, err := isa.Assemble("asynctest", full)
	if err != nil {
		return nil, err
	}
	v, err := isa.Verify(parsed)
	if err != nil {
		return nil, err
	}
	p.made[k] = v
	return v, nil
}
