package tuned

import (
	"fmt"
	"strings"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Numbers of the columns of packed matrices, of several arrays: a block has a tile of
// neighbouring columns, of which a lane has some, and of a chunk of their rows every
// 32nd, a warp every 256th, which is a partial. So memory is read along rows, 16 bytes a
// lane, and a lane has few sums. A block does the first halvings of the tree; a second
// step, of a lane for each column, does the others. Of short columns, which are many, a
// tile has fewer blocks, and a lane several partials, one after the other.

const (
	stripes      = 32                 // blocks of a tile's chunk, at most
	stripeWarps  = partials / stripes // warps of a block
	stripeLanes  = stripeWarps * warp
	manyBlocks   = 24  // for each multiprocessor, that keep it at work
	shortRounds  = 4   // elements of a partial of a short column
	mostLoaded   = 128 // bytes of a lane under way, of short columns
	mostChunks   = 8   // of a column
	stripeAtOnce = 4   // rows of a lane under way, where all chunks have so many
)

// columnStats plans a Rowwise that makes numbers alone, where its rows are columns, or
// leaves it to the library. They are left in a type, that of sums or narrower.
func columnStats(op *kernels.Op, l []kernels.Layout, axes int, out isa.Type, d Device) (*kernels.Plan, error) {
	c := op.ColumnCall(l, axes)
	if c == nil || c.Matrices != 1 || c.Cols <= fewRows {
		return nil, nil
	}
	r := statText{op: op, r: op.Rowwise(), beside: 1, out: out}
	for i, share := range r.r.Shares {
		if share == kernels.Column && !c.Along[i] || share == kernels.Row && op.Operands[i].Reads {
			return nil, nil
		}
	}
	if len((&rowText{op: op, r: r.r, c: c}).groups()) != 1 {
		return nil, nil
	}
	t, acc, cols, rows := l[0].Type, kernels.Accumulator(l[0].Type), c.Rows, c.Cols
	for r.beside < 4 && r.beside*t.Size() < 16 && cols%int64(2*r.beside) == 0 {
		r.beside *= 2
	}
	r.chunks = ceil(rows, chunk)
	tiles := ceil(cols, int64(warp*r.beside))
	if r.chunks > mostChunks || tiles > maxBlocks {
		return nil, nil
	}
	r.whole, r.fours = rows%partials == 0, rows%(stripeAtOnce*partials) == 0
	r.stripes = stripes
	if r.whole && rows <= shortRounds*partials {
		lane := rows / partials * int64(r.beside*t.Size()) // bytes for each partial
		for i, o := range op.Operands {
			if i > 0 && o.Reads && r.r.Shares[i] == kernels.Whole {
				lane *= 2
			}
		}
		for tiles*r.stripes/2 >= manyBlocks*d.Processors && 2*stripes/r.stripes*lane <= mostLoaded {
			r.stripes /= 2
		}
	}
	k := key{fmt.Sprintf("%s columns %d %t", op.Name, r.beside, r.fours), t, t, shape{elements: r.chunks, rows: r.stripes, exact: r.whole}}
	if r.stripes < stripes {
		r.rounds = rows / partials
		k.s.lanes = r.rounds
	}
	v, err := program(k, func(w *writer) {
		w.t, w.acc = t, acc
		r.text(w)
	})
	if err != nil {
		return nil, err
	}
	p := &kernels.Plan{}
	var slots, sums []kernels.Binding
	for i, o := range op.Operands {
		if o.Reads {
			slots = append(slots, c.Slots[i])
		}
	}
	for range r.r.Stats {
		sums = append(sums, between(p, acc, r.chunks*r.stripes*cols))
	}
	one := step(v, 1, append(slots, sums...), rows, cols/int64(r.beside), cols)
	one.Params = append(one.Params, op.RowParams(t, rows)...)
	one.Grid = [3]uint32{uint32(tiles), uint32(r.stripes), uint32(r.chunks)}
	one.Shape = []int64{tiles * r.stripes * r.chunks * stripeLanes}

	k.what, k.out = k.what+" sums", out
	if v, err = program(k, func(w *writer) {
		w.t, w.acc = t, acc
		r.sums(w)
	}); err != nil {
		return nil, err
	}
	for i, o := range op.Operands {
		if o.Writes {
			c.Slots[i].Type = out
			sums = append(sums, c.Slots[i])
		}
	}
	two := step(v, ceil(cols, partials), sums, cols)
	two.Params = append(two.Params, op.RowParams(t, rows)...)
	p.Steps = []kernels.Step{one, two}
	return p, nil
}

// statText writes the programs.
type statText struct {
	op           *kernels.Op
	r            *kernels.Rowwise
	beside       int   // columns of a lane
	chunks       int64 // of a column
	stripes      int64 // blocks of a tile's chunk
	rounds       int64 // elements of a partial where a lane has several partials, else 0
	whole, fours bool  // all partials have as many rows, and so many that a lane does some at once
	out          isa.Type
}

// params declares what both steps take, and loads it.
func (r *statText) params(w *writer) {
	w.line("param count %v", w.acc)
	for _, s := range r.op.Scalars {
		w.line("param %s %v", s.Name, w.acc)
	}
}

func (r *statText) arguments(w *writer) {
	w.line("  ldp.%v count, count", w.acc)
	for _, s := range r.op.Scalars {
		w.line("  ldp.%v %s, %[2]s", w.acc, s.Name)
	}
}

// reads calls f for the operands that are read.
func (r *statText) reads(f func(i int, name string, t isa.Type, whole bool), w *writer) {
	for i, o := range r.op.Operands {
		if o.Reads {
			f(i, o.Name, r.op.TypeOf(i, w.t), r.r.Shares[i] == kernels.Whole)
		}
	}
}

// text writes the first step.
func (r *statText) text(w *writer) {
	wide, tile := w.acc.Size(), warp*r.beside
	w.line("program %s_columns", r.op.Name)
	r.reads(func(_ int, name string, t isa.Type, _ bool) { w.line("slot %s %v", name, t) }, w)
	for _, s := range r.r.Stats {
		w.line("slot %s_sums %v", s.Name, w.acc)
	}
	w.line("param rows u64\nparam wide u64  ; groups of columns\nparam cols u64")
	r.params(w)
	w.line("shared %d\nblock %d", len(r.r.Stats)*stripeLanes*r.beside*wide, stripeLanes)
	w.line("  sreg q, lane.x\n  and.u32 x, q, %d\n  shr.u32 y, q, 5\n  sreg tile, block.x\n  sreg part, block.y\n  sreg piece, block.z", warp-1)
	for _, name := range []string{"x", "y", "tile", "part", "piece"} {
		w.line("  cvt.u64.u32 %s_, %[1]s", name)
	}
	w.line("  ldp.u64 rows, rows\n  ldp.u64 wide, wide\n  ldp.u64 cols, cols")
	r.arguments(w)
	w.line("  mul.u64 group, tile_, %d\n  add.u64 group, group, x_\n  sub.u64 k, wide, 1\n  min.u64 group, group, k", warp)
	w.line("  mul.u64 first, piece_, %d\n  sub.u64 len, rows, first\n  min.u64 len, len, %[1]d\n  cvt.u32.u64 len, len", chunk)
	w.line("  mul.u64 row, y_, %d\n  add.u64 row, row, part_\n  add.u64 row, row, first", r.stripes)
	if r.rounds > 0 {
		r.several(w)
	} else {
		r.one(w)
	}
	w.line("  mul.u32 mine, q, %d", r.beside*wide)
	for i, s := range r.r.Stats {
		for v := range r.beside {
			w.line("  sts.%v %s, shared[mine + %d]", w.acc, sum(s, v, 0), (i*stripeLanes*r.beside+v)*wide)
		}
	}
	w.line("  bar_sync 0\n  set.ge.u32 other, q, %d\n  bra end, other", tile)
	w.line("  cvt.u64.u32 q_, q\n  mul.u64 column, tile_, %d\n  add.u64 column, column, q_\n  set.ge.u64 beyond, column, cols\n  bra end, beyond", tile)
	w.line("  mul.u64 to, piece_, %d\n  add.u64 to, to, part_\n  mul.u64 to, to, cols\n  add.u64 to, to, column\n  mul.u64 to, to, %d\n  mul.u32 top, q, %[2]d", r.stripes, wide)
	for i, s := range r.r.Stats {
		var z []string
		for k := range stripeWarps {
			z = append(z, fmt.Sprintf("z%d", k))
			w.line("  lds.%v %s, shared[top + %d]", w.acc, z[k], (i*stripeLanes*r.beside+k*tile)*wide)
		}
		w.line("  stg.%v %s, %s_sums[to]", w.acc, w.tree(s.Combine, z), s.Name)
	}
	w.line("end:\n  exit")
}

// sum is the register of a lane's sum of column v, of those that wait for others.
func sum(s kernels.Stat, v, waiting int) string { return fmt.Sprintf("%s_%d_%d", s.Name, v, waiting) }

// none makes the sums those of no elements.
func (r *statText) none(w *writer, waiting int) {
	for _, s := range r.r.Stats {
		for v := range r.beside {
			w.line("  mov.%v %s, %s", w.acc, sum(s, v, waiting), kernels.Identity(s.Combine, w.acc))
		}
	}
}

// several adds up a lane's partials, of few rows each, and halves them: each pair as soon
// as there are both, so that few wait.
func (r *statText) several(w *writer) {
	count := stripes / r.stripes
	var order []int64 // in which the halvings need them
	var visit func(i, n int64, done func(i int64, depth int), combine func(depth int), depth int)
	visit = func(i, n int64, done func(i int64, depth int), combine func(depth int), depth int) {
		if n == count {
			done(i, depth)
			return
		}
		visit(i, 2*n, done, combine, depth)
		visit(i+n, 2*n, done, combine, depth+1)
		combine(depth)
	}
	visit(0, 1, func(i int64, _ int) { order = append(order, i) }, func(int) {}, 0)
	for n, i := range order {
		for k := range r.rounds {
			w.line("  add.u64 k, row, %d", i*stripeWarps*r.stripes+k*partials)
			r.load(w, n*int(r.rounds)+int(k))
		}
	}
	at := 0
	visit(0, 1, func(_ int64, depth int) {
		r.none(w, depth)
		for range r.rounds {
			r.add(w, at, depth, false)
			at++
		}
	}, func(depth int) {
		for _, s := range r.r.Stats {
			for v := range r.beside {
				w.line("  %s.%v %s, %[3]s, %s", s.Combine, w.acc, sum(s, v, depth), sum(s, v, depth+1))
			}
		}
	}, 0)
}

// one adds up a lane's partial.
func (r *statText) one(w *writer) {
	r.none(w, 0)
	atOnce := 1
	if r.fours {
		atOnce = stripeAtOnce
	}
	w.line("  shr.u32 rounds, len, %d\n  loop rounds, done", map[int]int{1: 8, stripeAtOnce: 10}[atOnce])
	for n := range atOnce {
		w.line("  add.u64 k, row, %d", n*partials)
		r.load(w, n)
	}
	for n := range atOnce {
		r.add(w, n, 0, false)
	}
	w.line("  add.u64 row, row, %d\ndone:", atOnce*partials)
	if !r.whole { // what has no row sees the last
		w.line("  cvt.u64.u32 end, len\n  add.u64 end, end, first\n  sub.u64 k, rows, 1\n  min.u64 k, row, k\n  set.ge.u64 beyond, row, end")
		r.load(w, 0)
		r.add(w, 0, 0, true)
	}
}

// load loads what a lane needs of row k, to registers numbered n.
func (r *statText) load(w *writer, n int) {
	w.line("  mul.u64 at, k, wide\n  add.u64 at, at, group")
	scaled := map[int]bool{}
	r.reads(func(_ int, name string, t isa.Type, whole bool) {
		if !whole {
			w.line("  mul.u64 to, k, %d\n  ldg.%v %s_%d, %s[to]", t.Size(), t, name, n, name)
			return
		}
		if !scaled[t.Size()] {
			scaled[t.Size()] = true
			w.line("  mul.u64 at%d, at, %d", t.Size(), r.beside*t.Size())
		}
		for v := range r.beside {
			w.line("  ldg.%v %s_%d_%d, %s[at%d + %d]", t, name, n, v, name, t.Size(), v*t.Size())
		}
	}, w)
}

// add adds what load has loaded to the sums.
func (r *statText) add(w *writer, n, waiting int, masked bool) {
	for v := range r.beside {
		for _, s := range r.r.Stats {
			r.reads(func(_ int, name string, t isa.Type, whole bool) {
				if !r.r.Uses(s.Of, name) {
					return
				}
				from := fmt.Sprintf("%s_%d", name, n)
				if whole {
					from += fmt.Sprintf("_%d", v)
				}
				if t != w.acc {
					w.line("  cvt.%v.%v %s, %s", w.acc, t, name, from)
				} else {
					w.line("  mov.%v %s, %s", w.acc, name, from)
				}
			}, w)
			w.line("  %s", strings.TrimSpace(r.r.Text(s.Of, w.acc)))
			if masked {
				w.line("  sel.%v z, beyond, %s, z", w.acc, kernels.Identity(s.Combine, w.acc))
			}
			w.line("  %s.%v %s, %[3]s, z", s.Combine, w.acc, sum(s, v, waiting))
		}
	}
}

// sums writes the second step.
func (r *statText) sums(w *writer) {
	wide := w.acc.Size()
	w.line("program %s_sums", r.op.Name)
	for _, s := range r.r.Stats {
		w.line("slot %s_sums %v", s.Name, w.acc)
	}
	for _, o := range r.op.Operands {
		if o.Writes {
			w.line("slot %s %v", o.Name, r.out)
		}
	}
	w.line("param cols u64")
	r.params(w)
	w.line("block %d\n  sreg q, lane.x\n  sreg b, block.x\n  ldp.u64 cols, cols", partials)
	r.arguments(w)
	w.line("  cvt.u64.u32 column, b\n  cvt.u64.u32 q_, q\n  mul.u64 column, column, %d\n  add.u64 column, column, q_\n  set.ge.u64 beyond, column, cols\n  bra end, beyond", partials)
	w.line("  mul.u64 to, column, %d\n  mul.u64 pitch, cols, %[1]d", wide)
	for _, s := range r.r.Stats {
		var parts []string
		w.line("  mov.u64 at, to")
		for c := range r.chunks {
			var z []string
			for k := range r.stripes {
				z = append(z, fmt.Sprintf("z%d", k))
				w.line("  ldg.%v %s, %s_sums[at]\n  add.u64 at, at, pitch", w.acc, z[k], s.Name)
			}
			parts = append(parts, fmt.Sprintf("part%d", c))
			w.line("  mov.%v %s, %s", w.acc, parts[c], w.tree(s.Combine, z))
		}
		w.line("  mov.%v acc, %s\n  mov.%[1]v z, acc", w.acc, w.tree(s.Combine, parts))
		if s.Done != "" {
			w.line("  %s", r.r.Text(s.Done, w.acc))
		}
		w.line("  mul.u64 place, column, %d", r.out.Size())
		w.store(r.out, "z", s.Name+"[place]")
	}
	w.line("end:\n  exit")
}
