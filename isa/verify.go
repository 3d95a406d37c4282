package isa

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hologram-project/hologram/isa/work"
)

// MaxLoopDepth is how deep loops may nest, those of called code included. It
// bounds the loop stack of an interpreter and the depth of structured code.
const MaxLoopDepth = 64

// MaxTables is how many constant tables a program may declare.
const MaxTables = 1024

// Verify checks p and, if it obeys every rule below, returns it with its
// control-flow graph and what the graph shows. p may hold any values whatever;
// it must not change afterwards. The error is a *VerifyError that names the
// rule broken. Rules about flow look at reachable code alone; the others hold
// for every declaration and instruction. Time and memory are bounded by the
// limits of program.go.
//
// Declarations:
//
//   - limit: at most MaxInsts instructions and labels, MaxSlots slots,
//     MaxParams parameters, MaxTables tables of MaxDataBytes together,
//     MaxSharedBytes of shared memory.
//   - name: names are identifiers of at most MaxNameLen bytes. Slots,
//     parameters and tables have names that differ, as have labels; registers
//     and predicates may have such, which are not spelt like a number of
//     theirs. Labels and the program apart, none is a word that the text form
//     reserves.
//   - label: a label stands before an instruction or at the end.
//   - decl: slots, parameters and tables have a numeric type, the boundary
//     slot has type u8, the values of a table fit its type.
//   - block: a block shape is all zero, or all positive with a product of at
//     most MaxBlockLanes.
//
// One instruction against its row of the table:
//
//   - op: the operation exists.
//   - form: type, source type and condition are there if the row has them and
//     allow what is given; BITCAST keeps the width; ltu, leu, gtu, geu stand
//     with unsigned types.
//   - operand: each operand is of a kind that the row allows, and left out
//     only where optional.
//   - imm: an immediate fits its type: no bits above the type's width.
//     MOV_IMM takes any. The constant of a flat address is within
//     MaxFlatOffset, and not negative where it stands alone.
//   - ref: what an operand names (register, predicate, slot, parameter, table,
//     label, special value, scope) exists.
//   - access: a parameter or table is read as its type; a slot is accessed as
//     its type, but by byte address a u8 slot as any.
//   - shared: an access to shared memory fits in what the program declares,
//     and without a register lies inside.
//   - phi: a Φ-address has class < 96, page < 48, byte < 256, the access ends
//     in the boundary pool, and the address names the boundary slot.
//   - reduce: a REDUCE over registers has a count of 1 or more and stays
//     below r256.
//   - epsilon: UNITY_TEST's epsilon is finite and not negative.
//
// Control:
//
//   - loop: the end of a LOOP is after it, and bodies nest: none reaches past
//     the end of one around it.
//   - nest: loops nest at most MaxLoopDepth deep, those of callers included.
//   - enter: no branch or call leads into the body of a LOOP from outside it.
//     (A branch to the end from inside goes to the next round, one to
//     elsewhere outside leaves the loop.)
//   - end: control does not run past the last instruction.
//   - ret: RET is reached by a CALL only.
//   - recursion: no code calls itself, not through other code either.
//   - depth: calls nest at most MaxCallDepth deep.
//   - inline: with every call replaced by the code called, at most MaxInlined
//     instructions.
//   - reducible: every loop made by branches is entered at one place, in each
//     piece of called code by itself.
//
// Registers and memory:
//
//   - init: a register or predicate is written before it is read, on every
//     path. r252 … r255 start with the values of PresetRegisters.
//   - regtype: a register is read as the type that it was last written with,
//     which must be one type on all paths; an address, handle or table index
//     is an integer of 32 or 64 bits.
//   - pool: the sizes of all POOL_ALLOC together are at most MaxPoolBytes.
//   - uniform: a barrier or block collective stands where all lanes of a block
//     that have not exited arrive together: not inside a region that a branch
//     or LOOP count governs which may differ between the lanes. Loads, lane
//     numbers, PHASE_GET, scans and all computed from them may differ, as may
//     what is written inside such a region. A branch of which one way leads
//     straight to EXIT (no loop, store, barrier or change of state before it)
//     does not count: the lanes that took it have arrived for good. Lanes
//     arrive in the same round of each loop around the place: one that starts
//     the next round without the barrier has passed it by, also if it exits
//     later. All ways back to one place make one loop.
func Verify(p *Program) (*Verified, error) { return VerifyMetered(nil, p) }

// VerifyMetered is Verify, counted and stopped by m; the error is then m's.
func VerifyMetered(m *work.Meter, p *Program) (out *Verified, err error) {
	defer work.Catch(&err)
	v := &verifier{p: p, work: m}
	if err := v.run(); err != nil {
		return nil, err
	}
	return &v.out, nil
}

