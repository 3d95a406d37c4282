package ptx

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What lies side by side is accessed at once, as wide as its address is known to be
// aligned, where nothing comes between.
func TestNeighbours(t *testing.T) {
	four := func(shift int, between string) string {
		return fmt.Sprintf(`
slot a i32
slot c i32
slot d i32
  shl.u64 o, r255, %d
  ldg.i32 x, a[o]
  ldg.i32 y, a[o + 4]
  %s
  ldg.i32 z, a[o + 8]
  ldg.i32 w, a[o + 12]
  add.i32 y, y, 1
  stg.i32 w, c[o]
  stg.i32 y, c[o + 12]
  stg.i32 x, c[o + 4]
  stg.i32 z, c[o + 8]
  exit`, shift, between)
	}
	wide := Options{Proved: true, Aligned: true, Modern: true}
	for _, c := range []struct {
		what, text string
		o          Options
		loads      [2]int // of four elements, and of two
		stores     [2]int
	}{
		{"side by side", four(4, ""), wide, [2]int{1, 0}, [2]int{1, 0}},
		{"at multiples of 8", four(3, ""), wide, [2]int{0, 2}, [2]int{0, 2}},
		{"at multiples of 4", four(2, ""), wide, [2]int{}, [2]int{}},
		{"slots not aligned", four(4, ""), Options{Proved: true}, [2]int{}, [2]int{}},
		{"checked", four(4, ""), Options{Aligned: true}, [2]int{}, [2]int{}},
		{"a store between", four(4, "stg.i32 x, a[o + 8]"), wide, [2]int{0, 2}, [2]int{1, 0}},
		{"a barrier between", four(4, "bar_sync 0"), wide, [2]int{0, 2}, [2]int{1, 0}},
		{"loads between stores", strings.Replace(four(4, ""), "stg.i32 x, c[o + 4]", "stg.i32 x, c[o + 4]\n  ldg.i32 z, c[o + 4]", 1), wide, [2]int{1, 0}, [2]int{0, 1}},
		{"the same twice", strings.Replace(four(4, ""), "stg.i32 x, c[o + 4]", "stg.i32 x, c[o + 12]", 1), wide, [2]int{1, 0}, [2]int{0, 1}},
	} {
		text, err := fromText(t, c.text).Text(c.o)
		require.NoError(t, err)
		count := func(what string, v int) int { return strings.Count(text, fmt.Sprintf("%s.global.v%d.", what, v)) }
		require.Equal(t, c.loads, [2]int{count("ld", 4), count("ld", 2)}, c.what)
		require.Equal(t, c.stores, [2]int{count("st", 4), count("st", 2)}, c.what)
	}

	// Two bf16 are widened and rounded in a word.
	text, err := fromText(t, `
slot a bf16
slot c bf16
  shl.u64 o, r255, 2
  ldg.bf16 x, a[o]
  ldg.bf16 y, a[o + 2]
  cvt.f32.bf16 p, x
  cvt.f32.bf16 q, y
  add.f32 q, q, p
  cvt.bf16.f32 x, p
  cvt.bf16.f32 y, q
  stg.bf16 x, c[o]
  stg.bf16 y, c[o + 2]
  exit`).Text(wide)
	require.NoError(t, err)
	for _, want := range []string{"ld.global.b32", "0xffff0000", "cvt.rn.bf16x2.f32", "st.global.b32"} {
		require.Contains(t, text, want)
	}
}

// Blocks that meet do so at barriers before which they have written what others may read,
// and the driver is told how many. Others are a block's own.
func TestMeeting(t *testing.T) {
	p := fromText(t, `
slot c i32
shared 128
block 32
  stg.i32 1, c[index]
  bar_sync 0
  sreg q, lane.x
  mul.u32 at, q, 4
  sts.i32 1, shared[at]
  bar_sync 0
  loop 3, again
    bar_sync 0
again:
  set.eq.u32 first, q, 0
  bra kept, first
  stg.i32 2, c[index]
kept:
  bar_sync 0
  exit`)
	text, err := p.Text(Options{Block: 32, Modern: true, Meeting: 5})
	require.NoError(t, err)
	kinds := regexp.MustCompile(`barrier\.(cluster\.wait|sync)`).FindAllString(text[strings.Index(text, "stg.i32"):], -1)
	require.Equal(t, []string{"barrier.cluster.wait", "barrier.sync", "barrier.cluster.wait", "barrier.cluster.wait"}, kinds)
	for _, want := range []string{".target sm_90\n", ".reqnctapercluster 5, 1, 1", "barrier.cluster.arrive.release;", "barrier.cluster.wait.acquire;"} {
		require.Contains(t, text, want)
	}
	text, err = p.Text(Options{Block: 32, Modern: true})
	require.NoError(t, err)
	require.NotContains(t, text, "cluster")
}

