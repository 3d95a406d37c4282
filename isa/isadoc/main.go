// Command isadoc writes what is generated from the instruction table: the
// reference page docs/isa.md, and the constants of python/hologram/_isa.py.
//
//	go run ./isa/isadoc
//
// The page is the template page.md.tmpl, filled from the table and the doc
// comments of package isa.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

//go:generate go run .

// outputs maps the files to what makes them, given the repository's root.
var outputs = map[string]func(root string) ([]byte, error){
	"docs/isa.md":             page,
	"python/hologram/_isa.py": python,
}

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, "isadoc:", err)
		os.Exit(1)
	}
}

func write() error {
	root, err := findRoot()
	if err != nil {
		return err
	}
	for name, generate := range outputs {
		text, err := generate(root)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(root, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// findRoot returns the folder of go.mod, here or above.
func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "go.mod"))
		if err == nil {
			return dir, nil
		}
		if parent := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && parent != dir {
			dir = parent
			continue
		}
		return "", fmt.Errorf("no go.mod here or above: %w", err)
	}
}
