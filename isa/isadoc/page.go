package main

import (
	"bytes"
	"embed"
	"fmt"
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/hologram-project/hologram/isa"
)

//go:embed page.md.tmpl
var pageTemplate string

// examples are the programs that the page shows. TestExamples runs each.
//
//go:embed examples/*.atlas
var examples embed.FS

func example(name string) (string, error) {
	text, err := examples.ReadFile("examples/" + name + ".atlas")
	return string(text), err
}

// page makes docs/isa.md.
func page(root string) ([]byte, error) {
	source, err := readDocs(filepath.Join(root, "isa"))
	if err != nil {
		return nil, err
	}
	t, err := template.New("page.md.tmpl").Funcs(template.FuncMap{
		"doc":     source.doc,
		"limits":  source.limits,
		"example": example,
	}).Parse(pageTemplate)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{
		"Types":    types(),
		"Groups":   groups(),
		"Specials": specials()[:isa.Index0], // those of axes come in a row
		"Presets":  presets(),
		"Faults":   faults(),
		"Codes":    codes(),
	})
	return b.Bytes(), err
}

// docs gives the doc comments of package isa.
type docs struct {
	pkg    *doc.Package
	texts  map[string]string
	consts []limit
}

// limit is a constant Num… or Max…, or one that belongs to those, of
// program.go and verify.go.
type limit struct {
	Name, Meaning string
	Value         int
}

func readDocs(dir string) (*docs, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	var files []*ast.File
	for _, e := range entries {
		name := e.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	d := &docs{texts: map[string]string{}}
	for _, f := range files {
		switch filepath.Base(fset.Position(f.Pos()).Filename) {
		case "program.go", "verify.go":
			if err := d.readLimits(f); err != nil {
				return nil, err
			}
		}
	}
	d.pkg, err = doc.NewFromFiles(fset, files, "github.com/hologram-project/hologram/isa", doc.AllDecls)
	if err != nil {
		return nil, err
	}
	funcs := func(list []*doc.Func) {
		for _, f := range list {
			d.texts[f.Name] = f.Doc
		}
	}
	funcs(d.pkg.Funcs)
	for _, t := range d.pkg.Types {
		d.texts[t.Name] = t.Doc
		funcs(t.Funcs)
	}
	for _, c := range d.pkg.Consts {
		for _, name := range c.Names {
			d.texts[name] = c.Doc
		}
	}
	return d, nil
}

// doc returns the doc comment of a declaration as Markdown, without its first
// paragraph if skip is true.
func (d *docs) doc(name string, skip bool) (string, error) {
	text, ok := d.texts[name]
	if !ok || text == "" {
		return "", fmt.Errorf("package isa documents nothing called %s", name)
	}
	if skip {
		_, text, ok = strings.Cut(text, "\n\n")
		if !ok {
			return "", fmt.Errorf("the doc of %s has one paragraph", name)
		}
	}
	return strings.TrimSpace(string(d.pkg.Markdown(text))), nil
}

// limitValues holds what readLimits cannot compute. A limit that is missing
// here is an error.
var limitValues = map[string]int{
	"NumRegisters": isa.NumRegisters, "NumPredicates": isa.NumPredicates, "FirstPreset": isa.FirstPreset,
	"MaxInsts": isa.MaxInsts, "MaxInlined": isa.MaxInlined, "MaxCallDepth": isa.MaxCallDepth, "MaxLoopDepth": isa.MaxLoopDepth,
	"MaxSlots": isa.MaxSlots, "MaxParams": isa.MaxParams, "MaxTables": isa.MaxTables, "MaxDataBytes": isa.MaxDataBytes,
	"MaxSharedBytes": isa.MaxSharedBytes, "MaxPoolBytes": isa.MaxPoolBytes, "MaxBlockLanes": isa.MaxBlockLanes,
	"MaxOperands": isa.MaxOperands, "MaxRank": isa.MaxRank, "MaxOperations": isa.MaxOperations, "MaxConstructs": isa.MaxConstructs, "MaxCarried": isa.MaxCarried, "MaxNameLen": isa.MaxNameLen, "MaxFlatOffset": isa.MaxFlatOffset,
	"NumClasses": isa.NumClasses, "ClassBytes": isa.ClassBytes, "PagesPerClass": isa.PagesPerClass, "PageBytes": isa.PageBytes,
	"BoundaryBytes": isa.BoundaryBytes,
}

// readLimits collects the groups of constants of f that hold a limit.
func (d *docs) readLimits(f *ast.File) error {
	for _, decl := range f.Decls {
		g, ok := decl.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST {
			continue
		}
		name := g.Specs[0].(*ast.ValueSpec).Names[0].Name
		if !strings.HasPrefix(name, "Max") && !strings.HasPrefix(name, "Num") {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			name := v.Names[0].Name
			value, ok := limitValues[name]
			if !ok {
				return fmt.Errorf("limit %s is not in isadoc's limitValues", name)
			}
			meaning := strings.TrimSpace(v.Comment.Text())
			if meaning == "" && len(g.Specs) == 1 {
				meaning, _, _ = strings.Cut(strings.ReplaceAll(g.Doc.Text(), "\n", " "), ".")
				meaning = strings.TrimPrefix(meaning, name+" is ")
			}
			d.consts = append(d.consts, limit{name, meaning, value})
		}
	}
	return nil
}

func (d *docs) limits() []limit { return d.consts }

// group is a chapter of instructions.
type group struct {
	Title, Intro string
	Entries      []entry
}

// entry is an instruction as the page shows it.
type entry struct {
	Name, Signature string
	Code            int
	Doc             string
	Facts           []string
}

// chapters assigns each row to the first one whose test it passes, by its
// effect, so that a new row finds its place by itself.
var chapters = []struct {
	title, intro string
	has          func(r *isa.Row) bool
}{
	{"Control", "", func(r *isa.Row) bool { return r.Effect&isa.Control != 0 }},
	{"Barriers and block collectives", "They stand where all lanes of a block arrive together (rule uniform of the verifier).",
		func(r *isa.Row) bool { return r.Effect&isa.Barrier != 0 }},
	{"Memory", "", func(r *isa.Row) bool { return r.Effect&(isa.Reads|isa.Writes) != 0 }},
	{"State of lane, launch and stream", "", func(r *isa.Row) bool { return r.Effect&isa.State != 0 }},
	{"Transcendental functions", "Each is defined by its expansion into primitive instructions, an Atlas program in `isa/math`.",
		func(r *isa.Row) bool { return r.Expand != 0 && r.Eval == nil }},
	{"Values", "", func(*isa.Row) bool { return true }},
}

func groups() []group {
	list := make([]group, len(chapters))
	for i, c := range chapters {
		list[i] = group{Title: c.title, Intro: c.intro}
	}
	for op := isa.NoOp + 1; op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		for i, c := range chapters {
			if c.has(row) {
				list[i].Entries = append(list[i].Entries, describe(op, row))
				break
			}
		}
	}
	// Values, which most programs are made of, come first.
	slices.Reverse(list)
	return list
}

