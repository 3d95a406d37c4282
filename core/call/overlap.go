package call

import (
	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/kernels"
)

// check is a written operand and another that must not share memory with it,
// but for the identical view where that is allowed.
type check struct {
	writes, other        int           // operands
	written, seen        backends.View // addresses count from the operands'
	wlo, whi             int64         // bytes from the operand's address that written reaches
	slo, shi             int64
	alike                bool  // the views are the same but for their addresses, …
	gap                  int64 // … which are equal if the other's operand lies so many bytes behind written's
	same                 bool
	writtenName, seeName string
	why                  string // not even the identical view, or only that
}

// passes reports whether a call's addresses pass the check. Most do by being
// far apart.
func (c *check) passes(operands []Operand) bool {
	if operands[c.other].Number {
		return true // of which the call has a copy
	}
	w, o := operands[c.writes].View.Addr, operands[c.other].View.Addr
	gap := int64(o) - int64(w)
	if c.whi <= gap+c.slo || gap+c.shi <= c.wlo || c.same && c.alike && gap == c.gap {
		return true
	}
	a, b := c.written, c.seen
	a.Addr += w
	b.Addr += o
	return !overlap(&a, &b) || c.same && SameView(&a, &b)
}

func (c *check) err() error {
	return status.Errorf(status.Invalid, "%s overlaps %s in memory: %s", c.writtenName, c.seeName, c.why)
}

// check adds a check, or, of one operand with itself, makes it now.
func (p *Prepared) check(c check) error {
	lo, hi, _ := Extent(&c.written)
	c.wlo, c.whi = lo+int64(c.written.Addr), hi+int64(c.written.Addr)
	lo, hi, _ = Extent(&c.seen)
	c.slo, c.shi = lo+int64(c.seen.Addr), hi+int64(c.seen.Addr)
	c.gap = int64(c.written.Addr) - int64(c.seen.Addr)
	moved := c.seen
	moved.Addr = c.written.Addr
	c.alike = SameView(&c.written, &moved)
	switch {
	case c.wlo == c.whi || c.slo == c.shi:
		return nil
	case c.writes == c.other: // where in memory it is plays no part
		if overlap(&c.written, &c.seen) && !(c.same && SameView(&c.written, &c.seen)) {
			return c.err()
		}
		return nil
	case c.writes == kernels.Workspace || c.other == kernels.Workspace:
		return nil // which nobody else has
	}
	p.checks = append(p.checks, c)
	return nil
}

// wholeOperands refuses an output that shares memory with another operand, but
// for the identical array, of which each step says whether it may be. How many
// steps there are, and so which operands meet in one, depends on the sizes;
// what is refused must not.
func (p *Prepared) wholeOperands(op *kernels.Op, seen []backends.View) {
	for w, out := range op.Operands {
		if !out.Writes {
			continue
		}
		for o, in := range op.Operands {
			if o == w || in.Writes && o < w {
				continue
			}
			why, same := "only the identical array may be both", !in.Writes && op.MayBe(w, o)
			switch {
			case in.Writes:
				why = "two outputs must not share memory"
			case !same:
				why = "only what has an element for each of the input's may be both"
			}
			if !in.Writes {
				why += aCopy(in.Name)
			}
			_ = p.check(check{writes: w, other: o, written: seen[w], seen: seen[o], same: same,
				writtenName: op.Name + ": " + out.Name, seeName: in.Name, why: why}) // two operands: nothing is refused yet
		}
	}
}

// overlaps notes which slots of a step must not share memory: a written one with
// any other, but for the identical view of a slot that is only read, by index
// alone, before what was read can have been written, or in a step whose plan
// answers for it.
func (p *Prepared) overlaps(s *step) error {
	uses, views := s.program.Verified.Slots, s.l.Slots
	for w := range views {
		if !uses[w].Writes {
			continue
		}
		if uses[w].Indexed && selfOverlaps(&views[w]) {
			return status.Errorf(status.Invalid, "%s is written, and elements of the array bound to it share memory", s.name(w))
		}
		for o := range views {
			if o == w || uses[o].Writes && o < w || !uses[o].Reads && !uses[o].Writes {
				continue
			}
			c := check{writes: s.slots[w].operand, other: s.slots[o].operand, written: s.elements(w), seen: s.elements(o),
				writtenName: s.name(w), seeName: s.slots[o].name}
			c.same = !uses[o].Writes && (s.inPlace || !uses[w].Computed() && !uses[o].Computed() && !storesFirst(&uses[o], w))
			switch {
			case uses[o].Writes:
				c.why = "two outputs must not share memory"
			case storesFirst(&uses[o], w):
				c.why = "the program may load " + s.slots[o].name + " again after it stored to " + s.slots[w].name
			default:
				c.why = "only the identical array may be both, and only where both are accessed by [index]"
				switch read := s.slots[o].name; {
				case s.op && c.same: // whose program nobody sees
					c.why = "only the identical array may be both" + aCopy(read)
				case s.op:
					c.why = read + " is read while " + s.slots[w].name + " is written" + aCopy(read)
				}
			}
			if err := p.check(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// aCopy says what to do about an operand that overlaps the result.
func aCopy(name string) string {
	return "; give a copy of " + name + ", or the result an array of its own"
}

// elements is what a step may touch of slot i.
func (s *step) elements(i int) backends.View {
	if e := s.slots[i].elements; e != nil && !s.program.Verified.Slots[i].Indexed {
		return *e
	}
	return s.l.Slots[i]
}

func storesFirst(use *isa.SlotUse, w int) bool {
	for _, s := range use.LoadsAfterStoreTo {
		if s == w {
			return true
		}
	}
	return false
}
