/* The objects of Python that have a handle: what the classes Executor, Program and Buffer derive from, so that C finds
   the handle where it is and a buffer that is dropped is freed without a line of Python. */
#include "dlpack.h"
#include "python.h"

#include <stdlib.h>
#include <string.h>

struct hologram_types hologram_types;

bool hologram_is_executor(py_object *o) {
  return o->type == hologram_types.an_executor || py.PyType_IsSubtype(o->type, hologram_types.executor);
}

bool hologram_is_program(py_object *o) {
  return o->type == hologram_types.a_program || py.PyType_IsSubtype(o->type, hologram_types.program);
}

bool hologram_is_buffer(py_object *o) {
  return o->type == hologram_types.a_buffer || py.PyType_IsSubtype(o->type, hologram_types.buffer);
}

bool hologram_buffer_gone(const py_array *b) { return b->freed || !b->executor || ((py_handle *)b->executor)->freed; }

/* Looks at a buffer's memory for the first time. */
static hologram_operand *look(const py_array *b) {
  hologram_buffer_info info = {.size = sizeof info};
  const py_handle *executor = (const py_handle *)b->executor;
  hologram_operand *seen;
  if (hologram_buffer_describe(b->handle, &info) != HOLOGRAM_OK || info.freed) return NULL;
  if (!(seen = calloc(1, sizeof *seen))) return NULL;
  seen->data = info.data;
  seen->dtype = info.dtype;
  seen->rank = info.rank;
  seen->flags = (info.read_only ? HOLOGRAM_READ_ONLY : 0) | (b->boolean ? HOLOGRAM_BOOL : 0);
  seen->device_type = executor->device_type;
  seen->device_id = executor->device_id;
  memcpy(seen->shape, info.shape, sizeof seen->shape);
  memcpy(seen->strides, info.strides, sizeof seen->strides);
  return seen;
}

static uint64_t freed_here; /* buffers, which is known of their objects */

void hologram_buffer_done(uint64_t handle) {
  if (hologram_finalizing()) return; /* as hologram_owned_end */
  freed_here++;                                                  /* first, since a deleter may come here */
  if (hologram_buffer_free(handle) != HOLOGRAM_OK) freed_here--; /* it was freed before, and counted then */
}

const hologram_operand *hologram_buffer_seen(py_array *b) {
  uint64_t elsewhere = __atomic_load_n(&hologram_buffers_freed, __ATOMIC_RELAXED) - freed_here;
  if (hologram_buffer_gone(b)) return NULL;
  if (!b->seen || b->seen_at != elsewhere) { /* its handle may have been freed by who has only that */
    free(b->seen);
    b->seen = look(b);
    b->seen_at = elsewhere;
  }
  return b->seen;
}

struct hologram_gate *hologram_gate_of(py_handle *executor, uint64_t stream, bool called) {
  if (stream > 1) return NULL;
  if (executor->gates[stream].asked != executor->handle) {
    if (stream && !called) return NULL;
    executor->gates[stream].asked = executor->handle;
    executor->gates[stream].gate = hologram_direct_gate(executor->handle, stream);
  }
  return executor->gates[stream].gate;
}

void hologram_give_back(py_object *self) {
  py_object *type = self->type;
  ((void (*)(void *))py.PyType_GetSlot(type, PY_SLOT_FREE))(self);
  py.Py_DecRef(type);
}

/* What an executor or a program has, which is its no more. */
static py_owner release(py_handle *h) {
  py_owner was = {.handle = h->freed ? 0 : h->handle, .kind = hologram_is_program((py_object *)h) ? OWNED_program : OWNED_executor};
  h->freed = h->handle != 0;
  return was;
}

static void handle_dealloc(py_object *self) {
  py_handle *h = (py_handle *)self;
  py_owner was = release(h);
  hologram_owned_end(&was);
  if (h->plan) py.Py_DecRef(h->plan);
  h->plan = NULL;
  hologram_give_back(self);
}

