/* What goes on while its caller does something else: copies and synchronizations that give an event, looks at events and
   marks, and calls of operations whose numbers are read later. */
#include "python_call.h"

#include "_cgo_export.h"

/* Ends a call that has given an event's owner its handle, if status is HOLOGRAM_PENDING: the owner, or None if the work is
   over; NULL with an exception. */
static py_object *event_of(work *w, int32_t status, py_owner *event) {
  bool fine = work_end(w, status == HOLOGRAM_PENDING ? HOLOGRAM_OK : status);
  if (fine && status == HOLOGRAM_PENDING) return (py_object *)event;
  py.Py_DecRef((py_object *)event);
  return fine ? py_none() : NULL;
}

/* Waits without the GIL until status is no longer HOLOGRAM_PENDING. */
static bool settle(work *w, int32_t status, hologram_event event) {
  atomic_store(&w->event, event);
  return work_end(w, status);
}

/* transfer(buffer, offset, bytes, host, to_host, stream, owner, later): copies between a buffer and the host's memory, of
   which owner is kept until it is used no more: None when the copy is done. With later the event's owner, or None. */
static py_object *transfer(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "transfer"};
  uint64_t buffer, host, stream;
  int64_t offset, bytes;
  hologram_deleter deleter = NULL;
  void *context = NULL;
  hologram_event event = 0;
  py_owner *made = NULL;
  bool later;
  int32_t status, flags;
  (void)self;
  if (!native_count(&c, n, 8) || !native_u64(&c, args[0], "buffer", &buffer) || !native_i64(&c, args[1], "offset", &offset) ||
      !native_i64(&c, args[2], "bytes", &bytes) || !native_u64(&c, args[3], "host", &host) ||
      !native_u64(&c, args[5], "stream", &stream) || !native_owner(&c, args[6], &deleter, &context)) {
    return native_refused(&c);
  }
  later = args[7] == py._Py_TrueStruct;
  flags = (args[4] == py._Py_TrueStruct ? HOLOGRAM_TO_HOST : 0) | (later ? HOLOGRAM_LATER : 0);
  hologram_drain();
  sequence_spoil();
  if (later && !(made = hologram_owner_new(OWNED_event))) return native_refused(&c);
  if (!work_begin(&c.work)) {
    if (made) py.Py_DecRef((py_object *)made);
    return native_refused(&c);
  }
  c.owner = NULL; /* the library's, whatever comes of it */
  status = hologram_buffer_transfer(buffer, offset, bytes, (void *)(uintptr_t)host, flags, stream, deleter, context,
                                    later ? &made->handle : &event);
  if (later) return event_of(&c.work, status, made);
  return settle(&c.work, status, event) ? py_none() : NULL;
}

/* outcome(executor): the owner of the event of all work of an executor so far, or None. */
static py_object *outcome_of(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "outcome"};
  uint64_t executor;
  py_owner *made;
  (void)self;
  if (!native_count(&c, n, 1) || !native_u64(&c, args[0], "executor", &executor) || !(made = hologram_owner_new(OWNED_event))) return NULL;
  if (work_begin(&c.work)) return event_of(&c.work, hologram_executor_outcome(executor, &made->handle), made);
  py.Py_DecRef((py_object *)made);
  return NULL;
}

typedef int32_t look(uint64_t handle, int32_t milliseconds);

/* Looks at what a handle stands for, up to a time: whether it is over. */
static py_object *waited(const char *name, look *wait, py_object *const *args, ptrdiff_t n) {
  native c = {.name = name};
  uint64_t handle;
  int32_t milliseconds, status;
  if (!native_count(&c, n, 2) || !native_u64(&c, args[0], "handle", &handle) || !native_i32(&c, args[1], "milliseconds", &milliseconds)) {
    return NULL;
  }
  if (!work_begin(&c.work)) return native_refused(&c);
  status = wait(handle, milliseconds);
  if (!work_end(&c.work, status == HOLOGRAM_PENDING ? HOLOGRAM_OK : status)) return NULL;
  return py.PyBool_FromLong(status != HOLOGRAM_PENDING);
}

/* event_wait(event, milliseconds): whether the work is over; what went wrong is raised. */
static py_object *event_wait(py_object *self, py_object *const *args, ptrdiff_t n) {
  (void)self;
  return waited("event_wait", hologram_event_wait, args, n);
}

/* mark_wait(mark, milliseconds): whether the device has come to it. */
static py_object *mark_wait(py_object *self, py_object *const *args, ptrdiff_t n) {
  (void)self;
  return waited("mark_wait", hologram_mark_wait, args, n);
}

/* later(signature, positional, names, values): calls the operation of a signature, which waits for no number: its result,
   and whether that is a Buffer of which a number is to be read. */
static py_object *later(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "later"};
  py_object *all[2 * MAX_PARAMS], *result, *both;
  ptrdiff_t positional, named;
  bool number = false;
  (void)self;
  if (!native_count(&c, n, 4)) return NULL;
  if (!signature_is(args[0])) {
    py.PyErr_SetString(py.PyExc_TypeError, "later: expected an operation's signature");
    return NULL;
  }
  if ((positional = py.PyTuple_Size(args[1])) < 0 || (named = py.PyTuple_Size(args[2])) < 0) return NULL;
  if (positional > MAX_PARAMS || named > MAX_PARAMS || named != py.PyTuple_Size(args[3])) {
    py.PyErr_SetString(py.PyExc_TypeError, "later: too many arguments");
    return NULL;
  }
  for (ptrdiff_t i = 0; i < positional; i++) all[i] = py.PyTuple_GetItem(args[1], i);
  for (ptrdiff_t i = 0; i < named; i++) all[positional + i] = py.PyTuple_GetItem(args[3], i);
  result = hologram_operation_later(args[0], all, positional, named ? args[2] : NULL, &number);
  if (!result) return NULL;
  if (!(both = py.PyTuple_New(2))) {
    py.Py_DecRef(result);
    return NULL;
  }
  py.PyTuple_SetItem(both, 0, result);
  py.PyTuple_SetItem(both, 1, py.PyBool_FromLong(number));
  return both;
}

static py_method methods[] = {
    {"transfer", (void *)transfer, PY_FASTCALL, NULL},     {"outcome", (void *)outcome_of, PY_FASTCALL, NULL},
    {"event_wait", (void *)event_wait, PY_FASTCALL, NULL}, {"mark_wait", (void *)mark_wait, PY_FASTCALL, NULL},
    {"later", (void *)later, PY_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int hologram_futures(py_object *into) { return hologram_builtins(into, methods); }
