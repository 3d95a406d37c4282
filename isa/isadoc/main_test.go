package main

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/hostmem"
	"github.com/hologram-project/hologram/backends/interp"
	"github.com/hologram-project/hologram/isa"
)

func TestCommittedFilesAreUpToDate(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	for name, generate := range outputs {
		want, err := generate(root)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: run go generate ./isa/isadoc", name)
		}
	}
}

func TestPageHasEveryInstructionOnce(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := page(root)
	if err != nil {
		t.Fatal(err)
	}
	for op := isa.NoOp + 1; op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		if n := strings.Count(string(text), "\n#### "+row.Name+"\n"); n != 1 {
			t.Errorf("%s has %d entries", row.Name, n)
		}
		if !strings.Contains(string(text), row.Doc) {
			t.Errorf("the doc of %s is missing", row.Name)
		}
	}
}

// What the examples compute, from slots of the given contents, in a launch over
// an index space in blocks of 64.
func TestExamples(t *testing.T) {
	u32 := func(v ...uint32) (b []byte) {
		for _, x := range v {
			b = binary.LittleEndian.AppendUint32(b, x)
		}
		return b
	}
	f32 := func(v ...float32) []byte {
		bits := make([]uint32, len(v))
		for i, x := range v {
			bits[i] = math.Float32bits(x)
		}
		return u32(bits...)
	}
	up, down := make([]uint32, 128), make([]uint32, 128)
	for i := range up {
		up[i], down[i^63] = uint32(i), uint32(i)
	}
	ran := 0
	for name, c := range map[string]struct {
		sizes  []int64
		params []uint64
		slots  [][]byte
		last   []byte // slot afterwards
	}{
		"mul_add_relu": {[]int64{3}, nil, [][]byte{f32(1, 2, -3), f32(2, -3, 4), f32(0, 0, 0)}, f32(3, 0, 0)},
		"row_sums":     {[]int64{2}, []uint64{3}, [][]byte{f32(1, 2, 3, 4, 5, 6), f32(0, 0)}, f32(6, 15)},
		"reverse":      {[]int64{128}, nil, [][]byte{u32(up...), u32(up...)}, u32(down...)},
		"histogram":    {[]int64{7}, nil, [][]byte{u32(3, 0, 9, 3, 10, 3, 1000), u32(make([]uint32, 10)...)}, u32(1, 0, 0, 3, 0, 0, 0, 0, 0, 1)},
		"transpose":    {[]int64{2, 3}, nil, [][]byte{u32(1, 2, 3, 4, 5, 6), u32(0, 0, 0, 0, 0, 0)}, u32(1, 4, 2, 5, 3, 6)},
	} {
		ran++
		text, err := example(name)
		require.NoError(t, err)
		p, err := isa.Assemble(name, text)
		require.NoError(t, err)
		v, err := isa.Verify(p)
		require.NoError(t, err)
		d, err := interp.New().Open(0)
		require.NoError(t, err)
		k, err := d.Compile(&backends.Unit{Source: v}, backends.Variant{})
		require.NoError(t, err)
		s, err := d.NewStream()
		require.NoError(t, err)
		n := int64(1)
		for _, size := range c.sizes {
			n *= size
		}
		l := &backends.Launch{Params: c.params, Grid: [3]uint32{uint32(n+63) / 64, 1, 1}, Block: [3]uint32{64, 1, 1},
			Rank: 1, N: uint64(n), Sizes: c.sizes, Record: new(backends.Record)}
		l.Shape[0] = n
		for i, data := range c.slots {
			m, err := d.Alloc(int64(len(data)))
			require.NoError(t, err)
			copy(hostmem.Bytes(m.Addr, m.Bytes), data)
			view := backends.View{Addr: m.Addr, Bytes: int64(len(data)), Type: p.Slots[i].Type, Rank: 1}
			view.Shape[0], view.Stride[0] = int64(len(data)/4), 1
			l.Slots = append(l.Slots, view)
			flat, _ := backends.FlatOf(&view)
			l.Flats = append(l.Flats, flat)
		}
		_, err = s.Launch(k, l)
		require.NoError(t, err)
		require.NoError(t, l.Record.Outcome())
		last := l.Slots[len(l.Slots)-1]
		require.Equal(t, c.last, bytes.Clone(hostmem.Bytes(last.Addr, last.Bytes)), name)
	}
	files, err := examples.ReadDir("examples")
	require.NoError(t, err)
	require.Len(t, files, ran, "examples that are run")
}
