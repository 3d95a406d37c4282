package isa

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hologram-project/hologram/isa/work"
)

// Assemble reads a program in text form. file is the name that errors call it
// by. The error is an ErrorList.
//
// A statement stands on one line; a comment goes from ; to the end of its
// line. First come the directives
//
//	program NAME
//	slot NAME TYPE
//	param NAME TYPE
//	data NAME TYPE { value, … }      (may span lines)
//	shared BYTES
//	block X [Y [Z]]
//	reg NAME rN                      (gives a register its name)
//	pred NAME pN
//
// then instructions and labels:
//
//	label:
//	mnemonic[.cond][.type[.from]] operand, …
//
// A register that is not spelled r0 … r255 is a named one, likewise a
// predicate that is not p0 … p15. A name without a directive gets the lowest
// number that nothing else in the program has.
func Assemble(file, text string) (*Program, error) { return AssembleMetered(nil, file, text) }

// AssembleMetered is Assemble, counted and stopped by m; the error is then m's.
func AssembleMetered(m *work.Meter, file, text string) (p *Program, err error) {
	defer work.Catch(&err)
	a := &assembler{lexer: newLexer(m, strings.TrimPrefix(text, "\ufeff")), file: file, p: &Program{},
		globals: map[string]global{}, labels: map[string]int{}, reported: map[string]bool{}, heads: map[string]head{}}
	a.reserve(text)
	a.regs.init("register", 'r', NumRegisters, FirstPreset)
	a.preds.init("predicate", 'p', NumPredicates, NumPredicates)
	a.advance()
	for a.tok.kind != tokEnd && len(a.errs) < MaxErrors {
		if err := a.statement(); err != nil {
			a.report(err)
			if err.limit {
				break
			}
			for a.tok.kind != tokNewline && a.tok.kind != tokEnd {
				a.advance()
			}
		}
	}
	a.resolveLabels()
	a.resolveRegisters()
	if len(a.errs) > 0 {
		return nil, a.sortedErrors()
	}
	a.p.Debug.File, a.p.Debug.Text = file, a.text
	return a.p, nil
}

// reserve makes room for the instructions that text may hold, so that growing
// leaves no copies behind; not more than the text is worth.
func (a *assembler) reserve(text string) {
	const shortest = 11 // bytes of a line, of most instructions
	read := text[:min(len(text), 64*MaxInsts)]
	n := min(len(text)/shortest, MaxInsts, strings.Count(read, "\n")+1-strings.Count(read, ":\n"))
	a.p.Insts = make([]Inst, 0, n)
	a.p.Debug.Lines, a.p.Debug.Cols = make([]int32, 0, n), make([]int32, 0, n)
	a.opened = make([]unnumbered, 0, n)
}

// assembler is the state of one Assemble.
type assembler struct {
	*lexer
	tok  token
	file string
	p    *Program
	errs ErrorList

	globals     map[string]global // slots, parameters, tables
	labels      map[string]int
	labelUses   []labelUse
	regs, preds registerNames
	open        unnumbered   // of the instruction at hand
	opened      []unnumbered // of those before
	firstInst   int          // line of the first instruction or label; 0: none yet
	declared    struct{ shared, block int }
	anything    bool            // a statement was read
	reported    map[string]bool // undefined names that were reported
	heads       map[string]head // of mnemonics read before
	dataBytes   int             // of the tables
}

// global is a name of the kind of thing that a launch or LDC knows.
type global struct {
	kind string // "slot", "parameter", "table"
	at   int
	line int
}

type labelUse struct {
	inst, arg int32
	tok       token
}

// failure is an error at a token, before it has its source line.
type failure struct {
	tok       token
	msg, hint string
	limit     bool // exceeded: what follows is not worth reading
}

// tooMany is the failure of a text at whose token t there are more things than
// allowed.
func tooMany(t token, limit int, what string) *failure {
	f := fail(t, "", "more than %d %s", limit, what)
	f.limit = true
	return f
}

// maxQuoted is how much of a word of the text an error repeats.
const maxQuoted = 100

func fail(t token, hint, format string, args ...any) *failure {
	for i, a := range args {
		if s, ok := a.(string); ok && len(s) > maxQuoted {
			args[i] = s[:maxQuoted] + "…"
		}
	}
	if t.kind == tokInvalid && (t.text == "#" || t.text == "/") {
		hint = "a comment begins with ;"
	}
	return &failure{tok: t, msg: fmt.Sprintf(format, args...), hint: hint}
}

