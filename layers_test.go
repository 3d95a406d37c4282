// Package hologram has no code of its own: this test keeps the import rule of
// the folders below.
package hologram

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/hologram-project/hologram"

// layers says which of our folders a folder's code may import beside itself.
// Tests may import more: an oracle, a backend to run on.
var layers = map[string][]string{
	"isa":      {},
	"kernels":  {"isa"},
	"backends": {"isa", "kernels"},
	"core":     {"isa", "kernels", "backends"},
	"capi":     {"core"},
}

// within are rules for folders inside a layer: what they must not import. Those of a
// backend hold for all folders below it.
var within = []struct{ folder, not string }{
	{"isa", "isa/ir"}, // the package isa itself, of which all else is made
	{"backends/interp", "backends/cpu"},
	{"backends/cuda", "backends/interp"}, {"backends/cuda", "backends/cpu"},
	{"backends/interp", "isa/ir"}, // the judge runs programs as written
	{"backends/cpu", "backends/interp"}, {"backends/cpu", "backends/cuda"},
	{"isa/graph", "isa"},
	// Core's rooms, from the lowest up: lock, which knows of none, profile, which knows of lock,
	// status, memory, then program and queue, which don't know each other, then call.
	{"core/lock", "core/profile"}, {"core/lock", "core/status"}, {"core/lock", "core/memory"}, {"core/lock", "core/program"}, {"core/lock", "core/queue"},
	{"core/lock", "core/call"}, {"core/lock", "core"},
	{"core/profile", "core/status"}, {"core/profile", "core/memory"}, {"core/profile", "core/program"}, {"core/profile", "core/queue"},
	{"core/profile", "core/call"}, {"core/profile", "core"},
	{"core/status", "core/memory"}, {"core/status", "core/program"}, {"core/status", "core/queue"}, {"core/status", "core/call"},
	{"core/status", "core"},
	{"core/memory", "core/program"}, {"core/memory", "core/queue"}, {"core/memory", "core/call"}, {"core/memory", "core"},
	{"core/program", "core/queue"}, {"core/program", "core/call"}, {"core/program", "core"},
	{"core/queue", "core/program"}, {"core/queue", "core/call"}, {"core/queue", "core"},
	{"core/call", "core"},
}

func TestImportRule(t *testing.T) {
	files := 0
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.ContainsAny(d.Name()[:1], "._") && name != "." {
			if err == nil {
				err = fs.SkipDir
			}
			return err
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		folder := path.Dir(filepath.ToSlash(name))
		layer, _, _ := strings.Cut(folder, "/")
		allowed, known := layers[layer]
		if !known {
			t.Errorf("%s: no layer is called %s", name, layer)
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		files++
		for _, spec := range f.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			ours, ok := strings.CutPrefix(imported, module+"/")
			if !ok {
				continue
			}
			to, _, _ := strings.Cut(ours, "/")
			if to != layer && !slices.Contains(allowed, to) {
				t.Errorf("%s imports %s: %s may import %v", name, ours, layer, allowed)
			}
			for _, w := range within {
				engine := strings.HasPrefix(w.folder, "backends/") && strings.HasPrefix(folder, w.folder+"/")
				if (folder == w.folder || engine) && (ours == w.not || strings.HasPrefix(ours, w.not+"/") && layer == "backends") {
					t.Errorf("%s imports %s, which %s must not", name, ours, w.folder)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Errorf("saw only %d files", files)
	}
}
