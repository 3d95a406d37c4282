package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hologram-project/hologram/isa"
)

const pythonHead = `"""The Atlas instruction set as Python sees it: instructions, types, names and limits.

Generated from the instruction table by ` + "``go generate ./isa/isadoc``" + `; do not edit.
"""

# ruff: noqa: E501

from __future__ import annotations

from typing import Final, NamedTuple


class Operand(NamedTuple):
    """An operand of an instruction.

    ` + "``kind``" + ` is one of OPERAND_KINDS. ` + "``type``" + ` is the type of the value that it holds: the name of one, or "T" (the
    instruction's type), "FROM" (its source type), "int" (any integer of 32 or 64 bits), "named" (that of what is
    named), or "" where it holds none.
    """

    name: str
    kind: str
    type: str
    optional: bool


class Row(NamedTuple):
    """An instruction: its row of the table.

    ` + "``types``" + ` and ` + "``sources``" + ` are what may follow the mnemonic as type and source type; they are empty where it has
    none. ` + "``can_fault``" + ` says whether a launch may report a fault of it.
    """

    code: int
    types: tuple[str, ...]
    sources: tuple[str, ...]
    has_condition: bool
    operands: tuple[Operand, ...]
    can_fault: bool
    signature: str
    doc: str


`

// pythonKinds names the kinds of operands in Python.
var pythonKinds = map[isa.OperandKind]string{
	isa.Dst: "dst", isa.Src: "src", isa.SrcReg: "src_reg", isa.PredDst: "pred_dst", isa.PredSrc: "pred_src", isa.Imm: "imm",
	isa.Mem: "mem", isa.SharedMem: "shared_mem", isa.AnyMem: "any_mem", isa.LabelRef: "label", isa.ParamRef: "param",
	isa.DataRef: "data", isa.SpecialRef: "special", isa.ScopeRef: "scope",
}

// python makes python/hologram/_isa.py, as ruff would format it.
func python(root string) ([]byte, error) {
	source, err := readDocs(root + "/isa")
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(pythonHead)
	for _, l := range source.limits() {
		fmt.Fprintf(&b, "%s: Final = %d", pythonName(l.Name), l.Value)
		if l.Meaning != "" {
			fmt.Fprintf(&b, "  # %s", l.Meaning)
		}
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "BOUNDARY_SLOT: Final = %q\n", isa.BoundarySlot)

	var numeric, conds, scopes []string
	sizes, specialTypes := pairs{}, pairs{}
	for _, t := range isa.NumericTypes {
		numeric = append(numeric, t.String())
		sizes.add("%q: %d", t.String(), t.Size())
	}
	for c := isa.EQ; c <= isa.GEU; c++ {
		conds = append(conds, c.String())
	}
	for s := isa.ScopeThread; s <= isa.ScopeSystem; s++ {
		scopes = append(scopes, s.String())
	}
	for _, s := range specials() {
		specialTypes.add("%q: %q", s.Name, s.Type)
	}
	kinds := make([]string, 0, len(pythonKinds))
	for k := isa.Dst; k <= isa.ScopeRef; k++ {
		kinds = append(kinds, pythonKinds[k])
	}
	preset := pairs{}
	for _, p := range presets() {
		preset.add("%q: %q", p.Name, p.Type)
	}
	writeBlock(&b, "TYPES: Final[tuple[str, ...]]", "(", quoted(numeric), ")", "the numeric types, in the order of their codes")
	writeBlock(&b, "TYPE_SIZES: Final[dict[str, int]]", "{", sizes, "}", "the sizes of their values in bytes")
	writeBlock(&b, "CONDITIONS: Final[tuple[str, ...]]", "(", quoted(conds), ")", "conditions of SET; those with u for unsigned types")
	writeBlock(&b, "SCOPES: Final[tuple[str, ...]]", "(", quoted(scopes), ")", "of MEM_FENCE, from narrow to wide")
	writeBlock(&b, "SPECIALS: Final[dict[str, str]]", "{", specialTypes, "}", "special values and their types")
	writeBlock(&b, "PRESET_REGISTERS: Final[dict[str, str]]", "{", preset, "}", "registers and the special value they start with")
	writeBlock(&b, "FAULTS: Final[tuple[str, ...]]", "(", quoted(faults()), ")", "descriptions of the faults, by code")
	writeBlock(&b, "RESERVED_NAMES: Final[tuple[str, ...]]", "(", quoted(isa.ReservedNames()), ")", "not for slots, parameters, tables, registers")
	writeBlock(&b, "OPERAND_KINDS: Final[tuple[str, ...]]", "(", quoted(kinds), ")", "")

	b.WriteString("\n# By mnemonic without suffixes.\nROWS: Final[dict[str, Row]] = {\n")
	for op := isa.NoOp + 1; op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		if err := writeRow(&b, op, row); err != nil {
			return nil, err
		}
	}
	b.WriteString("}\n")
	return []byte(b.String()), nil
}