static int buffer_traverse(py_object *self, py_visit visit, void *context) {
  py_array *b = (py_array *)self;
  py_object *all[] = {b->executor, b->dtype, b->shape, b->tensor, self->type};
  for (int i = 0; i < 5; i++) {
    int stop = all[i] ? visit(all[i], context) : 0;
    if (stop) return stop;
  }
  return 0;
}

static void drop(py_object **at) {
  py_object *o = *at;
  *at = NULL;
  if (o) py.Py_DecRef(o);
}

static void end(py_array *b) {
  if (!b->freed) {
    b->freed = 1;
    hologram_buffer_done(b->handle); /* waits for nothing: what Python wraps has a deleter */
  }
}

static int buffer_clear(py_object *self) {
  py_array *b = (py_array *)self;
  end(b);
  drop(&b->executor);
  drop(&b->tensor);
  return 0;
}

static void buffer_dealloc(py_object *self) {
  py_array *b = (py_array *)self;
  py.PyObject_GC_UnTrack(self);
  end(b);
  drop(&b->executor);
  drop(&b->dtype);
  drop(&b->shape);
  drop(&b->tensor);
  free(b->seen);
  hologram_give_back(self);
}

static py_member handle_members[] = {
    {"handle", PY_MEMBER_ULONGLONG, offsetof(py_handle, handle), PY_MEMBER_READONLY, "The handle in the C ABI; positive."},
    {"_plan", PY_MEMBER_OBJECT, offsetof(py_handle, plan), 0, NULL},
    {"_freed", PY_MEMBER_BOOL, offsetof(py_handle, freed), PY_MEMBER_READONLY, NULL},
    {"_host_visible", PY_MEMBER_BOOL, offsetof(py_handle, host_visible), 0, NULL},
    {"_asynchronous", PY_MEMBER_BOOL, offsetof(py_handle, asynchronous), 0, NULL},
    {"_device_type", PY_MEMBER_INT, offsetof(py_handle, device_type), 0, NULL},
    {"_device_id", PY_MEMBER_INT, offsetof(py_handle, device_id), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static py_member buffer_members[] = {
    {"handle", PY_MEMBER_ULONGLONG, offsetof(py_array, handle), PY_MEMBER_READONLY, "The handle in the C ABI; positive."},
    {"_executor", PY_MEMBER_OBJECT, offsetof(py_array, executor), PY_MEMBER_READONLY, NULL},
    {"dtype", PY_MEMBER_OBJECT, offsetof(py_array, dtype), PY_MEMBER_READONLY, "The numpy dtype."},
    {"shape", PY_MEMBER_OBJECT, offsetof(py_array, shape), PY_MEMBER_READONLY, "The shape."},
    {"_tensor", PY_MEMBER_OPTIONAL, offsetof(py_array, tensor), PY_MEMBER_READONLY, NULL},
    {"size", PY_MEMBER_LONGLONG, offsetof(py_array, size), PY_MEMBER_READONLY, "The number of elements."},
    {NULL, 0, 0, 0, NULL},
};

/* A buffer on a fresh handle, which is freed if there is no memory for the object. */
static py_array *make(py_object *executor, uint64_t handle, py_object *dtype, py_object *shape, int64_t size, int32_t code, bool boolean) {
  py_array *b = (py_array *)py.PyType_GenericAlloc(hologram_types.a_buffer, 0);
  if (!b) {
    hologram_buffer_done(handle);
    return NULL;
  }
  b->handle = handle;
  b->size = size;
  b->code = code;
  b->boolean = boolean;
  py.Py_IncRef(b->executor = executor);
  py.Py_IncRef(b->dtype = dtype);
  py.Py_IncRef(b->shape = shape);
  return b;
}

/* buffer(executor, owner, dtype, shape, code, boolean, tensor): a Buffer, which owns from now on the handle that owner had.
   tensor is the one of torch's that the memory is of, or None. */
static py_object *new_buffer(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "buffer"};
  uint64_t handle;
  int64_t size = 1, length;
  int32_t code;
  py_array *b;
  py_owner *owner;
  (void)self;
  if (!native_count(&c, n, 7) || !native_i32(&c, args[4], "code", &code)) return NULL;
  owner = (py_owner *)args[1];
  if (!hologram_is_executor(args[0]) || !hologram_is_owner(args[1]) || owner->kind != OWNED_buffer || args[3]->type != py.PyTuple_Type) {
    py.PyErr_SetString(py.PyExc_TypeError, "buffer: expected an executor, a buffer's owner and a tuple");
    return NULL;
  }
  for (ptrdiff_t i = 0; i < py.PyTuple_Size(args[3]); i++) {
    if (!native_i64(&c, py.PyTuple_GetItem(args[3], i), "shape", &length)) return NULL;
    size *= length;
  }
  handle = owner->handle;
  owner->handle = 0;
  b = make(args[0], handle, args[2], args[3], size, code, args[5] == py._Py_TrueStruct);
  if (b && args[6] != py._Py_NoneStruct) py.Py_IncRef(b->tensor = args[6]);
  return (py_object *)b;
}

/* The handle of so many elements of fresh memory; false with an exception. */
static bool fresh(py_object *executor, int64_t size, int32_t code, int32_t flags, hologram_buffer *handle) {
  uint64_t owner = ((py_handle *)executor)->handle;
  int32_t status = hologram_buffer_allocate(owner, size, code, flags | HOLOGRAM_TRY, handle);
  if (status == HOLOGRAM_BUSY) {
    work w = {.failure = NULL};
    *handle = 0;
    if (!work_begin(&w)) return false;
    status = hologram_buffer_allocate(owner, size, code, flags, handle);
    if (work_end(&w, status)) return true;
    if (*handle) hologram_buffer_done(*handle); /* what a signal handler raised is no status */
    return false;
  }
  return work_check(status);
}

py_object *hologram_new_buffer(py_object *executor, py_object *shape, int64_t size, py_object *dtype, int32_t code, bool boolean,
                               int32_t flags) {
  hologram_buffer handle = 0, flat;
  int64_t dims[HOLOGRAM_MAX_RANK];
  ptrdiff_t rank = py.PyTuple_Size(shape);
  int32_t status;
  if (!fresh(executor, size, code, flags, &handle)) return NULL;
  if (rank != 1) {
    for (ptrdiff_t i = 0; i < rank; i++) hologram_exact(py.PyTuple_GetItem(shape, i), &dims[i]);
    flat = handle;
    status = hologram_buffer_view(flat, 0, (int32_t)rank, dims, NULL, &handle);
    hologram_buffer_done(flat); /* the view keeps the memory */
    if (!work_check(status)) return NULL;
  }
  return (py_object *)make(executor, handle, dtype, shape, size, code, boolean);
}

static py_object *name_dtype, *name_zero;

/* The last size that was asked for, in the shape of so many elements in a row: it comes again, often as the same object. */
static struct {
  py_object *object, *shape;
  int64_t size;
} last;

/* The shape of so many elements in a row. */
static py_object *shape_of(py_object *object, int64_t size) {
  py_object *shape, *former;
  if (last.object != object) {
    if (!(shape = py.PyTuple_New(1))) return NULL;
    former = last.shape; /* not before: up to Python 3.11 making a tuple may run finalizers, which may come here */
    py.Py_IncRef(object);
    py.PyTuple_SetItem(shape, 0, object);
    last.object = object;
    last.shape = shape;
    last.size = size;
    drop(&former);
  }
  py.Py_IncRef(last.shape);
  return last.shape;
}

/* The size that an argument asks for, which is exactly an int; false: it is no such size. */
static bool size_of(py_object *object, int64_t *size) {
  if (object == last.object) {
    *size = last.size;
    return true;
  }
  return hologram_exact(object, size) && *size > 0;
}

/* What the hook "dtypes" has of a dtype. */
typedef struct {
  py_object *object;
  int64_t code;
  bool boolean;
} element_type;

static element_type read_dtype(py_object *known) {
  element_type d = {.object = py.PyTuple_GetItem(known, 0), .boolean = py.PyTuple_GetItem(known, 2) == py._Py_TrueStruct};
  hologram_exact(py.PyTuple_GetItem(known, 1), &d.code);
  return d;
}

/* Executor.allocate. dtype is looked up in the hook "dtypes", which has (dtype, code, whether it is bool), under None the
   default. What is not as it should be the hook "allocate" says, or mends. */
static py_object *allocate(py_object *self, py_object *const *args, ptrdiff_t n, py_object *keywords) {
  static element_type none; /* what "dtypes" has under None; kept */
  element_type of = {.object = NULL};
  py_object *known, *found = NULL, *shape, *result = NULL, *asked = n > 1 ? args[1] : py._Py_NoneStruct, *zero = py._Py_TrueStruct;
  ptrdiff_t named = keywords ? py.PyTuple_Size(keywords) : 0;
  int64_t size;
  int32_t flags;
  hologram_buffer handle;
  bool fine = (n == 1 || n == 2) && !((py_handle *)self)->freed && size_of(args[0], &size);
  for (ptrdiff_t i = 0; fine && i < named; i++) {
    py_object *name = py.PyTuple_GetItem(keywords, i);
    if (name == name_zero && args[n + i]->type == py.PyBool_Type) {
      zero = args[n + i];
    } else if (name == name_dtype && n == 1) {
      asked = args[n + i];
    } else {
      fine = false;
    }
  }
  if (fine && asked == py._Py_NoneStruct && none.object) {
    of = none;
  } else if (fine && (known = hologram_hook_of(HOOK_dtypes))) {
    found = py.PyDict_GetItemWithError(known, asked);
    if (!found) py.PyErr_Clear(); /* unhashable */
    if (found) {
      py.Py_IncRef(found);
      of = read_dtype(found);
      if (asked == py._Py_NoneStruct) py.Py_IncRef((none = of).object);
    }
  }
  if (!of.object) return hologram_again(HOOK_allocate, self, args, n, keywords);
  hologram_drain();
  flags = zero == py._Py_TrueStruct ? 0 : HOLOGRAM_UNINITIALIZED;
  if ((shape = shape_of(args[0], size))) {
    if (fresh(self, size, (int32_t)of.code, flags, &handle)) {
      result = (py_object *)make(self, handle, of.object, shape, size, (int32_t)of.code, of.boolean);
    }
    py.Py_DecRef(shape);
  }
  if (found) py.Py_DecRef(found);
  return result;
}

/* Buffer.free. */
static py_object *free_buffer(py_object *self, py_object *const *args, ptrdiff_t n, py_object *keywords) {
  if (n || keywords) return hologram_again(HOOK_free, self, args, n, keywords);
  end((py_array *)self);
  drop(&((py_array *)self)->tensor);
  return py_none();
}

/* gone(buffer): whether it, or its executor, was freed. */
static py_object *gone(py_object *self, py_object *const *args, ptrdiff_t n) {
  (void)self;
  return py.PyBool_FromLong(n == 1 && hologram_is_buffer(args[0]) && hologram_buffer_gone((py_array *)args[0]));
}

/* adopt(object, owner): makes an executor or a program own what owner had, and owner what that had before, if it was not
   freed. */
static py_object *adopt(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "adopt"};
  py_handle *h;
  py_owner *owner, was;
  (void)self;
  if (!native_count(&c, n, 2)) return NULL;
  h = (py_handle *)args[0];
  owner = (py_owner *)args[1];
  if (!hologram_is_owner(args[1]) || !(owner->kind == OWNED_program ? hologram_is_program(args[0]) : owner->kind == OWNED_executor && hologram_is_executor(args[0]))) {
    py.PyErr_SetString(py.PyExc_TypeError, "adopt: expected an executor or a program, and an owner of such a handle");
    return NULL;
  }
  was = release(h);
  h->handle = owner->handle;
  h->freed = 0;
  owner->handle = was.handle;
  return py_none();
}