func describe(op isa.Op, r *isa.Row) entry {
	e := entry{Name: r.Name, Signature: r.Signature(), Code: int(op), Doc: r.Doc}
	fact := func(format string, args ...any) { e.Facts = append(e.Facts, fmt.Sprintf(format, args...)) }
	if r.HasCond {
		fact("COND: eq ne lt le gt ge ltu leu gtu geu")
	}
	if r.Types != 0 {
		fact("T: %s", setName(r.Types))
	}
	if r.From != 0 {
		fact("FROM: %s", setName(r.From))
	}
	for _, o := range r.Operands {
		fact("%s: %s", o.Name, operand(o))
	}
	if r.Commutes {
		fact("its first two sources may be exchanged")
	}
	if r.Effect&isa.MayFault != 0 {
		fact("can fault")
	}
	if r.ULP != 0 {
		fact("error at most %d ULP in f32 and f64", r.ULP)
	}
	return e
}

// setName names the sets of types that occur often.
func setName(s isa.TypeSet) string {
	var names []string
	for _, part := range []struct {
		set  isa.TypeSet
		name string
	}{{isa.SetNumeric, "all numeric types"}, {isa.SetInt, "all integer types"}, {isa.SetFloat, "all float types"}} {
		if s&part.set == part.set {
			names = append(names, part.name)
			s &^= part.set
		}
	}
	if s != 0 {
		names = append(names, s.String())
	}
	return strings.Join(names, ", ")
}

