package ptx

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// All of an area is 0, its last bytes too, whatever its size.
func TestPoolsAreCleared(t *testing.T) {
	for _, size := range []int{1, 8, 12, 63, 64} {
		text, err := fromText(t, fmt.Sprintf("slot c u8\n pool_alloc h, %d\n pool_load.u8 x, h, %d\n stg.u8 x, c[index]\n exit", size, size-1)).Text(Options{})
		require.NoError(t, err)
		words := (size + 7) / 8
		require.Equal(t, words, strings.Count(text, "st.local.u64 [%pool+"), "%d bytes", size)
		require.Contains(t, text, fmt.Sprintf("st.local.u64 [%%pool+%d], 0;", 8*(words-1)))
	}
	text, err := fromText(t, "slot c u8\n pool_alloc h, 77\n pool_load.u8 x, h, 76\n stg.u8 x, c[index]\n exit").Text(Options{})
	require.NoError(t, err)
	require.Regexp(t, `add\.u64 (\S+), %pool, 0;\n\s*add\.u64 \S+, \S+, 80;`, text)
}

// What is done under the lock, at an address that the machine's own atomics cannot take, other
// blocks see before the lock is free, and is seen by who has it next.
func TestLockedAtomicsAreFenced(t *testing.T) {
	text, err := fromText(t, "slot a u8\nslot x u32\n ldg.u32 x, x[index]\n cvt.u64.u32 o, x\n atom_add.u32 y, a[o], x\n exit").Text(Options{})
	require.NoError(t, err)
	_, locked, ok := strings.Cut(text, "lock_")
	require.True(t, ok)
	require.Regexp(t, `atom\.global\.cas\.b32 [^\n]*\n(?:[^\n]*\n){2}\s*membar\.gl;\n`, locked)
	require.Regexp(t, `membar\.gl;\n\s*atom\.global\.exch\.b32`, locked)
}

// Shared memory is clear before a lane of another warp writes there, of blocks that are whole too.
func TestSharedMemoryIsClearBeforeItIsUsed(t *testing.T) {
	text, err := fromText(t, "slot a f32\nshared 1024\nblock 256\n ldg.f32 x, a[index]\n sreg q, lane.x\n xor.u32 q, q, 128\n mul.u32 q, q, 4\n sts.f32 x, shared[q]\n block_reduce_add.f32 x, x\n lds.f32 y, shared[q]\n add.f32 x, x, y\n stg.f32 x, a[index]\n exit").Text(Options{Block: 256, Modern: true})
	require.NoError(t, err)
	cleared, store := strings.Index(text, "cleared_"), strings.Index(text, "st.shared.f32")
	require.Positive(t, cleared)
	require.Contains(t, text[strings.LastIndex(text[:store], "cleared_"):store], "barrier.sync 0;", "%s", text)
}