/* end(object): frees an executor or a program; whether this did, which one of several that ask is told. Of an executor the
   first error of work whose outcome nobody has seen is raised. */
static py_object *end_handle(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "end"};
  py_owner was;
  (void)self;
  if (!native_count(&c, n, 1)) return NULL;
  if (!hologram_is_executor(args[0]) && !hologram_is_program(args[0])) {
    py.PyErr_SetString(py.PyExc_TypeError, "end: expected an executor or a program");
    return NULL;
  }
  if (hologram_finalizing()) return py.PyBool_FromLong(0); /* as hologram_owned_end: what __del__ ends then goes with the process */
  hologram_drain();
  was = release((py_handle *)args[0]);
  if (was.kind == OWNED_program) {
    hologram_owned_end(&was);
  } else if (was.handle && !(work_begin(&c.work) && work_end(&c.work, hologram_executor_free(was.handle)))) return NULL;
  return py.PyBool_FromLong(was.handle != 0);
}

/* classes(Executor, Program, Buffer): those that derive from the bases. */
static py_object *classes(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "classes"};
  (void)self;
  if (!native_count(&c, n, 3)) return NULL;
  for (int i = 0; i < 3; i++) py.Py_IncRef(args[i]);
  hologram_types.an_executor = args[0];
  hologram_types.a_program = args[1];
  hologram_types.a_buffer = args[2];
  return py_none();
}

