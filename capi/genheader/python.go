package main

import (
	"fmt"
	"strings"
)

// byHand are the functions whose builtins python_plain.c, python_dlpack.c, python_future.c
// and python_owner.c hold, and those that only C frames use.
var byHand = map[string]bool{
	"call": true, "launch_batch": true, "prepare_batch": true, "result": true, "trace": true,
	"event_wait": true, "event_cancel": true, "event_free": true,
	"mark_wait": true, "buffer_transfer": true, "executor_outcome": true, "stream_new": true, "stream_free": true,
	"executor_free": true, "program_free": true, "lease_free": true, "profile_free": true, "mark_free": true,
	"buffer_to_dlpack": true, "buffer_lend": true, "buffer_from_dlpack": true, "dlpack_free": true,
}

var handles = map[string]bool{
	"hologram_executor": true, "hologram_buffer": true, "hologram_program": true, "hologram_lease": true,
	"hologram_profile": true, "hologram_mark": true,
}

// builtin is the C text of one builtin as it grows.
type builtin struct {
	locals, take, results []string
	owns                  string   // the kind of the handle that is its result: an owner has it from the first
	args                  []string // of the library's function
	taken                 int      // of Python's arguments
	event, text           bool
}

// takes adds an argument that Python gives.
func (b *builtin) takes(format string, name string) {
	b.take = append(b.take, fmt.Sprintf(format, fmt.Sprintf("args[%d]", b.taken), `"`+name+`"`, name))
	b.taken++
}

// add handles one parameter of the library's function; it tells how many.
func (b *builtin) add(params []param) (int, error) {
	p := params[0]
	base := strings.TrimRight(strings.TrimSpace(strings.TrimPrefix(p.ctype, "const ")), " *")
	stars := strings.Count(p.ctype, "*")
	local := func(ctype, value string) {
		b.locals = append(b.locals, fmt.Sprintf("%s%s = %s;", ctype, p.name, value))
	}
	takers := map[string]string{"int32_t": "i32", "int64_t": "i64", "size_t": "size", "uint64_t": "u64"}
	switch {
	case p.name == "event_out":
		b.event = true
		b.args = append(b.args, "&event")
	case p.name == "text_out":
		b.text = true
		b.args = append(b.args, "text", "capacity", "&size")
		return 3, nil
	case base == "hologram_deleter":
		b.locals = append(b.locals, "hologram_deleter deleter = NULL;", "void *context = NULL;")
		b.take = append(b.take, fmt.Sprintf("native_owner(&c, args[%d], &deleter, &context)", b.taken))
		b.taken++
		b.args = append(b.args, "deleter", "context")
		return 2, nil
	case stars == 0 && (handles[base] || takers[base] != ""):
		local(base+" ", "0")
		taker := takers[base]
		if handles[base] {
			taker = "u64"
		}
		b.takes("native_"+taker+"(&c, %s, %s, &%s)", p.name)
		b.args = append(b.args, p.name)
	case strings.HasSuffix(p.name, "_out") && stars == 1 && handles[base]:
		b.locals = append(b.locals, "py_owner *made;")
		b.owns = strings.TrimPrefix(base, cPrefix)
		b.args = append(b.args, "&made->handle")
		b.results = append(b.results, "(py_object *)made")
	case strings.HasSuffix(p.name, "_out") && stars == 1 && takers[base] != "":
		local(base+" ", "0")
		b.args = append(b.args, "&"+p.name)
		made := "PyLong_FromLongLong"
		if base == "size_t" {
			made = "PyLong_FromUnsignedLongLong"
		}
		b.results = append(b.results, fmt.Sprintf("py.%s(%s)", made, p.name))
	case base == "char" && stars == 1:
		local("const char *", "NULL")
		b.takes("native_text(&c, %s, %s, &%s)", p.name)
		b.args = append(b.args, p.name)
	case base == "int64_t" && stars == 1:
		local("const int64_t *", "NULL")
		b.takes("native_sizes(&c, %s, %s, &%s)", p.name)
		b.args = append(b.args, p.name)
	case base == "hologram_scalar" && stars == 1:
		local("const hologram_scalar *", "NULL")
		b.takes("native_scalar(&c, %s, %s, &%s)", p.name)
		b.args = append(b.args, p.name)
	case stars == 1:
		local("void *", "NULL")
		writable := fmt.Sprint(strings.HasSuffix(p.name, "_out"))
		b.takes("native_memory(&c, %s, %s, "+writable+", &%s)", p.name)
		b.args = append(b.args, p.name)
	default:
		return 0, fmt.Errorf("parameter %s%s has no rule for Python", p.ctype, p.name)
	}
	return 1, nil
}