func (a *assembler) advance() { a.tok = a.next() }

func (a *assembler) report(f *failure) {
	line := a.at(f.tok.line)
	a.errs = append(a.errs, &SyntaxError{File: a.file, Line: f.tok.line,
		Col: utf8.RuneCountInString(line[:f.tok.col]) + 1, Width: max(1, utf8.RuneCountInString(f.tok.text)),
		Msg: f.msg, Hint: f.hint, LineText: line})
}

func (a *assembler) sortedErrors() ErrorList {
	slices.SortStableFunc(a.errs, func(x, y *SyntaxError) int {
		if x.Line != y.Line {
			return x.Line - y.Line
		}
		return x.Col - y.Col
	})
	return a.errs[:min(len(a.errs), MaxErrors)]
}

// accept takes the token if it is of the given kind.
func (a *assembler) accept(k tokenKind) bool {
	if a.tok.kind != k {
		return false
	}
	a.advance()
	return true
}

// expect takes a token of the given kind, called what in errors.
func (a *assembler) expect(k tokenKind, what, hint string) (token, *failure) {
	t := a.tok
	if t.kind != k {
		return t, fail(t, hint, "expected %s, found %s", what, t.describe())
	}
	a.advance()
	return t, nil
}

func (a *assembler) endOfStatement() *failure {
	if a.tok.kind != tokNewline && a.tok.kind != tokEnd {
		return fail(a.tok, "a statement stands on a line of its own", "unexpected %s after the statement", a.tok.describe())
	}
	return nil
}

func (a *assembler) statement() *failure {
	if a.accept(tokNewline) {
		return nil
	}
	first, err := a.expect(tokName, "an instruction, a label or a directive", "")
	if err != nil {
		return err
	}
	if a.tok.kind == ':' {
		a.advance()
		a.startCode(first)
		a.anything = true
		return a.defineLabel(first)
	}
	if directive, ok := directives[first.text]; ok {
		if a.firstInst != 0 {
			return fail(first, "move it up", "%s after the first instruction or label, which stands in line %d", first.text, a.firstInst)
		}
		err = directive(a, first)
	} else {
		a.startCode(first)
		err = a.instruction(first)
	}
	a.anything = true
	if err != nil {
		return err
	}
	return a.endOfStatement()
}

func (a *assembler) startCode(t token) {
	if a.firstInst == 0 {
		a.firstInst = t.line
	}
}

func (a *assembler) defineLabel(t token) *failure {
	if err := checkNameLength(t); err != nil {
		return err
	}
	if len(a.p.Labels) >= MaxInsts {
		return tooMany(t, MaxInsts, "labels")
	}
	if i, ok := a.labels[t.text]; ok {
		return fail(t, "", "label %s is defined twice, first before instruction %d", t.text, a.p.Labels[i].At)
	}
	a.labels[t.text] = len(a.p.Labels)
	a.p.Labels = append(a.p.Labels, Label{t.text, len(a.p.Insts)})
	return nil
}

func (a *assembler) resolveLabels() {
	for _, u := range a.labelUses {
		if len(a.errs) >= MaxErrors {
			return
		}
		i, ok := a.labels[u.tok.text]
		if !ok && !a.reported[":"+u.tok.text] {
			a.reported[":"+u.tok.text] = true
			var names []string
			for _, l := range a.p.Labels {
				names = append(names, l.Name)
			}
			a.report(fail(u.tok, didYouMean(u.tok.text, names, listOr("label", names, "a label is defined by its name and a colon: "+u.tok.text+":")),
				"no label is called %s", u.tok.text))
		}
		if int(u.inst) < len(a.p.Insts) { // else its instruction had an error
			a.p.Insts[u.inst].Args[u.arg].Bits = uint64(i)
		}
	}
}

