/* The plain call, by which Python makes those that C left to it: of handles and numbers, and of any number of them. */
#include "python_call.h"

#include <stdlib.h>
#include <string.h>

/* The receiver of a trace's lines. */
typedef struct {
  py_object *receive, *failure[3]; /* what it raised: type, value, traceback */
} receiver;

/* Called from a thread of the library's. */
static void line(void *context, const char *text, size_t size) {
  receiver *to = context;
  int state = py.PyGILState_Ensure();
  if (!to->failure[0]) {
    py_object *s = py.PyUnicode_DecodeUTF8(text, (ptrdiff_t)size, "replace");
    py_object *done = s ? py.PyObject_CallFunctionObjArgs(to->receive, s, NULL) : NULL;
    if (s) py.Py_DecRef(s);
    if (done) {
      py.Py_DecRef(done);
    } else {
      py.PyErr_Fetch(&to->failure[0], &to->failure[1], &to->failure[2]);
    }
  }
  py.PyGILState_Release(state);
}

/* Room for the arguments of a plain call, of any number. */
typedef struct {
  hologram_call_args args;
  hologram_operand *operands;
  hologram_scalar *scalars;
  int64_t *dims;
} plain;

static bool read_plain(native *c, plain *p, py_object *const *args) {
  const int64_t *dims, *grid[2] = {NULL, NULL};
  ptrdiff_t n;
  void *residue = NULL;
  p->args.size = sizeof p->args;
  p->args.num_dims = -1;
  if (!native_i32(c, args[1], "number", &p->args.op)) return false;
  if (args[2] != py._Py_NoneStruct && !native_u64(c, args[2], "program", &p->args.program)) return false;
  if ((n = py.PyTuple_Size(args[3])) < 0 || !(p->operands = calloc((size_t)n + 1, sizeof *p->operands))) return false;
  p->args.operands = p->operands;
  p->args.num_operands = (int32_t)n;
  for (ptrdiff_t i = 0; i < n; i++) {
    py_object *o = py.PyTuple_GetItem(args[3], i);
    if (o == py._Py_NoneStruct) {
      p->operands[i].rank = -1;
    } else if (!native_u64(c, o, "buffer", &p->operands[i].buffer)) {
      return false;
    } else if (hologram_is_buffer(o) && ((py_array *)o)->boolean) {
      p->operands[i].flags = HOLOGRAM_BOOL;
    }
  }
  if ((n = py.PyTuple_Size(args[4])) < 0 || !(p->scalars = calloc((size_t)n + 1, sizeof *p->scalars))) return false;
  p->args.scalars = p->scalars;
  p->args.num_scalars = (int32_t)n;
  for (ptrdiff_t i = 0; i < n; i++) {
    const hologram_scalar *s;
    if (!native_scalar(c, py.PyTuple_GetItem(args[4], i), "scalar", &s)) return false;
    if (s) p->scalars[i] = *s;
  }
  if (args[5] != py._Py_NoneStruct) {
    n = py.PyTuple_Size(args[5]);
    if (!native_sizes(c, args[5], "dims", &dims) || !(p->dims = calloc((size_t)n + 1, sizeof *dims))) return false;
    memcpy(p->dims, dims, (size_t)n * sizeof *dims);
    p->args.dims = p->dims;
    p->args.num_dims = (int32_t)n;
    free(c->more[0]);
    c->more[0] = NULL;
    c->num_sizes = 0;
  }
  if (!native_sizes(c, args[6], "grid", &grid[0]) || !native_sizes(c, args[7], "block", &grid[1])) return false;
  for (int i = 0; i < 3; i++) {
    if (grid[0]) p->args.grid[i] = (uint32_t)grid[0][i];
    if (grid[1]) p->args.block[i] = (uint32_t)grid[1][i];
  }
  if (!native_u64(c, args[8], "fuel", &p->args.fuel) || !native_memory(c, args[9], "residue", true, &residue)) return false;
  p->args.residue = residue;
  return true;
}

/* call(executor, number, program, buffers, scalars, dims, grid, block, fuel, residue, lane, stream, receive): an operation,
   or if number is -1 a launch, or with a receiver of lines a trace of one lane. stream is a number, 0 for the executor's own.
   buffers are a tuple, None for a slot that is
   not bound; scalars a tuple of pairs; dims, grid and block tuples or None. */
static py_object *call(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "call"};
  plain p = {0};
  uint64_t executor, lane = 0;
  hologram_event event = 0;
  receiver to = {0};
  int32_t status;
  bool fine = false;
  (void)self;
  if (!native_count(&c, n, 13)) return NULL;
  if (native_u64(&c, args[0], "executor", &executor) && read_plain(&c, &p, args) &&
      (args[10] == py._Py_NoneStruct || native_u64(&c, args[10], "lane", &lane)) && native_u64(&c, args[11], "stream", &p.args.stream)) {
    bool trace = args[12] != py._Py_NoneStruct;
    to.receive = args[12];
    c.work.failure = to.failure;
    hologram_drain();
    sequence_spoil();
    if ((fine = work_begin(&c.work))) {
      status = trace ? hologram_trace(executor, &p.args, lane, line, &to, &event) : hologram_call(executor, &p.args, &event);
      atomic_store(&c.work.event, event);
      fine = work_end(&c.work, status);
    }
    if (to.failure[0]) {
      if (!fine) py.PyErr_Clear(); /* that the work was cancelled */
      py.PyErr_Restore(to.failure[0], to.failure[1], to.failure[2]);
      fine = false;
    }
  } else if (!py.PyErr_Occurred()) {
    py.PyErr_NoMemory();
  }
  native_refused(&c);
  free(p.operands);
  free(p.scalars);
  free(p.dims);
  return fine ? py_none() : NULL;
}

/* result(number, buffers, dims): what an operation makes of buffers, of which None stands for a number: the code of its
   dtype, whether that is bool, and its shape. */
static py_object *result(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "result"};
  plain p = {0};
  hologram_operand found;
  py_object *none = py._Py_NoneStruct, *scalars, *zero, *answer = NULL, *shape;
  bool fine;
  (void)self;
  if (!native_count(&c, n, 3)) return NULL;
  scalars = py.PyTuple_New(0);
  zero = py.PyLong_FromLongLong(0);
  if (scalars && zero) {
    py_object *const all[] = {none, args[0], none, args[1], scalars, args[2], none, none, zero, none};
    fine = read_plain(&c, &p, all);
  } else {
    fine = false;
  }
  if (!fine && !py.PyErr_Occurred()) py.PyErr_NoMemory();
  fine = fine && work_check(hologram_result(&p.args, &found));
  if (fine && (shape = result_shape(found.shape, found.rank))) {
    if ((answer = py.PyTuple_New(3))) {
      py.PyTuple_SetItem(answer, 0, py.PyLong_FromLongLong(found.dtype));
      py.PyTuple_SetItem(answer, 1, py.PyBool_FromLong(found.flags & HOLOGRAM_BOOL));
      py.PyTuple_SetItem(answer, 2, shape);
    } else {
      py.Py_DecRef(shape);
    }
  }
  native_refused(&c);
  if (scalars) py.Py_DecRef(scalars);
  if (zero) py.Py_DecRef(zero);
  free(p.operands);
  free(p.scalars);
  free(p.dims);
  return answer;
}

static py_method methods[] = {
    {"call", (void *)call, PY_FASTCALL, NULL},
    {"result", (void *)result, PY_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int hologram_plain(py_object *into) { return hologram_builtins(into, methods); }
