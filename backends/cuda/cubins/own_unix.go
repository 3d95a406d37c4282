//go:build unix

package cubins

import (
	"fmt"
	"os"
	"syscall"
)

// own says that a folder is this user's, and that nobody else may write to it.
func own(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s is no folder", dir)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && int(s.Uid) != os.Geteuid() {
		return fmt.Errorf("%s belongs to user %d, and this is user %d", dir, s.Uid, os.Geteuid())
	}
	if mode := info.Mode().Perm(); mode&0o022 != 0 {
		return fmt.Errorf("others may write to %s (mode %o)", dir, mode)
	}
	return nil
}
