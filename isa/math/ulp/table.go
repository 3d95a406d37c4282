package main

import (
	"encoding/hex"
	"fmt"
	gomath "math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hologram-project/hologram/isa/math"
	"github.com/hologram-project/hologram/isa/math/accuracy"
)

const preface = `# Errors of the transcendental functions

Written by ` + "`go run ./isa/math/ulp`" + `; the functions are the Atlas programs in ` + "`isa/math`" + `, the same on every backend.

The error of a result is |result − exact| / ulp(exact), where ulp(exact) is the spacing of the type's numbers in the
binade of the exact value, that of the subnormals below the smallest normal number. Infinity as a result stands for
2^(emax+1), and an exact value beyond that counts as that. NaN must be NaN, and a zero must have the sign of an exact
zero. A correctly rounded result errs by 0.5 at most. f16, bf16 and f32 are compared with float64 (whose own error is
below 10^-8 of these units, 10^-6 for POW), f64 with double-double arithmetic, whose relative error is below 2^-85.

"all" means every bit pattern of the type; a sample is the special values and ends of ranges in both signs (in all
pairs, for two arguments), bits drawn uniformly, and values from where the function is interesting. "program" is the
beginning of the program's hash: a test demands that every row is about the program as it is.

What operations are made of these errs as their pages say: ` + "`gelu`" + ` in f16 by at most 0.54 ULP and in bf16 by 0.51 on all arguments, in
f32 by 2.80 on all (` + "`benchmarks/gelu_error.py`" + `), in f64 by less than 3 on a sample (` + "`TestGelu`" + ` in ` + "`kernels`" + `).

`

var columns = []string{"function", "type", "bound", "measured max ULP", "at", "result there", "arguments", "program"}

// row is a row of the table, in the order of columns.
type row []string

func newRow(r accuracy.Result) row {
	v, _ := math.Expansion(r.Op, r.Type)
	hash := v.Program.Hash()
	name, ty, _ := strings.Cut(r.Case.String(), ".")
	x, y := r.Arguments()
	at := number(x)
	if r.Binary() {
		at += ", " + number(y)
	}
	got := number(r.ResultValue())
	if r.Max == 0 {
		at, got = "", ""
	}
	n := strconv.FormatUint(r.N, 10)
	if r.All {
		n = "all " + n
	}
	return row{name, ty, strconv.FormatFloat(r.Bound(), 'g', -1, 64), strconv.FormatFloat(r.Max, 'f', 4, 64), at, got, n, hex.EncodeToString(hash[:4])}
}

// number spells a float as the text form of programs does.
func number(v float64) string {
	if gomath.IsNaN(v) || gomath.IsInf(v, 0) {
		return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(v, 'g', -1, 64), "+"))
	}
	m, e, _ := strings.Cut(strconv.FormatFloat(v, 'x', -1, 64), "p")
	n, _ := strconv.Atoi(e)
	return fmt.Sprintf("%sp%+d", m, n)
}

// measured returns the sentence that the program's own comment has of it.
func (r row) measured() string {
	what := "at most " + r[3] + " ULP, at " + r[4]
	if r[4] == "" {
		what = "exact"
	}
	return "; Measured: " + what + " (arguments: " + r[6] + ").\n"
}

// quote puts the measurement into the comment before the program in dir.
func quote(dir string, r row) error {
	path := filepath.Join(dir, r[0]+"."+r[1]+".atlas")
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "; Measured: ") {
			continue
		}
		if strings.HasPrefix(line, "program ") {
			b.WriteString(r.measured())
		}
		b.WriteString(line)
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

func (r row) line() string { return "| " + strings.Join(r, " | ") + " |" }

// count returns the number of arguments that the row rests on.
func (r row) count() uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(r[len(r)-2], "all "), 10, 64)
	return n
}

// program returns the beginning of the hash of the program measured.
func (r row) program() string { return r[len(r)-1] }

// read returns the rows of the table at path by name, none if there is no file.
func read(path string) (map[string]row, error) {
	rows, known := map[string]row{}, map[string]bool{}
	for _, c := range accuracy.Cases() {
		known[c.String()] = true
	}
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != len(columns) {
			continue
		}
		r := make(row, len(cells))
		for i, c := range cells {
			r[i] = strings.TrimSpace(c)
		}
		if name := r[0] + "." + r[1]; known[name] {
			rows[name] = r
		}
	}
	return rows, nil
}

// update puts r into the table at path, which it makes if there is none, and
// reports whether it did: a row about the same program that rests on more
// arguments stays.
func update(path string, r row) (bool, error) {
	rows, err := read(path)
	if err != nil {
		return false, err
	}
	name := r[0] + "." + r[1]
	if old, ok := rows[name]; ok && old.program() == r.program() && old.count() > r.count() {
		return false, nil
	}
	rows[name] = r
	var b strings.Builder
	b.WriteString(preface)
	b.WriteString(row(columns).line() + "\n|" + strings.Repeat("---|", len(columns)) + "\n")
	for _, c := range accuracy.Cases() {
		if r, ok := rows[c.String()]; ok {
			b.WriteString(r.line() + "\n")
		}
	}
	return true, os.WriteFile(path, []byte(b.String()), 0o644)
}
