package ptx

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/isa"
)

func fromText(t *testing.T, text string) *Program {
	p, err := isa.Assemble("test", text)
	require.NoError(t, err)
	v, err := isa.Verify(p)
	require.NoError(t, err)
	return compiled(t, "test", v).p
}

// How many elements a lane does follows from types and length.
func TestElementsOfALane(t *testing.T) {
	chain := func(typ string, n int) string {
		return "slot a " + typ + "\nslot b " + typ + "\n ldg." + typ + " x, a[index]\n ldg." + typ + " y, b[index]\n" +
			strings.Repeat(" mul."+typ+" x, x, y\n add."+typ+" x, x, y\n", n) + " stg." + typ + " x, b[index]\n exit"
	}
	// live has that many values at a time, but constants, and so many operations more.
	live := func(typ string, values, more int) string {
		text := "slot a " + typ + "\n ldg." + typ + " x, a[index]\n"
		for i := 1; i < values; i++ {
			text += fmt.Sprintf(" mul.%s v%d, x, %d\n", typ, i, i+2)
		}
		for i := range more {
			text += fmt.Sprintf(" add.%s x, x, %d\n", typ, i+20)
		}
		for i := 1; i < values; i++ {
			text += fmt.Sprintf(" mul.%s x, x, v%d\n", typ, i)
		}
		return text + " stg." + typ + " x, a[index]\n exit"
	}
	for _, c := range []struct {
		text           string
		vector, groups int
	}{
		{live("bf16", 3, 20), 8, 4},
		{live("f16", 3, 20), 8, 4},
		{live("bf16", 12, 5), 8, 2},
		{live("f32", 3, 20), 4, 2},
		{chain("f32", 1), 4, 2},
		{chain("f64", 1), 2, 2},
		{chain("f64", 20), 2, 1},
		{chain("bf16", 1), 8, 2},
		{chain("bf16", 30), 8, 4},
		{chain("i8", 1), 8, 2},
		{chain("f32", 150), 4, 1},
		{chain("f32", 400), 2, 1},
		{chain("f32", 1200), 0, 0},
	} {
		p := fromText(t, c.text)
		require.Equal(t, [2]int{c.vector, c.groups}, [2]int{p.Vector, p.Groups})
	}
}

// Memory is accessed 16 bytes at a time, and each access has its own element.
func TestWideAccesses(t *testing.T) {
	p := fromText(t, "slot a f32\nslot h f16\nslot c f32\n ldg.f32 x, a[index]\n ldg.f16 y, h[index]\n cvt.f32.f16 y, y\n add.f32 x, x, y\n stg.f32 x, c[index]\n exit")
	text, err := p.Text(Options{Lanes: VectorLanes, Vector: p.Vector, Groups: 2})
	require.NoError(t, err)
	body, tail, _ := strings.Cut(text, "tail:")
	for _, want := range []string{
		"ld.global.v4.f32 {%f0, %f1_0, %f2_0, %f3_0}, [%at0];", "ld.global.v4.f32 {%f4_0, %f5_0, %f6_0, %f7_0}, [%at0+2048];",
		"[%at1+1024];", "st.global.v4.f32 [%at2], ", "st.global.v4.f32 [%at2+2048], ",
	} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, tail, ".v4")
	require.Equal(t, 1, strings.Count(tail, "st.global"))
}

