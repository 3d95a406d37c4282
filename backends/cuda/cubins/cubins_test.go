package cubins_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/hologram-project/hologram/backends/cuda/cubins"
)

func open(t testing.TB, dir string, limit int64) *cubins.Cache {
	t.Helper()
	c, err := cubins.Open(dir, limit)
	require.NoError(t, err)
	return c
}

func files(t testing.TB, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, filepath.Join(dir, e.Name()))
	}
	return names
}

// What is put is there for others too, under its own key alone.
func TestPutAndGet(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	one, two := open(t, dir, 1<<20), open(t, dir, 1<<20)
	key, other := cubins.KeyOf("text", "sm_90"), cubins.KeyOf("tex", "tsm_90")
	require.NotEqual(t, key, other)
	got, err := one.Get(key)
	require.NoError(t, err)
	require.Nil(t, got)
	require.NoError(t, one.Put(key, []byte("code")))
	require.NoError(t, two.Put(key, []byte("code")))
	got, err = two.Get(key)
	require.NoError(t, err)
	require.Equal(t, "code", string(got))
	got, err = two.Get(other)
	require.NoError(t, err)
	require.Nil(t, got)
	require.Len(t, files(t, dir), 1)
}

// A file that says that it is huge, as one may that has nothing in it, is not read.
func TestHugeFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	c, key := open(t, dir, 1<<20), cubins.KeyOf("k")
	require.NoError(t, c.Put(key, []byte("some code")))
	require.NoError(t, os.Truncate(files(t, dir)[0], 1<<40))
	code, err := c.Get(key)
	require.ErrorIs(t, err, cubins.ErrDamaged)
	require.Nil(t, code)
	require.Empty(t, files(t, dir))
}

// Any change of a file is seen, and the file goes; so is a file under another name.
func TestDamagedFiles(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	c := open(t, dir, 1<<20)
	key := cubins.KeyOf("k")
	require.NoError(t, c.Put(key, []byte("some code")))
	path := files(t, dir)[0]
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	damaged := [][]byte{{}, []byte("x"), append(bytes.Clone(whole), 0)}
	for i := range whole {
		bad := bytes.Clone(whole)
		bad[i] ^= 0x10
		damaged = append(damaged, bad, whole[:i])
	}
	for _, bad := range damaged {
		require.NoError(t, os.WriteFile(path, bad, 0o600))
		got, err := c.Get(key)
		require.ErrorIs(t, err, cubins.ErrDamaged)
		require.Nil(t, got)
		require.Empty(t, files(t, dir))
	}
	other := cubins.KeyOf("other")
	require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%x.cubin", other)), whole, 0o600))
	_, err = c.Get(other)
	require.ErrorIs(t, err, cubins.ErrDamaged)
}

// The files stay within the limit: those used longest ago go, and what others have
// left unfinished, but nothing that is not ours.
func TestLimit(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	stranger, left := filepath.Join(dir, "notes.txt"), filepath.Join(dir, "0011.tmp-5")
	old := time.Now().Add(-3 * time.Hour)
	for _, name := range []string{stranger, left} {
		require.NoError(t, os.WriteFile(name, make([]byte, 5000), 0o600))
		require.NoError(t, os.Chtimes(name, old, old))
	}
	const limit = 20_000
	c := open(t, dir, limit)
	for i := range 40 {
		key := cubins.KeyOf(fmt.Sprint(i))
		require.NoError(t, c.Put(key, make([]byte, 1000)))
		at := old.Add(time.Duration(i) * time.Minute)
		require.NoError(t, os.Chtimes(filepath.Join(dir, fmt.Sprintf("%x.cubin", key)), at, at))
		got, err := c.Get(cubins.KeyOf("0")) // is used all the time
		require.NoError(t, err)
		require.Len(t, got, 1000, "%d", i)
	}
	info, err := c.Info()
	require.NoError(t, err)
	require.LessOrEqual(t, info.Bytes, int64(limit+limit/8))
	require.Greater(t, info.Bytes, int64(limit/2))
	require.NoFileExists(t, left)
	require.FileExists(t, stranger)
	got, err := c.Get(cubins.KeyOf("39"))
	require.NoError(t, err)
	require.NotNil(t, got)
	removed, err := c.Clear()
	require.NoError(t, err)
	require.Equal(t, info.Files, removed)
	require.Equal(t, []string{stranger}, files(t, dir))
}

