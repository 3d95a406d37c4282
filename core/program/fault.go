package program

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/core/status"
	"github.com/hologram-project/hologram/isa"
)

// Outcome turns the outcome of a launch that what names into an Error. wrong says
// of the library's own program which of the caller's numbers did it, if one is
// known: then the instruction is nobody's concern. sources says that fault sites
// are instructions (backends.Info.RunsSource).
func (p *Program) Outcome(what, wrong string, err error, sources bool, l *backends.Launch) error {
	if err == nil {
		return nil
	}
	var f *backends.ProgramFault
	if errors.As(err, &f) {
		return p.fault(what, wrong, f, sources, l)
	}
	return status.FromBackend(what, err)
}

// fault turns what a backend reports into the instruction as written.
func (p *Program) fault(what, wrong string, f *backends.ProgramFault, sources bool, l *backends.Launch) error {
	inst := f.Site
	if !sources {
		u, err := p.unit(nil) // it is there
		if err != nil || f.Site < 0 || f.Site >= len(u.srcs) {
			return status.Errorf(status.Internal, "%s: %w", what, f)
		}
		inst = u.srcs[f.Site]
	}
	src := p.Source()
	fault := &status.Fault{Kind: f.Kind, Program: src.Name, Inst: inst, Lane: f.Lane}
	place := "instruction " + strconv.Itoa(inst)
	if inst >= 0 && inst < len(src.Debug.Lines) {
		fault.Line = int(src.Debug.Lines[inst])
		place = "line " + strconv.Itoa(fault.Line)
		if line, ok := src.Debug.Line(fault.Line); ok {
			place += " (" + strings.TrimSpace(line) + ")"
		}
	}
	if wrong == "" {
		wrong = fmt.Sprintf("%v in lane %d at %s%s", f.Kind, f.Lane, place, p.asked(inst, f, l))
	}
	e := status.Errorf(status.Faulted, "%s: %s; the launch ran to its end, and outputs keep what was written", what, wrong)
	e.Fault, e.Cause = fault, f
	return e
}

// asked says what a stray access asked for, and what there is, as far as known.
func (p *Program) asked(at int, f *backends.ProgramFault, l *backends.Launch) string {
	src := p.Source()
	if f.Kind != isa.FaultAccess || at < 0 || at >= len(src.Insts) {
		return ""
	}
	in := &src.Insts[at]
	for i := range in.Args {
		a := &in.Args[i]
		switch {
		case a.Kind == isa.ArgData:
			table := &src.Data[a.Bits]
			if f.Asked.Known == 0 {
				return fmt.Sprintf(": table %s has %d elements", table.Name, len(table.Values))
			}
			return fmt.Sprintf(": element %d of table %s, which has %d", f.Asked.At, table.Name, len(table.Values))
		case a.Kind != isa.ArgAddr:
			continue
		case a.Mode == isa.AddrShared:
			return asked(f, in.Type, "shared memory", int64(src.Shared))
		case a.Mode == isa.AddrIndirect && f.Asked.Known == 0:
			return ""
		}
		slot := int(a.Slot)
		if a.Mode == isa.AddrIndirect {
			slot = int(f.Asked.Slot)
		}
		switch {
		case slot >= len(l.Slots) || slot >= len(src.Slots):
		case a.Mode == isa.AddrFlat:
			return askedElement(f, in.Type, "slot "+src.Slots[slot].Name, &l.Flats[slot])
		default:
			text := asked(f, in.Type, "slot "+src.Slots[slot].Name, l.Slots[slot].Bytes)
			if a.Mode == isa.AddrByte && f.Asked.Known != 0 && f.Asked.At%int64(in.Type.Size()) != 0 {
				text += "; addresses count bytes, [flat …] counts elements"
			}
			return text
		}
	}
	return ""
}

// askedElement is asked of an element of a slot's view.
func askedElement(f *backends.ProgramFault, t isa.Type, where string, flat *backends.Flat) string {
	i := (f.Asked.At/int64(t.Size()) - flat.First) / flat.Step
	switch {
	case f.Asked.Known == 0:
		return fmt.Sprintf(": %s has %d elements", where, flat.Count)
	case i >= flat.Limit:
		return fmt.Sprintf(": element %d, or one beyond it, of %s, which has %d", i, where, flat.Count)
	case i < 0:
		return fmt.Sprintf(": element %d of %s, which has %d, counted from 0 on, never from the end", i, where, flat.Count)
	}
	return fmt.Sprintf(": element %d of %s, which has %d", i, where, flat.Count)
}

func asked(f *backends.ProgramFault, t isa.Type, where string, has int64) string {
	if f.Asked.Known == 0 {
		return fmt.Sprintf(": %s has %d bytes", where, has)
	}
	return fmt.Sprintf(": %d bytes at byte %d of %s, which has %d", t.Size(), f.Asked.At, where, has)
}
