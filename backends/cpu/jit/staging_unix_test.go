//go:build unix

package jit

import (
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
)

// What is staged is what lies at each element's place, whatever the strides, and goes back
// there; also where no byte before and behind may be read, and by what AVX2 has.
func TestStage(t *testing.T) {
	if err := Available(Detect()); err != nil {
		t.Skipf("%v", err)
	}
	const page = 4096
	mapped, err := syscall.Mmap(-1, 0, 66*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Munmap(mapped)) }()
	require.NoError(t, syscall.Mprotect(mapped[:page], syscall.PROT_NONE))
	require.NoError(t, syscall.Mprotect(mapped[65*page:], syscall.PROT_NONE))
	memory := mapped[page : 65*page]
	r := rand.New(rand.NewPCG(5, 6))
	for i := range memory {
		memory[i] = byte(r.Uint32())
	}
	want := slices.Clone(memory)
	combed := 0
	for _, target := range []*target{targetOf(AVX2), targetOf(Detect())} {
		c := &comber{}
		for round := range 20000 {
			size := int64(1) << r.IntN(4)
			w := view{size: size, rank: 1 + r.IntN(4)}
			n, low, high := int64(1), int64(0), int64(0)
			for i := range w.rank {
				w.shape[i] = int64(1 + r.IntN(6))
				if i == w.rank-1 {
					w.shape[i] = 1 + r.Int64N([]int64{4, 14, 150}[r.IntN(3)])
				}
				w.stride[i] = size * (r.Int64N(13) - 6)
				switch r.IntN(8) {
				case 0:
					w.stride[i] = r.Int64N(41) - 20 // of no whole elements
				case 1:
					w.stride[i] = r.Int64N(401) - 200
				}
				n *= w.shape[i]
				low, high = low+min(0, (w.shape[i]-1)*w.stride[i]), high+max(0, (w.shape[i]-1)*w.stride[i])
			}
			if high-low+size > int64(len(memory)) {
				continue
			}
			from := -low
			if round%2 == 0 { // to the end of what can be read
				from = int64(len(memory)) - size - high
			}
			w.base = uintptr(unsafe.Pointer(&memory[from]))
			g := r.Int64N(n)
			n = min(1+r.Int64N(n-g), stageLanes)
			if round%4 < 2 {
				g, n = 0, min(g+n, stageLanes)
			}
			buf := make([]byte, n*size+64)
			comb := c.combFor(target, &w)
			if comb != nil {
				combed++
			}
			w.stage(comb, unsafe.Pointer(&buf[0]), uint64(g), int(n), false)
			for i := range n {
				at := from + w.offset(uint64(g+i))
				if string(buf[i*size:][:size]) != string(memory[at:][:size]) {
					t.Fatalf("%+v, element %d of %d from %d on", w, i, n, g)
				}
			}
			w.stage(nil, unsafe.Pointer(&buf[0]), uint64(g), int(n), true) // the same again
		}
	}
	require.Equal(t, want, memory)
	require.Greater(t, combed, 10000)
}

// Rows and elements may have pages between them that nobody may read.
func TestStageBetweenHoles(t *testing.T) {
	if err := Available(Detect()); err != nil {
		t.Skipf("%v", err)
	}
	const page, rows = int64(4096), int64(12)
	memory, err := syscall.Mmap(-1, 0, int(2*rows*page), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Munmap(memory)) }()
	for i := range memory {
		memory[i] = byte(i * 7)
	}
	for row := range rows {
		require.NoError(t, syscall.Mprotect(memory[(2*row+1)*page:(2*row+2)*page], syscall.PROT_NONE))
	}
	for _, target := range []*target{targetOf(AVX2), targetOf(Detect())} {
		c := &comber{}
		for size := int64(1); size <= 8; size *= 2 {
			for n := int64(2); n < 140/size; n++ {
				for _, stride := range []int64{size, 0} {
					first := page - (n-1)*stride - size
					w := view{size: size, rank: 2, base: uintptr(unsafe.Pointer(&memory[first]))}
					w.shape[0], w.shape[1], w.stride[0], w.stride[1] = rows, n, 2*page, stride
					buf := make([]byte, rows*n*size+64)
					w.stage(c.combFor(target, &w), unsafe.Pointer(&buf[0]), 0, int(rows*n), false)
					for i := range rows * n {
						require.Equal(t, memory[first+w.offset(uint64(i)):][:size], buf[i*size:][:size])
					}
				}
			}
			for _, stride := range []int64{2 * page, -2 * page} { // so may elements
				first := page - size
				if stride < 0 {
					first += (rows - 1) * 2 * page
				}
				w := view{size: size, rank: 1, base: uintptr(unsafe.Pointer(&memory[first]))}
				w.shape[0], w.stride[0] = rows, stride
				buf := make([]byte, rows*size+64)
				w.stage(c.combFor(target, &w), unsafe.Pointer(&buf[0]), 0, int(rows), false)
				for i := range rows {
					require.Equal(t, memory[first+i*stride:][:size], buf[i*size:][:size])
				}
			}
		}
	}
}

// Behind all that is staged is room for a vector, which combs write to its end.
func TestStageHasRoom(t *testing.T) {
	k := adder(t)
	r := k.takeRun()
	defer k.giveBack(r)
	r.staging = true
	r.l = &backends.Launch{}
	r.v = (*k.variants.Load())[0]
	f := r.newFrame()
	f.enter(r)
	end := uintptr(unsafe.Pointer(unsafe.SliceData(f.room))) + uintptr(8*len(f.room))
	for i, at := range f.stages {
		if i > 0 {
			require.GreaterOrEqual(t, uintptr(at), uintptr(f.stages[i-1])+8*stageLanes+64)
		}
	}
	require.GreaterOrEqual(t, end, uintptr(f.stages[len(f.stages)-1])+8*stageLanes+64)
}

// What repeats itself need not be staged again where it is already, as far as it is wanted: not after less of it, or what
// begins elsewhere, nor what was another launch's.
func TestStagedAgain(t *testing.T) {
	k := adder(t)
	r := k.takeRun()
	defer k.giveBack(r)
	r.staging, r.piece = true, 96
	r.l, r.v = &backends.Launch{}, (*k.variants.Load())[0]
	f := r.newFrame()
	numbers := rand.New(rand.NewPCG(17, 18))
	memory := make([]uint32, 64) // beside the stack, which may move
	for cols := int64(2); cols < 20; cols++ {
		w := &r.views[0]
		*w = view{size: 4, access: staged, rank: 2, base: uintptr(unsafe.Pointer(&memory[0]))}
		w.shape[0], w.shape[1], w.stride[1] = 1000, cols, 8
		for range 20 {
			for i := range memory {
				memory[i] = numbers.Uint32()
			}
			f.enter(r)
			for range 20 {
				g, n := numbers.Uint64N(uint64(4*cols)), int(r.piece)
				if numbers.IntN(2) == 0 {
					n = 1 + numbers.IntN(n)
				}
				f.stage(0, g, n)
				for i, x := range unsafe.Slice((*uint32)(f.stages[0]), n) {
					if want := memory[(g+uint64(i))%uint64(cols)*2]; x != want {
						t.Fatalf("%d columns, %d from %d on: element %d is %d, to be %d", cols, n, g, i, x, want)
					}
				}
			}
		}
	}
	runtime.KeepAlive(memory)
}
