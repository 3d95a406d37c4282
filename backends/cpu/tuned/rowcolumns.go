package tuned

import (
	"fmt"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// A Rowwise whose rows are the columns of packed matrices: lanes lie along memory, and
// each has a row by itself. In the written order partials are combined that are half of
// all apart: a lane takes those that are keptRows apart in registers, keeps what becomes
// of them in room of its own, and combines that.
const (
	keptRows    = 32
	columnTile  = 512 // bytes of a matrix's row that the lanes of a block do together
	nearBytes   = 512 // from one element of a column to the next, so that long ones are read fast
	fewColumns  = 8
	mostColumns = 1 << 22          // elements for which there is room
	each        = lanes / keptRows // partials in registers
)

// rowwiseColumns plans it, or leaves it to the library: very few columns, and long ones
// that lie far apart, of which that reads a stretch of each array in order.
func rowwiseColumns(op *kernels.Op, l []kernels.Layout, axes int) (*kernels.Plan, error) {
	c := op.ColumnCall(l, axes)
	if c == nil {
		return nil, nil
	}
	t, acc := l[0].Type, kernels.Accumulator(l[0].Type)
	cols, tile := c.Rows/c.Matrices, int64(columnTile/acc.Size())
	if c.Cols > longest || cols < fewColumns || cols >= maxWide || c.Matrices*(cols/tile+1) >= 1<<31 || c.Cols > keptRows && c.Rows > mostColumns/keptRows {
		return nil, nil
	}
	// The library packs its columns unless it reads one array alone.
	if c.Cols > lanes && cols*int64(t.Size()) > nearBytes && op.Alone() {
		return nil, nil
	}
	p, slots := &plan{}, c.Slots
	same, form := sameForAll(op, c)
	r := columnText{t: t, same: same, rowText: rowText{op: op, r: op.Rowwise(), along: c.Along, chunks: int((c.Cols + chunk - 1) / chunk)}}
	if c.Cols <= keptRows {
		r.few = int(c.Cols)
	} else {
		slots = append(slots, p.room(acc, keptRows*c.Rows))
		last := c.Cols - int64(r.chunks-1)*chunk
		r.rounds, r.more = last >= lanes, int(last%lanes/keptRows)
	}
	k := key{what: fmt.Sprintf("%s columns %s %d", op.Name, form, r.more), n: int64(r.chunks)<<8 | int64(r.few), exact: r.rounds}
	p.aside(k, r.text, tile, c.Matrices, c.Cols, cols, c.Cols, slots...)
	for i := range p.Steps {
		p.Steps[i].Params = append(p.Steps[i].Params, kernels.Param{Value: uint64(c.Rows)})
	}
	p.given(op, t, c)
	return p.done()
}

// sameForAll says of what a row has one number of whether all have the same: lanes see
// how numbers lie where the program says it. form tells such programs apart.
func sameForAll(op *kernels.Op, c *kernels.RowCall) (same map[int]bool, form string) {
	same, form = map[int]bool{}, c.Form()
	for i, share := range op.Rowwise().Shares {
		if share == kernels.Column && !c.Along[i] {
			same[i] = c.Steps[len(same)].Value == 0
			form += fmt.Sprint(same[i])
		}
	}
	return same, form
}

// columnText writes the program.
type columnText struct {
	rowText
	t      isa.Type
	same   map[int]bool // which operands have one number for all rows
	few    int          // elements of a row that has no more than are kept
	rounds bool         // the last chunk has elements for all partials,
	more   int          // and so many times keptRows, and perhaps some, that are left
}

func (r *columnText) text(w *writer) {
	r.head(w, "columns")
	if r.few == 0 {
		w.line("slot kept %v", w.acc)
	}
	w.asidePlace(1<<31, func() {
		w.line("param many u64     ; rows")
		r.params(w)
	})
	size := w.t.Size()
	w.line("  ldp.u64 many, many\n  mul.u64 many, many, %d\n  mul.u64 at, at, %d\n  mul.u64 down, cols, %[2]d", w.acc.Size(), size)
	r.given(w, "of", r.step)
	if r.few == 0 {
		w.line("  mul.u64 keep, of, %d\n  mul.u64 round, down, %d", w.acc.Size(), lanes)
		for j := range each {
			w.line("  mul.u64 far%d, down, %d", j, j*keptRows)
		}
		w.line("  sub.u32 rest, n, %d\n  shr.u32 rounds, rest, 8\n  and.u32 ahead, n, %d\n  sub.u32 behind, %d, ahead", (r.chunks-1)*chunk, keptRows-1, keptRows)
	}
	for _, s := range r.r.Stats {
		var sums []string
		w.line("  mov.u64 from, at\n  mov.u64 beside, 0")
		for c := range r.chunks {
			r.chunk(w, s, c == r.chunks-1)
			sums = append(sums, fmt.Sprintf("s%d", c))
			w.line("  mov.%v s%d, z0", w.acc, c)
		}
		r.stat(w, s, sums)
	}
	if r.op.MakesElements() {
		w.line("  %s", r.r.Text(r.r.After, w.acc))
		w.line("  mov.u64 aside, 0\n  loop n, elements")
		r.loads(w, r.r.Each, "at", "aside")
		r.each(w)
		w.line("  add.u64 at, at, down\n  add.u64 aside, aside, %d\nelements:", size)
	}
	for i, o := range r.op.Operands {
		if o.Writes && r.r.Shares[i] == kernels.Row {
			w.line("  mul.u64 to, of, %d\n  stg.%v %s, %[3]s[to]", w.acc.Size(), w.acc, o.Name)
		}
	}
	w.line("  exit")
}

// step is how many bytes lie between the numbers of two rows.
func (r *columnText) step(i int) string {
	if r.same[i] {
		return "0"
	}
	return fmt.Sprint(r.op.TypeOf(i, r.t).Size())
}

// chunk leaves in z0 what the elements of the chunk that begins at from become.
func (r *columnText) chunk(w *writer, s kernels.Stat, last bool) {
	size := w.t.Size()
	element := func(at, aside string) {
		r.loads(w, s.Of, at, aside)
		w.line("  %s", r.r.Text(s.Of, w.acc))
	}
	if r.few > 0 {
		w.halve(s.Combine, int64(r.few), func(i int64) {
			w.line("  mul.u64 here, down, %d\n  add.u64 here, here, from", i)
			element("here", fmt.Sprintf("beside + %d", i*int64(size)))
			w.line("  mov.%v z%d, z", w.acc, i)
		})
		return
	}
	// Partials g, g + keptRows, …, of which so many have one more element.
	group := func(count, rounds string, more int) {
		w.labels++
		label := w.labels
		partials := more
		w.line("  loop %s, group%d\n  mov.u64 here, from\n  mov.u64 along, beside", count, label)
		if rounds != "" {
			partials = each
			for j := range each {
				w.line("  mov.%v z%d, %s", w.acc, j, kernels.Identity(s.Combine, w.acc))
			}
			w.line("  loop %s, round%d", rounds, label)
			for j := range each {
				w.line("  add.u64 there, here, far%d", j)
				element("there", fmt.Sprintf("along + %d", j*keptRows*size))
				w.line("  %s.%v z%d, z%[3]d, z", s.Combine, w.acc, j)
			}
			w.line("  add.u64 here, here, round\n  add.u64 along, along, %d\nround%d:", lanes*size, label)
		}
		w.halve(s.Combine, int64(partials), func(i int64) {
			if int(i) >= more {
				return
			}
			w.line("  add.u64 there, here, far%d", i)
			element("there", fmt.Sprintf("along + %d", int(i)*keptRows*size))
			if rounds != "" {
				w.line("  %s.%v z%d, z%[3]d, z", s.Combine, w.acc, i)
			} else {
				w.line("  mov.%v z%d, z", w.acc, i)
			}
		})
		w.line("  stg.%v z0, kept[put]\n  add.u64 put, put, many\n  add.u64 from, from, down\n  add.u64 beside, beside, %d\ngroup%d:", w.acc, size, label)
	}
	w.line("  mov.u64 put, keep\n  mov.u64 begin, from\n  mov.u64 start, beside")
	if last {
		rounds := ""
		if r.rounds {
			rounds = "rounds"
		}
		group("ahead", rounds, r.more+1)
		group("behind", rounds, r.more)
	} else {
		group(fmt.Sprint(keptRows), fmt.Sprint(chunk/lanes), 0)
		w.line("  mul.u64 far, down, %d\n  add.u64 from, begin, far\n  add.u64 beside, start, %d", chunk, chunk*size)
	}
	w.halve(s.Combine, keptRows, func(i int64) {
		w.line("  mul.u64 put, many, %d\n  add.u64 put, put, keep\n  ldg.%v z%[1]d, kept[put]", i, w.acc)
	})
}