static py_method methods[] = {
    {"buffer", (void *)new_buffer, PY_FASTCALL, NULL},
    {"gone", (void *)gone, PY_FASTCALL, NULL},
    {"adopt", (void *)adopt, PY_FASTCALL, NULL},
    {"end", (void *)end_handle, PY_FASTCALL, NULL},
    {"classes", (void *)classes, PY_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

/* What memoryview and others take of a Buffer: the memory as its hook gives it. */
static int buffer_export(py_object *self, py_buffer *view, int flags) {
  py_object *arguments = py.PyTuple_New(1), *offered;
  int failed = -1;
  view->object = NULL;
  if (!arguments) return failed;
  py.Py_IncRef(self);
  py.PyTuple_SetItem(arguments, 0, self);
  if ((offered = hologram_hook(HOOK_export, arguments))) {
    failed = py.PyObject_GetBuffer(offered, view, flags); /* which keeps what is offered alive */
    py.Py_DecRef(offered);
  }
  return failed;
}

int hologram_objects(py_object *into) {
  static py_slot handle_slots[] = {{PY_SLOT_DEALLOC, (void *)handle_dealloc}, {PY_SLOT_MEMBERS, handle_members}, {0, NULL}};
  static py_slot buffer_slots[] = {{PY_SLOT_DEALLOC, (void *)buffer_dealloc},
                                   {PY_SLOT_TRAVERSE, (void *)buffer_traverse},
                                   {PY_SLOT_CLEAR, (void *)buffer_clear},
                                   {PY_SLOT_MEMBERS, buffer_members},
                                   {PY_SLOT_GET_BUFFER, (void *)buffer_export},
                                   {0, NULL}};
  static py_spec specs[] = {
      {"hologram._native.ExecutorBase", sizeof(py_handle), 0, PY_TYPE_DEFAULT | PY_TYPE_BASE, handle_slots},
      {"hologram._native.ProgramBase", sizeof(py_handle), 0, PY_TYPE_DEFAULT | PY_TYPE_BASE, handle_slots},
      {"hologram._native.BufferBase", sizeof(py_array), 0, PY_TYPE_DEFAULT | PY_TYPE_BASE | PY_TYPE_GC, buffer_slots},
  };
  py_object **bases[] = {&hologram_types.executor, &hologram_types.program, &hologram_types.buffer};
  py_object **classes[] = {&hologram_types.an_executor, &hologram_types.a_program, &hologram_types.a_buffer};
  for (int i = 0; i < 3; i++) {
    if (!(*bases[i] = py.PyType_FromSpec(&specs[i]))) return -1;
    *classes[i] = *bases[i];
    if (py.PyDict_SetItemString(into, strrchr(specs[i].name, '.') + 1, *bases[i])) return -1;
  }
  if (!(name_dtype = py.PyUnicode_InternFromString("dtype")) || !(name_zero = py.PyUnicode_InternFromString("zero"))) return -1;
  hologram_method("allocate", hologram_types.executor, (void *)allocate);
  hologram_method("free", hologram_types.buffer, (void *)free_buffer);
  return hologram_builtins(into, methods);
}
