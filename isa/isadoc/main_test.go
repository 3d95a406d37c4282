package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hologram-project/hologram/isa"
)

func TestCommittedFilesAreUpToDate(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	for name, generate := range outputs {
		want, err := generate(root)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s is out of date: run go generate ./isa/isadoc", name)
		}
	}
}

func TestPageHasEveryInstructionOnce(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	text, err := page(root)
	if err != nil {
		t.Fatal(err)
	}
	for op := isa.NoOp + 1; op < isa.NumOps; op++ {
		row, _ := isa.Lookup(op)
		if n := strings.Count(string(text), "\n#### "+row.Name+"\n"); n != 1 {
			t.Errorf("%s has %d entries", row.Name, n)
		}
		if !strings.Contains(string(text), row.Doc) {
			t.Errorf("the doc of %s is missing", row.Name)
		}
	}
}

// The example at the top of the page must be a program.
func TestExampleAssembles(t *testing.T) {
	p, err := isa.Assemble("example", example)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := isa.Verify(p); err != nil {
		t.Error(err)
	}
}
