package driver

import (
	"bytes"
	"os"
)

// Build names the driver's build as the kernel's module does, which drivers of one CUDA version
// have several of, each with its own compiler of PTX; "" where nothing says it.
func Build() string {
	said, err := os.ReadFile("/proc/driver/nvidia/version")
	if err != nil {
		return ""
	}
	line, _, _ := bytes.Cut(said, []byte("\n"))
	return string(line)
}
