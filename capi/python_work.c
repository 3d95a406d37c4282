/* Calls that may take long: without the GIL, waited for in steps between which signal handlers run, and ended before the
   interpreter is; and the exceptions of those that fail. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* clocks */
#endif

#include "python.h"

#include <string.h>

#include "_cgo_export.h"

#ifdef _WIN32
#include <windows.h>
static void nap(int milliseconds) { Sleep((DWORD)milliseconds); }
static long long milliseconds(void) { return (long long)GetTickCount64(); }
#else
#include <time.h>
static void nap(int milliseconds) {
  struct timespec t = {0, milliseconds * 1000000L};
  nanosleep(&t, NULL);
}
static long long milliseconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (long long)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}
#endif

/* ---- errors ---- */

void hologram_raise(int32_t status) {
  char text[8192];
  hologram_fault fault = {.size = sizeof fault};
  hologram_shortage shortage = {.size = sizeof shortage};
  py_object *arguments, *error;
  size_t size = 0;
  /* First of all: making objects may run code that meets errors of its own. */
  hologram_last_error(text, sizeof text, &size);
  hologram_last_fault(&fault);
  hologram_last_shortage(&shortage);
  if (!(arguments = py.PyTuple_New(9))) return;
  py.PyTuple_SetItem(arguments, 0, py.PyLong_FromLongLong(status));
  py.PyTuple_SetItem(arguments, 1, py.PyUnicode_DecodeUTF8(text, (ptrdiff_t)(size < sizeof text ? size : sizeof text), "replace"));
  py.PyTuple_SetItem(arguments, 2, py.PyLong_FromLongLong(fault.kind));
  py.PyTuple_SetItem(arguments, 3, py.PyLong_FromLongLong(fault.instruction));
  py.PyTuple_SetItem(arguments, 4, py.PyLong_FromLongLong(fault.line));
  py.PyTuple_SetItem(arguments, 5, py.PyLong_FromUnsignedLongLong(fault.lane));
  py.PyTuple_SetItem(arguments, 6, py.PyLong_FromLongLong(shortage.asked));
  py.PyTuple_SetItem(arguments, 7, py.PyLong_FromLongLong(shortage.left));
  py.PyTuple_SetItem(arguments, 8, py.PyLong_FromLongLong(shortage.cached));
  if ((error = hologram_hook(HOOK_error, arguments))) {
    py.PyErr_SetObject(error->type, error);
    py.Py_DecRef(error);
  }
}

/* ---- work ---- */

static work *under_way;             /* guarded by the GIL */
static _Atomic int closing;         /* the interpreter ends */
static _Thread_local bool closer;   /* by this thread */
static _Thread_local work *current; /* the thread's innermost */

enum {
  SLICE_MS = 50,      /* after which signal handlers run */
  CLOSING_MS = 10000, /* how long work that does not end may hold up the interpreter's end */
  PARKED_MS = 1000,   /* how long a thread is kept from Python while functions of atexit run, one of which may wait for it */
};

bool work_closing(void) { return atomic_load(&closing); }

/* Whether the interpreter ends, and not by this thread, which still calls for what is done at exit. */
static bool late(void) { return work_closing() && !closer; }

/* Keeps a thread, without the GIL, from Python that ends: for ever once that has begun to finalize, as CPython does from
   3.14 on. Before, it ends the thread at its next step, and aborts if that had the lock of stderr, for a traceback. */
static void park(void) {
  for (long long until = milliseconds() + PARKED_MS; milliseconds() < until || hologram_finalizing();) nap(10);
}

/* Goes back to Python. */
static void back(work *w, void *thread) {
  if (late()) {
    atomic_store(&w->parked, true);
    park();
  }
  py.PyEval_RestoreThread(thread);
}

/* In a fork's child the list leads to stacks of threads that are not there, which new threads may have been given; nothing
   goes on there. */
static void enter(work *w) {
  if (hologram_support_forked()) return;
  w->next = under_way;
  w->link = &under_way;
  if (under_way) under_way->link = &w->next;
  under_way = w;
}

static void leave(work *w) {
  if (hologram_support_forked()) return;
  *w->link = w->next;
  if (w->next) w->next->link = w->link;
}

bool work_begin(work *w) {
  static char text[] = "the interpreter ends: only the thread that ends it can still begin work";
  if (late()) {
    void *thread = py.PyEval_SaveThread();
    park();
    py.PyEval_RestoreThread(thread);
    hologram_support_error(text, sizeof text - 1);
    hologram_raise(HOLOGRAM_CANCELLED);
    return false;
  }
  work_continue(w);
  return true;
}

void work_continue(work *w) {
  atomic_store_explicit(&w->event, 0, memory_order_relaxed);
  atomic_store_explicit(&w->parked, false, memory_order_relaxed);
  w->raised = false;
  w->outer = current;
  current = w;
  enter(w);
  w->thread = py.PyEval_SaveThread();
}

