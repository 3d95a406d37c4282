package main

import "C"

import "github.com/hologram-project/hologram/core"

// environment_hold reads the environment for devices that open hereafter. A thread that has
// Python's lock calls it, without which another may change the environment meanwhile; for
// callers that have no such lock it is read when a device opens.
//
//export environment_hold
func environment_hold() { core.HoldEnvironment() }
