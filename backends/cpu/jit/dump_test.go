package jit

import (
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/isa"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/kernels"
)

// listed is a line of code or data: its bytes, and what they say, if it is code.
var listed = regexp.MustCompile(`(?m)^ *[0-9a-f]+  ([0-9a-f]{2}(?: [0-9a-f]{2})*)(?: *$|  +(\w+))`)

// What is shown as machine code is what runs, all of it, an instruction a line; and
// every stage has what was made for each load and store.
func TestDump(t *testing.T) {
	programs := map[string]string{
		"meets":  "program p\nslot a f32\nslot c f32\n  ldg.f32 x, a[index]\n  block_reduce_add.f32 x, x\n  stg.f32 x, c[index]\n  exit\n",
		"loops":  "program p\nslot a u32\nslot c u32\n  ldg.u32 n, a[index]\n  mov.u32 s, 0\n  loop n, end\n  add.u32 s, s, n\nend:\n  stg.u32 s, c[index]\n  exit\n",
		"divide": "program p\nslot a i64\nslot c i64\n  ldg.i64 x, a[index]\n  div.i64 x, x, 7\n  stg.i64 x, c[index]\n  exit\n",
	}
	for _, op := range []*kernels.Op{kernels.VectorAdd, kernels.Gelu, kernels.VectorClip} {
		v, err := op.Program(isa.F32)
		require.NoError(t, err)
		programs[op.Name] = isa.Disassemble(v.Program)
	}
	for name, text := range programs {
		p, err := isa.Assemble(name, text)
		require.NoError(t, err, text)
		v, err := isa.Verify(p)
		require.NoError(t, err, text)
		f, _, err := ir.Canonical(v)
		require.NoError(t, err)
		lines := make([]string, len(p.Insts))
		for i := range lines {
			lines[i] = p.Insts[i].Op.String()
		}
		for _, l := range []Level{AVX2, AVX512, AVX2 | Few, AVX512 | Few} {
			for _, stage := range Stages {
				dumped, err := Dump(nil, f, l, stage, lines)
				require.NoError(t, err, "%s %v %s", name, l, stage)
				if stage == StageExpanded {
					require.Contains(t, dumped, "stg.")
					continue
				}
				for i, inst := range p.Insts { // others may be part of something else
					if inst.Op == isa.LDG || inst.Op == isa.STG {
						require.Contains(t, dumped, "; "+strconv.Itoa(i)+": "+inst.Op.String(), "%s %v %s", name, l, stage)
					}
				}
				if stage != StageMachine {
					continue
				}
				prepared, err := prepare(nil, f)
				require.NoError(t, err)
				s := shape{}
				if prepared.blocks != nil {
					s = prepared.blockShape(s, targetOf(l), usualBlock, true)
				}
				code, _, err := prepared.generate(nil, targetOf(l), s)
				require.NoError(t, err)
				shown := ""
				for _, m := range listed.FindAllStringSubmatch(dumped, -1) {
					shown += strings.ReplaceAll(m[1], " ", "")
					if m[2] != "" {
						require.LessOrEqual(t, len(m[1]), 3*15, "no instruction is longer: one isn't shown\n%s", m[0])
					}
				}
				require.Equal(t, hex.EncodeToString(code), shown, "%s %v\n%s", name, l, dumped)
			}
		}
	}
}
