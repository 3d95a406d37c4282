package tuned

import (
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// Places (argmin, argmax) along the columns of packed matrices: lanes lie along memory, and
// each goes down a column, or a part of one.
const placeRows = 1 << 12 // of a part of a column in which a lane looks for a place

// aside appends launches on tiles of columns, of which each lane has so many rows.
func (p *plan) aside(k key, write func(w *writer), tile, matrices, rows, cols, many int64, slots ...kernels.Binding) {
	parts := (rows + many - 1) / many
	k.t = slots[0].Type
	launch := func(from, tiles, lanes int64) {
		p.step(k, write, matrices*parts*tiles*lanes, lanes, slots, uint64(cols), uint64(rows), uint64(parts), uint64(from), uint64(tiles))
	}
	if cols >= tile {
		launch(0, cols/tile, tile)
	}
	if rest := cols % tile; rest > 0 {
		launch(cols-rest, 1, rest)
	}
}

// asidePlace is where a lane is: its part of a column begins at element at and has n
// rows; of is its column's number, among the columns of all matrices, and apart what it
// has among those parts. params declare others.
func (w *writer) asidePlace(many int64, params ...func()) {
	w.line("param cols u64\nparam rows u64\nparam parts u32\nparam from u32     ; column\nparam tiles u32")
	for _, declare := range params {
		declare()
	}
	w.line("  sreg q, lane.x\n  sreg b, block.x\n  sreg dx, block_dim.x\n  ldp.u64 cols, cols\n  ldp.u64 rows, rows\n  ldp.u32 parts, parts\n  ldp.u32 from, from\n  ldp.u32 tiles, tiles")
	w.line("  rem.u32 tile, b, tiles\n  div.u32 b, b, tiles\n  cvt.u64.u32 block, b\n  rem.u32 part, b, parts\n  div.u32 matrix, b, parts\n  mad.u32 col, tile, dx, from")
	w.line("  cvt.u64.u32 col, col\n  cvt.u64.u32 lane, q\n  add.u64 col, col, lane\n  cvt.u64.u32 part, part\n  cvt.u64.u32 matrix, matrix\n  mul.u64 top, part, %d", many)
	w.line("  sub.u64 left, rows, top\n  min.u64 left, left, %d\n  cvt.u32.u64 n, left", many)
	w.line("  mad.u64 at, matrix, rows, top\n  mul.u64 at, at, cols\n  add.u64 at, at, col\n  mad.u64 of, matrix, cols, col\n  mad.u64 apart, block, cols, col")
}

// down writes body for each of a lane's n rows. Offsets into slots, by their names and
// types, go on.
func (w *writer) down(n string, body func(), offsets map[string]isa.Type) {
	w.labels++
	label := w.labels
	for _, name := range []string{"xat", "eat"} {
		if t := offsets[name]; t != isa.NoType {
			w.line("  mul.u64 %s, at, %d\n  mul.u64 %[1]sdown, cols, %[2]d", name, t.Size())
		}
	}
	w.line("  loop %s, down%d", n, label)
	body()
	for _, name := range []string{"xat", "eat"} {
		if offsets[name] != isa.NoType {
			w.line("  add.u64 %s, %[1]s, %[1]sdown", name)
		}
	}
	w.line("down%d:", label)
}

// columnPlaces finds the place of each column's extreme element.
func columnPlaces(combine string, t, out isa.Type, matrices, rows, cols int64) (*kernels.Plan, error) {
	parts := (rows + placeRows - 1) / placeRows
	if rows < 2 || matrices*parts*(cols/16+1) >= 1<<31 || cols >= maxWide || rows >= 1<<31 || out.Size() < 4 {
		return nil, nil
	}
	p := &plan{}
	if p.narrowPlaces(combine, t, out, matrices, rows, cols) {
		return p.done()
	}
	x, y := operand(0, t), operand(1, out)
	x.Shape, x.Stride = []int64{matrices * rows * cols}, []int64{1}
	y.Shape, y.Stride = []int64{matrices * cols}, []int64{1}
	found := p.room(isa.U32, matrices*cols)
	places := found
	slots := []kernels.Binding{x, places}
	if parts > 1 {
		places = p.room(isa.U32, matrices*parts*cols)
		slots = []kernels.Binding{x, places, p.room(t, matrices*parts*cols)}
	}
	tile := int64(columnTile / 4)
	p.aside(key{what: "places in columns " + combine, exact: parts > 1}, func(w *writer) { w.columnPlaces(combine, parts > 1, false) },
		tile, matrices, rows, cols, placeRows, slots...)
	if parts > 1 {
		p.aside(key{what: "places in parts of columns " + combine}, func(w *writer) { w.columnPlaces(combine, false, true) },
			tile, matrices, parts, cols, parts, slots[2], found, places)
	}
	p.steps(key{what: "widened", t: isa.U32, out: out}, matrices*cols, func(w *writer) {
		w.line("program widened\nslot x u32\nslot y %v\n  ldg.u32 z, x[index]\n  cvt.%[1]v.u32 z2, z\n  stg.%[1]v z2, y[index]\n  exit", out)
	}, found, y)
	return p.done()
}

// columnPlaces writes the program: on elements, with what a part's extreme is if that
// is asked for; or on the extremes of all parts, with their places in the parts.
func (w *writer) columnPlaces(combine string, parts, joins bool) {
	w.acc = w.t
	w.line("program places_in_columns\nslot x %v\nslot y u32", w.t)
	many := int64(placeRows)
	switch {
	case parts:
		w.line("slot best %v", w.t)
	case joins:
		w.line("slot places u32")
		many = 1 << 31
	}
	w.asidePlace(many)
	w.line("  mov.%v m, %s\n  mov.u32 w, 0\n  mov.u32 row, 0", w.t, kernels.Identity(combine, w.t))
	offsets := map[string]isa.Type{"xat": w.t}
	if joins {
		offsets["eat"] = isa.U32
	}
	w.down("n", func() {
		w.line("  ldg.%v z, x[xat]\n  mov.u32 here, row", w.t)
		if joins {
			w.line("  ldg.u32 place, places[eat]\n  add.u32 here, place, row")
		}
		w.keep(combine, isa.U32, "here")
		w.line("  add.u32 row, row, %d", map[bool]int{false: 1, true: placeRows}[joins])
	}, offsets)
	if parts {
		w.line("  mul.u64 to, apart, 4\n  stg.u32 w, y[to]\n  mul.u64 to, apart, %d\n  stg.%v m, best[to]", w.t.Size(), w.t)
	} else {
		w.line("  mul.u64 to, of, 4\n  stg.u32 w, y[to]")
	}
	w.line("  exit")
}
