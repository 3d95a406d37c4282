package mem

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// mapTwice maps a file in memory to be written, and to be executed. Pages take
// memory when they are first written.
func mapTwice(size int) (write []byte, exec uintptr, err error) {
	// Kernels from 6.3 on want to be told that the file is for code.
	fd, err := unix.MemfdCreate("hologram-code", unix.MFD_CLOEXEC|unix.MFD_EXEC)
	if err == unix.EINVAL {
		fd, err = unix.MemfdCreate("hologram-code", unix.MFD_CLOEXEC)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("memfd_create: %w", err)
	}
	defer func() { _ = unix.Close(fd) }() // the mappings keep the file
	if err := unix.Ftruncate(fd, int64(size)); err != nil {
		return nil, 0, fmt.Errorf("ftruncate: %w", err)
	}
	write, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, 0, fmt.Errorf("mmap to write: %w", err)
	}
	run, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Munmap(write)
		return nil, 0, fmt.Errorf("mmap to execute: %w", err)
	}
	return write, addressOf(run), nil
}
