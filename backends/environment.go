package backends

import (
	"os"
	"sync/atomic"
)

// Variable is a variable of the environment.
type Variable struct {
	Name string
	held atomic.Pointer[string] // what Get gives; nil: it looks
}

var (
	variables []*Variable
	getenv    = os.Getenv
)

// NewVariable makes one that is read. It is for the start of the process.
func NewVariable(name string) *Variable {
	v := &Variable{Name: name}
	variables = append(variables, v)
	return v
}

// Get returns what the variable was when all were held last, or is.
func (v *Variable) Get() string {
	if held := v.held.Load(); held != nil {
		return *held
	}
	return getenv(v.Name)
}

// Environment has variables read by get. Go keeps the environment of the process's
// beginning, which in a library need not be the one that its caller means: who knows that
// one gives it here, at the start of the process.
func Environment(get func(name string) string) { getenv = get }

// HoldEnvironment reads all variables now, for Get: what others change of the environment
// they may change from now on.
func HoldEnvironment() {
	for _, v := range variables {
		text := getenv(v.Name)
		v.held.Store(&text)
	}
}
