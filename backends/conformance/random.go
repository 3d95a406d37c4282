package conformance

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/isatest"
	"github.com/hologram-project/hologram/isa/isatest/brief"
	"github.com/hologram-project/hologram/isa/isatest/progen"
)

var (
	programs  = flag.Int("programs", 0, "how many random programs conformance runs of each sort; 0 is some hundreds, or fewer if tests are to be short")
	firstSeed = flag.Uint64("seed", 1, "the first random program's seed")
)

// Seeds returns how many random programs of a sort to run and the first one's seed, counted
// from 0: as many as a test takes by itself, from its first on, or what the flags say.
func Seeds(count int) (int, uint64) {
	if *programs > 0 {
		count = *programs
	}
	return count, *firstSeed - 1
}

// runRandom compares random ordered programs with the interpreter, bit for
// bit: memory, residues, phase and whether there was a fault, which must be one
// that the interpreter has seen. Half of them are compiled with a random set of
// passes off.
func runRandom(t *testing.T, b backends.Backend) {
	r, oracle := newRig(t, b), newRig(t, interp.New())
	defer r.close()
	defer oracle.close()
	count, beside := *programs, *programs/25
	if count == 0 {
		count = brief.Or(1000, 60)
		beside = count / 5
	}
	unsupported, failed := 0, 0
	for i := 0; i < count && failed < 5; i++ {
		seed := *firstSeed + uint64(i)
		ran, err := r.compare(oracle, seed)
		if err != nil {
			failed++
			t.Errorf("seed %d (repeat with -args -seed %d -programs 1): %v", seed, seed, err)
		}
		if !ran {
			unsupported++
		}
	}
	for i := 0; i < beside && failed < 5; i++ { // a compilation each, and little else
		s := isatest.FromSeed(*firstSeed + uint64(i))
		for _, c := range []*progen.Case{accesses(t, s), faulty(t, s)} {
			err := r.check(oracle, c, nil, 0)
			if no := (*backends.Unsupported)(nil); err != nil && !errors.As(err, &no) {
				failed++
				t.Errorf("%s %d: %v\n%s", c.Program.Name, i, err, isa.Disassemble(c.Program))
			}
		}
	}
	if failed == 0 {
		t.Logf("%s: %d random programs from seed %d, no difference; %d not supported", b.Name(), count, *firstSeed, unsupported)
	}
	if unsupported > count/10 {
		t.Errorf("%d of %d random programs are not supported", unsupported, count)
	}
}

// RandomCase is the case that a seed makes, and what is left of the seed's choices.
// Each property that narrows what programs hold is that of some only: most show
// what is common in programs that people write, so that engines do not leave them
// to slower ones.
func RandomCase(seed uint64) (*progen.Case, isatest.Source) {
	s := isatest.FromSeed(seed)
	return progen.New(s, progen.Config{
		Size: 5 + s.Intn(40), Lanes: s.Intn(4) > 0, Math: s.Intn(4) == 0, Atlas: s.Intn(2) == 0, Faults: s.Intn(4) == 0, Crowded: s.Intn(4) == 0,
		Space: seed%3 == 0, Narrow: seed%4 == 0, Common: seed%5 > 1,
	}), s
}

// compare runs the program that seed makes on r and on the oracle, one of four with
// so little fuel that some lanes end and others don't.
func (r *rig) compare(oracle *rig, seed uint64) (ran bool, err error) {
	c, s := RandomCase(seed)
	off := passesOff(s)
	if s.Intn(4) == 0 {
		defer r.fuelled(oracle, 1+uint64(s.Intn(24)))()
	}
	err = r.check(oracle, c, off, seed)
	var no *backends.Unsupported
	switch {
	case errors.As(err, &no):
		return false, nil
	case err != nil:
		c, err = r.shrink(oracle, c, off, seed, err)
		return true, fmt.Errorf("%w\npasses off: %v; grid %v, block %v, n %d; shrunk:\n%s", err, off, c.Grid, c.Block, c.N, isa.Disassemble(c.Program))
	}
	return true, nil
}

