package ptx

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Loads go ahead of stores that may not touch their memory, so that not each is waited
// for, but by no more bytes than there are registers for; nor before what makes their
// address, nor past stores to their slot, nor past a barrier.
func TestLoadsAreAheadOfStores(t *testing.T) {
	const runs = 64
	program := func(from string) string {
		var b strings.Builder
		b.WriteString("slot x f32\nslot w f32\nslot y f32\nblock 32\n  sreg q, lane.x\n  cvt.u64.u32 o, q\n  mul.u64 o, o, 4\n")
		for k := range runs {
			fmt.Fprintf(&b, "  ldg.f32 x%d, x[o + %d]\n", k, 128*k)
		}
		b.WriteString("  bar_sync 0\n")
		for k := range runs {
			fmt.Fprintf(&b, "  ldg.f32 w, %s[o + %d]\n  mul.f32 z, x%d, w\n  stg.f32 z, y[o + %d]\n", from, 128*k, k, 128*k)
		}
		return b.String() + "  exit"
	}
	// shape has L for each load of the program's end and S for each store.
	shape := func(text string) string {
		var b strings.Builder
		_, end, _ := strings.Cut(text, "barrier.sync 0;")
		for line := range strings.Lines(end) {
			if strings.Contains(line, "ld.global") {
				b.WriteByte('L')
			} else if strings.Contains(line, "st.global") {
				b.WriteByte('S')
			}
		}
		return b.String()
	}
	o := Options{Block: 32, Modern: true, Aligned: true}
	text, err := fromText(t, program("w")).Text(o)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("LS", runs), shape(text), "what may be stray stays")
	o.Proved = true
	text, err = fromText(t, program("w")).Text(o)
	require.NoError(t, err)
	got := shape(text)
	require.Equal(t, runs, strings.Count(got, "L"))
	require.Equal(t, firstAhead/4+1, strings.Index(got, "S"))
	ahead, most := 0, 0
	for _, c := range got {
		if ahead += map[rune]int{'L': 4, 'S': -4}[c]; ahead > most {
			most = ahead
		}
	}
	require.LessOrEqual(t, most, mostAhead+4)
	require.Greater(t, most, 2*firstAhead)

	// Of the slot that is stored to, in the order that was written.
	text, err = fromText(t, program("y")).Text(o)
	require.NoError(t, err)
	require.Equal(t, strings.Repeat("LS", runs), shape(text))

	// An address that a load gives is there first.
	text, err = fromText(t, `
slot x f32
slot i u64
slot y f32
block 32
  sreg q, lane.x
  cvt.u64.u32 o, q
  mul.u64 o, o, 8
  ldg.f32 a, x[o]
  stg.f32 a, y[o]
  ldg.u64 at, i[o]
  ldg.f32 b, x[at]
  stg.f32 b, y[o + 1024]
  exit`).Text(o)
	require.NoError(t, err)
	at := strings.Index(text, "ld.global.u64")
	require.Less(t, at, strings.Index(text, "st.global.f32"))
	require.Less(t, at, strings.LastIndex(text, "ld.global.f32"))

	// What an atomic leaves behind a barrier is read behind both.
	text, err = fromText(t, `
slot x u32
slot c u32
slot y u32
block 32
  sreg q, lane.x
  cvt.u64.u32 o, q
  mul.u64 o, o, 4
  ldg.u32 a, x[o]
  stg.u32 a, y[o]
  bar_sync 0
  atom_add.u32 was, c[o], a
  ldg.u32 now, c[o]
  stg.u32 now, y[o + 1024]
  exit`).Text(o)
	require.NoError(t, err)
	atomic := strings.Index(text, "atom.global")
	require.Less(t, strings.Index(text, "st.global"), atomic)
	require.Less(t, atomic, strings.LastIndex(text, "ld.global"), "%s", text)
}