// verifier holds a program on its way through the checks, in the order of run.
type verifier struct {
	p    *Program
	out  Verified
	work *work.Meter
}

func (v *verifier) run() error {
	for _, check := range []func() error{v.checkDeclarations, v.checkInstructions, v.buildGraph, v.checkPools, v.checkUniform} {
		if err := check(); err != nil {
			return err
		}
	}
	v.findSlotUse()
	v.out.Program = v.p
	return nil
}

// VerifyError says which rule of Verify a program breaks, and where.
type VerifyError struct {
	Rule     string // name of the rule in the doc of Verify
	Inst     int    // index of the instruction, -1 if it is about a declaration
	Program  string // the program's name
	Subject  string // the instruction or declaration, as text
	File     string // where it was assembled from; Line is 0 where that is not known
	Line     int    // 1-based
	Col      int    // 1-based, in characters
	LineText string // that line
	Msg      string
	Hint     string // how it may be mended, or empty
}

// Summary gives the error in one line.
func (e *VerifyError) Summary() string {
	var b strings.Builder
	switch {
	case e.Line > 0:
		b.WriteString(position(e.File, e.Line, e.Col) + ": ")
	case e.Program != "":
		fmt.Fprintf(&b, "program %s: ", e.Program)
	default:
		b.WriteString("program: ")
	}
	if e.Inst >= 0 && e.Line <= 0 {
		fmt.Fprintf(&b, "instruction %d, ", e.Inst)
	}
	if e.Subject != "" {
		b.WriteString(e.Subject + ": ")
	}
	fmt.Fprintf(&b, "%s [%s]", e.Msg, e.Rule)
	return b.String()
}

// Excerpt returns the source line as it may be shown and a line that marks the
// place below it, both empty where the source line is not known.
func (e *VerifyError) Excerpt() (line, caret string) {
	if e.LineText == "" {
		return "", ""
	}
	return excerpt(e.LineText, e.Col, utf8.RuneCountInString(e.Subject))
}

// Error gives the error as a SyntaxError does: its summary, then the source
// line, a caret below the place and the hint, on lines of their own.
func (e *VerifyError) Error() string {
	line, caret := e.Excerpt()
	return withExcerpt(e.Summary(), line, caret, e.Hint)
}

// fail makes the error for instruction i, or for a declaration if i is -1.
func (v *verifier) fail(rule string, i int, msg, hint string) error {
	e := &VerifyError{Rule: rule, Inst: i, Program: shorten(v.p.Name), Msg: msg, Hint: hint}
	if i < 0 || i >= len(v.p.Insts) {
		e.Inst = -1
		return e
	}
	in := &v.p.Insts[i]
	if row, ok := Lookup(in.Op); ok {
		e.Subject = row.Typed(in.Form)
	}
	d := &v.p.Debug
	if i >= len(d.Lines) || d.Lines[i] < 1 {
		return e
	}
	e.File, e.Line, e.Col = d.File, int(d.Lines[i]), 1
	if i < len(d.Cols) && d.Cols[i] >= 1 {
		e.Col = int(d.Cols[i])
	}
	// A column past the line's end, made by a stranger, shows nothing of it.
	if line, ok := d.Line(e.Line); ok && e.Col <= utf8.RuneCountInString(line)+1 {
		e.LineText = line
		if code := codeAt(line, e.Col); code != "" {
			e.Subject = code
		}
	}
	return e
}

// codeAt returns the part of a source line from column col, in characters, on,
// up to a comment.
func codeAt(line string, col int) string {
	for ; col > 1 && line != ""; col-- {
		_, n := utf8.DecodeRuneInString(line)
		line = line[n:]
	}
	code, _, _ := strings.Cut(line, ";")
	return shorten(strings.TrimSpace(code))
}

// failf is fail with a formatted message and no hint.
func (v *verifier) failf(rule string, i int, format string, args ...any) error {
	return v.fail(rule, i, fmt.Sprintf(format, args...), "")
}

// where names instruction i for a message or hint.
func (v *verifier) where(i int) string {
	if d := &v.p.Debug; i < len(d.Lines) && d.Lines[i] > 0 {
		return fmt.Sprintf("line %d", d.Lines[i])
	}
	return fmt.Sprintf("instruction %d", i)
}

// shorten makes what came from a stranger fit for a message.
func shorten(s string) string {
	const limit = 64
	if len(s) > limit {
		s = s[:limit-3] + "..."
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}
