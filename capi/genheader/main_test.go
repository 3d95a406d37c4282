package main

import (
	"os"
	"testing"
)

func TestGeneratedFilesAreUpToDate(t *testing.T) {
	functions, err := read("..")
	if err != nil {
		t.Fatal(err)
	}
	types, err := os.ReadFile("../types.h")
	if err != nil {
		t.Fatal(err)
	}
	table, err := pythonTable(functions)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"../hologram.h":     header(string(types), functions),
		"../exports.c":      wrappers(functions),
		"../python_table.c": table,
	} {
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is out of date: run go generate ./capi", path)
		}
	}
}
