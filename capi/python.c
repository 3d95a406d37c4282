/* The entry of Python: the library, loaded with ctypes.PyDLL, offers hologram_python, which gives all that Python calls
   as builtin functions; none of them goes through ctypes. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_DEFAULT */
#endif

#include "python.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef _WIN32
#include <windows.h>
static void *look_up(void *module, const char *name) { return (void *)GetProcAddress((HMODULE)module, name); }
#else
#include <dlfcn.h>
#include <signal.h>
static void *look_up(void *module, const char *name) {
  (void)module;
  return dlsym(RTLD_DEFAULT, name);
}
#endif

struct hologram_cpython py;

static py_object *hooks;                 /* the dictionary */
static py_object *hook_names[NUM_HOOKS]; /* interned, so that they are found by address */

static int (*finalizing)(void); /* Python's, which was private before 3.13 */

bool hologram_finalizing(void) { return finalizing && finalizing(); }

/* Looks up all of CPython that is used; the name of what is missing, or NULL. */
static const char *load(void *module) {
#define FUNCTION(result, name, parameters)                                   \
  if (!(*(void **)&py.name = look_up(module, #name))) return #name;
#define OBJECT(name)                                                         \
  if (!(py.name = look_up(module, #name))) return #name;
#define VARIABLE(name)                                                       \
  {                                                                          \
    py_object **at = look_up(module, #name);                                 \
    if (!at) return #name;                                                   \
    py.name = *at;                                                           \
  }
  PYTHON_FUNCTIONS(FUNCTION)
  PYTHON_OBJECTS(OBJECT)
  PYTHON_EXCEPTIONS(VARIABLE)
#undef FUNCTION
#undef OBJECT
#undef VARIABLE
  *(void **)&finalizing = look_up(module, "Py_IsFinalizing");
  if (!finalizing) *(void **)&finalizing = look_up(module, "_Py_IsFinalizing");
  return NULL;
}

int hologram_builtins(py_object *into, py_method *methods) {
  for (; methods->name; methods++) {
    py_object *f = py.PyCFunction_NewEx(methods, NULL, NULL);
    int failed = !f || py.PyDict_SetItemString(into, methods->name, f);
    if (f) py.Py_DecRef(f);
    if (failed) return -1;
  }
  return 0;
}

static bool name_hooks(void) {
#define HOOK(name) #name,
  static const char *const names[] = {PYTHON_HOOKS(HOOK)};
#undef HOOK
  for (int i = 0; i < NUM_HOOKS; i++) {
    if (!(hook_names[i] = py.PyUnicode_InternFromString(names[i]))) return false;
  }
  return true;
}

py_object *hologram_hook_of(hook h) { return py.PyDict_GetItemWithError(hooks, hook_names[h]); }

/* A hook, counted; NULL with an exception. */
static py_object *needed(hook h) {
  py_object *function = hologram_hook_of(h);
  if (function) {
    py.Py_IncRef(function);
  } else if (!py.PyErr_Occurred()) {
    py.PyErr_Format(py.PyExc_TypeError, "hologram: there is no hook %U", hook_names[h]);
  }
  return function;
}

py_object *hologram_hook(hook h, py_object *arguments) {
  py_object *function, *result = NULL;
  bool whole = arguments;
  for (ptrdiff_t i = whole ? py.PyTuple_Size(arguments) : 0; i-- > 0;) whole = whole && py.PyTuple_GetItem(arguments, i);
  if (whole && (function = needed(h))) {
    result = py.PyObject_CallObject(function, arguments);
    py.Py_DecRef(function);
  }
  if (arguments) py.Py_DecRef(arguments);
  return result;
}

py_object *hologram_again(hook h, py_object *self, py_object *const *args, ptrdiff_t n, py_object *keywords) {
  py_object *function = needed(h), *positional = function ? py.PyTuple_New(n + 1) : NULL;
  py_object *named = positional && keywords ? py.PyDict_New() : NULL, *result = NULL;
  bool fine = positional && (named || !keywords);
  for (ptrdiff_t i = 0; fine && i <= n; i++) {
    py_object *o = i ? args[i - 1] : self;
    py.Py_IncRef(o);
    py.PyTuple_SetItem(positional, i, o);
  }
  for (ptrdiff_t i = 0; fine && keywords && i < py.PyTuple_Size(keywords); i++) {
    fine = !py.PyDict_SetItem(named, py.PyTuple_GetItem(keywords, i), args[n + i]);
  }
  if (fine) result = py.PyObject_Call(function, positional, named);
  if (function) py.Py_DecRef(function);
  if (positional) py.Py_DecRef(positional);
  if (named) py.Py_DecRef(named);
  return result;
}

/* The methods that C has for the bases. */
static struct {
  const char *name;
  py_object *of;
  void *function;
} offered[8];

void hologram_method(const char *name, py_object *of, void *function) {
  for (int i = 0; i < 8; i++) {
    if (!offered[i].name) {
      offered[i].name = name;
      offered[i].of = of;
      offered[i].function = function;
      return;
    }
  }
}

/* method(name, doc): the method of C's of that name as a descriptor. Its doc begins with its signature. */
static py_object *method(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "method"};
  const char *name, *doc;
  (void)self;
  if (!native_count(&c, n, 2) || !native_text(&c, args[0], "name", &name) || !native_text(&c, args[1], "doc", &doc)) return NULL;
  for (int i = 0; i < 8 && offered[i].name; i++) {
    if (!strcmp(offered[i].name, name)) {
      py_method *m = malloc(sizeof *m); /* for as long as the process */
      char *text = malloc(strlen(doc) + 1);
      if (!m || !text) return py.PyErr_NoMemory();
      *m = (py_method){offered[i].name, offered[i].function, PY_FASTCALL | PY_KEYWORDS, strcpy(text, doc)};
      return py.PyDescr_NewMethod(offered[i].of, m);
    }
  }
  return py.PyErr_Format(py.PyExc_TypeError, "method: there is none called %s", name);
}

/* ---- signals ---- */

/* on_stack(signal): lets its handler run on the stack that Go keeps for signals. Go's own stacks are too small for it, and
   Python before 3.10 does not ask for another. */
static py_object *on_stack(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "on_stack"};
  int32_t number;
  (void)self;
  if (!native_count(&c, n, 1) || !native_i32(&c, args[0], "signal", &number)) return NULL;
#ifndef _WIN32
  struct sigaction action;
  if (!sigaction(number, NULL, &action) && !(action.sa_flags & SA_ONSTACK) && action.sa_handler != SIG_DFL &&
      action.sa_handler != SIG_IGN) {
    action.sa_flags |= SA_ONSTACK;
    sigaction(number, &action, NULL);
  }
#endif
  return py_none();
}

/* ---- memory that Python owns ---- */

struct hologram_owner {
  struct hologram_owner *next;
  py_object *object;
};

_Atomic(struct hologram_owner *) hologram_orphans;
static _Atomic int scheduled; /* a pending call that drops orphans */
static _Atomic long long kept;

struct hologram_owner *hologram_own(py_object *object) {
  struct hologram_owner *owner = malloc(sizeof *owner);
  if (!owner) {
    py.PyErr_NoMemory();
    return NULL;
  }
  py.Py_IncRef(owner->object = object);
  atomic_fetch_add(&kept, 1);
  return owner;
}

void hologram_drop_orphans(void) {
  py_object *type, *value, *traceback;
  struct hologram_owner *owner = atomic_exchange(&hologram_orphans, NULL);
  /* A finalizer may be calling, while an exception is on its way. */
  py.PyErr_Fetch(&type, &value, &traceback);
  while (owner) {
    struct hologram_owner *next = owner->next;
    atomic_fetch_sub(&kept, 1);
    py.Py_DecRef(owner->object);
    free(owner);
    owner = next;
  }
  py.PyErr_Restore(type, value, traceback);
}

static int drop_pending(void *context) {
  (void)context;
  atomic_store(&scheduled, 0);
  hologram_drop_orphans();
  return 0;
}

void hologram_disown(void *context) {
  struct hologram_owner *owner = context;
  owner->next = atomic_load(&hologram_orphans);
  while (!atomic_compare_exchange_weak(&hologram_orphans, &owner->next, owner)) {
  }
  if (!work_closing() && !atomic_exchange(&scheduled, 1) && py.Py_AddPendingCall(drop_pending, NULL)) {
    atomic_store(&scheduled, 0); /* too many: the next call drops it */
  }
}

/* kept(): how many objects memory of Python's keeps alive. */
static py_object *count_kept(py_object *self, py_object *const *args, ptrdiff_t n) {
  (void)self, (void)args, (void)n;
  hologram_drain();
  return py.PyLong_FromLongLong(atomic_load(&kept));
}

/* ---- arguments ---- */

bool native_count(native *c, ptrdiff_t given, ptrdiff_t expected) {
  if (given == expected) return true;
  py.PyErr_Format(py.PyExc_TypeError, "%s takes %zd arguments, got %zd", c->name, expected, given);
  return false;
}

bool hologram_exact(py_object *o, int64_t *out) {
  int overflow = 0;
  if (o->type != py.PyLong_Type) return false;
  *out = py.PyLong_AsLongLongAndOverflow(o, &overflow);
  return !overflow;
}

static bool ranged(native *c, py_object *o, const char *name, int64_t low, int64_t high, int64_t *out) {
  int overflow = 0;
  py_object *number = py.PyNumber_Index(o);
  if (!number) return false;
  *out = py.PyLong_AsLongLongAndOverflow(number, &overflow);
  py.Py_DecRef(number);
  if (overflow || *out < low || *out > high) {
    py.PyErr_Format(py.PyExc_OverflowError, "%s: %s is out of range", c->name, name);
    return false;
  }
  return true;
}

bool native_i64(native *c, py_object *o, const char *name, int64_t *out) {
  return ranged(c, o, name, INT64_MIN, INT64_MAX, out);
}

bool native_i32(native *c, py_object *o, const char *name, int32_t *out) {
  int64_t wide;
  if (!ranged(c, o, name, INT32_MIN, INT32_MAX, &wide)) return false;
  *out = (int32_t)wide;
  return true;
}

bool native_size(native *c, py_object *o, const char *name, size_t *out) {
  int64_t wide;
  if (!ranged(c, o, name, 0, INT64_MAX, &wide)) return false;
  *out = (size_t)wide;
  return true;
}

bool native_u64(native *c, py_object *o, const char *name, uint64_t *out) {
  (void)name;
  if (hologram_is_buffer(o)) {
    *out = ((py_array *)o)->handle;
    return true;
  }
  if (hologram_is_executor(o) || hologram_is_program(o)) {
    *out = ((py_handle *)o)->handle;
    return true;
  }
  if (hologram_is_owner(o)) {
    *out = ((py_owner *)o)->handle;
    return true;
  }
  (void)c;
  *out = py.PyLong_AsUnsignedLongLong(o);
  return *out != (uint64_t)-1 || !py.PyErr_Occurred();
}

bool native_text(native *c, py_object *o, const char *name, const char **out) {
  ptrdiff_t size;
  char *bytes;
  *out = NULL;
  if (o == py._Py_NoneStruct) return true;
  if (o->type == py.PyUnicode_Type) {
    *out = py.PyUnicode_AsUTF8AndSize(o, &size);
    if (!*out) return false;
  } else {
    if (py.PyBytes_AsStringAndSize(o, &bytes, &size)) return false;
    *out = bytes;
  }
  (void)c, (void)name;
  return true;
}

bool native_memory(native *c, py_object *o, const char *name, bool writable, void **out) {
  (void)name;
  *out = NULL;
  if (o == py._Py_NoneStruct) return true;
  if (o->type == py.PyLong_Type) {
    *out = (void *)(uintptr_t)py.PyLong_AsUnsignedLongLong(o);
    return *out != (void *)-1 || !py.PyErr_Occurred();
  }
  if (py.PyObject_GetBuffer(o, &c->views[c->num_views], writable ? PY_BUFFER_WRITABLE : 0)) return false;
  *out = c->views[c->num_views++].data;
  return true;
}

bool native_sizes(native *c, py_object *o, const char *name, const int64_t **out) {
  int64_t *sizes = c->sizes[c->num_sizes];
  ptrdiff_t n;
  *out = NULL;
  if (o == py._Py_NoneStruct) return true;
  if (o->type != py.PyTuple_Type) {
    py.PyErr_Format(py.PyExc_TypeError, "%s: %s: expected a tuple", c->name, name);
    return false;
  }
  n = py.PyTuple_Size(o);
  if (n > HOLOGRAM_MAX_RANK) {
    sizes = c->more[c->num_sizes] = calloc((size_t)n, sizeof *sizes);
    if (!sizes) {
      py.PyErr_NoMemory();
      return false;
    }
  }
  c->num_sizes++;
  for (ptrdiff_t i = 0; i < n; i++) {
    if (!native_i64(c, py.PyTuple_GetItem(o, i), name, &sizes[i])) return false;
  }
  *out = sizes;
  return true;
}

bool native_scalar(native *c, py_object *o, const char *name, const hologram_scalar **out) {
  *out = NULL;
  if (o == py._Py_NoneStruct) return true;
  if (o->type != py.PyTuple_Type || py.PyTuple_Size(o) != 2) {
    py.PyErr_Format(py.PyExc_TypeError, "%s: %s: expected a pair", c->name, name);
    return false;
  }
  *out = &c->scalar;
  return native_i32(c, py.PyTuple_GetItem(o, 0), name, &c->scalar.dtype) &&
         native_u64(c, py.PyTuple_GetItem(o, 1), name, &c->scalar.bits);
}

bool native_owner(native *c, py_object *o, hologram_deleter *deleter_out, void **context_out) {
  *deleter_out = NULL;
  *context_out = NULL;
  if (o == py._Py_NoneStruct) return true;
  if (!(c->owner = hologram_own(o))) return false;
  *deleter_out = hologram_disown;
  *context_out = c->owner;
  return true;
}

py_object *native_refused(native *c) {
  for (int i = 0; i < c->num_views; i++) py.PyBuffer_Release(&c->views[i]);
  free(c->more[0]);
  free(c->more[1]);
  if (c->owner) { /* the library does not tell its deleter */
    hologram_disown(c->owner);
    hologram_drain();
  }
  return NULL;
}

bool native_end(native *c, int32_t status, bool quick) {
  bool fine = quick ? work_check(status) : work_end(&c->work, status);
  if (status == HOLOGRAM_OK) c->owner = NULL; /* the library's now, even if a signal handler raised since */
  native_refused(c);
  return fine;
}

py_object *native_made(native *c, int32_t status, bool quick, py_owner *made) {
  if (native_end(c, status, quick)) return (py_object *)made;
  py.Py_DecRef((py_object *)made);
  return NULL;
}

py_object *native_unmade(native *c, py_owner *made) {
  py.Py_DecRef((py_object *)made);
  return native_refused(c);
}

py_object *native_give_text(char *text, size_t size) {
  py_object *bytes = py.PyBytes_FromStringAndSize(text ? text : "", text ? (ptrdiff_t)size : 0);
  if (!text && size) { /* there was no room */
    if (bytes) py.Py_DecRef(bytes);
    return py.PyErr_NoMemory();
  }
  free(text);
  return bytes;
}

/* ---- loading ---- */

/* hooks(): the names of what C leaves to Python. */
static py_object *list_hooks(py_object *self, py_object *const *args, ptrdiff_t n) {
  py_object *all = py.PyTuple_New(NUM_HOOKS);
  (void)self, (void)args, (void)n;
  for (int i = 0; all && i < NUM_HOOKS; i++) {
    py.Py_IncRef(hook_names[i]);
    py.PyTuple_SetItem(all, i, hook_names[i]);
  }
  return all;
}

static py_method own[] = {
    {"hooks", (void *)list_hooks, PY_FASTCALL, NULL},
    {"method", (void *)method, PY_FASTCALL, NULL},
    {"on_stack", (void *)on_stack, PY_FASTCALL, NULL},
    {"kept", (void *)count_kept, PY_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

/* Returns the builtins, by name, or NULL with an exception. given is the hooks, a dictionary, with "dllhandle", where Windows has
   Python's functions, or None. Called through ctypes.PyDLL, so with the GIL held. */
HOLOGRAM_API py_object *hologram_python(py_object *given, void *module) {
  const char *missing = load(module);
  py_object *all;
  static py_object *made;
  static char text[256];
  if (missing) {
    if (!py.PyErr_SetString || !py.PyExc_ImportError) return given; /* which ctypes tells from a dictionary of builtins */
    snprintf(text, sizeof text, "hologram: this Python has no %s; it must be CPython 3.9 or later", missing);
    py.PyErr_SetString(py.PyExc_ImportError, text);
    return NULL;
  }
  if (given->type != py.PyDict_Type) { /* objects have another head, whether such a Python runs with the GIL or not */
    py.PyErr_SetString(py.PyExc_ImportError,
                       "hologram: this Python is a free-threaded build, whose objects hologram cannot use, with PYTHON_GIL=1 "
                       "neither; use a build with the GIL");
    return NULL;
  }
  if (py.PyInterpreterState_Get() != py.PyInterpreterState_Main()) {
    py.PyErr_SetString(py.PyExc_ImportError, "hologram: sub-interpreters are not supported; import it in the main interpreter");
    return NULL;
  }
  py.Py_IncRef(hooks = given);
  if (made) { /* imported anew: the types, of which objects may live, stay the same */
    py.Py_IncRef(made);
    return made;
  }
  all = py.PyDict_New();
  if (!all) return NULL;
  if (!name_hooks() || hologram_builtins(all, own) || hologram_builtins(all, hologram_generated) || hologram_work(all) ||
      hologram_owners(all) || hologram_modules(all) || hologram_objects(all) || hologram_signatures(all) || hologram_calls(all) || hologram_plain(all) || hologram_dlpack(all) || hologram_futures(all) || hologram_torch(all) ||
      hologram_maps(all) || hologram_kernels(all) || hologram_updates(all) || hologram_recordings(all) || hologram_sequences(all) || hologram_nodes(all) || hologram_numpy(all) || hologram_interfaces(all)) {
    py.Py_DecRef(all);
    return NULL;
  }
  py.Py_IncRef(made = all);
  return all;
}