// Many processes that each write little stay within the limit too.
func TestLimitOfManyProcesses(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	const limit = 20_000
	for i := range 60 {
		require.NoError(t, open(t, dir, limit).Put(cubins.KeyOf(fmt.Sprint(i)), make([]byte, 1000)))
	}
	info, err := open(t, dir, limit).Info()
	require.NoError(t, err)
	require.LessOrEqual(t, info.Bytes, int64(limit))
}

// What cannot be kept leaves nothing unfinished.
func TestPutThatFails(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	key := cubins.KeyOf("k")
	path := filepath.Join(dir, fmt.Sprintf("%x.cubin", key))
	require.NoError(t, os.MkdirAll(filepath.Join(path, "full"), 0o700))
	require.Error(t, open(t, dir, 1<<20).Put(key, []byte("code")))
	require.Equal(t, []string{path}, files(t, dir))
}

// A folder that others may write to is not used, nor one that is none.
func TestOwnership(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no such modes")
	}
	dir := t.TempDir()
	for _, mode := range []os.FileMode{0o770, 0o707, 0o777 | os.ModeSticky} {
		require.NoError(t, os.Chmod(dir, mode))
		_, err := cubins.Open(dir, 1)
		require.ErrorContains(t, err, "others may write")
	}
	require.NoError(t, os.Chmod(dir, 0o755))
	open(t, dir, 1)
	file := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := cubins.Open(file, 1)
	require.Error(t, err)
	if os.Geteuid() == 0 {
		require.NoError(t, os.Chown(dir, 12345, -1))
		_, err = cubins.Open(dir, 1)
		require.ErrorContains(t, err, "belongs to user 12345")
	}
}

// Links and folders under a key's name are not followed.
func TestNoLinks(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	c := open(t, dir, 1<<20)
	key := cubins.KeyOf("k")
	path := filepath.Join(dir, fmt.Sprintf("%x.cubin", key))
	if err := os.Symlink("/etc/hostname", path); err != nil {
		t.Skipf("no links here: %v", err)
	}
	got, err := c.Get(key)
	require.ErrorContains(t, err, "is no file")
	require.Nil(t, got)
}

// Many write and read one folder that is always too full: what is read is right.
func TestManyAtOnce(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o700))
	code := func(i int) []byte {
		b := make([]byte, 100+i*37)
		s := sha256.Sum256(fmt.Append(nil, i))
		for k := range b {
			b[k] = s[k%len(s)]
		}
		return b
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			c, err := cubins.Open(dir, 10_000)
			if err != nil {
				t.Error(err)
				return
			}
			for i := range 300 {
				k := i * 7 % 40
				got, err := c.Get(cubins.KeyOf(fmt.Sprint(k)))
				if err != nil || got != nil && !bytes.Equal(got, code(k)) {
					t.Errorf("%d: %v, %d bytes", k, err, len(got))
				}
				if err := c.Put(cubins.KeyOf(fmt.Sprint(k)), code(k)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wait.Wait()
	for _, f := range files(t, dir) {
		require.False(t, strings.Contains(f, ".tmp-"), f)
	}
}

// The folder comes from the environment, which may also say that there is none.
func TestFolder(t *testing.T) {
	t.Setenv(cubins.Variable.Name, "/some/where")
	dir, err := cubins.Folder()
	require.NoError(t, err)
	require.Equal(t, "/some/where", dir)
	t.Setenv(cubins.Variable.Name, "off")
	dir, err = cubins.Folder()
	require.NoError(t, err)
	require.Empty(t, dir)
	t.Setenv(cubins.Variable.Name, "")
	if runtime.GOOS == "linux" {
		t.Setenv("XDG_CACHE_HOME", "/x")
		dir, err = cubins.Folder()
		require.NoError(t, err)
		require.Equal(t, "/x/hologram/cuda", dir)
		t.Setenv("XDG_CACHE_HOME", "")
		t.Setenv("HOME", "")
		_, err = cubins.Folder()
		require.Error(t, err)
	}
}
