package jit

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cpu/workers"
	"github.com/hologram-project/hologram/isa"
)

// Lanes give the same results in both ways, which code chooses by where results begin, of any number, and what
// lies around results stays.
func TestBothWays(t *testing.T) {
	pool := workers.New(1)
	defer pool.Close()
	r := rand.New(rand.NewPCG(3, 5))
	memory := make([]byte, 16*pageBytes)
	pages := memory[-uintptr(unsafe.Pointer(unsafe.SliceData(memory)))%pageBytes:]
	x, y, out := pages[:2*pageBytes], pages[4*pageBytes:6*pageBytes], pages[8*pageBytes:12*pageBytes]
	for i := range pages {
		pages[i] = byte(r.Uint32())
	}
	for _, level := range []Level{AVX2, AVX2 | Few, AVX512, AVX512 | Few} {
		if err := Available(level); err != nil {
			t.Run(level.String(), func(t *testing.T) { t.Skipf("%v is missing: %v", level, err) })
			continue
		}
		for _, ty := range []isa.Type{isa.U8, isa.U16, isa.U32, isa.U64} {
			k := kernelAt(t, level, fmt.Sprintf("program p\nslot a %[1]v\nslot b %[1]v\nslot c %[1]v\nldg.%[1]v x, a[index]\nldg.%[1]v y, b[index]\nxor.%[1]v z, x, y\nstg.%[1]v z, c[index]\nexit\n", ty))
			size := ty.Size()
			for _, at := range []int{0, size, 64, 128, alikeBytes, alikeBytes + size, pageBytes - 64} {
				for _, n := range []int{1, 7, 64, 255, 256, 257, 511, 512, 1000, 1024} {
					before := append([]byte(nil), out...)
					launch(t, k, pool, ty, n, x, y, out[at:])
					for i := range n * size {
						before[at+i] = x[i] ^ y[i]
					}
					require.True(t, bytes.Equal(before, out), "%v of %d %v at %d", level, n, ty, at)
				}
			}
		}
	}
	runtime.KeepAlive(memory)
}

// What rounds find from before the first is there in each of them, in both ways.
func TestBothWaysKeep(t *testing.T) {
	pool := workers.New(1)
	defer pool.Close()
	const n = 1000
	memory := make([]uint32, 8*n)
	all := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(memory))), 32*n)
	for _, level := range []Level{AVX2, AVX2 | Few, AVX512, AVX512 | Few} {
		if err := Available(level); err != nil {
			t.Run(level.String(), func(t *testing.T) { t.Skipf("%v is missing: %v", level, err) })
			continue
		}
		k := kernelAt(t, level, "program p\nslot a u32\nslot c u32\nldg.u32 x, a[index]\nmul.u32 y, x, 1000003\nxor.u32 y, y, 0x55aa1234\nadd.u32 z, y, 77777\nmul.u32 z, z, y\nxor.u32 z, z, x\nstg.u32 z, c[index]\nexit\n")
		for _, behind := range []int{0, 64} { // a page's multiple from what is read, and behind that
			for i := range n {
				memory[i] = uint32(i * i)
			}
			launch(t, k, pool, isa.U32, n, all[:4*n], all[4*pageBytes+behind:])
			for i := range uint32(n) {
				x := i * i
				y := x*1000003 ^ 0x55aa1234
				require.Equal(t, (y+77777)*y^x, memory[pageBytes+behind/4+int(i)], "%v, %d bytes behind, lane %d", level, behind, i)
			}
		}
	}
	runtime.KeepAlive(memory)
}

// Where results begin a little behind what is read, modulo a page, the last lanes are done first: of a copy onto
// memory that it reads itself, which only code that is handed it so can be asked for, each way that spoils
// nothing is the one that is taken.
func TestWayByPlace(t *testing.T) {
	pool := workers.New(1)
	defer pool.Close()
	const n = 4096
	memory := make([]uint32, 4*n)
	all := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(memory))), 16*n)
	for _, level := range []Level{AVX2, AVX512} {
		if err := Available(level); err != nil {
			t.Run(level.String(), func(t *testing.T) { t.Skipf("%v is missing: %v", level, err) })
			continue
		}
		k := kernelAt(t, level, "program p\nslot a u32\nslot c u32\nldg.u32 x, a[index]\nstg.u32 x, c[index]\nexit\n")
		for _, c := range []struct {
			behind int // bytes
			down   bool
		}{{-0x400, false}, {-64, false}, {0, false}, {4, true}, {64, true}, {0x100, true}, {alikeBytes, true}, {alikeBytes + 4, false},
			{pageBytes - 64, false}, {pageBytes, false}, {pageBytes + 64, true}, {64 - pageBytes, true}} {
			for i := range memory {
				memory[i] = uint32(i)
			}
			in, to := n, n+c.behind/4
			launch(t, k, pool, isa.U32, n, all[4*in:], all[4*to:])
			moved := true
			for i := range n {
				moved = moved && memory[to+i] == uint32(in+i)
			}
			require.Equal(t, c.behind == 0 || c.down == (c.behind > 0), moved, "%v, %d bytes behind", level, c.behind)
		}
	}
}

// One of what is read that begins a little before results is enough, whichever.
func TestWayByEachPlace(t *testing.T) {
	pool := workers.New(1)
	defer pool.Close()
	const n = 1024
	memory := make([]uint32, 8*n)
	all := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(memory))), 32*n)
	for _, level := range []Level{AVX2, AVX512} {
		if err := Available(level); err != nil {
			t.Run(level.String(), func(t *testing.T) { t.Skipf("%v is missing: %v", level, err) })
			continue
		}
		for _, slots := range []string{"ab", "ba"} {
			k := kernelAt(t, level, fmt.Sprintf("program p\nslot %c u32\nslot %c u32\nslot c u32\nldg.u32 x, a[index]\nldg.u32 y, b[index]\nxor.u32 z, x, y\nstg.u32 z, c[index]\nexit\n", slots[0], slots[1]))
			clear(memory)
			for i := range n {
				memory[i] = uint32(i + 1)
			}
			a, b, c := all, all[4*pageBytes+128:], all[64:]
			if slots[0] == 'b' {
				a, b = b, a
			}
			launch(t, k, pool, isa.U32, n, a, b, c)
			for i := range n {
				require.Equal(t, uint32(i+1), memory[16+i], "%v, slots %s", level, slots)
			}
		}
	}
}

// kernelAt is a program's kernel for a level.
func kernelAt(t *testing.T, level Level, text string) *Kernel {
	t.Helper()
	k, err := Compile(nil, canonical(t, text), level, func() (Program, error) { return nil, backends.ErrCancelled })
	require.NoError(t, err)
	t.Cleanup(k.Release)
	return k
}

// launch runs a kernel on the first n elements of each slot.
func launch(t *testing.T, k *Kernel, pool *workers.Pool, ty isa.Type, n int, slots ...[]byte) {
	t.Helper()
	l := &backends.Launch{N: uint64(n), Grid: [3]uint32{uint32(n+255) / 256, 1, 1}, Block: [3]uint32{256, 1, 1}, Rank: 1, Record: new(backends.Record)}
	l.Shape[0] = int64(n)
	for _, m := range slots {
		v := backends.View{Addr: uintptr(unsafe.Pointer(unsafe.SliceData(m))), Type: ty, Rank: 1, Bytes: int64(n * ty.Size())}
		v.Shape[0], v.Stride[0] = int64(n), 1
		l.Slots = append(l.Slots, v)
	}
	require.NoError(t, k.Run(l, pool))
}