// accesses makes a program that only loads and stores by index, in any order, from
// some slots to others, so that launches in place show what changed places.
func accesses(t testing.TB, s isatest.Source) *progen.Case {
	const slots, lanes, values = 6, 5, 3
	c := &progen.Case{Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{lanes, 1, 1}, N: lanes}
	var b strings.Builder
	b.WriteString("program accesses\n")
	for i := range slots {
		slot := isa.Slot{Name: fmt.Sprintf("s%d", i), Type: isa.I32}
		fmt.Fprintf(&b, "slot %s %v\n", slot.Name, slot.Type)
		data := make([]byte, 4*lanes)
		for k := range data {
			data[k] = byte(16*i + k)
		}
		c.Slots = append(c.Slots, progen.Slot{Slot: slot, Elements: lanes, Data: data, Indexed: true})
	}
	for i := range values {
		fmt.Fprintf(&b, "mov.i32 x%d, %[1]d\n", i)
	}
	even := s.Intn(2) // which slots are stored to
	for range 4 + s.Intn(8) {
		what, at := "ldg", 2*s.Intn(slots/2)
		if s.Intn(2) == 0 {
			what, at = "stg", at+even
		} else {
			at += 1 - even
		}
		fmt.Fprintf(&b, "%s.i32 x%d, s%d[index]\n", what, s.Intn(values), at)
	}
	for i := range values {
		fmt.Fprintf(&b, "stg.i32 x%d, s%d[index]\n", i, 2*i+even)
	}
	b.WriteString("exit\n")
	c.Program = assemble(t, b.String()).Program
	return c
}

// runAffine compares programs of numbers that step along the lanes, one of two with
// some passes off.
func runAffine(t *testing.T, b backends.Backend) {
	r, oracle := newRig(t, b), newRig(t, interp.New())
	defer r.close()
	defer oracle.close()
	count, failed := *programs, 0
	if count == 0 {
		count = brief.Or(400, 40)
	}
	for i := 0; i < count && failed < 5; i++ {
		seed := *firstSeed + uint64(i)
		s := isatest.FromSeed(seed)
		c := progen.New(s, progen.Config{Size: 2 + s.Intn(10), Lanes: true, Affine: true, Common: s.Intn(4) > 0})
		err := r.check(oracle, c, passesOff(s), seed)
		if no := (*backends.Unsupported)(nil); err != nil && !errors.As(err, &no) {
			failed++
			t.Errorf("seed %d (repeat with -args -seed %d -programs 1): %v\ngrid %v, block %v, n %d:\n%s", seed, seed, err, c.Grid, c.Block, c.N, isa.Disassemble(c.Program))
		}
	}
}

// passesOff are, of one program of two, the names of random passes to leave out.
func passesOff(s isatest.Source) (off []string) {
	if s.Intn(2) == 0 {
		for _, p := range ir.Passes {
			if s.Intn(2) == 0 {
				off = append(off, p.Name)
			}
		}
	}
	return off
}

// check runs c on r and on the oracle and returns the difference.
func (r *rig) check(oracle *rig, c *progen.Case, off []string, seed uint64) error {
	v, err := isa.Verify(c.Program)
	if err != nil {
		return err
	}
	var faults []backends.ProgramFault
	want, err := oracle.outcomeOf(v, c, nil, seed, &faults)
	if err != nil {
		return err
	}
	opts := []ir.Option{ir.Without(off...)}
	if packedFlats(seed) && want.fault == nil { // so the views have all elements that lanes ask for
		opts = append(opts, ir.Packed())
	}
	got, err := r.outcomeOf(v, c, opts, seed, nil)
	if err != nil {
		return err
	}
	if err := got.differs(want, c); err != nil || got.fault == nil {
		return err
	}
	if !slices.ContainsFunc(faults, func(f backends.ProgramFault) bool { return alike(f, *got.fault) }) {
		return differ("%v, which asked for %+v: no such fault is among interp's %+v", got.fault, got.fault.Asked, faults)
	}
	return nil
}

