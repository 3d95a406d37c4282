package kernels

import (
	"fmt"
	"slices"

	"github.com/hologram-project/hologram/isa"
)

// Embedding is output[…, j] = table[index[…], j], the rows of a table by their
// numbers. A number that names no row is a stray access.
var Embedding = gathering("embedding", "output[…, j] = table[index[…], j]: the rows of table that index names. A number that names none is a fault",
	[]Operand{{Name: "table", Reads: true}, {Name: "index", Reads: true, Kind: Index}, {Name: "output", Writes: true}}, nil,
	func(rows, cols int64) [][]int64 { return [][]int64{{rows, cols}, {rows}, {rows, cols}} })

func init() {
	Embedding.shapes = planEmbedding
	Embedding.result = func(l []Layout, _ int) ([]int64, error) {
		if len(l[0].Shape) != 2 {
			return nil, tableError(l[0])
		}
		return append(slices.Clone(l[1].Shape), l[0].Shape[1]), nil
	}
}

func tableError(l Layout) error {
	return fmt.Errorf("embedding: table has shape %s; expected 2 dimensions", shapeText(l.Shape))
}

var embeddingText = &source{text: `
program embedding
slot table {{.T}}
slot place i64
slot output {{.T}}
param rows u64
param cols u64
param down u64              ; elements from row to row
param step u64              ; and from column to column

  sreg lane, global_lane
  ldp.u64 rows, rows
  ldp.u64 cols, cols
  ldp.u64 down, down
  ldp.u64 step, step
  ldg.i64 row, place[index]
  rem.u64 column, lane, cols
  cvt.u64.i64 row, row
  set.ge.u64 none, row, rows    ; a negative one too
  mul.u64 at, row, down
  mad.u64 at, column, step, at
  mul.u64 at, at, {{size .T}}
  sel.u64 at, none, 0x7fffffffffffffff, at
  ldg.{{.T}} x, table[at]
  stg.{{.T}} x, output[index]
  exit
`}

// IsEmbedding reports whether a program is that which an Embedding's plan launches: its
// slots are the table, the numbers and the output, its parameters the table's rows and
// columns, and the elements from row to row and from column to column.
func IsEmbedding(v *isa.Verified) bool {
	embeddingText.mu.Lock()
	defer embeddingText.mu.Unlock()
	for _, made := range embeddingText.made {
		if made == v {
			return v != nil
		}
	}
	return false
}

func planEmbedding(l []Layout, _ int) (*Plan, error) {
	want, err := Embedding.result(l, -1)
	if err != nil {
		return nil, err
	}
	place := operand(1, l[1])
	if got := l[2].Shape; l[1].Elements() == 1 && slices.Equal(got, l[0].Shape[1:]) { // of a number of no dimension
		want, place.Stride = got, nil
	} else if !slices.Equal(got, want) {
		return nil, fmt.Errorf("embedding: output has shape %s; the result has %s", shapeText(got), shapeText(want))
	}
	p := &Plan{}
	if l[2].Elements() == 0 {
		return p, nil
	}
	table, err := p.forward(operand(0, l[0]))
	if err != nil {
		return nil, err
	}
	out := operand(2, l[2])
	place.Shape, place.Stride = want, append(slices.Clone(place.Stride), 0)
	program, err := embeddingText.instance(elements(l[0].Type))
	p.Steps = append(p.Steps, Step{
		Program: program, Shape: want,
		Slots:  []Binding{table.bytes(), place.indexed(), out.indexed()},
		Params: cells(uint64(l[0].Shape[0]), uint64(l[0].Shape[1]), uint64(table.Stride[0]), uint64(table.Stride[1])),
	})
	p.places("index", l[1], l[0].Shape[0])
	return p, err
}
