/* Owners of handles: objects that are there before the library gives a handle, and free it when they are dropped. CPython
   runs signal handlers, which may raise, between a builtin's return and whatever Python does with what it returned: a handle
   that were a number then would be lost. */
#include "python.h"

static py_object *owner_type;

py_owner *hologram_owner_new(owned kind) {
  py_owner *o = (py_owner *)py.PyType_GenericAlloc(owner_type, 0);
  if (o) o->kind = kind;
  return o;
}

bool hologram_is_owner(py_object *o) { return o->type == owner_type; }

/* Frees one whose end may take long. Who drops it hears of no error: that is what the next call that waits is for. */
static void end_slowly(const py_owner *o) {
  work w = {.failure = NULL};
  py_object *type, *value, *traceback;
  py.PyErr_Fetch(&type, &value, &traceback); /* an exception may be on its way, which drops it */
  if (work_begin(&w)) {
    if (o->kind == OWNED_stream) {
      hologram_stream_free(o->of, o->handle);
    } else {
      hologram_executor_free(o->handle);
    }
    work_end(&w, HOLOGRAM_OK);
  } else {
    py.PyErr_Clear(); /* the interpreter ends */
  }
  py.PyErr_Restore(type, value, traceback);
}

/* What fails was freed before, by hologram_clear_all or with its executor, or belongs to the process of which this is a
   fork's child. What is left when the interpreter ends goes with the process: by then it may have taken the stack for
   signals away that this thread had (faulthandler's, of which pytest makes use), without which Go cannot be entered. */
void hologram_owned_end(const py_owner *o) {
  if (hologram_finalizing()) return;
  switch (o->handle ? o->kind : OWNED_none) {
  case OWNED_none: break;
  case OWNED_buffer: hologram_buffer_done(o->handle); break;
  case OWNED_program: hologram_program_free(o->handle); break;
  case OWNED_event: hologram_event_free(o->handle); break;
  case OWNED_lease: hologram_lease_free(o->handle); break;
  case OWNED_profile: hologram_profile_free(o->handle); break;
  case OWNED_mark: hologram_mark_free(o->handle); break;
  case OWNED_executor:
  case OWNED_stream: end_slowly(o); break;
  }
}

static void owner_dealloc(py_object *self) {
  hologram_owned_end((py_owner *)self);
  hologram_give_back(self);
}

/* stream_new(executor): the owner of another stream. */
static py_object *stream_new(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "stream_new"};
  uint64_t executor;
  py_owner *made;
  (void)self;
  if (!native_count(&c, n, 1) || !native_u64(&c, args[0], "executor", &executor) || !(made = hologram_owner_new(OWNED_stream))) {
    return NULL;
  }
  made->of = executor;
  hologram_drain();
  if (work_begin(&c.work) && work_end(&c.work, hologram_stream_new(executor, &made->handle))) return (py_object *)made;
  py.Py_DecRef((py_object *)made);
  return NULL;
}

int hologram_owners(py_object *into) {
  static py_member members[] = {
      {"handle", PY_MEMBER_ULONGLONG, offsetof(py_owner, handle), PY_MEMBER_READONLY, "The handle in the C ABI, or a stream's number."},
      {NULL, 0, 0, 0, NULL},
  };
  static py_slot slots[] = {{PY_SLOT_DEALLOC, (void *)owner_dealloc}, {PY_SLOT_MEMBERS, members}, {0, NULL}};
  static py_spec spec = {"hologram._native.Owner", sizeof(py_owner), 0, PY_TYPE_DEFAULT, slots};
  static py_method methods[] = {{"stream_new", (void *)stream_new, PY_FASTCALL, NULL}, {NULL, NULL, 0, NULL}};
  if (!(owner_type = py.PyType_FromSpec(&spec)) || py.PyDict_SetItemString(into, "Owner", owner_type)) return -1;
  return hologram_builtins(into, methods);
}
