// Package cubins keeps machine code in files, so that a program is compiled once on
// a machine and not once in each process.
//
// A file is named by the hash of all that the code depends on, and begins with a
// checksum: what is damaged is not used. Files are written under another name and
// renamed, so that any number of processes may read and write one folder, and be
// killed meanwhile. The folder is the user's own: one that somebody else could write
// to is not used, since its files would be run. When files take more than the limit
// those used longest ago go.
package cubins

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hologram-project/hologram/backends"
)

// Variable is the environment's with the folder; "off": none is used.
var Variable = backends.NewVariable("HOLOGRAM_CACHE_DIR")

// DefaultLimit is how many bytes the files of a folder may have.
const DefaultLimit = 256 << 20

// Cache is a folder of machine code.
type Cache struct {
	dir   string
	limit int64

	mu      sync.Mutex
	written int64 // since the folder was last looked through
}

// ErrDamaged says that there was a file with something else than was written.
var ErrDamaged = errors.New("the file is damaged")

// Key is the hash of what the code depends on.
type Key [sha256.Size]byte

// KeyOf is the key of code that depends on parts, in order.
func KeyOf(parts ...string) (k Key) {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	h.Sum(k[:0])
	return k
}

// Folder is where machine code is kept, or "" where it is not to be.
func Folder() (string, error) {
	switch dir := Variable.Get(); dir {
	case "":
	case "off":
		return "", nil
	default:
		return dir, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "hologram", "cuda"), nil
}

// Open opens a folder, which is made if need be. The error says why it is not used.
func Open(dir string, limit int64) (*Cache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := own(dir); err != nil {
		return nil, err
	}
	return &Cache{dir: dir, limit: limit, written: limit}, nil // looked through at the first Put
}

const (
	magic  = "hologram cubin 1\n"
	header = len(magic) + sha256.Size
	suffix = ".cubin"
	// begun is in the names of files that are being written.
	begun = ".tmp-"
)

func (c *Cache) path(k Key) string { return filepath.Join(c.dir, hex.EncodeToString(k[:])+suffix) }

// sum is a file's checksum, which is of its key too: a file under another name is damaged.
func sum(k Key, code []byte) [sha256.Size]byte {
	return sha256.Sum256(append(append([]byte(nil), k[:]...), code...))
}

// mostCode is more bytes than any code has: a file of more is damaged, and isn't read.
const mostCode = 1 << 30

// Get returns the code of a key, nil if there is none. A damaged file is removed,
// and the error is ErrDamaged.
func (c *Cache) Get(k Key) ([]byte, error) {
	path := c.path(k)
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	if info.Size() > mostCode {
		return nil, c.damaged(path)
	}
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) { // removed meanwhile
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(b) <= header || string(b[:len(magic)]) != magic {
		return nil, c.damaged(path)
	}
	if want := sum(k, b[header:]); !bytes.Equal(b[len(magic):header], want[:]) {
		return nil, c.damaged(path)
	}
	if now := time.Now(); now.Sub(info.ModTime()) > time.Hour { // it is in use
		_ = os.Chtimes(path, now, now)
	}
	return b[header:], nil
}

func (c *Cache) damaged(path string) error {
	return errors.Join(fmt.Errorf("%s: %w", path, ErrDamaged), os.Remove(path))
}

// Put keeps the code of a key.
func (c *Cache) Put(k Key, code []byte) error {
	f, err := os.CreateTemp(c.dir, hex.EncodeToString(k[:8])+begun+"*")
	if err != nil {
		return err
	}
	check := sum(k, code)
	_, err = f.Write(slices.Concat([]byte(magic), check[:], code))
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), c.path(k))
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written += int64(header + len(code))
	if c.written <= c.limit/8 {
		return nil
	}
	c.written = 0
	return c.trim()
}

// file is one of the folder.
type file struct {
	path string
	size int64
	used time.Time
}

// files are those of ours in the folder, and those that were begun.
func (c *Cache) files() (kept, started []file, err error) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() {
			continue // removed meanwhile, or none of ours
		}
		f := file{filepath.Join(c.dir, e.Name()), info.Size(), info.ModTime()}
		switch name := e.Name(); {
		case strings.Contains(name, begun):
			started = append(started, f)
		case strings.HasSuffix(name, suffix) && len(name) == 2*sha256.Size+len(suffix):
			kept = append(kept, f)
		}
	}
	return kept, started, nil
}

// abandoned is after how long a file that is not complete has nobody to complete it.
const abandoned = time.Hour

// trim removes what was used longest ago until the rest is within 7/8 of the limit,
// and what others have left unfinished.
func (c *Cache) trim() error {
	kept, started, err := c.files()
	if err != nil {
		return err
	}
	for _, f := range started {
		if time.Since(f.used) > abandoned {
			_ = os.Remove(f.path)
		}
	}
	total := int64(0)
	for _, f := range kept {
		total += f.size
	}
	if total <= c.limit {
		return nil
	}
	slices.SortFunc(kept, func(a, b file) int { return a.used.Compare(b.used) })
	for _, f := range kept {
		if total <= c.limit/8*7 {
			break
		}
		if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		total -= f.size
	}
	return nil
}

// Info is what a folder holds.
type Info struct {
	Dir          string
	Files        int
	Bytes, Limit int64
}

// Info looks the folder through.
func (c *Cache) Info() (Info, error) {
	kept, _, err := c.files()
	i := Info{Dir: c.dir, Files: len(kept), Limit: c.limit}
	for _, f := range kept {
		i.Bytes += f.size
	}
	return i, err
}

// Clear removes all code, and what is unfinished, and returns how many files had code.
func (c *Cache) Clear() (removed int, err error) {
	kept, started, err := c.files()
	if err != nil {
		return 0, err
	}
	for i, f := range append(kept, started...) {
		if e := os.Remove(f.path); e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		} else if i < len(kept) {
			removed++
		}
	}
	return removed, err
}
