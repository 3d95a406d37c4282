// Package math holds the transcendental functions of the instruction set, and
// the float remainder, as Atlas programs made of primitives: one file per
// function and type. A function means what its program computes, bit for bit,
// on every backend; nobody writes it a second time.
//
// A program has a slot x (and y, for POW and REM), a slot out, and no other
// effect: element i of out is the function of element i of the inputs. It
// cannot fault. Where a few arguments need more, as a costlier reduction or
// the subnormals' scaling, that is jumped over (BRA) by those that don't; a
// long division is a LOOP of as many rounds as it takes.
//
// The bounds on the error and what was measured are in docs/math-errors.md,
// written by the command in ulp.
package math

import (
	"embed"
	"fmt"
	"strings"
	"sync"

	"github.com/hologram-project/hologram/isa"
)

//go:embed *.atlas
var files embed.FS

// expansion is one program, assembled and verified when first asked for.
type expansion struct {
	once sync.Once
	v    *isa.Verified
}

// expansions has an entry for every row and type that expands; it is filled
// once and only read afterwards.
var expansions = sync.OnceValue(func() map[key]*expansion {
	m := map[key]*expansion{}
	for op := isa.NoOp + 1; op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		for _, t := range row.Expand.List() {
			m[key{op, t}] = &expansion{}
		}
	}
	return m
})

type key struct {
	op isa.Op
	t  isa.Type
}

// Expansion returns the program that defines op for type t, and whether the
// table says that op expands for t. The program is shared: callers only read
// it. It is safe for concurrent use.
func Expansion(op isa.Op, t isa.Type) (*isa.Verified, bool) {
	e, ok := expansions()[key{op, t}]
	if !ok {
		return nil, false
	}
	e.once.Do(func() {
		v, err := load(FileName(op, t))
		if err != nil {
			// The files are part of the package, so this is our mistake and a
			// test finds it.
			panic(fmt.Sprintf("isa/math: %s.%s: %v", op, t, err))
		}
		e.v = v
	})
	return e.v, true
}

// Short returns the text of op's expansion for f16 or bf16 without its load,
// conversions and store: from the f32 register x it computes, to t's accuracy
// but not rounded to t, the f32 register result. It is for programs that go on
// with the value in f32. The registers that it uses are those of the file.
func Short(op isa.Op, t isa.Type) (text, result string) {
	file, err := files.ReadFile(FileName(op, t))
	if err != nil || t != isa.F16 && t != isa.BF16 {
		panic(fmt.Sprintf("isa/math: %s.%s has no short expansion", op, t))
	}
	_, text, _ = strings.Cut(string(file), fmt.Sprintf("cvt.f32.%s x, x16\n", t))
	text, rest, ok := strings.Cut(text, fmt.Sprintf("cvt.%s.f32 out16, ", t))
	result, _, _ = strings.Cut(rest, "\n")
	if !ok {
		panic(fmt.Sprintf("isa/math: %s.%s is not written as Short expects", op, t))
	}
	return text, result
}

// FileName returns the name of the file that holds the expansion of op for t,
// such as "exp.f32.atlas".
func FileName(op isa.Op, t isa.Type) string {
	return strings.ToLower(op.String()) + "." + t.String() + ".atlas"
}

func load(name string) (*isa.Verified, error) {
	text, err := files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	p, err := isa.Assemble("isa/math/"+name, string(text))
	if err != nil {
		return nil, err
	}
	return isa.Verify(p)
}
