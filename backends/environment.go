package backends

import "os"

// Getenv reads a variable of the environment. Go keeps that of the process's beginning,
// which in a library need not be the one that its caller means: who knows that one puts
// it here.
var Getenv = os.Getenv
