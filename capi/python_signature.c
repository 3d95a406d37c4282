/* Signatures: how an operation or a program is called, and how the arguments of a call are put where they belong. */
#include "python_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static py_object *signature_type, *name_out, *name_stream;

bool signature_is(py_object *o) { return o->type == signature_type && ((signature *)o)->op >= 0; }

static void signature_dealloc(py_object *self) {
  signature *s = (signature *)self;
  for (int i = 0; i < s->num_params; i++) py.Py_DecRef(s->params[i].name);
  free((void *)s->method.name);
  free((void *)s->method.doc);
  hologram_give_back(self);
}

static char *copied(py_object *text) {
  ptrdiff_t size;
  const char *from = py.PyUnicode_AsUTF8AndSize(text, &size);
  char *to = from ? malloc((size_t)size + 1) : NULL;
  if (to) memcpy(to, from, (size_t)size + 1);
  if (from && !to) py.PyErr_NoMemory();
  return to;
}

/* Reads parameters, (name, kind, counted, default or None) each. */
static bool read_params(signature *s, native *c, py_object *list) {
  ptrdiff_t n = py.PyTuple_Size(list);
  if (n < 0 || n > MAX_PARAMS) {
    if (n > 0) py.PyErr_SetString(py.PyExc_ValueError, "too many parameters");
    return false;
  }
  for (ptrdiff_t i = 0; i < n; i++) {
    py_object *from = py.PyTuple_GetItem(list, i), *value;
    struct param *p = &s->params[i];
    const char *kind;
    if (py.PyTuple_Size(from) != 4) return false;
    if (!native_text(c, py.PyTuple_GetItem(from, 1), "kind", &kind)) return false;
    p->kind = *kind;
    p->counted = py.PyTuple_GetItem(from, 2) == py._Py_TrueStruct;
    value = py.PyTuple_GetItem(from, 3);
    p->optional = value != py._Py_NoneStruct;
    if (p->optional) p->value = py.PyFloat_AsDouble(value);
    if (py.PyErr_Occurred()) return false;
    p->optional = p->optional || (p->kind && strchr("nfmakoxdv", p->kind));
    p->operand = p->kind && strchr("rbwov", p->kind);
    if (p->kind == 'n') s->at_n = (int)i;
    if (p->kind == 'a') s->at_axes = (int)i;
    if (p->kind == 'k') s->at_keepdims = (int)i;
    if (p->kind == 'o') s->at_output = (int)i;
    py.Py_IncRef(p->name = py.PyTuple_GetItem(from, 0));
    py.PyUnicode_InternInPlace(&p->name); /* as the names of keywords are, so that they are compared by address */
    s->num_params = (int)i + 1;
  }
  return true;
}

/* operation(name, number, parameters, positional, form, traits, doc): the builtin of an operation. Its doc begins with
   its signature; traits are bools: alike, compares, reduces, result, bools, numbers. */
static py_object *operation(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "operation"};
  signature *s;
  py_object *f = NULL;
  int32_t form = 0;
  bool alike, compares;
  (void)self;
  if (!native_count(&c, n, 7)) return NULL;
  if (!(s = (signature *)py.PyType_GenericAlloc(signature_type, 0))) return NULL;
  s->boundary = -1;
  if (native_i32(&c, args[1], "number", &s->op) && read_params(s, &c, args[2]) &&
      native_i32(&c, args[3], "positional", &s->positional) && native_i32(&c, args[4], "form", &form) &&
      (s->method.name = copied(args[0])) && (s->method.doc = copied(args[6]))) {
    s->form = form;
    bool *const traits[] = {&alike, &compares, &s->reduces, &s->result, &s->bools, &s->numbers};
    for (int i = 0; i < 6; i++) *traits[i] = py.PyTuple_GetItem(args[5], i) == py._Py_TrueStruct;
    s->elements = compares ? BOOLS : alike ? ALIKE : ASKED;
    s->method.function = (void *)hologram_operation;
    s->method.flags = PY_FASTCALL | PY_KEYWORDS;
    f = py.PyCFunction_NewEx(&s->method, &s->head, NULL);
  }
  py.Py_DecRef(&s->head);
  return f;
}

/* plan(parameters, boundary, careful): how a program is launched. */
static py_object *plan(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "plan"};
  signature *s;
  int32_t boundary;
  (void)self;
  if (!native_count(&c, n, 3)) return NULL;
  if (!(s = (signature *)py.PyType_GenericAlloc(signature_type, 0))) return NULL;
  s->op = -1;
  s->careful = args[2] == py._Py_TrueStruct || py.PyTuple_Size(args[0]) > MAX_PARAMS;
  if (!native_i32(&c, args[1], "boundary", &boundary) || (!s->careful && !read_params(s, &c, args[0]))) {
    py.Py_DecRef(&s->head);
    return NULL;
  }
  s->boundary = boundary;
  return &s->head;
}

