package main

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/core"
)

// by calls what takes a handle, by whatever name C has for its type.
func by[H ~uint64, S ~int32](f func(H) S, h handle) int32 { return int32(f(H(h))) }

func asks[H ~uint64, W ~int32, C ~int8 | ~uint8, N ~uint64 | ~uint32, S ~int32](
	text func(H, W, *C, N, *N) S, h handle, which int32) (size int) {
	var n N
	text(H(h), W(which), nil, 0, &n)
	return int(n)
}

// TestTextsGoWithTheirProgram, even if only their sizes were asked for.
func TestTextsGoWithTheirProgram(t *testing.T) {
	const canonical = 2
	var programs [2]handle
	for i := range programs {
		p, err := core.Assemble("p.atlas", "program p\nslot c u32\nstg.u32 7, c[index]\nexit", nil)
		require.NoError(t, err)
		programs[i], err = register(kindProgram, p)
		require.NoError(t, err)
	}
	require.Positive(t, asks(go_program_text, programs[0], canonical))
	require.NotNil(t, lastText.Load())
	require.Zero(t, by(go_program_free, programs[1]))
	require.NotNil(t, lastText.Load(), "another program's")
	require.Zero(t, by(go_program_free, programs[0]))
	require.Nil(t, lastText.Load())
}

func textOf[H ~uint64, W ~int32, C ~int8 | ~uint8, N ~uint64 | ~uint32, S ~int32](
	text func(H, W, *C, N, *N) S, h handle, which int32) string {
	room := make([]byte, 1<<16)
	var n N
	if text(H(h), W(which), (*C)(unsafe.Pointer(&room[0])), N(len(room)), &n) != 0 {
		return ""
	}
	return string(room[:n])
}

// TestTextsAreThoseThatAreAskedFor, also after others for which there was no room, of the
// same program or another.
func TestTextsAreThoseThatAreAskedFor(t *testing.T) {
	const kinds = 5
	var programs [2]handle
	var texts [2][kinds]string
	for i, name := range []string{"p", "q"} {
		p, err := core.Assemble(name, "program "+name+"\nslot c u32\nstg.u32 7, c[index]\nexit", nil)
		require.NoError(t, err)
		programs[i], err = register(kindProgram, p)
		require.NoError(t, err)
		defer by(go_program_free, programs[i])
		for which := range int32(kinds) {
			texts[i][which] = textOf(go_program_text, programs[i], which)
			require.NotEmpty(t, texts[i][which], "text %d", which)
		}
	}
	for before := range 2 * kinds {
		for after := range 2 * kinds {
			asks(go_program_text, programs[before/kinds], int32(before%kinds))
			require.Equal(t, texts[after/kinds][after%kinds], textOf(go_program_text, programs[after/kinds], int32(after%kinds)), "%d after %d", after, before)
		}
	}
}
