//go:build !amd64 && !arm64

package fpenv

// Elsewhere the state is taken to be the standard one.
const standard = 0

func control() uint64   { return standard }
func setControl(uint64) {}
