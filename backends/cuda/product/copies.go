package product

import "fmt"

// loads are a thread's copies of a piece of n rows: so many, rows or products
// apart, the first of which is done by the thread's place.
type loads struct {
	count, step int // copies, and products between them
	rows, apart int // along k: rows, and what lies between them
}

func (x *text) loads(w walk, n int) loads {
	threads := x.threads()
	switch w {
	case alongK:
		return loads{count: x.bk / 8, step: 8, rows: n * 8 / threads, apart: threads / 8}
	case turned:
		return loads{count: 4, step: 1, rows: n * x.lanes() / threads, apart: threads / x.lanes()}
	case wide:
		step := threads * x.vector() / n
		return loads{count: x.bk / step, step: step}
	}
	return loads{count: x.bk * n / threads, step: threads / n}
}

// start finds where a thread's copies of a factor's pieces begin. Rows beyond the
// matrix are not copied, or its last is in their place: nobody stores what becomes
// of them.
func (x *text) start(f string, w walk, n int, bound, tile, row, along string) {
	l := x.loads(w, n)
	x.comment("copies of %s", f)
	x.reg("b32", f+"_to", f+"_p")
	x.reg("b64", f+"_at", f+"_step")
	to, p, at := "%"+f+"_to", "%"+f+"_p", "%"+f+"_at"
	if w.lengthwise() {
		x.reg("b32", f+"_rows")
		if w == alongK {
			x.line("and.b32 %s, %%thread, 7;", p)
			x.line("shr.u32 %%x, %%thread, 3;")
		} else {
			x.line("and.b32 %s, %%thread, %d;", p, x.lanes()-1)
			x.line("mul.lo.u32 %s, %s, 4;", p, p)
			x.line("div.u32 %%x, %%thread, %d;", x.lanes())
		}
		x.line("mul.lo.u32 %s, %s, %d;", to, p, x.pitch(n))
		if w == turned {
			x.line("shr.u32 %%y, %s, 3;", p)
			x.line("mad.lo.u32 %s, %%y, %d, %s;", to, x.gap(w), to)
		}
		x.line("mad.lo.u32 %s, %%x, %d, %s;", to, x.size(), to)
		x.line("add.u32 %%x, %%x, %s;", tile)
		x.line("sub.u32 %%%s_rows, %s, %%x;", f, bound)
		x.line("cvt.u64.u32 %%u, %s;", p)
		x.line("mad.lo.u64 %%%s, %%u, %d, %%%[1]s;", f, x.size())
		x.line("cvt.u64.u32 %%u, %%x;")
		x.line("mad.lo.u64 %s, %%u, %s, %%%s;", at, row, f)
		x.line("mul.lo.u64 %%%s_step, %s, %d;", f, row, l.apart)
		if w == alongK {
			x.line("sub.u32 %%x, %s, %s;", bound, tile)
			x.line("setp.ge.and.u32 %%inside, %%x, %d, %%inside;", n)
		}
	} else {
		v := 1
		if w == wide {
			v = x.vector()
		}
		x.line("sub.u32 %%z, %s, %d;", bound, v) // the last
		x.line("div.u32 %s, %%thread, %d;", p, n/v)
		x.line("rem.u32 %%x, %%thread, %d;", n/v)
		x.line("mul.lo.u32 %%x, %%x, %d;", v)
		x.line("mul.lo.u32 %s, %s, %d;", to, p, x.pitch(n))
		x.line("mad.lo.u32 %s, %%x, %d, %s;", to, x.size(), to)
		x.line("add.u32 %%x, %%x, %s;", tile)
		x.line("min.u32 %%x, %%x, %%z;")
		x.line("cvt.u64.u32 %%u, %%x;")
		x.line("mad.lo.u64 %%%s, %%u, %s, %%%[1]s;", f, row)
		x.line("cvt.u64.u32 %%u, %s;", p)
		x.line("mad.lo.u64 %s, %%u, %s, %%%s;", at, along, f)
		x.line("mul.lo.u64 %%%s_step, %s, %d;", f, along, l.step)
	}
	x.line("add.u32 %s, %s, %%shared;", to, to)
}

// copies writes a thread's copies of a factor's piece, and goes on to the next. Of
// a piece that is not whole what lies beyond is not copied: rows of the matrix, or
// products, of which %load are left.
func (x *text) copies(f string, w walk, n, base int, whole bool) {
	l := x.loads(w, n)
	bytes, cache := x.size(), "ca"
	if w == wide {
		bytes, cache = 16, "cg"
	}
	for i := range max(1, l.rows) {
		if w.lengthwise() {
			x.line("%s", map[bool]string{true: fmt.Sprintf("mov.b64 %%u, %%%s_at;", f), false: fmt.Sprintf("add.s64 %%u, %%u, %%%s_step;", f)}[i == 0])
		}
		for j := range l.count {
			guard := ""
			if !whole {
				x.line("add.u32 %%x, %%%s_p, %d;", f, j*l.step)
				x.line("setp.lt.u32 %%q, %%x, %%load;")
				if w.lengthwise() {
					x.line("setp.gt.and.s32 %%q, %%%s_rows, %d, %%q;", f, i*l.apart)
				}
				guard = "@%q "
			}
			from, to := fmt.Sprintf("%%%s_at", f), base+j*l.step*x.pitch(n)
			if w.lengthwise() {
				from, to = fmt.Sprintf("%%u+%d", j*l.step*x.size()), to+i*l.apart*x.size()
			}
			x.line("%scp.async.%s.shared.global [%%%s_dst+%d], [%s], %d;", guard, cache, f, to, from, bytes)
			if !w.lengthwise() {
				x.line("add.s64 %%%s_at, %%%[1]s_at, %%%[1]s_step;", f)
			}
		}
	}
	if w.lengthwise() {
		x.line("add.s64 %%%s_at, %%%[1]s_at, %d;", f, x.bk*x.size())
	}
}

