package hostmem

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages; a kernel that has none loses nothing but speed.
func adviseHuge(block []byte) { _ = unix.Madvise(block, unix.MADV_HUGEPAGE) }