// What they tell each other goes to the others' shared memory, once these have begun, and
// is waited for at the barrier; nothing goes by way of device memory.
func TestTold(t *testing.T) {
	for _, c := range []struct {
		typ, word string
		size      int
	}{{"f32", "b32", 4}, {"f64", "b64", 8}} {
		p := fromText(t, strings.ReplaceAll(`
slot x T
slot told T
slot y T
block 64
  ldg.T x, x[index]
  block_reduce_add.T s, x
  sreg q, lane.x
  sreg b, block.x
  set.ne.u32 other, q, 0
  bra over, other
  cvt.u64.u32 to, b
  mul.u64 to, to, `+fmt.Sprint(c.size)+`
  stg.T s, told[to]
over:
  bar_sync 0
  div.u32 row, b, 3
  cvt.u64.u32 of, row
  mul.u64 of, of, `+fmt.Sprint(3*c.size)+`
  ldg.T a, told[of]
  ldg.T c, told[of + `+fmt.Sprint(2*c.size)+`]
  add.T a, a, c
  stg.T a, y[index]
  exit`, "T", c.typ))
		o := Options{Block: 64, Modern: true, Meeting: 3, Told: 1 << 1, Proved: true, Aligned: true}
		text, err := p.Text(o)
		require.NoError(t, err)
		require.Equal(t, 3, strings.Count(text, "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes."+c.word+" "))
		for _, want := range []string{
			".version 8.1\n", fmt.Sprintf("+%d], %d;", p.SharedBytes(64), 3*c.size),
			fmt.Sprintf("ld.shared.%s %%", c.typ), fmt.Sprintf("[%%shared+%d];", p.SharedBytes(64)+16+2*c.size),
		} {
			require.Contains(t, text, want)
		}
		require.Equal(t, 1, strings.Count(text, "ld.global."), "x alone")
		require.NotContains(t, text, "arrive.release")
		begun, told, heard := strings.Index(text, "barrier.cluster.wait;"), strings.Index(text, "st.async"), strings.Index(text, "mbarrier.try_wait")
		require.Less(t, strings.Index(text, "ld.global."), begun, "no load waits for the others to begin")
		require.Less(t, begun, told)
		require.Less(t, told, heard)
		require.Positive(t, o.ToldBytes())

		o.Told = 0 // not known to be so: through memory
		text, err = p.Text(o)
		require.NoError(t, err)
		require.Contains(t, text, "barrier.cluster.arrive.release;")
		require.NotContains(t, text, "st.async")
	}
}

// To have heard all blocks is a barrier only where nothing else lies before it: what lanes
// left in shared memory, or read where others write, waits for a barrier of its own.
func TestWhatIsToldIsNoBarrierForOthers(t *testing.T) {
	const told = "block_reduce_add.f32 s, x\nsreg q, lane.x\nset.ne.u32 other, q, 0\nbra over, other\nstg.f32 s, told[4]\nover:\n"
	for _, c := range []struct {
		before string
		whole  bool
	}{
		{"ldg.f32 x, x[index]\n" + told, false},
		{"ldg.f32 x, x[index]\n" + told + "sreg r, lane.x\nmul.u32 r, r, 4\nsts.f32 x, shared[r]\n", true},
		{"mov_imm.f32 x, 1\n" + told + "ldg.f32 x, x[index]\n", true},
		{"mov_imm.f32 x, 1\n" + strings.Replace(told, "over:", "ldg.f32 x, x[0]\nover:", 1), true},
		{"ldg.f32 x, x[index]\n" + strings.Replace(told, "stg.f32 s, told[4]", "stg.f32 s, told[4]\nstg.f32 s, y[0]", 1), true},
	} {
		p := fromText(t, "slot x f32\nslot told f32\nslot y f32\nshared 256\nblock 64\n"+c.before+
			"bar_sync 0\nldg.f32 a, told[0]\nadd.f32 a, a, x\nstg.f32 a, y[index]\nexit")
		text, err := p.Text(Options{Block: 64, Modern: true, Meeting: 3, Told: 1 << 1, Proved: true, Aligned: true})
		require.NoError(t, err)
		require.Contains(t, text, "mbarrier.try_wait", c.before)
		require.Equal(t, c.whole, strings.Contains(text, "barrier.cluster.arrive.release;"), c.before)
	}
}

// One over a number is a reciprocal, which is correctly rounded too; and a maximum
// with a number that is neither zero nor NaN takes one comparison of f64.
func TestShortForms(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"div.f64 x, 1, x", "rcp.rn.f64"}, {"div.f32 y, 1, y", "rcp.rn.f32"}, {"div.f64 x, 2, x", "div.rn.f64"},
		{"max.f64 x, x, -3", "setp.gtu.f64"}, {"min.f64 x, 3, x", "setp.ltu.f64"},
		{"max.f64 x, x, 0", "setp.nan.f64"}, {"min.f64 x, x, -0.0", "setp.nan.f64"},
	} {
		text, err := fromText(t, "slot a f64\nslot b f32\n  ldg.f64 x, a[index]\n  ldg.f32 y, b[index]\n  "+c.line+
			"\n  stg.f64 x, a[index]\n  stg.f32 y, b[index]\n  exit").Text(Options{})
		require.NoError(t, err)
		require.Contains(t, text, c.want, c.line)
	}
}
