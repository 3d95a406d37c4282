//go:build !lockorder

package lock

import "sync"

// Mutex is a mutex that has a place.
type Mutex[P any] struct{ sync.Mutex }

// RWMutex is sync's likewise.
type RWMutex[P any] struct{ sync.RWMutex }

// Check says that the goroutine may have to wait for what is as good as a lock.
func Check[P any]() {}

// Enter says that the goroutine has what is as good as a lock.
func Enter[P any]() {}

// Leave says that it has it no more.
func Leave[P any]() {}

// None says that code of others is about to run, for which no lock may be held.
func None() {}