// shrink leaves out instructions as long as a difference remains.
func (r *rig) shrink(oracle *rig, c *progen.Case, off []string, seed uint64, err error) (*progen.Case, error) {
	if r.fuel == 0 {
		defer r.fuelled(oracle, shrinkFuel)()
	}
	for again := true; again; {
		again = false
		for i := len(c.Program.Insts) - 1; i >= 0; i-- {
			smaller := *c
			smaller.Program = without(c.Program, i)
			if _, invalid := isa.Verify(smaller.Program); invalid != nil {
				continue
			}
			var d *difference
			if e := r.check(oracle, &smaller, off, seed); errors.As(e, &d) {
				c, err, again = &smaller, e, true
			}
		}
	}
	return c, err
}

// fuelled gives the launches of r and of the oracle fuel, until what it returns is called.
func (r *rig) fuelled(oracle *rig, fuel uint64) func() {
	r.fuel, oracle.fuel = fuel, fuel
	return func() { r.fuel, oracle.fuel = 0, 0 }
}

// shrinkFuel ends the loops that lost their end.
const shrinkFuel = 10_000

// without returns p less instruction i.
func without(p *isa.Program, i int) *isa.Program {
	q := *p
	q.Insts = slices.Delete(slices.Clone(p.Insts), i, i+1)
	q.Labels = slices.Clone(p.Labels)
	for l := range q.Labels {
		if q.Labels[l].At > i {
			q.Labels[l].At--
		}
	}
	q.Debug = isa.Debug{}
	return &q
}

// difference is what two launches of one program left different.
type difference struct{ text string }

func (d *difference) Error() string { return d.text }

func differ(format string, args ...any) error { return &difference{fmt.Sprintf(format, args...)} }

// result is all that a launch leaves behind.
type result struct {
	arrays  []*operand
	residue [isa.NumClasses]uint64
	phase   uint32
	fault   *backends.ProgramFault // its site is an instruction of the program
}

// alike reports whether two faults are the same, as far as is known of both. Which
// instruction of a loop is out of fuel is not promised.
func alike(f, g backends.ProgramFault) bool {
	if f.Kind == isa.FaultFuel {
		f.Site, g.Site = 0, 0
	}
	if f.Asked.Known == 0 || g.Asked.Known == 0 {
		f.Asked, g.Asked = backends.Asked{}, backends.Asked{}
	}
	return f == g
}

// packedFlats reports whether the views of slots accessed as slot[flat i] are packed.
func packedFlats(seed uint64) bool { return seed%2 == 0 }