var kindTexts = map[isa.OperandKind]string{
	isa.Dst: "register written", isa.Src: "register or immediate", isa.SrcReg: "register",
	isa.PredDst: "predicate written", isa.PredSrc: "predicate, may be negated", isa.Imm: "immediate",
	isa.Mem: "address in a slot", isa.SharedMem: "address in shared memory", isa.AnyMem: "address in a slot or in shared memory",
	isa.LabelRef: "label", isa.ParamRef: "parameter", isa.DataRef: "constant table", isa.SpecialRef: "special value", isa.ScopeRef: "scope",
}

func operand(o isa.Operand) string {
	s := kindTexts[o.Kind]
	switch o.Type {
	case isa.TypeT:
		s += ", T"
	case isa.TypeFrom:
		s += ", FROM"
	case isa.TypeAnyInt:
		s += ", an integer of 32 or 64 bits"
	case isa.TypeNamedT:
		s += ", of the type of what is named"
	case isa.NoType, isa.Pred:
	default:
		s += ", " + o.Type.String()
	}
	if o.Optional {
		s += "; may be left out"
	}
	return s
}

type typeFacts struct {
	Name, Kind string
	Code, Bits int
}

func types() []typeFacts {
	var list []typeFacts
	for _, t := range append(slices.Clone(isa.NumericTypes), isa.Pred) {
		f := typeFacts{t.String(), "unsigned integer", int(t), 0}
		switch {
		case t == isa.Pred:
			f.Kind, f.Bits = "predicate", 1
		case t.Signed():
			f.Kind = "signed integer, two's complement"
		case t.Float():
			f.Kind = fmt.Sprintf("float, %d bits of exponent, %d of mantissa", t.ExponentBits(), t.MantissaBits())
		}
		if t != isa.Pred {
			f.Bits = t.Bits()
		}
		list = append(list, f)
	}
	return list
}

type named struct{ Name, Type string }

func specials() []named {
	var list []named
	for s := range isa.Special(isa.NumSpecials) {
		list = append(list, named{s.String(), s.Type().String()})
	}
	return list
}

// code is a number of the binary form, and what it says.
type code struct {
	Code int
	Name string
}

type codeList struct {
	What  string
	Codes []code
}

// codes are the numbers of the binary form that stand with nothing else.
func codes() []codeList {
	list := []codeList{{"kind of operand", []code{
		{int(isa.ArgNone), "none, where one is optional"}, {int(isa.ArgReg), "register"}, {int(isa.ArgPred), "predicate"},
		{int(isa.ArgImm), "immediate, its bits in the operand's type"}, {int(isa.ArgLabel), "label, its number"},
		{int(isa.ArgParam), "parameter, its number"}, {int(isa.ArgData), "table, its number"},
		{int(isa.ArgName), "special value or scope"}, {int(isa.ArgAddr), "address"},
	}}, {"mode of address", []code{
		{int(isa.AddrIndex), "`slot[index]`: slot n, nothing else"}, {int(isa.AddrByte), "`slot[register + offset]`: slot n"},
		{int(isa.AddrIndirect), "`@handle[register + offset]`: handle u8"},
		{int(isa.AddrPhi), "`phi(…)`: slot n, the offset class·12288 + page·256 + byte"},
		{int(isa.AddrShared), "`shared[register + offset]`"}, {int(isa.AddrFlat), "`slot[flat register + offset]`: slot n"},
	}}, {What: "condition"}, {What: "special value"}, {What: "scope"}}
	for c := isa.EQ; c.String() != "invalid"; c++ {
		list[2].Codes = append(list[2].Codes, code{int(c), c.String()})
	}
	for s := range isa.Special(isa.NumSpecials) {
		list[3].Codes = append(list[3].Codes, code{int(s), s.String()})
	}
	for s := isa.ScopeThread; s <= isa.ScopeSystem; s++ {
		list[4].Codes = append(list[4].Codes, code{int(s), s.String()})
	}
	return list
}

func presets() []named {
	var list []named
	for i, s := range isa.PresetRegisters {
		list = append(list, named{fmt.Sprintf("r%d", isa.FirstPreset+i), s.String()})
	}
	return list
}

// faults lists the faults by their code.
func faults() []string {
	var list []string
	for k := isa.FaultKind(0); k.String() != "invalid"; k++ {
		list = append(list, k.String())
	}
	return list
}
