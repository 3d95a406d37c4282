package kernels

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
)

// ScanChunk is how many elements of a row are added up by one block.
const ScanChunk = 256

// Cumsum is output[r, j] = Σ input[r, 0 … j]. A row is cut in chunks of ScanChunk
// elements, in each of which the sums are those of BLOCK_SCAN_ADD. The chunks'
// totals are a row whose sums are found the same way; the sum before a chunk, on
// the left, is then added to each of its own, but in the first chunk. Where output
// has a wider type the sums are kept in it, f16's and bf16's in f32 and rounded
// once. Integers wrap.
var Cumsum = &Op{
	Name: "cumsum", Doc: "output[r, j] = the sum of input[r, 0 … j], by rows",
	Types: isa.SetNumeric, Axes: true,
	Operands: []Operand{{Name: "input", Reads: true}, {Name: "output", Writes: true, Kind: Sum}},
	Dims:     []string{"rows", "cols"},
	extent:   func(d []int64) []int64 { return []int64{d[0] * d[1], d[0] * d[1]} },
	layouts: func(t isa.Type, d []int64) ([]Layout, int, error) {
		l := Packed(t, d[0], d[1])
		return []Layout{l, l}, 1, nil
	},
	// Over all dimensions it is one row, as numpy's is, whatever the input's shape.
	result: func(l []Layout, axes int) ([]int64, error) {
		if axes < len(l[0].Shape) {
			return l[0].Shape, nil
		}
		return []int64{l[0].Elements()}, nil
	},
}

func init() { Cumsum.shapes = planCumsum }

// scanPlace is where a block's lanes are: in chunk number chunk of row number row,
// at element off of all. rounds is 1 for lanes that have an element, and 0 for
// those beyond the row's end. Loops that often are what analysis sees through.
const scanPlace = `
param cols u64            ; elements in a row
param chunks u32          ; chunks in a row
block 256

  sreg q, lane.x
  sreg b, block.x
  ldp.u64 cols, cols
  ldp.u32 chunks, chunks
  div.u32 row, b, chunks
  rem.u32 chunk, b, chunks
  cvt.u64.u32 row, row
  cvt.u64.u32 first, chunk
  cvt.u64.u32 lane, q
  mul.u64 first, first, 256
  sub.u64 len, cols, first
  min.u64 len, len, 256
  add.u64 len, len, 255
  sub.u64 len, len, lane
  shr.u64 len, len, 8
  cvt.u32.u64 rounds, len
  mul.u64 off, row, cols
  add.u64 off, off, first
  add.u64 off, off, lane
  mul.u64 from, off, {{size .T}}
  {{if .Split}}add.u64 off, off, 1{{end}}
  mul.u64 to, off, {{size .Out}}
  cvt.u64.u32 block, b
  mul.u64 block, block, {{size .A}}
`

// scanText finds the sums in one chunk of one row; where a row has several, the
// last lane writes the chunk's total. Split leaves out the first element of out.
var scanText = &source{text: `
program scan
slot a {{.T}}
slot out {{.Out}}
{{.Extra}}` + scanPlace + `
  mov.{{.A}} x, {{.Identity}}
  loop rounds, loaded
    {{load "x" "a[from]"}}
    add.u64 from, from, {{stride .T}}
loaded:
  block_scan_add.{{.A}} z, x
  loop rounds, stored
    {{store "z" "out[to]"}}
    add.u64 to, to, {{stride .Out}}
stored:
  {{.Done}}
  exit
`}

// scanJoin adds the sum before a chunk to its own sums.
var scanJoin = &source{text: `
program scan_join
slot a {{.T}}
slot before {{.A}}        ; for each chunk the sum of those before it in its row
slot out {{.Out}}` + scanPlace + `
  ldg.{{.A}} y, before[block]
  set.eq.u32 whole, chunk, 0    ; there y is the row's before, or nothing
  loop rounds, stored
    ldg.{{.T}} z, a[from]
    add.{{.A}} y, y, z
    sel.{{.A}} z, whole, z, y
    {{store "z" "out[to]"}}
    add.u64 from, from, {{stride .T}}
    add.u64 to, to, {{stride .Out}}
stored:
  exit
`}

func planCumsum(l []Layout, axes int) (*Plan, error) {
	lead := len(l[0].Shape) - axes
	if lead == 0 && l[1].Packed() && l[0].Elements() == l[1].Elements() { // in a row, however the output has them
		l = []Layout{l[0], Packed(l[1].Type, l[0].Shape...)}
	}
	if err := sameShape("cumsum", l, [2]string{"input", "output"}, 1); err != nil {
		return nil, err
	}
	outer, inner := l[0].part(0, lead), l[0].part(lead, len(l[0].Shape))
	rows, cols := outer.Elements(), inner.Elements()
	return Cumsum.reduced(l[1], func(p *Plan, out array) error {
		if rows == 0 || cols == 0 {
			return nil
		}
		in, err := p.pack(operand(0, l[0]))
		if err != nil {
			return err
		}
		return p.scan(in, out, Accumulator(l[1].Type), rows, cols, false)
	})
}

// scan appends the steps that write the sums in the rows of in to out, both packed;
// shifted, to out's elements from the second on.
func (p *Plan) scan(in, out array, acc isa.Type, rows, cols int64, shifted bool) error {
	chunks := (cols + ScanChunk - 1) / ScanChunk
	if rows*chunks > maxDim {
		return fmt.Errorf("%d rows of %d elements are too many for one launch", rows, cols)
	}
	step := func(s *source, f fields, slots ...Binding) error {
		program, err := s.instance(f)
		p.Steps = append(p.Steps, Step{
			Program: program,
			Slots:   slots,
			Params:  cells(uint64(cols), uint64(chunks)),
			Grid:    [3]uint32{uint32(rows * chunks), 1, 1},
			Block:   [3]uint32{ScanChunk, 1, 1},
			Shape:   []int64{rows * chunks * ScanChunk},
		})
		return err
	}
	f := fields{T: in.Type, A: acc, Out: out.Type, Identity: Identity("add", acc), Split: shifted}
	if chunks == 1 {
		return step(scanText, f, in.bytes(), out.bytes())
	}
	f.Out, f.Split = acc, false
	f.Extra = fmt.Sprintf("slot totals %v", acc)
	f.Done = fmt.Sprintf(`set.ne.u32 p, q, 255
  bra end, p
  stg.%v z, totals[block]
end:`, acc)
	own, totals, before := p.room(acc, rows, cols), p.room(acc, rows, chunks), p.room(acc, rows*chunks+1)
	if err := step(scanText, f, in.bytes(), own.bytes(), totals.bytes()); err != nil {
		return err
	}
	if err := p.scan(totals, before, acc, rows, chunks, true); err != nil {
		return err
	}
	return step(scanJoin, fields{T: acc, A: acc, Out: out.Type, Split: shifted}, own.bytes(), before.bytes(), out.bytes())
}