// text is the whole function.
func (b *builtin) function(f *function) string {
	var s strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&s, "  "+format+"\n", args...) }
	fmt.Fprintf(&s, "\nstatic py_object *py_%s(py_object *self, py_object *const *args, ptrdiff_t n) {\n", f.name)
	line("native c = {.name = \"%s\"};", f.name)
	line("int32_t status;")
	for _, l := range b.locals {
		line("%s", l)
	}
	if b.event {
		line("hologram_event event = 0;")
	}
	if b.text {
		line("char *text = NULL, *more;")
		line("size_t capacity = 0, size = 0;")
	}
	line("(void)self, (void)args;")
	checks := append([]string{fmt.Sprintf("native_count(&c, n, %d)", b.taken)}, b.take...)
	line("if (!%s) return native_refused(&c);", strings.Join(checks, " || !"))
	line("hologram_drain();")
	call := fmt.Sprintf("status = %s%s(%s);", cPrefix, f.name, strings.Join(b.args, ", "))
	if f.opens {
		line("hologram_hold_environment();")
	}
	refused, failed := "return native_refused(&c);", "return NULL;"
	if b.text {
		failed = "{\n    free(text);\n    return NULL;\n  }"
	}
	if b.owns != "" {
		line("if (!(made = hologram_owner_new(OWNED_%s))) return native_refused(&c);", b.owns)
		refused = "return native_unmade(&c, made);"
	}
	if !f.quick {
		line("if (!work_begin(&c.work)) %s", refused)
	}
	if b.text {
		// The second round has room enough, but for a profile's text that another thread took meanwhile.
		line("for (;;) {")
		line("  %s", call)
		line("  if (status != HOLOGRAM_OK || size <= capacity) break;")
		line("  more = realloc(text, size);")
		line("  if (!more) free(text);")
		line("  text = more;")
		line("  if (!more) break;")
		line("  capacity = size;")
		line("}")
	} else {
		line("%s", call)
	}
	if b.event {
		line("atomic_store(&c.work.event, event);")
	}
	if b.owns == "" {
		line("if (!native_end(&c, status, %v)) %s", f.quick, failed)
	}
	switch {
	case b.owns != "":
		line("return native_made(&c, status, %v, made);", f.quick)
	case b.text:
		line("return native_give_text(text, size);")
	case len(b.results) == 0:
		line("return py_none();")
	default:
		line("return %s;", b.results[0])
	}
	s.WriteString("}\n")
	return s.String()
}

// pythonTable is the C file with a builtin for each function.
func pythonTable(functions []function) (string, error) {
	var text, table strings.Builder
	text.WriteString(`/* Generated by go generate ./capi; do not edit. The library's functions as builtins of Python: results come back, work
   that goes on is waited for, and a status that is an error becomes an exception. */
#include "python.h"

#include <stdlib.h>
`)
	for i := range functions {
		f := &functions[i]
		if byHand[f.name] {
			continue
		}
		switch f.name {
		case "abi_version":
			text.WriteString("\nstatic py_object *py_abi_version(py_object *self, py_object *const *args, ptrdiff_t n) {\n" +
				"  (void)self, (void)args, (void)n;\n  return py.PyLong_FromLongLong(hologram_abi_version());\n}\n")
		case "version":
			text.WriteString("\nstatic py_object *py_version(py_object *self, py_object *const *args, ptrdiff_t n) {\n" +
				"  (void)self, (void)args, (void)n;\n  return py.PyUnicode_FromString(hologram_version());\n}\n")
		default:
			var b builtin
			for k := 0; k < len(f.params); {
				n, err := b.add(f.params[k:])
				if err != nil {
					return "", fmt.Errorf("%s: %w", f.name, err)
				}
				k += n
			}
			if len(b.results) > 1 {
				return "", fmt.Errorf("%s has several results", f.name)
			}
			text.WriteString(b.function(f))
		}
		fmt.Fprintf(&table, "    {\"%s\", (void *)py_%s, PY_FASTCALL, NULL},\n", f.name, f.name)
	}
	return text.String() + "\npy_method hologram_generated[] = {\n" + table.String() + "    {NULL, NULL, 0, NULL},\n};\n", nil
}
