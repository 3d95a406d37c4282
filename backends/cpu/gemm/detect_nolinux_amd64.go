//go:build amd64 && !linux

package gemm

import "errors"

func askForTiles() error { return errors.ErrUnsupported }
