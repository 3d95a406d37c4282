package cuda

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends"
	"github.com/hologram-project/hologram/backends/cuda/cubins"
	"github.com/hologram-project/hologram/backends/cuda/driver"
	"github.com/hologram-project/hologram/isa"
)

// compileOnce opens a device of a new fake driver, as a process does, with a folder
// of code, and launches a program. It returns how often the driver compiled, and was
// given code to load.
func compileOnce(t *testing.T, dir, text string, level *int32) (compiled, loaded int) {
	t.Helper()
	return compileOn(t, newFake(), dir, text, level)
}

func compileOn(t *testing.T, f *fake, dir, text string, level *int32) (compiled, loaded int) {
	t.Helper()
	b := &Backend{load: func() (*driver.API, error) { return f.api, nil }, level: level, cubins: func() *cubins.Cache {
		c, err := cubins.Open(dir, 1<<20)
		require.NoError(t, err)
		return c
	}}
	d, err := b.Open(0)
	require.NoError(t, err)
	k := compileUnit(t, d, text, backends.Variant{})
	l := &backends.Launch{Rank: 1, Shape: [isa.MaxRank]int64{64}, N: 64, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{64, 1, 1}}
	for i := range uintptr(3) {
		l.Slots = append(l.Slots, backends.View{Addr: (i + 1) << 20, Type: isa.F32, Rank: 1, Shape: l.Shape, Stride: [isa.MaxRank]int64{1}})
	}
	require.NoError(t, k.(backends.Specializer).Specialize(l, false))
	require.NoError(t, k.(backends.Specializer).Specialize(l, true))
	require.Equal(t, f.calls["compile"] == 0 && f.calls["module of code"] > 0, k.(backends.Keeper).Kept())
	k.Release()
	require.NoError(t, d.Close())
	require.Equal(t, f.calls["link"], f.calls["link destroy"])
	require.Equal(t, f.calls["module"], f.calls["unload"])
	return f.calls["compile"], f.calls["module of code"]
}

// What one process has compiled, the next one loads; another program, or level of
// the compiler, is other code; and a damaged file is made anew, with a warning.
func TestCodeIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	var warnings []error
	saved := warn
	warn = func(err error) { warnings = append(warnings, err) }
	defer func() { warn = saved }()
	for i, c := range []struct {
		text     string
		level    *int32
		compiled int
	}{{fakeAdd, nil, 1}, {fakeAdd, nil, 0}, {fakeAdd + "\n", new(int32), 1}, {fakeAdd, new(int32), 0}, {fakeMul, nil, 1}, {fakeAdd, nil, 0}} {
		compiled, loaded := compileOnce(t, dir, c.text, c.level)
		require.Equal(t, []int{c.compiled, 1}, []int{compiled, loaded}, "%d", i)
	}
	require.Empty(t, warnings)

	names, err := filepath.Glob(filepath.Join(dir, "*.cubin"))
	require.NoError(t, err)
	require.Len(t, names, 3)
	for _, name := range names {
		require.NoError(t, os.Truncate(name, 60))
	}
	compiled, loaded := compileOnce(t, dir, fakeAdd, nil)
	require.Equal(t, []int{1, 1}, []int{compiled, loaded})
	require.Len(t, warnings, 1)
	require.ErrorIs(t, warnings[0], cubins.ErrDamaged)
	compiled, _ = compileOnce(t, dir, fakeAdd, nil)
	require.Zero(t, compiled)
}

// Code is of one device and driver: others' is made for them, and nobody is warned.
func TestCodeOfAnotherDevice(t *testing.T) {
	dir, warned, saved := filepath.Join(t.TempDir(), "cache"), 0, warn
	warn = func(error) { warned++ }
	defer func() { warn = saved }()
	other := func(change func(f *fake)) int {
		f := newFake()
		change(f)
		compiled, _ := compileOn(t, f, dir, fakeAdd, nil)
		return compiled
	}
	newer := func(f *fake) { f.api.Version += 10 }
	older := func(f *fake) {
		attribute := f.api.DeviceAttribute
		f.api.DeviceAttribute = func(v *int32, a driver.Attribute, d driver.Device) driver.Result {
			if a == driver.ComputeMinor {
				*v = 3
				return driver.Success
			}
			return attribute(v, a, d)
		}
	}
	for _, c := range []struct {
		change   func(f *fake)
		compiled int
	}{{func(*fake) {}, 1}, {newer, 1}, {older, 1}, {func(*fake) {}, 0}, {newer, 0}, {older, 0}} {
		require.Equal(t, c.compiled, other(c.change))
	}
	require.Zero(t, warned)
}