// In a space of rows, a lane's run lies in one, and what a row has one of is loaded once
// for it.
func TestWideAccessesInRows(t *testing.T) {
	p := fromText(t, "slot a f32\nslot s f32\nslot w f32\nslot c f32\n ldg.f32 x, a[index]\n ldg.f32 y, s[index]\n ldg.f32 z, w[index]\n fma.f32 x, x, y, z\n stg.f32 x, c[index]\n exit")
	launch := func(rows, cols int64, strides ...[2]int64) *backends.Launch {
		l := &backends.Launch{Rank: 2, N: uint64(rows * cols), Shape: [isa.MaxRank]int64{rows, cols}}
		for _, s := range strides {
			l.Slots = append(l.Slots, backends.View{Addr: 1 << 20, Type: isa.F32, Rank: 2, Shape: l.Shape, Stride: [isa.MaxRank]int64{s[0], s[1]}})
		}
		return l
	}
	for _, c := range []struct {
		name   string
		l      *backends.Launch
		single uint64
		odd    bool
		ok     bool
	}{
		{"rows", launch(100, 48, [2]int64{48, 1}, [2]int64{1, 0}, [2]int64{0, 1}, [2]int64{48, 1}), 1 << 1, false, true},
		{"spaced rows", launch(100, 48, [2]int64{64, 1}, [2]int64{3, 0}, [2]int64{0, 1}, [2]int64{52, 1}), 1 << 1, false, true},
		{"odd rows", launch(100, 51, [2]int64{51, 1}, [2]int64{1, 0}, [2]int64{3, 0}, [2]int64{51, 1}), 1<<1 | 1<<2, true, true},
		{"one for all odd rows", launch(100, 51, [2]int64{51, 1}, [2]int64{1, 0}, [2]int64{0, 0}, [2]int64{51, 1}), 1<<1 | 1<<2, true, true},
		{"odd rows with gaps", launch(100, 51, [2]int64{51, 1}, [2]int64{1, 0}, [2]int64{1, 0}, [2]int64{52, 1}), 0, false, false},
		{"odd rows and one along them", launch(100, 50, [2]int64{50, 1}, [2]int64{1, 0}, [2]int64{0, 1}, [2]int64{50, 1}), 0, false, false},
		{"rows shorter than a run", launch(100, 3, [2]int64{3, 1}, [2]int64{1, 0}, [2]int64{1, 0}, [2]int64{3, 1}), 0, false, false},
		{"rows an odd way apart", launch(100, 48, [2]int64{50, 1}, [2]int64{1, 0}, [2]int64{0, 1}, [2]int64{48, 1}), 0, false, false},
		{"columns", launch(100, 48, [2]int64{1, 100}, [2]int64{1, 0}, [2]int64{0, 1}, [2]int64{48, 1}), 0, false, false},
		{"all lanes of a row write one", launch(100, 48, [2]int64{48, 1}, [2]int64{1, 0}, [2]int64{0, 1}, [2]int64{1, 0}), 0, false, false},
		{"all rows write one", launch(100, 48, [2]int64{48, 1}, [2]int64{1, 0}, [2]int64{0, 1}, [2]int64{0, 1}), 0, false, false},
	} {
		var space Space
		p.Layout.Fuse(c.l, &space)
		single, odd, ok := p.Vectors(&space, c.l)
		require.Equal(t, c.ok, ok, c.name)
		if ok {
			require.Equal(t, c.single, single, c.name)
			require.Equal(t, c.odd, odd, c.name)
		}
	}
	text, err := p.Text(Options{Rank: 2, Lanes: VectorLanes, Vector: p.Vector, Groups: 2, Single: 1 << 1})
	require.NoError(t, err)
	body, tail, _ := strings.Cut(text, "tail:")
	for _, slot := range []int{0, 2} {
		for run := range 2 {
			require.Regexp(t, fmt.Sprintf(`ld.global.v4.f32 \{[^}]*\}, \[%%at%d_%d\];`, slot, run), body)
		}
	}
	require.Equal(t, 1, strings.Count(body, "[%at1_0];"))
	require.Equal(t, 1, strings.Count(body, "[%at1_1];"))
	require.Equal(t, 2, strings.Count(body, "st.global.v4.f32 [%at3_"))
	require.NotContains(t, tail, ".v4")
	require.Equal(t, 3, strings.Count(text, "div.u32"), "one for each run, and one for an element of the tail")
}

