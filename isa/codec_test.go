package isa_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"strings"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
)

// seal puts header and checksum around the body of a binary program.
func seal(body string) []byte {
	data := []byte("ATLAS\x01\x00" + body)
	return binary.LittleEndian.AppendUint32(data, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
}

// The bytes of a program, once and for all: version 1 must stay readable.
func TestEncodingIsFixed(t *testing.T) {
	p, err := isa.Assemble("f", `program p
slot a f32
param k i16
shared 300
block 32
data d i16 { -1, 2 }
reg x r5
l: ldg.f32 x, a[r1 - 4]
  add.i32 r2, r3, 1000
  bra l, !p3
`)
	if err != nil {
		t.Fatal(err)
	}
	want := seal("\x01p" +
		"\x01\x0b\x01a" +
		"\x01\x02\x01k" +
		"\x01\x02\x01d\x02\xff\xff\x02\x00" +
		"\xac\x02" + "\x20\x01\x01" +
		"\x03" +
		"\x01\x0b\x00\x00\x02" + "\x01\x05" + "\x08\x82\x00\x01\x07" +
		"\x0c\x03\x00\x00\x03" + "\x01\x02" + "\x01\x03" + "\x03\xe8\x07" +
		"\x28\x00\x00\x00\x02" + "\x04\x00" + "\x82\x03" +
		"\x01\x01l\x00" +
		"\x01\x05\x01x" + "\x00")
	if got := isa.Encode(p); !bytes.Equal(got, want) {
		t.Errorf("got\n%x\nwant\n%x", got, want)
	}
}

func TestDecodeErrors(t *testing.T) {
	const none = "\x00" // an empty list or name
	head := "\x00" + none + none + none + "\x00\x00\x00\x00"
	valid := seal(head + none + none + none + none)
	if _, err := isa.Decode(valid); err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(valid)
	flipped[9] ^= 4
	versioned := bytes.Clone(valid)
	versioned[5] = 2
	inst := func(s string) []byte { return seal(head + "\x01" + s + none + none + none) }
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty":              {nil, `does not begin with "ATLAS"`},
		"text":               {[]byte("program p\n  exit\n"), "a program's text is assembled"},
		"magic alone":        {[]byte("ATLAS"), "does not begin"},
		"version":            {versioned, "byte 5: format version 2; this library reads version 1"},
		"checksum":           {flipped, "damaged or cut"},
		"cut":                {valid[:len(valid)-1], "damaged or cut"},
		"longer":             {append(bytes.Clone(valid), 0), "damaged or cut"},
		"nothing":            {seal(""), "byte 7: the program ends too early"},
		"name too long":      {seal("\x80\x02"), "the length of a name is more than 255"},
		"name cut":           {seal("\x05abc"), "ends too early"},
		"not a name":         {seal("\x01 " + head[1:] + none + none + none + none), "name"},
		"too many slots":     {seal(none + "\x41"), "the number of slots is more than 64"},
		"slot type":          {seal(none + "\x01\x0d\x01a"), "type 13"},
		"count runs away":    {seal(none + none + none + "\xff\xff\xff\xff\x0f"), "the number of tables is more than"},
		"unending number":    {seal(none + "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), "the number of slots is more than"},
		"values run away":    {seal(none + none + none + "\x01\x05\x01d\x80\x80\x40"), "ends too early"},
		"shared":             {seal(none + none + none + none + "\x81\x80\x03"), "shared memory is more than 49152"},
		"no operation":       {inst("\x00\x00\x00\x00\x00"), "there is no operation 0"},
		"unknown operation":  {inst("\xff\x01\x00\x00\x00\x00"), "the operation is more than"},
		"operands":           {inst("\x0c\x0b\x00\x00\x06"), "6 operands; at most 5"},
		"operand kind":       {inst("\x0c\x0b\x00\x00\x01\x09"), "no kind of operand 9"},
		"address mode":       {inst("\x01\x0b\x00\x00\x02\x01\x00\x08\x07"), "no address mode 7"},
		"missing operand":    {inst("\x0c\x0b\x00\x00\x02\x01\x00\x01\x00"), "operand"},
		"no type":            {inst("\x0c\x00\x00\x00\x03\x01\x00\x01\x00\x01\x00"), "type"},
		"label's place":      {seal(head + none + "\x01\x01l\x01" + none + none), "the place of a label is more than 0"},
		"label order":        {seal(head + "\x01\x2c\x00\x00\x00\x00" + "\x02\x01a\x01\x01b\x00" + none + none), "the labels are not in order"},
		"long number":        {seal("\x80\x00" + head[1:] + none + none + none + none), "shortest form"},
		"register twice":     {seal(head + none + none + "\x02\x05\x01x\x05\x01y" + none), "number 5 is out of range, named twice"},
		"registers disorder": {seal(head + none + none + "\x02\x05\x01x\x04\x01y" + none), "shortest form"},
		"predicate":          {seal(head + none + none + none + "\x01\x10\x01x"), "number 16 is out of range"},
		"more behind":        {seal(head + none + none + none + none + "\x00"), "1 bytes follow the program"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := isa.Decode(c.data)
			var e *isa.DecodeError
			if p != nil || !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// No cut of a program is a program, wherever it is cut.
func TestDecodeOfCutPrograms(t *testing.T) {
	text, err := os.ReadFile("testdata/asm/tour.atlas")
	if err != nil {
		t.Fatal(err)
	}
	p, err := isa.Assemble("tour", string(text))
	if err != nil {
		t.Fatal(err)
	}
	data := isa.Encode(p)
	body := data[len("ATLAS\x01\x00") : len(data)-4]
	for n := range body {
		if _, err := isa.Decode(seal(string(body[:n]))); err == nil {
			t.Fatalf("cut to %d of %d bytes it is a program", n, len(body))
		}
	}
	if q, err := isa.Decode(seal(string(body))); err != nil || !q.Equal(p) {
		t.Fatalf("uncut: %v", err)
	}
}

// Labels in another order are the same program.
func TestLabelsInAnyOrder(t *testing.T) {
	p, err := isa.Assemble("f", "a: bra b\nb: bra c\nc: bra a\n exit")
	if err != nil {
		t.Fatal(err)
	}
	q := *p
	q.Labels = []isa.Label{p.Labels[2], p.Labels[0], p.Labels[1]}
	q.Insts = append([]isa.Inst(nil), p.Insts...)
	for i, to := range []uint64{2, 0, 1} {
		q.Insts[i].Args[0].Bits = to
	}
	if !q.Equal(p) || isa.Disassemble(&q) != isa.Disassemble(p) {
		t.Errorf("differs:\n%s\n%s", isa.Disassemble(&q), isa.Disassemble(p))
	}
	if err := roundTrip(&q); err != nil {
		t.Error(err)
	}
}

// Encode, Disassemble and Check take whatever a Program can hold.
func TestMalformedProgramsAreWritten(t *testing.T) {
	arg := func(k isa.ArgKind) isa.Arg {
		return isa.Arg{Kind: k, Reg: 255, Bits: 1 << 40, Mode: isa.AddrMode(k), Slot: 999, HasReg: true}
	}
	p := &isa.Program{Name: "no name", Slots: []isa.Slot{{Name: "", Type: 200}}, Data: []isa.Data{{Name: "d", Type: 99, Values: []uint64{1}}},
		Labels: []isa.Label{{Name: "far", At: 1 << 40}, {Name: "l", At: -1}}, Block: [3]uint32{0, 1, 1 << 31}}
	for op := range isa.NumOps + 2 {
		for k := range isa.ArgKind(12) {
			p.Insts = append(p.Insts, isa.Inst{Op: op, Form: isa.Form{Type: isa.Type(200 + k), From: isa.TypeAnyInt, Cond: 77}, Args: [isa.MaxOperands]isa.Arg{arg(k), arg(k), arg(k), arg(k), arg(k)}})
			p.Insts = append(p.Insts, isa.Inst{Op: op, Form: isa.Form{Type: isa.F32}, Args: [isa.MaxOperands]isa.Arg{arg(k), arg(k), arg(k), arg(k), arg(k)}})
		}
	}
	if p.Check() == nil {
		t.Error("Check finds nothing wrong")
	}
	if isa.Disassemble(p) == "" {
		t.Error("no text")
	}
	if _, err := isa.Decode(isa.Encode(p)); err == nil {
		t.Error("it decodes")
	}
}

// A large program is mostly instructions.
func TestInstructionsAreSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(isa.Inst{}), uintptr(88))
}
