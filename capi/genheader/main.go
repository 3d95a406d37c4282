// Command genheader writes hologram.h, exports.c and python_table.c from the
// functions that the Go files of package capi export: run "go generate ./capi"
// after changing one. A line //hologram:quick in a function's comment says that
// it waits for nothing, so that Python's builtin keeps the interpreter's lock; a line
// //hologram:opens that it may open a device, so that the builtin has the environment
// read before it gives that lock back.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"log"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

const (
	goPrefix = "go_"
	cPrefix  = "hologram_"
	width    = 116 // of comments
)

// function is an exported function.
type function struct {
	name   string // without its prefix
	doc    string
	params []param
	result string // C type
	file   string
	quick  bool // its builtin keeps Python's lock: it does not wait
	opens  bool // it may open a device, for which its builtin has the environment read
}

type param struct{ ctype, name string }

func main() {
	log.SetFlags(0)
	log.SetPrefix("genheader: ")
	folder := "."
	if _, err := os.Stat(filepath.Join(folder, "types.h")); err != nil {
		folder = "capi"
	}
	functions, err := read(folder)
	if err != nil {
		log.Fatal(err)
	}
	types, err := os.ReadFile(filepath.Join(folder, "types.h"))
	if err != nil {
		log.Fatal(err)
	}
	write(filepath.Join(folder, "hologram.h"), header(string(types), functions))
	write(filepath.Join(folder, "exports.c"), wrappers(functions))
	table, err := pythonTable(functions)
	if err != nil {
		log.Fatal(err)
	}
	write(filepath.Join(folder, "python_table.c"), table)
}

func write(path, text string) {
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		log.Fatal(err)
	}
}

// read finds the exported functions in the order of files and lines.
func read(folder string) ([]function, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	sort.Slice(paths, func(i, k int) bool { return rank(paths[i]) < rank(paths[k]) })
	var list []function
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(fn.Name.Name, goPrefix) {
				continue
			}
			made, err := convert(fn)
			if err != nil {
				return nil, fmt.Errorf("%v: %w", set.Position(fn.Pos()), err)
			}
			made.file = strings.TrimSuffix(filepath.Base(path), ".go")
			list = append(list, made)
		}
	}
	return list, nil
}

// rank orders the header's sections as one would read them.
func rank(path string) string {
	order := []string{"library", "executor", "buffer", "dlpack", "program", "call", "batch", "event"}
	for i, name := range order {
		if filepath.Base(path) == name+".go" {
			return fmt.Sprintf("%02d", i)
		}
	}
	return "99" + path
}

func convert(fn *ast.FuncDecl) (function, error) {
	f := function{name: strings.TrimPrefix(fn.Name.Name, goPrefix)}
	if !strings.Contains(docLines(fn), "//export "+fn.Name.Name) {
		return f, fmt.Errorf("%s has no line //export %s", fn.Name.Name, fn.Name.Name)
	}
	f.doc = strings.ReplaceAll(strings.TrimSpace(fn.Doc.Text()), goPrefix, cPrefix)
	if !strings.HasPrefix(f.doc, cPrefix+f.name+" ") {
		return f, fmt.Errorf("the comment of %s must start with its name", fn.Name.Name)
	}
	f.quick = strings.Contains(docLines(fn), "//hologram:quick")
	f.opens = strings.Contains(docLines(fn), "//hologram:opens")
	for _, field := range fn.Type.Params.List {
		for _, name := range field.Names {
			t, err := ctype(field.Type, name.Name)
			if err != nil {
				return f, err
			}
			f.params = append(f.params, param{t, name.Name})
		}
	}
	if fn.Type.Results == nil || len(fn.Type.Results.List) != 1 {
		return f, fmt.Errorf("%s must have one result", fn.Name.Name)
	}
	var err error
	f.result, err = ctype(fn.Type.Results.List[0].Type, "")
	return f, err
}

func docLines(fn *ast.FuncDecl) string {
	if fn.Doc == nil {
		return ""
	}
	var b strings.Builder
	for _, c := range fn.Doc.List {
		b.WriteString(c.Text + "\n")
	}
	return b.String()
}

// ctype spells a Go type in C, with the blank or star that goes before a name.
func ctype(e ast.Expr, name string) (string, error) {
	constant := "const "
	if strings.HasSuffix(name, "_out") {
		constant = ""
	}
	switch t := e.(type) {
	case *ast.StarExpr:
		if isUnsafePointer(t.X) {
			return "void **", nil
		}
		inner, err := ctype(t.X, "_out")
		return constant + strings.TrimSuffix(inner, " ") + " *", err
	case *ast.SelectorExpr:
		if isUnsafePointer(t) {
			if name == "context" || name == "managed" || name == "host" { // not ours to declare const
				return "void *", nil
			}
			return constant + "void *", nil
		}
		if x, ok := t.X.(*ast.Ident); ok && x.Name == "C" {
			return t.Sel.Name + " ", nil
		}
	}
	return "", fmt.Errorf("parameter %s has a type that C does not know", name)
}

