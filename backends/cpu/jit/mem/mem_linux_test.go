package mem

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// The arena can be made in a process that may not give memory the right to be
// executed later (PR_SET_MDWE).
func TestUnderMDWE(t *testing.T) {
	const child = "HOLOGRAM_MDWE_CHILD"
	if os.Getenv(child) == "" {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestUnderMDWE$", "-test.v")
		cmd.Env = append(os.Environ(), child+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		if strings.Contains(string(out), "--- SKIP") {
			t.Skipf("%s", out)
		}
		return
	}
	if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil {
		t.Skipf("this kernel has no PR_SET_MDWE: %v", err)
	}
	p, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	require.Error(t, unix.Mprotect(p, unix.PROT_READ|unix.PROT_EXEC), "the rule is not in force")
	_, err = New(1 << 16)
	require.NoError(t, err)
}