/* ---- binding ---- */

static int index_of(const signature *s, py_object *name) {
  for (int i = 0; i < s->num_params; i++) {
    if (s->params[i].name == name) return i;
  }
  for (int i = 0; i < s->num_params; i++) {
    if (!py.PyUnicode_Compare(s->params[i].name, name)) return i;
  }
  return -1;
}

/* Where the array that is written, the last one, stands, for who calls it "out" as numpy does. */
static int output_of(const signature *s, py_object *name) {
  int at = s->num_params;
  if (py.PyUnicode_Compare(name, name_out)) return -1;
  while (--at >= 0 && !s->params[at].operand) continue;
  return at;
}

static const char *text_of(py_object *name) {
  ptrdiff_t size;
  const char *text = py.PyUnicode_AsUTF8AndSize(name, &size);
  return text ? text : "?";
}

/* Says that no parameter has a keyword's name, and which names there are; the hook gets the operation's name and the keyword,
   and returns what else is to be said, such as what is written here for what torch calls so. */
static void unexpected(const signature *s, py_object *keyword) {
  char names[512] = "";
  size_t used = 0;
  py_object *arguments = py.PyTuple_New(2), *hint;
  if (!arguments) return;
  py.PyTuple_SetItem(arguments, 0, py.PyUnicode_FromString(s->method.name));
  py.Py_IncRef(keyword);
  py.PyTuple_SetItem(arguments, 1, keyword);
  if (!(hint = hologram_hook(HOOK_keyword, arguments))) return;
  for (int i = 0; i < s->num_params; i++) {
    const char *name = text_of(s->params[i].name);
    if (used + strlen(name) + 3 > sizeof names) break;
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", name);
  }
  py.PyErr_Format(py.PyExc_TypeError, "%s() got an unexpected keyword argument '%s'; it has %s, stream, out%s", s->method.name,
                  text_of(keyword), names, text_of(hint));
  py.Py_DecRef(hint);
}

bool signature_bind(const signature *s, py_object *const *args, ptrdiff_t n, py_object *keywords, py_object **values,
                    ptrdiff_t *positional, py_object **out, py_object **stream) {
  ptrdiff_t named = keywords ? py.PyTuple_Size(keywords) : 0;
  int first = n && s->params[0].kind == 'x' && !hologram_is_executor(args[0]);
  if (n + first > s->positional) {
    py.PyErr_Format(py.PyExc_TypeError, "%s() takes at most %d positional arguments%s (%zd given)", s->method.name,
                    s->positional - first, first ? " without an executor" : "", n);
    return false;
  }
  *positional = n + first;
  *out = *stream = NULL;
  for (int i = 0; i < s->num_params; i++) values[i] = i >= first && i - first < n ? args[i - first] : NULL;
  for (ptrdiff_t k = 0; k < named; k++) {
    py_object *name = py.PyTuple_GetItem(keywords, k);
    int at = index_of(s, name);
    if (at < 0 && (at = output_of(s, name)) >= 0) *out = args[n + k];
    if (at < 0 && !py.PyUnicode_Compare(name, name_stream)) {
      *stream = args[n + k] == py._Py_NoneStruct ? NULL : args[n + k];
      continue;
    }
    if (at < 0 || values[at]) {
      if (at < 0) {
        unexpected(s, name);
      } else {
        py.PyErr_Format(py.PyExc_TypeError, "%s() got multiple values for argument '%s'", s->method.name, text_of(name));
      }
      return false;
    }
    values[at] = args[n + k];
  }
  for (int i = 0; i < s->num_params; i++) {
    if (!values[i] && !s->params[i].optional) {
      const char *name = text_of(s->params[i].name);
      bool number = s->params[i].kind == 's' && s->at_output;
      py.PyErr_Format(py.PyExc_TypeError, "%s() missing required argument: '%s'%s%s%s", s->method.name, name,
                      number ? "; without the output numbers are given by name: " : "", number ? name : "", number ? "=..." : "");
      return false;
    }
  }
  return true;
}

static py_method methods[] = {
    {"operation", (void *)operation, PY_FASTCALL, NULL},
    {"plan", (void *)plan, PY_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int hologram_signatures(py_object *into) {
  static py_slot slots[] = {{PY_SLOT_DEALLOC, (void *)signature_dealloc}, {0, NULL}};
  static py_spec spec = {"hologram._native.Signature", sizeof(signature), 0, PY_TYPE_DEFAULT, slots};
  if (!(signature_type = py.PyType_FromSpec(&spec)) || !(name_out = py.PyUnicode_InternFromString("out")) ||
      !(name_stream = py.PyUnicode_InternFromString("stream"))) {
    return -1;
  }
  return hologram_builtins(into, methods);
}
