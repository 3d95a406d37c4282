package cpu_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu"
	"github.com/hologram-project/hologram/backends/cpu/contraction"
	"github.com/hologram-project/hologram/backends/cpu/gemm"
	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/lookup"
	"github.com/hologram-project/hologram/isa/ir"
	"github.com/hologram-project/hologram/isa/work"
)

// TestEngineVariable: who debugs switches machine code off, and a name that is
// none is told, not passed over.
func TestEngineVariable(t *testing.T) {
	t.Setenv(cpu.EngineVariable.Name, "strips")
	infos, err := cpu.New(1).Devices()
	require.NoError(t, err)
	require.Equal(t, "host, portable engine", infos[0].Name)
	require.NotContains(t, infos[0].Codegen, "jit")

	for _, l := range wholeLevels()[1:] {
		if jit.Available(l) != nil {
			continue
		}
		t.Setenv(cpu.EngineVariable.Name, l.String())
		infos, err := cpu.New(1).Devices()
		require.NoError(t, err)
		require.Equal(t, "host, machine code for "+l.String(), infos[0].Name)
		require.Contains(t, infos[0].Codegen, fmt.Sprintf("%s/%v", jit.Version, l))
	}

	for _, u := range []gemm.Units{gemm.Words, gemm.Dots, gemm.Tiles} {
		t.Setenv(cpu.EngineVariable.Name, u.String())
		b := cpu.New(1)
		infos, err := b.Devices()
		if _, no := cpu.NewWith(1, jit.AVX512, u); no != nil {
			require.ErrorContains(t, err, fmt.Sprintf("HOLOGRAM_CPU_ENGINE is %q: %v", u, no))
			_, opened := b.Open(0)
			require.Equal(t, err, opened)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("host, machine code for avx512 and %v", u), infos[0].Name)
		require.Contains(t, infos[0].Codegen, fmt.Sprintf("%s/avx512+%v", gemm.Version, u))
	}

	t.Setenv(cpu.EngineVariable.Name, "fastest")
	_, err = cpu.New(1).Devices()
	require.ErrorContains(t, err, `HOLOGRAM_CPU_ENGINE is "fastest"; expected strips, avx2, avx512, avx512_vnni, avx512_bf16 or amx`)
	_, opened := cpu.New(1).Open(0)
	require.Equal(t, err, opened)
}

// TestWhatIsDeclinedMidway has a segment that cannot be written, whose end then has nothing to reduce.
func TestWhatIsDeclinedMidway(t *testing.T) {
	v := verify(t, "program p\nblock 64\nslot a f32\nslot b f32\nmov.i64 s, 0\nmov.u32 o, 0\nldg.f32 x, @s[o]\nblock_reduce_min.f32 y, x\nstg.f32 y, b[index]\nexit")
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	for _, l := range levels {
		b, err := cpu.NewFor(1, l)
		if err != nil {
			continue
		}
		d, err := b.Open(0)
		require.NoError(t, err)
		k, err := d.Compile(&backends.Unit{Source: v, IR: f}, backends.Variant{NoFuel: true, Proved: true})
		require.NoError(t, err)
		require.Equal(t, "strips/1", cpu.EngineOf(k), l)
		k.Release()
		require.NoError(t, d.Close())
	}
}

// What keys of caches say of the generators names all engines, in the order in which they
// are tried; the first that can runs a program, and what is said of it says why not another.
func TestEngines(t *testing.T) {
	scan := "  block_scan_add.f32 x, x\n  loop 2, end\n  block_scan_add.f32 x, x\nend:\n"
	programs := map[string]string{"jit": sum, "strips": strings.Replace(sum, "  add", scan+"  add", 1), "too large": strings.Replace(sum, "  stg", strings.Repeat("  mul.f32 x, x, y\n", 4200)+"  stg", 1)}
	for _, l := range wholeLevels() {
		b, err := cpu.NewFor(1, l)
		if err != nil {
			continue
		}
		infos, err := b.Devices()
		require.NoError(t, err)
		name := fmt.Sprintf("%s/%v", jit.Version, l)
		if l == jit.None {
			require.Equal(t, runtime.GOARCH+" "+lookup.Version+" strips/1", infos[0].Codegen)
			name = "strips/1"
		} else {
			require.Equal(t, fmt.Sprintf("%s %s/%v %s %s+%s %[5]s strips/1+%[6]s strips/1", runtime.GOARCH, gemm.Version, l, lookup.Version, name, contraction.Version), infos[0].Codegen)
		}
		d, err := b.Open(0)
		require.NoError(t, err)
		for what, text := range programs {
			v := verify(t, text)
			f, _, err := ir.Canonical(v)
			require.NoError(t, err)
			k, err := d.Compile(&backends.Unit{Source: v, IR: f}, backends.Variant{})
			require.NoError(t, err)
			k.Release()
			engine := name
			if what != "jit" {
				engine = "strips/1"
			}
			require.Equal(t, engine, cpu.EngineOf(k), what)
			if l != jit.Detect() {
				continue
			}
			said, err := cpu.Explain(nil, f)
			require.NoError(t, err)
			if what == "jit" {
				require.Equal(t, engine, said)
			} else {
				require.Regexp(t, `^strips/1; jit cannot run (BLOCK_SCAN_ADD f32: the lanes of a block meet within|a program of this size: more than 4096 nodes)`, said)
			}
		}
	}
}

// Who is told to stop does, rather than trying another engine.
func TestEnginesStop(t *testing.T) {
	b := on(t, jit.AVX2, 1)
	d, err := b.Open(0)
	require.NoError(t, err)
	v := verify(t, strings.Replace(sum, "  stg", strings.Repeat("  mul.f32 x, x, y\n", 3000)+"  stg", 1))
	f, _, err := ir.Canonical(v)
	require.NoError(t, err)
	why := errors.New("interrupted")
	asked := 0
	stopping := work.New(func() error { asked++; return why })
	_, err = d.Compile(&backends.Unit{Source: v, IR: f, Work: stopping}, backends.Variant{})
	require.ErrorIs(t, err, why)
	require.Equal(t, 1, asked)
	_, err = cpu.Explain(work.New(func() error { return why }), f)
	require.ErrorIs(t, err, why)
}
