//go:build !amd64

package gemm

import "errors"

// Available reports whether this machine has units: none but NoUnits.
func Available(u Units) error {
	if u == NoUnits {
		return nil
	}
	return errors.New("AVX512-VNNI is missing: the processor is no x86-64")
}