// turn is one of a thread's turns of four elements that lie along k: by registers, from
// where they go one by one to their products' rows, while products are summed up.
type turn struct {
	f       string
	w       walk
	n, base int
	number  int // of l.rows
	l       loads
}

// together is how many turns are under way at a time: four registers each, of which
// there are few beside so many sums.
const together = 2

// turns are those of a whole piece.
func (x *text) turns() (list []turn) {
	add := func(t turn) {
		t.l = x.loads(t.w, t.n)
		for t.number = range t.l.rows {
			list = append(list, t)
		}
	}
	if x.A == turned {
		add(turn{f: "a", w: x.A, n: x.rows()})
	}
	if x.B == turned {
		add(turn{f: "b", w: x.B, n: x.cols(), base: x.pieceA()})
	}
	return list
}

// turnsAt loads what is to be turned, where %turn says that the piece is whole, and
// some products later puts it into its place, both spread over the piece's products.
func (x *text) turnsAt(turns []turn, p int) {
	// Product bk−2 is the last before the barrier.
	at := func(i int) int { return i * (x.bk - 2) / (len(turns) - 1 + together) }
	for i, t := range turns {
		if at(i+together) == p {
			for e := range 4 {
				to := t.base + e*x.pitch(t.n) + t.number*t.l.apart*x.size()
				x.line("@%%turn st.shared.%s [%%%s_dst+%d], %%turn%d;", x.t(), t.f, to, i%together*4+e)
			}
		}
	}
	for i, t := range turns {
		if at(i) != p {
			continue
		}
		if t.number == 0 {
			x.line("mov.b64 %%source, %%%s_at;", t.f)
		} else {
			x.line("add.s64 %%source, %%source, %%%s_step;", t.f)
		}
		x.line("setp.gt.and.s32 %%q, %%%s_rows, %d, %%turn;", t.f, t.number*t.l.apart)
		x.line("@%%q ld.global.v4.%s {%s}, [%%source];", x.t(), list("turn", i%together*4, 4))
		if t.number == t.l.rows-1 {
			x.line("@%%turn add.s64 %%%s_at, %%%[1]s_at, %d;", t.f, x.bk*x.size())
		}
	}
}

// copyPiece copies the next pieces, if there are any, to the stage at %to, but for what
// is to be turned later.
func (x *text) copyPiece(label string, later bool) {
	if units(x.Type) {
		x.unitPiece(label)
		return
	}
	copies := func(f string, w walk, n, base int) {
		if !later || w != turned {
			x.copies(f, w, n, base, w != turned) // where rows may be beyond the matrix
		}
	}
	if later {
		x.line("setp.ne.u32 %%turn, 0, 0;")
	}
	x.line("setp.eq.u32 %%p, %%load, 0;")
	x.line("@%%p bra copied_%s;", label)
	x.line("add.u32 %%a_dst, %%a_to, %%to;")
	x.line("add.u32 %%b_dst, %%b_to, %%to;")
	x.line("setp.ge.and.u32 %%p, %%load, %d, %%inside;", x.bk)
	x.line("@%%p bra whole_%s;", label)
	x.copies("a", x.A, x.rows(), 0, false)
	x.copies("b", x.B, x.cols(), x.pieceA(), false)
	x.line("min.u32 %%x, %%load, %d;", x.bk)
	x.line("sub.u32 %%load, %%load, %%x;")
	x.line("bra copied_%s;", label)
	x.label("whole_" + label)
	copies("a", x.A, x.rows(), 0)
	copies("b", x.B, x.cols(), x.pieceA())
	if later {
		x.line("setp.eq.u32 %%turn, 0, 0;")
	}
	x.line("sub.u32 %%load, %%load, %d;", x.bk)
	x.label("copied_" + label)
	x.line("cp.async.commit_group;")
	x.next("to")
}

// next makes a register point to the next stage.
func (x *text) next(r string) {
	x.line("add.u32 %%%s, %%%[1]s, %d;", r, x.stage())
	x.line("setp.eq.u32 %%p, %%%s, %d;", r, x.totals())
	x.line("selp.b32 %%%s, 0, %%%[1]s, %%p;", r)
}

// fill copies all but one stages' first pieces.
func (x *text) fill() {
	x.comment("the first pieces")
	x.reg("b32", "to", "from", "rounds", "a_dst", "b_dst")
	x.line("mov.b32 %%to, 0;")
	x.line("mov.b32 %%from, 0;")
	x.line("mov.b32 %%rounds, %d;", x.stages-1)
	x.label("fill")
	x.copyPiece("fill", false)
	x.line("sub.u32 %%rounds, %%rounds, 1;")
	x.line("setp.ne.u32 %%p, %%rounds, 0;")
	x.line("@%%p bra fill;")
}
