package tuned

import (
	"fmt"
	"strings"

	"github.com/hologram-project/hologram/isa"
)

// writer writes a program on elements of type t, computed with in type acc.
type writer struct {
	strings.Builder
	t, acc isa.Type
	block  int64 // lanes to which a row is dealt out
	unit   int64 // elements of a row that are combined to one result before these are
	step   int64 // elements between those of a row
	labels int
	full   bool // all lanes have an element of each unit, so that none begins with the identity
}

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// each writes body for the lane's elements of some rounds of all lanes, and for the lanes
// below left once more; left may be "", for none. The offset goes on in at.
func (w *writer) each(rounds, left string, body func()) {
	w.labels++
	n := w.labels
	w.line("  loop %s, done%d", rounds, n)
	body()
	w.line("  add.u64 at, at, %d\ndone%d:", w.block*w.step*int64(w.t.Size()), n)
	if left == "" {
		return
	}
	// Lanes agree on whether there is a rest at all.
	w.line("  set.eq.u32 p, %s, 0\n  bra over%d, p\n  set.ge.u32 p, q, %[1]s\n  bra over%[2]d, p", left, n)
	body()
	w.line("over%d:", n)
}

func (w *writer) load(slot string) {
	w.line("  ldg.%v z, %s[at]", w.t, slot)
	w.widen("z")
}

// widen makes an element that was loaded one of the type computed in.
func (w *writer) widen(r string) {
	if w.t != w.acc {
		w.line("  cvt.%v.%v %s, %[3]s", w.acc, w.t, r)
	}
}

func (w *writer) store() { w.storeAs(w.t, "z", "y[at]") }

// storeAs stores a number of the type computed in as one of type t.
func (w *writer) storeAs(t isa.Type, r, to string) {
	if t != w.acc {
		w.line("  cvt.%v.%v stored, %s", t, w.acc, r)
		r = "stored"
	}
	w.line("  stg.%v %s, %s", t, r, to)
}

// tree combines by halvings: r[i] and r[i+w], into r[0].
func (w *writer) tree(combine string, r []string) {
	n := 1
	for n < len(r) {
		n *= 2
	}
	for n /= 2; n > 0; n /= 2 {
		for i := 0; i < n && i+n < len(r); i++ {
			w.line("  %s.%v %s, %[3]s, %s", combine, w.acc, r[i], r[i+n])
		}
		r = r[:min(n, len(r))]
	}
}
