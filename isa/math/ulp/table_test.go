package main

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/math"
	"github.com/hologram-project/hologram/isa/math/accuracy"
)

// TestTableIsCurrent demands a row in docs/math-errors.md for every function
// and type, about the program as it is, within its bound, on enough arguments.
func TestTableIsCurrent(t *testing.T) {
	rows, err := read(filepath.Join("..", "..", "..", "docs", "math-errors.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range accuracy.Cases() {
		r, ok := rows[c.String()]
		if !ok {
			t.Errorf("%s: no row; run go run ./isa/math/ulp", c)
			continue
		}
		v, _ := math.Expansion(c.Op, c.Type)
		if h := v.Program.Hash(); hex.EncodeToString(h[:4]) != r.program() {
			t.Errorf("%s: the row is about another program; run go run ./isa/math/ulp", c)
		}
		if worst, err := strconv.ParseFloat(r[3], 64); err != nil || !(worst >= 0 && worst <= c.Bound()) {
			t.Errorf("%s: measured %s, bound %g", c, r[3], c.Bound())
		}
		text, err := os.ReadFile(filepath.Join("..", math.FileName(c.Op, c.Type)))
		if err != nil || !strings.Contains(string(text), r.measured()) {
			t.Errorf("%s: the program's comment does not say %q (%v)", c, r.measured(), err)
		}
		if r.count() < 65536 {
			t.Errorf("%s: only %d arguments", c, r.count())
		}
	}
}

func TestUpdate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.md")
	exp, sin := accuracy.Case{Op: isa.EXP, Type: isa.F32}, accuracy.Case{Op: isa.SIN, Type: isa.F16}
	put := func(c accuracy.Case, worst float64, n uint64) row {
		t.Helper()
		r := newRow(accuracy.Result{Case: c, Max: worst, X: 0x3f800000 & c.Type.Mask(), N: n})
		if _, err := update(path, r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	put(sin, 0.625, 10)
	put(exp, 0.75, 100)
	put(exp, 0.5, 50) // rests on less: the row stays
	rows, err := read(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows["exp.f32"][3] != "0.7500" || rows["sin.f16"][3] != "0.6250" || rows["exp.f32"][4] != "0x1p+0" {
		t.Errorf("rows %v", rows)
	}
	stale := rows["exp.f32"]
	stale[len(stale)-1] = "00000000"
	if _, err := update(path, stale); err != nil {
		t.Fatal(err)
	}
	put(exp, 0.25, 1) // about another program: the old row goes
	if rows, _ = read(path); rows["exp.f32"][3] != "0.2500" {
		t.Errorf("a row about another program stayed: %v", rows["exp.f32"])
	}
}

// TestCommand measures into the records of another folder: a row that rests on less
// stays as it was, and one about another program goes, with the program's comment.
func TestCommand(t *testing.T) {
	root := t.TempDir()
	out, err := os.Create(filepath.Join(root, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	table, program := filepath.Join("docs", "math-errors.md"), filepath.Join("isa", "math", "exp.bf16.atlas")
	for _, name := range []string{table, program} {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", name))
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	content := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	measure := func(args ...string) {
		t.Helper()
		if err := run(append([]string{"-fn", "exp", "-type", "bf16", "-root", root, "-j", "2"}, args...), out); err != nil {
			t.Fatal(err)
		}
	}
	rows, comment := content(table), content(program)
	measure("-sample", "100")
	if content(table) != rows || content(program) != comment {
		t.Error("a measurement on 100 arguments replaced one on all")
	}
	measure("-all")
	if content(table) != rows || content(program) != comment {
		t.Error("the same measurement changed the records")
	}
	known, err := read(filepath.Join(root, table))
	if err != nil {
		t.Fatal(err)
	}
	stale := strings.Replace(rows, known["exp.bf16"].program(), "00000000", 1)
	if err := os.WriteFile(filepath.Join(root, table), []byte(stale), 0o644); err != nil {
		t.Fatal(err)
	}
	measure("-sample", "100")
	found, err := read(filepath.Join(root, table))
	if err != nil {
		t.Fatal(err)
	}
	if r := found["exp.bf16"]; r.program() != known["exp.bf16"].program() || r.count() >= known["exp.bf16"].count() {
		t.Errorf("after a row about another program there is %v", r)
	} else if text := content(program); !strings.Contains(text, r.measured()) || strings.Count(text, "; Measured: ") != 1 {
		t.Errorf("the program's comment does not say %q alone", r.measured())
	}
	if text := content("out"); strings.Count(text, "| exp | bf16 |") != 3 {
		t.Errorf("it told %q", text)
	}
	for _, args := range [][]string{{"-fn", "no"}, {"-j", "0"}, {"-sample", "0"}, {"more"}, {"-unknown"}} {
		if run(append([]string{"-root", ""}, args...), out) == nil {
			t.Errorf("%v is no error", args)
		}
	}
}
