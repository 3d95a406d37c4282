//go:build race || lockorder

package core

const instrumented = true