// outcomeOf runs one case. The layouts of its slots follow from the seed. With
// faults it is the interpreter that runs it, and lists all there are.
func (r *rig) outcomeOf(v *isa.Verified, c *progen.Case, opts []ir.Option, seed uint64, faults *[]backends.ProgramFault) (*result, error) {
	u, srcs, err := unit(v, opts...)
	if err != nil {
		return nil, err
	}
	k, err := r.device.Compile(u, backends.Variant{})
	if err != nil {
		return nil, err
	}
	defer k.Release()
	res := &result{}
	l := &backends.Launch{Params: slices.Clone(c.Params), Grid: c.Grid, Block: c.Block, Rank: 1, N: c.N, Sizes: c.Sizes, Fuel: r.fuel}
	l.Record, l.Phase = r.record()
	*l.Phase = uint32(seed % 768)
	l.Shape[0] = int64(c.N)
	for i, s := range c.Slots {
		shape, how := []int64{int64(s.Elements)}, layouts[0]
		if s.Indexed {
			shape = []int64{int64(c.N)}
		}
		switch {
		case s.Flat && packedFlats(seed):
			how = layouts[i%2]
		case s.Indexed || s.Flat:
			how = layouts[(seed+uint64(i))%uint64(len(layouts)-1)]
		}
		o, err := r.bind(s.Slot, how, shape)
		if err != nil {
			return nil, err
		}
		defer r.give(o.mem)
		data := array{host: s.Data}
		for g := range shape[0] {
			o.put(s.Type, o.element(shape, g), data.get(s.Type, g))
		}
		if err := r.upload(o.array); err != nil {
			return nil, err
		}
		view := o.view(shape)
		if s.Flat || v.Slots[i].Flat {
			bindFlat(l, &view)
		} else if !s.Indexed {
			view.Bytes = int64(s.Elements) * int64(s.Type.Size())
			view.Shape[0] = min(int64(c.N), view.Shape[0])
		}
		res.arrays = append(res.arrays, o)
		l.Slots = append(l.Slots, view)
	}
	for i := range c.Slots {
		if w := inPlace(v, c, i); w >= 0 && seed&1 == 0 {
			l.Slots[i], res.arrays[i] = l.Slots[w], res.arrays[w]
		}
	}
	l.Give(u.IR)
	if faults != nil {
		err = interp.Faults(u, l, func(f backends.ProgramFault) { *faults = append(*faults, f) })
	} else {
		err = r.launch(k, l)
	}
	res.residue, res.phase = l.Record.Residue, *l.Phase
	if found := (*backends.ProgramFault)(nil); errors.As(err, &found) {
		f := *found
		if !r.info.RunsSource {
			if f.Site < 0 || f.Site >= len(srcs) {
				return nil, differ("%v; there are %d sites", found, len(srcs))
			}
			f.Site = srcs[f.Site]
		}
		res.fault = &f
	} else if err != nil {
		return nil, err
	}
	for _, o := range res.arrays {
		if err := r.download(o.array); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// inPlace returns a written slot that a launch may bind to the identical view as slot
// i, which is only read: both by index alone, and no load follows the store. −1: none.
func inPlace(v *isa.Verified, c *progen.Case, i int) int {
	if !c.Slots[i].Indexed || v.Slots[i].Writes {
		return -1
	}
	for w, s := range c.Slots {
		if s.Indexed && v.Slots[w].Writes && s.Type == c.Slots[i].Type && !slices.Contains(v.Slots[i].LoadsAfterStoreTo, w) {
			return w
		}
	}
	return -1
}

// differs compares what two launches left. NaNs count as one; bytes that hold
// no element, guards among them, must be equal to the byte.
func (got *result) differs(want *result, c *progen.Case) error {
	for i, s := range c.Slots {
		g, w := got.arrays[i], want.arrays[i]
		if bytes.Equal(g.host, w.host) {
			continue
		}
		shape := []int64{int64(s.Elements)}
		if s.Indexed {
			shape = []int64{int64(c.N)}
		}
		rest := slices.Clone(g.host)
		for e := range shape[0] {
			at := g.element(shape, e)
			have, expected := g.get(s.Type, at), w.get(s.Type, at)
			if !same(s.Type, have, expected, 0) {
				return differ("%s[%d] = %s, interp has %s", s.Name, e, cellText(s.Type, have), cellText(s.Type, expected))
			}
			(&array{at: g.at, host: rest}).put(s.Type, at, expected)
		}
		if at := firstDifference(rest, w.host); at >= 0 {
			return differ("byte %d around slot %s differs from interp's", int64(at)-g.at, s.Name)
		}
	}
	switch {
	case (got.fault == nil) != (want.fault == nil):
		return differ("fault: %v, interp: %v", got.fault, want.fault)
	case got.phase != want.phase:
		return differ("phase %d, interp has %d", got.phase, want.phase)
	case got.residue != want.residue:
		return differ("residues %v, interp has %v", got.residue, want.residue)
	}
	return nil
}

// Fuzz lets Go's fuzzer choose the seeds of random programs.
func Fuzz(f *testing.F, open func() backends.Backend) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) {
		r, oracle := newRig(t, open()), newRig(t, interp.New())
		defer r.close()
		defer oracle.close()
		if _, err := r.compare(oracle, seed); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	})
}
