//go:build !amd64

package accuracy

const hasFMA = false

func fmaVector(d, a, b, c *float32, n int) { panic("accuracy: no vector FMA") }
