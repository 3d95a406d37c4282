//go:build !cgo || !linux

package driver

import (
	"sync"
	"sync/atomic"

	"github.com/ebitengine/purego"

	"github.com/hologram-project/hologram/backends/hostmem"
)

// words keeps those alive that the driver knows.
var words sync.Map

// NewWord makes a word. It lasts until Free.
func NewWord() *Word {
	w := new(Word)
	words.Store(w, nil)
	return w
}

// Free frees the word, which nobody is going to set any more.
func (w *Word) Free() { words.Delete(w) }

// TellGone is a C function that sets a Word.
var TellGone = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(word uintptr) uintptr {
		atomic.StoreUint32(&(*Word)(hostmem.Pointer(word)).gone, 1)
		return 0
	})
})