// Where a row ends within a lane's run, what each row has one of is loaded for both, and
// each element has its row's.
func TestWideAccessesInOddRows(t *testing.T) {
	p := fromText(t, "slot a f32\nslot s f32\nslot c f32\n ldg.f32 x, a[index]\n ldg.f32 y, s[index]\n mul.f32 x, x, y\n stg.f32 x, c[index]\n exit")
	text, err := p.Text(Options{Rank: 2, Lanes: VectorLanes, Vector: p.Vector, Groups: 2, Single: 1 << 1, Odd: true})
	require.NoError(t, err)
	body, tail, _ := strings.Cut(text, "tail:")
	for run := range 2 {
		for slot, access := range map[int]string{0: "ld.global.v4.f32 {", 2: "st.global.v4.f32 ["} {
			require.Regexp(t, regexp.QuoteMeta(access)+fmt.Sprintf(`.*%%at%d_%d\]`, slot, run), body)
		}
		require.Equal(t, 1, strings.Count(body, fmt.Sprintf("[%%at1_%d];", run)))
		require.Equal(t, 1, strings.Count(body, fmt.Sprintf("[%%at1_%d_last];", run)))
	}
	require.Equal(t, 4, strings.Count(body, "selp.f32"), "for the two elements between of each run")
	require.NotContains(t, tail, "_last")
	require.Equal(t, 3, strings.Count(text, "div.u32"), "one for each run, and one for an element of the tail")
}

// Within constructs elements are loaded one by one, where a run has no two rows.
func TestOddRowsWithinConstructs(t *testing.T) {
	p := fromText(t, "slot a f32\nslot s f32\nslot c f32\n ldg.f32 x, a[index]\n loop 3, L0\n ldg.f32 y, s[index]\n mul.f32 x, x, y\nL0:\n stg.f32 x, c[index]\n exit")
	require.NotZero(t, p.Vector)
	for cols, ok := range map[int64]bool{48: true, 51: false} {
		l := &backends.Launch{Rank: 2, N: uint64(100 * cols), Shape: [isa.MaxRank]int64{100, cols}}
		for _, s := range [][2]int64{{cols, 1}, {1, 0}, {cols, 1}} {
			l.Slots = append(l.Slots, backends.View{Addr: 1 << 20, Type: isa.F32, Rank: 2, Shape: l.Shape, Stride: [isa.MaxRank]int64{s[0], s[1]}})
		}
		var space Space
		p.Layout.Fuse(l, &space)
		_, _, vectors := p.Vectors(&space, l)
		require.Equal(t, ok, vectors, cols)
	}
}

// What is proved is not checked; shared memory and slots by number are.
func TestProvedIsNotChecked(t *testing.T) {
	p := fromText(t, `
slot a u32
slot c u32
  sreg g, global_lane
  shl.u64 o, g, 2
  ldg.u32 x, a[o + 8]
  stg.u32 x, c[o - 0x123456789a]
  exit`)
	checked, err := p.Text(Options{})
	require.NoError(t, err)
	proved, err := p.Text(Options{Proved: true})
	require.NoError(t, err)
	require.Contains(t, checked, "mov.b32 %fault, 1")
	require.NotContains(t, proved, "mov.b32 %fault, 1")
	require.Less(t, strings.Count(proved, "setp"), strings.Count(checked, "setp"))
	require.Contains(t, proved, "+8]")
	require.Contains(t, proved, "-78187493530;", "a displacement beyond 32 bits is added")
}

// An offset so far below 0 that its sum with a register may wrap, to where it looks good, has
// the register itself compared: below 2⁶² an access before the slot is a fault.
func TestFarOffsetsAreNotTakenForGood(t *testing.T) {
	for offset, wraps := range map[int64]bool{math.MinInt64 + 8: true, -1 << 62: true, 1 - 1<<62: false, -8: false} {
		// What analysis knows nothing of is checked.
		p := fromText(t, fmt.Sprintf(`
slot a u32
slot b i64
slot c u32
  ldg.i64 o, b[index]
  ldg.u32 x, a[o - %d]
  stg.u32 x, c[index]
  exit`, uint64(-offset)))
		text, err := p.Text(Options{})
		require.NoError(t, err)
		least := regexp.MustCompile(fmt.Sprintf(`setp\.ge\.and\.s64 (%%tp\d+), %%rd\d+, %d, (%%tp\d+);`, -offset)).FindStringSubmatch(text)
		require.Equal(t, wraps, least != nil, "offset %d:\n%s", offset, text)
		if wraps {
			require.Equal(t, least[1], least[2], "beside what the sum is compared with")
		}
	}
}