func isUnsafePointer(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == "unsafe" && s.Sel.Name == "Pointer"
}

func (f *function) prototype() string {
	params := make([]string, len(f.params))
	for i, p := range f.params {
		params[i] = p.ctype + p.name
	}
	if len(params) == 0 {
		params = []string{"void"}
	}
	return fmt.Sprintf("%s%s%s(%s)", f.result, cPrefix, f.name, strings.Join(params, ", "))
}

// wrap breaks text into lines after an indentation.
func wrap(text, first, rest string) string {
	var b strings.Builder
	line := first
	for _, word := range strings.Fields(text) {
		if len([]rune(line))+len([]rune(word)) > width {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = rest
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " "))
	return b.String()
}

// breakPrototype puts the parameters of a long prototype on several lines.
func breakPrototype(text string) string {
	if len(text) <= width {
		return text
	}
	open := strings.Index(text, "(")
	var b strings.Builder
	line := text[:open+1]
	indent := strings.Repeat(" ", 4)
	for i, p := range strings.SplitAfter(text[open+1:], ", ") {
		if i > 0 && len(line)+len(p) > width {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent
		}
		line += p
	}
	b.WriteString(line)
	return b.String()
}

func header(types string, functions []function) string {
	var b strings.Builder
	b.WriteString(`/* hologram.h: the C ABI of Hologram. Generated by go generate ./capi; do not edit.

   Every function returns a status, HOLOGRAM_OK if all is well, unless its comment says otherwise. Results come through
   pointers whose names end in _out; they are written only then. Everything may be called from any thread. The text of
   the last error is kept for the thread that met it.

   A function with a parameter event_out may return HOLOGRAM_PENDING: its work goes on, and *event_out is an event to
   wait for with hologram_event_wait, and to free with hologram_event_free. */
#ifndef HOLOGRAM_H
#define HOLOGRAM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32) && defined(HOLOGRAM_BUILD)
#define HOLOGRAM_API __declspec(dllexport)
#elif defined(_WIN32)
#define HOLOGRAM_API __declspec(dllimport)
#else
#define HOLOGRAM_API __attribute__((visibility("default")))
#endif

`)
	b.WriteString(types)
	b.WriteString(`
/* ---- errors ---- */

/* The text of the thread's last error, in UTF-8. size_out, which may be NULL, receives its size in bytes, of which at
   most capacity are written to text_out; no NUL is added. */
HOLOGRAM_API int32_t hologram_last_error(char *text_out, size_t capacity, size_t *size_out);

/* The fault behind the thread's last error, if that was HOLOGRAM_FAULT; else zeros but for size. */
HOLOGRAM_API int32_t hologram_last_fault(hologram_fault *fault_out);

/* How memory was short, by which the thread's last error came about, if that was HOLOGRAM_OUT_OF_MEMORY and it is known;
   else zeros but for size. */
HOLOGRAM_API int32_t hologram_last_shortage(hologram_shortage *shortage_out);

/* Sets the process's function that is asked whether a call is to be interrupted; NULL for none. */
HOLOGRAM_API int32_t hologram_set_interrupt(hologram_interrupt function);
`)
	section := ""
	for i := range functions {
		f := &functions[i]
		if f.file != section {
			section = f.file
			fmt.Fprintf(&b, "\n/* ---- %s ---- */\n", section)
		}
		fmt.Fprintf(&b, "\n%s */\nHOLOGRAM_API %s;\n", wrap(f.doc, "/* ", "   "), breakPrototype(f.prototype()))
	}
	b.WriteString(`
#ifdef __cplusplus
}
#endif

#endif
`)
	return b.String()
}

// wrappers is the C file that looks for a fork before each call into Go.
func wrappers(functions []function) string {
	var b strings.Builder
	b.WriteString(`/* Generated by go generate ./capi; do not edit. */
#include "support.h"

#include "_cgo_export.h"
`)
	for i := range functions {
		f := &functions[i]
		args := make([]string, len(f.params))
		for k, p := range f.params {
			args[k] = p.name
			if strings.HasPrefix(p.ctype, "const ") { // cgo's prototypes have no const
				args[k] = "(" + strings.TrimSpace(strings.TrimPrefix(p.ctype, "const ")) + ")" + p.name
			}
		}
		refusal := "HOLOGRAM_FORKED"
		if strings.Contains(f.result, "*") {
			refusal = `""`
		}
		fmt.Fprintf(&b, "\n%s {\n  if (hologram_support_forked()) return %s;\n  return %s%s(%s);\n}\n",
			breakPrototype(f.prototype()), refusal, goPrefix, f.name, strings.Join(args, ", "))
	}
	return b.String()
}