/* Waits without the GIL until the work ends or, if slices is not 0, for some of them. */
static int32_t look(work *w, int slices) {
  int32_t status;
  void *thread = py.PyEval_SaveThread();
  do status = hologram_event_wait(w->event, SLICE_MS);
  while (status == HOLOGRAM_PENDING && !slices);
  if (status == HOLOGRAM_PENDING) {
    py.PyEval_RestoreThread(thread);
  } else {
    back(w, thread);
  }
  return status;
}

/* Ends work with the exception that is set, which stays so. */
static void cancel(work *w) {
  py_object *type, *value, *traceback;
  py.PyErr_Fetch(&type, &value, &traceback);
  hologram_event_cancel(w->event);
  look(w, 0);
  hologram_event_free(w->event);
  py.PyErr_Restore(type, value, traceback);
}

void work_stop(hologram_event event) {
  hologram_event_cancel(event);
  while (hologram_event_wait(event, SLICE_MS) == HOLOGRAM_PENDING) {
  }
  hologram_event_free(event);
}

/* What a call asks on its thread while it waits for a program: lets signal handlers run, and ends the call with what they
   raise. */
static int32_t interrupt(void) {
  work *w = current;
  void *thread;
  if (!w || !w->thread) return 0; /* a call that a handler makes, with the GIL held */
  if (late()) return 1;
  thread = w->thread;
  w->thread = NULL;
  py.PyEval_RestoreThread(thread);
  if (py.PyErr_CheckSignals()) w->raised = true;
  w->thread = py.PyEval_SaveThread();
  return w->raised;
}

bool work_end(work *w, int32_t status) {
  static char cleared[] = "cancelled: all objects of the library were freed meanwhile";
  bool done = true;
  current = w->outer;
  if (w->raised) {
    back(w, w->thread);
    done = false;
  } else if (status == HOLOGRAM_PENDING) {
    /* The interpreter may have begun to end while nobody could cancel this. */
    if (late()) hologram_event_cancel(w->event);
    status = hologram_event_wait(w->event, SLICE_MS);
    if (status == HOLOGRAM_PENDING) {
      py.PyEval_RestoreThread(w->thread);
    } else {
      back(w, w->thread);
    }
    while (status == HOLOGRAM_PENDING && done) {
      if (py.PyErr_CheckSignals() || (w->failure && *w->failure)) {
        cancel(w);
        done = false;
      } else {
        status = look(w, 1);
      }
    }
    if (done && status != HOLOGRAM_OK) {
      if (status == HOLOGRAM_BAD_HANDLE && hologram_event_cancel(w->event) == HOLOGRAM_BAD_HANDLE) {
        status = HOLOGRAM_CANCELLED;
        hologram_support_error(cleared, sizeof cleared - 1);
      }
      hologram_raise(status);
      done = false;
      hologram_event_free(w->event);
    } else if (done) {
      hologram_event_free(w->event);
    }
  } else {
    back(w, w->thread);
    if (status != HOLOGRAM_OK) {
      hologram_raise(status);
      done = false;
    }
  }
  leave(w);
  return done;
}

bool work_check(int32_t status) {
  if (status == HOLOGRAM_OK) return true;
  hologram_raise(status);
  return false;
}

void hologram_hold_environment(void) {
  if (!hologram_support_forked()) environment_hold();
}

/* waiting(): how many calls go on without the GIL and have an event. */
static py_object *waiting(py_object *self, py_object *const *args, ptrdiff_t n) {
  long long count = 0;
  (void)self, (void)args, (void)n;
  for (work *w = hologram_support_forked() ? NULL : under_way; w; w = w->next) count += atomic_load(&w->event) != 0;
  return py.PyLong_FromLongLong(count);
}

/* Cancels work; false while it goes on. */
static bool ended(work *w) {
  hologram_event event = atomic_load(&w->event);
  if (atomic_load(&w->parked)) return true;
  if (event) hologram_event_cancel(event);
  return event && hologram_event_wait(event, 0) != HOLOGRAM_PENDING;
}

/* close(): cancels what daemon threads still wait for, and waits for its end: once the interpreter is gone nobody may
   write to memory that was its. They begin no more after that, else those that call without pause would hold up the end.
   Called when the interpreter begins to end, by the thread that ends it, whose own work goes on as ever. */
static py_object *close_all(py_object *self, py_object *const *args, ptrdiff_t n) {
  long long until = milliseconds() + CLOSING_MS;
  (void)self, (void)args, (void)n;
  closer = true;
  atomic_store(&closing, 1);
  if (hologram_support_forked()) return py_none(); /* the threads are not there */
  while (under_way && milliseconds() < until) {
    bool all_ended = true;
    for (work *w = under_way; w; w = w->next) all_ended = ended(w) && all_ended;
    if (all_ended) break;
    void *thread = py.PyEval_SaveThread();
    nap(1);
    py.PyEval_RestoreThread(thread);
  }
  return py_none();
}

int hologram_work(py_object *into) {
  static py_method methods[] = {
      {"waiting", (void *)waiting, PY_FASTCALL, NULL},
      {"close", (void *)close_all, PY_FASTCALL, NULL},
      {NULL, NULL, 0, NULL},
  };
  hologram_set_interrupt(interrupt);
  return hologram_builtins(into, methods);
}
