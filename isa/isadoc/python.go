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
    optional: bool = False


class Row(NamedTuple):
    """An instruction: its row of the table.

    ` + "``types``" + ` and ` + "``sources``" + ` are what may follow the mnemonic as type and source type; they are empty where it has
    none. ` + "``can_fault``" + ` says whether a launch may report a fault of it.
    """

    code: int
    signature: str
    doc: str
    types: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    operands: tuple[Operand, ...] = ()
    has_condition: bool = False
    can_fault: bool = False


# What follows is tables, which ruff would give a line an item.
# fmt: off

`

// pythonKinds names the kinds of operands in Python.
var pythonKinds = map[isa.OperandKind]string{
	isa.Dst: "dst", isa.Src: "src", isa.SrcReg: "src_reg", isa.PredDst: "pred_dst", isa.PredSrc: "pred_src", isa.Imm: "imm",
	isa.Mem: "mem", isa.SharedMem: "shared_mem", isa.AnyMem: "any_mem", isa.LabelRef: "label", isa.ParamRef: "param",
	isa.DataRef: "data", isa.SpecialRef: "special", isa.ScopeRef: "scope",
}

// python makes python/hologram/_isa.py. A row there takes a line for its head,
// one for its operands and one for its doc, and leaves out Row's defaults.
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

// lineLimit is that of ruff in pyproject.toml.
const lineLimit = 120

// pack joins items with commas, as many to a line of that width as have room.
func pack(items []string, width int) []string {
	var lines []string
	for i, item := range items {
		last := len(lines) - 1
		if i > 0 && len(lines[last])+len(", ")+len(item) <= width {
			lines[last] += ", " + item
		} else {
			lines = append(lines, item)
		}
	}
	return lines
}

// writeWithin writes items between open and end, all lines of them below the
// first item.
func writeWithin(b *strings.Builder, open string, items []string, end string) {
	lines := pack(items, lineLimit-len(open)-len(end))
	b.WriteString(open + strings.Join(lines, ",\n"+strings.Repeat(" ", len(open))) + end + "\n")
}

// writeBlock writes an assignment of a tuple or dict.
func writeBlock(b *strings.Builder, target, open string, items []string, end, comment string) {
	b.WriteByte('\n')
	if comment != "" {
		fmt.Fprintf(b, "# %s\n", strings.ToUpper(comment[:1])+comment[1:]+".")
	}
	if line := target + " = " + open + strings.Join(items, ", ") + end; len(line) <= lineLimit {
		b.WriteString(line + "\n")
		return
	}
	fmt.Fprintf(b, "%s = %s\n", target, open)
	for _, line := range pack(items, lineLimit-len("    ,")) {
		fmt.Fprintf(b, "    %s,\n", line)
	}
	fmt.Fprintf(b, "%s\n", end)
}

func typeNames(s isa.TypeSet) []string {
	var names []string
	for _, t := range s.List() {
		names = append(names, t.String())
	}
	return names
}

// pythonTypes writes a set of types as a tuple.
func pythonTypes(s isa.TypeSet) string {
	if s == isa.SetNumeric {
		return "TYPES"
	}
	if s&isa.SetNumeric == isa.SetNumeric {
		return "(*TYPES, " + strings.Join(quoted(typeNames(s&^isa.SetNumeric)), ", ") + ")"
	}
	names := quoted(typeNames(s))
	return "(" + strings.Join(names, ", ") + endOfTuple(len(names))
}

// endOfTuple is what follows the last of n items.
func endOfTuple(n int) string {
	if n == 1 {
		return ",)"
	}
	return ")"
}

func writeRow(b *strings.Builder, op isa.Op, row *isa.Row) error {
	head := []string{fmt.Sprint(uint(op)), fmt.Sprintf("%q", row.Signature())}
	if row.Types != 0 {
		head = append(head, "types="+pythonTypes(row.Types))
	}
	if row.From != 0 {
		head = append(head, "sources="+pythonTypes(row.From))
	}
	if row.HasCond {
		head = append(head, "has_condition=True")
	}
	if row.Effect&isa.MayFault != 0 {
		head = append(head, "can_fault=True")
	}
	writeWithin(b, fmt.Sprintf("    %q: Row(", row.Mnemonic()), head, ",")

	var operands []string
	for _, o := range row.Operands {
		kind, ok := pythonKinds[o.Kind]
		if !ok {
			return fmt.Errorf("operand %s of %s is of a kind that Python has no name for", o.Name, row.Name)
		}
		optional := ""
		if o.Optional {
			optional = ", optional=True"
		}
		operands = append(operands, fmt.Sprintf("Operand(%q, %q, %q%s)", o.Name, kind, pythonType(o.Type), optional))
	}
	if len(operands) > 0 {
		writeWithin(b, "        operands=(", operands, endOfTuple(len(operands))+",")
	}
	fmt.Fprintf(b, "        doc=%s),\n", pythonString(row.Doc))
	return nil
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
