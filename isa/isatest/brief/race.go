//go:build race

package brief

const raced = true
