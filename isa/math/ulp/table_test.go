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
