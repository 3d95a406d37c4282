//go:build cgo && linux

package driver

// #include <stdlib.h>
// #include "gone.h"
import "C"

import "unsafe"

// NewWord makes a word, in C's memory. It lasts until Free.
func NewWord() *Word { return (*Word)(C.calloc(1, C.size_t(unsafe.Sizeof(Word{})))) }

// Free frees the word, which nobody is going to set any more.
func (w *Word) Free() { C.free(unsafe.Pointer(w)) }

// TellGone is the C function that sets a Word.
func TellGone() uintptr { return uintptr(C.hologram_cuda_tell_gone) }
