//go:build !amd64

package gemm

import "errors"

// Available reports whether this machine has units: none but NoUnits.
func Available(u Units) error {
	if u == NoUnits {
		return nil
	}
	return errors.New("the processor is another one")
}
