package gemm

import (
	"sync"
	"unsafe"

	"github.com/hologram-project/hologram/backends/cpu/jit"
	"github.com/hologram-project/hologram/backends/cpu/jit/mem"
)

// Code is made when it is first needed, and kept: there are some hundreds of
// shapes, of 1 to 5 KB each.
type library struct {
	m    machine
	mu   sync.RWMutex
	made map[codeKey]*mem.Code
}

type codeKey struct {
	kind codeKind
	tile tile
}

type codeKind uint8

const (
	multiplies codeKind = iota
	copies
	transposes
	rowwise
)

var libraries = [2]library{{m: machine{false, 32}}, {m: machine{true, 64}}}

func (l *library) get(kind codeKind, s tile) (*mem.Code, error) {
	key := codeKey{kind, s}
	l.mu.RLock()
	c := l.made[key]
	l.mu.RUnlock()
	if c != nil {
		return c, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.made[key]; c != nil {
		return c, nil
	}
	var code []byte
	var err error
	switch kind {
	case multiplies:
		code, err = micro(l.m, s)
	case copies:
		code, err = copier(l.m, s)
	case transposes:
		code, err = transposer(s)
	case rowwise:
		code, err = byRows(l.m, s)
	}
	if err != nil {
		return nil, err
	}
	if c, err = jit.Put(code); err != nil {
		return nil, err
	}
	if l.made == nil {
		l.made = map[codeKey]*mem.Code{}
	}
	l.made[key] = c
	return c, nil
}

// call runs code on the worker's args.
func (w *worker) call(kind codeKind, s tile) {
	if w.err != nil {
		return
	}
	key := codeKey{kind, s}
	c := w.last
	if c == nil || w.lastKey != key {
		var err error
		if c, err = w.p.lib.get(kind, s); err != nil {
			w.err = err
			return
		}
		w.last, w.lastKey = c, key
	}
	jit.Enter(c, unsafe.Pointer(&w.args))
}