type pairs []string

func (p *pairs) add(format string, args ...any) { *p = append(*p, fmt.Sprintf(format, args...)) }

func quoted(names []string) []string {
	list := make([]string, len(names))
	for i, n := range names {
		list[i] = fmt.Sprintf("%q", n)
	}
	return list
}

// writeBlock writes an assignment of a tuple or dict, an item a line.
func writeBlock(b *strings.Builder, target, open string, items []string, end, comment string) {
	b.WriteByte('\n')
	if comment != "" {
		fmt.Fprintf(b, "# %s\n", strings.ToUpper(comment[:1])+comment[1:]+".")
	}
	fmt.Fprintf(b, "%s = %s\n", target, open)
	for _, item := range items {
		fmt.Fprintf(b, "    %s,\n", item)
	}
	fmt.Fprintf(b, "%s\n", end)
}

// tuple writes a tuple in one line.
func tuple(items []string) string {
	if len(items) == 1 {
		return "(" + items[0] + ",)"
	}
	return "(" + strings.Join(items, ", ") + ")"
}

func typeNames(s isa.TypeSet) []string {
	var names []string
	for _, t := range s.List() {
		names = append(names, t.String())
	}
	return names
}

// pythonTypes writes a set with all numeric types.
func pythonTypes(s isa.TypeSet) string {
	if s == isa.SetNumeric {
		return "TYPES"
	}
	return "(*TYPES, " + strings.Join(quoted(typeNames(s&^isa.SetNumeric)), ", ") + ")"
}

func writeRow(b *strings.Builder, op isa.Op, row *isa.Row) error {
	fmt.Fprintf(b, "    %q: Row(\n", row.Mnemonic())
	line := func(format string, args ...any) { fmt.Fprintf(b, "        "+format+",\n", args...) }
	line("code=%d", op)
	writeTypes(b, "types", row.Types)
	writeTypes(b, "sources", row.From)
	line("has_condition=%s", boolean(row.HasCond))
	var operands []string
	for _, o := range row.Operands {
		kind, ok := pythonKinds[o.Kind]
		if !ok {
			return fmt.Errorf("operand %s of %s is of a kind that Python has no name for", o.Name, row.Name)
		}
		operands = append(operands, fmt.Sprintf("Operand(%q, %q, %q, %s)", o.Name, kind, pythonType(o.Type), boolean(o.Optional)))
	}
	writeTuple(b, "operands", operands)
	line("can_fault=%s", boolean(row.Effect&isa.MayFault != 0))
	line("signature=%q", row.Signature())
	line("doc=%s", pythonString(row.Doc))
	b.WriteString("    ),\n")
	return nil
}

// lineLimit is that of ruff in pyproject.toml.
const lineLimit = 110

// writeTypes writes a set of types as a keyword argument.
func writeTypes(b *strings.Builder, name string, s isa.TypeSet) {
	if s&isa.SetNumeric == isa.SetNumeric {
		fmt.Fprintf(b, "        %s=%s,\n", name, pythonTypes(s))
		return
	}
	writeTuple(b, name, quoted(typeNames(s)))
}

// writeTuple writes a tuple as a keyword argument: one of two or more items
// that has no room in a line gets a line an item.
func writeTuple(b *strings.Builder, name string, items []string) {
	if text := fmt.Sprintf("        %s=%s,\n", name, tuple(items)); len(items) < 2 || len(text) <= lineLimit+1 {
		b.WriteString(text)
		return
	}
	fmt.Fprintf(b, "        %s=(\n", name)
	for _, item := range items {
		fmt.Fprintf(b, "            %s,\n", item)
	}
	b.WriteString("        ),\n")
}

func boolean(v bool) string {
	if v {
		return "True"
	}
	return "False"
}

// pythonString quotes text as ruff does.
func pythonString(s string) string {
	if strings.Contains(s, `"`) && !strings.Contains(s, "'") {
		return "'" + strings.ReplaceAll(s, `\`, `\\`) + "'"
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// pythonType names the type of the value that an operand holds.
func pythonType(t isa.Type) string {
	switch t {
	case isa.TypeT:
		return "T"
	case isa.TypeFrom:
		return "FROM"
	case isa.TypeAnyInt:
		return "int"
	case isa.TypeNamedT:
		return "named"
	case isa.NoType:
		return ""
	}
	return t.String()
}

// pythonName turns MaxDataBytes into MAX_DATA_BYTES.
func pythonName(s string) string {
	var parts []string
	start := 0
	for i := 1; i <= len(s); i++ {
		if i == len(s) || s[i] >= 'A' && s[i] <= 'Z' {
			parts = append(parts, strings.ToUpper(s[start:i]))
			start = i
		}
	}
	return strings.Join(slices.Clip(parts), "_")
}
