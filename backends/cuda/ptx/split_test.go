package ptx

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWordsOfWhatABranchShows stores, at an address that may be misaligned, what
// a branch has shown to be 100. Taking the words by mov.b64 {lo, hi}, ptxas 12.9
// and the JIT of driver 580 store 100 twice (seen on an H200; 13.5 doesn't).
func TestWordsOfWhatABranchShows(t *testing.T) {
	text, err := fromText(t, `
program split
slot x u64
slot c u8
  shl.u64 at, r255, 6
  ldg.u64 v, x[index]
  loop 4, done
  set.ne.u64 p, 100, v
  bra go, !p
  exit
go:
  stg.u64 v, c[at + 4]
done:
  exit`).Text(Options{})
	require.NoError(t, err)
	require.Contains(t, text, "st.global.u8")
	require.NotContains(t, text, "mov.b64 {")
}

// TestNegationsStandAlone takes maxima of numbers and their negatives. Of
// sub.s32 d, 0, a ptxas 12.9 and the JIT of driver 580 lose the sign where they
// make a maximum of three (seen on an H200; 13.5 doesn't); a product with −1 is
// the same to them.
func TestNegationsStandAlone(t *testing.T) {
	for _, negation := range []string{"neg.i32 y, y", "sub.i32 y, 0, y", "mul.i32 y, y, -1", "mul.i32 y, -1, y", "abs.i32 y, y", "div.i32 y, y, -1",
		"div.i32 y, y, x"} {
		text, err := fromText(t, `
program negations
slot a i32
slot c i32
  ldg.i32 x, a[index]
  add.i32 y, x, x
  loop 4, done
  `+negation+`
  max.i32 x, x, y
done:
  stg.i32 x, c[index]
  exit`).Text(Options{})
		require.NoError(t, err)
		require.Contains(t, text, "max.s32")
		require.NotContains(t, text, "sub.s32")
		require.NotContains(t, text, "neg.s32")
		require.NotRegexp(t, `mul\.lo\.s32 .*, -1[,;]`, text)
	}
}
