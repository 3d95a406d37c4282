package ir

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/isa"
)

// What a program is given is what it uses: dead code, and the order of what is
// independent, leave no trace of it. (That it means what it should, conformance
// shows on each backend.)
func TestGivenIsWhatIsUsed(t *testing.T) {
	seen := map[string]string{}
	const head = "slot a f32\nslot b f32\nslot c u64\nparam k u64\n"
	for _, group := range [][]string{
		{
			"sreg n, n; stg.u64 n, c[index]",
			"sreg n, n; sreg x, row; ldg.f32 y, b[index]; mul.u64 x, x, 3; stg.u64 n, c[index]",
		}, {
			"sreg r, row; sreg n, columns; add.u64 r, r, n; stg.u64 r, c[index]",
			"sreg n, columns; sreg x, index.3; sreg r, row; add.u64 r, n, r; stg.u64 r, c[index]",
		}, {
			"sreg r, column; stg.u64 r, c[index]",
		}, {
			"sreg r, rows; stg.u64 r, c[index]",
		}, {
			"sreg r, columns; stg.u64 r, c[index]",
		}, {
			"sreg r, index.1; stg.u64 r, c[index]",
		}, {
			"sreg r, index.2; stg.u64 r, c[index]",
		}, {
			"sreg r, size.1; stg.u64 r, c[index]",
		}, {
			"sreg r, size.2; stg.u64 r, c[index]",
		}, {
			"ldp.u64 r, k; stg.u64 r, c[index]",
		}, {
			"ldg.f32 x, a[flat r255]; stg.f32 x, b[flat r255]",
			"mov.u64 i, r255; ldg.f32 x, a[flat i]; ldg.f32 y, a[flat i]; stg.f32 x, b[flat i]",
		}, {
			"ldg.f32 x, a[flat r255]; stg.f32 x, b[flat r255 + 1]",
		}, {
			"ldg.f32 x, a[flat r255 - 1]; stg.f32 x, b[flat r255]",
		}, {
			"ldg.f32 x, b[flat r255]; stg.f32 x, a[flat r255]",
		}, {
			"ldg.f32 x, a[r255]; stg.f32 x, b[r255]",
		}, {
			"ldg.f32 x, a[index]; stg.f32 x, b[index]",
		},
	} {
		var first *Func
		for _, code := range group {
			f := canonical(t, verified(t, "program p\n"+head+strings.ReplaceAll(code, ";", "\n")+"\nexit\n"))
			if first == nil {
				first = f
			} else if !bytes.Equal(f.Bytes(), first.Bytes()) {
				t.Errorf("%q: the bytes differ\n%v\n%v", code, first, f)
			}
			for i, g := range f.Given {
				if have := f.ParamTypes[len(f.ParamTypes)-len(f.Given)+i]; have != g.Type() {
					t.Errorf("%q: %v is %v, want %v", code, g, have, g.Type())
				}
			}
			if n := len(f.ParamTypes) - len(f.Given); n != 1 {
				t.Errorf("%q: %d parameters of its own", code, n)
			}
		}
		if other, ok := seen[string(first.Bytes())]; ok {
			t.Errorf("%q has the bytes of %q", group[0], other)
		}
		seen[string(first.Bytes())] = group[0]
	}
}

func TestGivenOfPrograms(t *testing.T) {
	for code, want := range map[string]string{
		"sreg x, row":                               "[rows columns]",
		"sreg x, column":                            "[columns]",
		"sreg x, index.4":                           "[size.4 inner.4]",
		"sreg x, size.7":                            "[size.7]",
		"sreg x, global_lane":                       "[]",
		"ldg.u64 x, a[flat r255]":                   "[first of s1 step of s1 limit of s1]",
		"ldg.u64 x, a[flat 3]\nstg.u64 7, c[index]": "[first of s1 step of s1 limit of s1]",
		"atom_add.u64 x, c[flat r255 + 1], 2":       "[first of s0 step of s0 limit of s0]",
		"ldg.u64 x, a[r255]":                        "[]",
	} {
		f := canonical(t, verified(t, "program p\nslot c u64\nslot a u64\n"+code+"\nstg.u64 x, c[index]\nexit\n"))
		if got := fmt.Sprint(f.Given); got != want {
			t.Errorf("%q is given %s, want %s", code, got, want)
		}
		faults := strings.Contains(code, "[")
		if len(f.Sites) > 0 != faults {
			t.Errorf("%q: %d sites", code, len(f.Sites))
		}
		if g, err := Expand(f); err != nil || fmt.Sprint(g.Given) != want {
			t.Errorf("%q: expanded it is given %v, %v", code, g.Given, err)
		}
	}
}

// A slot accessed as slot[flat i] is one by bytes to engines.
func TestFlatSlotsAreBytesInTheIR(t *testing.T) {
	v := verified(t, "program p\nslot a f32\nslot c f32\nldg.f32 x, a[flat r255]\nstg.f32 x, c[flat r255]\nexit\n")
	f := canonical(t, v)
	for i, want := range []isa.SlotUse{{Reads: true, Flat: true}, {Writes: true, Flat: true}} {
		if u := v.Slots[i]; u.Reads != want.Reads || u.Writes != want.Writes || !u.Flat || u.Bytes || u.Indexed {
			t.Errorf("verified slot %d: %+v", i, u)
		}
		if u := f.Slots[i]; u.Reads != want.Reads || u.Writes != want.Writes || u.Flat || !u.Bytes || u.Indexed {
			t.Errorf("slot %d of the IR: %+v", i, u)
		}
	}
}