// Code for which far fewer lanes would be at work is compiled once more, with a cap.
// What the driver gives a program by itself is found out where that may be so alone.
func TestKeptCodeHasRoom(t *testing.T) {
	for _, c := range []struct {
		linked          int32
		compiled, alone int
	}{{33, 1, 0}, {40, 1, 0}, {48, 1, 1}, {72, 2, 1}, {255, 2, 1}} { // of 256 lanes: 6, 6, 5, 3 and 1 blocks
		f := newFake()
		f.linked = c.linked
		compiled, _ := compileOn(t, f, t.TempDir(), fakeAdd, nil)
		require.Equal(t, c.compiled, compiled, "%d registers", c.linked)
		require.Equal(t, c.compiled-1, f.calls["capped"])
		require.Equal(t, c.alone, f.calls["module"]-f.calls["module of code"])
	}
}

// A launch, which holds its stream, may be what has code compiled twice, and one of the
// two modules unloaded.
func TestALaunchMayCompileTwice(t *testing.T) {
	r := newFakeRigWith(t, fakeAdd, 3, func(f *fake, b *Backend) {
		f.linked = 72
		c, err := cubins.Open(t.TempDir(), 1<<20)
		require.NoError(t, err)
		b.cubins = func() *cubins.Cache { return c }
	})
	r.launch(t)
	require.Equal(t, 2, r.calls["compile"])
	require.NotZero(t, r.calls["unload"])
	r.run()
	r.close(t)
}

// Where blocks meet, any block fewer is too few; a program that says itself how many
// there are is left alone.
func TestStarved(t *testing.T) {
	const plain = ".visible .entry atlas()\n.maxntid 128, 1, 1\n{"
	meets := strings.Replace(plain, "\n{", "\n.explicitcluster\n.reqnctapercluster 4, 1, 1\n{", 1)
	says := strings.Replace(plain, "\n{", "\n.minnctapersm 4\n{", 1)
	for _, c := range []struct {
		text        string
		own, linked int32
		want        bool
	}{
		{plain, 121, 136, false}, {plain, 80, 128, true}, {meets, 121, 136, true}, {meets, 121, 128, false}, {meets, 136, 121, false},
		{says, 80, 128, false}, {"", 80, 128, false},
	} {
		require.Equal(t, c.want, starved(c.text, c.own, c.linked), "%+v", c)
	}
}

const fakeMul = "slot a f32\nslot b f32\nslot c f32\n ldg.f32 x, a[index]\n ldg.f32 y, b[index]\n mul.f32 x, x, y\n stg.f32 x, c[index]\n exit"

// Code that the driver does not take, such as another one's, is made anew too.
func TestCodeThatTheDriverRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	warned := 0
	saved, code := warn, fakeCode
	warn = func(error) { warned++ }
	defer func() { warn, fakeCode = saved, code }()
	compileOnce(t, dir, fakeAdd, nil)
	names, err := filepath.Glob(filepath.Join(dir, "*.cubin"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	c, err := cubins.Open(dir, 1<<20)
	require.NoError(t, err)
	var key cubins.Key
	name := filepath.Base(names[0])
	for i := range key {
		key[i] = hexOf(name[2*i])<<4 | hexOf(name[2*i+1])
	}
	require.NoError(t, c.Put(key, []byte("no code")))
	compiled, loaded := compileOnce(t, dir, fakeAdd, nil)
	require.Equal(t, []int{1, 1}, []int{compiled, loaded})
	require.Equal(t, 1, warned)
}

func hexOf(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// A folder that is not there to be had is none, which is said unless nobody wants it.
func TestNoFolder(t *testing.T) {
	warned, saved := 0, warn
	warn = func(error) { warned++ }
	defer func() { warn = saved }()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{"off", file, filepath.Join(file, "below")} {
		t.Setenv(cubins.Variable.Name, dir)
		require.Nil(t, openCubins())
	}
	require.Equal(t, 2, warned)
	t.Setenv(cubins.Variable.Name, filepath.Join(t.TempDir(), "new"))
	require.NotNil(t, openCubins())
}
