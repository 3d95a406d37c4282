// Package ptxas lets tests assemble PTX with NVIDIA's assembler, where there is one.
package ptxas

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Tool is where ptxas is; without one the test is skipped. It is in the Python
// package nvidia-cuda-nvcc. HOLOGRAM_PTXAS names it, else it is looked for in PATH.
func Tool(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("HOLOGRAM_PTXAS"); p != "" {
		return p
	}
	p, err := exec.LookPath("ptxas")
	if err != nil {
		t.Skip("there is no ptxas in PATH and HOLOGRAM_PTXAS names none; pip install nvidia-cuda-nvcc has it")
	}
	return p
}

// Usage is what ptxas reports of a kernel; stack and spills are bytes.
type Usage struct{ Registers, Stack, Spills int }

var (
	compiling  = regexp.MustCompile(`Compiling entry function '(\w+)'`)
	properties = regexp.MustCompile(`(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads`)
	registers  = regexp.MustCompile(`Used (\d+) registers`)
)

// Assemble runs ptxas on a module and returns what it says of each entry.
func Assemble(t testing.TB, tool, arch, module string) (map[string]Usage, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "m.ptx")
	require.NoError(t, os.WriteFile(file, []byte(module), 0o600))
	var out bytes.Buffer
	cmd := exec.Command(tool, "-v", "-arch="+arch, "-o", filepath.Join(dir, "m.cubin"), file)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("ptxas -arch=%s: %w\n%s", arch, err, firstLines(out.String(), 10))
	}
	all := map[string]Usage{}
	entry, u := "", Usage{}
	for _, line := range strings.Split(out.String(), "\n") {
		if m := compiling.FindStringSubmatch(line); m != nil {
			entry, u = m[1], Usage{}
		}
		if m := properties.FindStringSubmatch(line); m != nil {
			u.Stack, _ = strconv.Atoi(m[1])
			a, _ := strconv.Atoi(m[2])
			b, _ := strconv.Atoi(m[3])
			u.Spills = a + b
		}
		if m := registers.FindStringSubmatch(line); m != nil {
			u.Registers, _ = strconv.Atoi(m[1])
			all[entry] = u
		}
	}
	return all, nil
}

func firstLines(s string, n int) string {
	l := strings.SplitN(s, "\n", n+1)
	return strings.Join(l[:min(n, len(l))], "\n")
}
