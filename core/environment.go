package core

import "github.com/hologram-project/hologram/backends"

// Environment has variables of the environment read by get rather than by Go. It is for
// the start of the process.
func Environment(get func(name string) string) { backends.Environment(get) }

// HoldEnvironment reads them now, for devices that open hereafter.
func HoldEnvironment() { backends.HoldEnvironment() }

var numThreads = backends.NewVariable("HOLOGRAM_NUM_THREADS")