// instruction reads what follows a mnemonic.
func (a *assembler) instruction(m token) *failure {
	in, row, err := a.mnemonic(m)
	if err != nil {
		return err
	}
	if len(a.p.Insts) >= MaxInsts {
		return tooMany(m, MaxInsts, "instructions")
	}
	count := 0
	a.open = 0
	for i, o := range row.Operands {
		ended := a.tok.kind == tokNewline || a.tok.kind == tokEnd
		if ended && o.Optional {
			break
		}
		if ended {
			return fail(a.tok, "it is written "+row.Signature(), "%s lacks its operand %s", m.text, o.Name)
		}
		if err := a.separator(row, i); err != nil {
			return err
		}
		arg, err := a.operand(row, &in, i)
		if err != nil {
			return err
		}
		in.Args[i] = arg
		if i > 0 && row.Operands[i-1].Kind == DataRef {
			if _, err := a.expect(']', "]", ""); err != nil {
				return err
			}
		}
		count++
	}
	if a.tok.kind == ',' {
		return fail(a.tok, "it is written "+row.Signature(), "%s takes %s", m.text, countOperands(count))
	}
	a.p.Insts = append(a.p.Insts, in)
	a.opened = append(a.opened, a.open)
	a.p.Debug.Lines = append(a.p.Debug.Lines, int32(m.line))
	a.p.Debug.Cols = append(a.p.Debug.Cols, int32(utf8.RuneCountInString(a.at(m.line)[:m.col])+1))
	return nil
}

func countOperands(n int) string {
	switch n {
	case 0:
		return "no operands"
	case 1:
		return "1 operand"
	}
	return fmt.Sprintf("%d operands", n)
}

// separator takes what stands before operand i: a comma, or [ before the index
// of a table.
func (a *assembler) separator(row *Row, i int) *failure {
	switch {
	case i == 0:
	case row.Operands[i-1].Kind == DataRef:
		_, err := a.expect('[', "[", "an element of a table is written table[index]")
		return err
	case !a.accept(','):
		return fail(a.tok, "it is written "+row.Signature(), "expected a comma, found %s", a.tok.describe())
	}
	return nil
}

// head is what a mnemonic says.
type head struct {
	op   Op
	form Form
}

// mnemonic returns what a mnemonic says.
func (a *assembler) mnemonic(m token) (Inst, *Row, *failure) {
	if h, ok := a.heads[m.text]; ok {
		return Inst{Op: h.op, Form: h.form}, &table[h.op], nil
	}
	in, row, err := a.parseMnemonic(m)
	if err == nil {
		a.heads[m.text] = head{in.Op, in.Form}
	}
	return in, row, err
}

// parseMnemonic takes a mnemonic apart: mnemonic[.cond][.type[.from]].
func (a *assembler) parseMnemonic(m token) (Inst, *Row, *failure) {
	parts := strings.Split(m.text, ".")
	part := func(i int) token { // the token of parts[i]
		col := m.col + len(strings.Join(parts[:i], ".")) + min(i, 1)
		return token{tokName, parts[i], m.line, col}
	}
	op, ok := mnemonicOps()[parts[0]]
	if !ok {
		candidates := append(allMnemonics(), directiveNames...)
		return Inst{}, nil, fail(part(0), didYouMean(parts[0], candidates, ""), "no instruction is called %s", parts[0])
	}
	row := &table[op]
	form := Form{}
	at := [3]int{} // where condition, type and source type stand in parts
	next := 1
	missing := func(what, hint string) *failure {
		return fail(m, hint, "%s lacks its %s: %s", m.text, what, row.Signature())
	}
	if row.HasCond {
		if next >= len(parts) {
			return Inst{}, nil, missing("condition", row.hintCond())
		}
		form.Cond = condNamed(parts[next])
		if form.Cond == NoCond {
			return Inst{}, nil, fail(part(next), row.hintCond(), "%q is not a condition", parts[next])
		}
		at[0] = next
		next++
	}
	for i, s := range []TypeSet{row.Types, row.From} {
		if s == 0 {
			continue
		}
		if next >= len(parts) {
			return Inst{}, nil, missing([]string{"type", "source type"}[i], row.hintTypes(s))
		}
		t, ok := TypeNamed(parts[next])
		if !ok {
			return Inst{}, nil, fail(part(next), row.hintTypes(s), "%q is not a type", parts[next])
		}
		*[]*Type{&form.Type, &form.From}[i] = t
		at[1+i] = next
		next++
	}
	if next < len(parts) {
		return Inst{}, nil, fail(part(next), "it is written "+row.Signature(), "%s has a suffix too many: %s", parts[0], parts[next])
	}
	if e := row.checkForm(form); e != nil {
		return Inst{}, nil, fail(part(at[e.part]), e.hint, "%s", e.msg)
	}
	return Inst{Op: op, Form: form}, row, nil
}

func condNamed(s string) Cond {
	for c := EQ; c <= GEU; c++ {
		if c.String() == s {
			return c
		}
	}
	return NoCond
}
