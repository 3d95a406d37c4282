/* Updates: launches of a program on many tensors of torch's in place, one after the other, as optimisers have them, and what
   they look at before. */
#include "python_call.h"

#include <stdlib.h>

/* Takes the arrays of one launch, from args on, and its numbers. */
static outcome prepare_update(request *r, const signature *s, uint64_t program, py_object *executor, py_object *arrays,
                              ptrdiff_t from, py_object *numbers) {
  outcome found = request_begin(r, executor);
  ptrdiff_t number = 0;
  for (int i = 0; i < s->num_params && found == DONE; i++) {
    if (s->params[i].kind == 's') {
      found = request_scalar(r, py.PyTuple_GetItem(numbers, number++));
    } else {
      found = request_take(r, py.PyTuple_GetItem(arrays, from++), s->params[i].kind == 'w' ? WRITTEN : READ);
    }
  }
  r->args.op = -1;
  r->args.program = program;
  return found == DONE ? request_borrow(r) : found;
}

/* launch_each(executor, program, arrays, numbers): launches a program with the numbers on each so many of the arrays as it
   has slots, in its own order. Returns how many of the arrays have had theirs; the next one is left to Python. */
static py_object *launch_each(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "launch_each"};
  const signature *s;
  py_handle *program;
  ptrdiff_t all, slots = 0, done = 0;
  (void)self;
  if (!native_count(&c, n, 4)) return NULL;
  program = (py_handle *)args[1];
  if (!hologram_is_program(args[1]) || args[2]->type != py.PyTuple_Type || args[3]->type != py.PyTuple_Type) {
    py.PyErr_SetString(py.PyExc_TypeError, "launch_each: expected an executor, a program, and tuples of arrays and numbers");
    return NULL;
  }
  all = py.PyTuple_Size(args[2]);
  s = (const signature *)program->plan;
  if (!hologram_is_executor(args[0]) || program->freed || !s || s->careful || s->boundary >= 0) return py.PyLong_FromLongLong(0);
  for (int i = 0; i < s->num_params; i++) slots += s->params[i].kind != 's';
  if (!slots || all % slots || py.PyTuple_Size(args[3]) != s->num_params - slots) {
    py.PyErr_SetString(py.PyExc_ValueError, "launch_each: the program has other numbers of slots or parameters");
    return NULL;
  }
  for (; done < all; done += slots) {
    request r;
    outcome found;
    bool fine;
    r.args.num_operands = 0;
    found = prepare_update(&r, s, program->handle, args[0], args[2], done, args[3]);
    fine = request_end(&r, found == SURPRISE || (found == DONE && request_run(&r)));
    if (!fine) return NULL;
    if (found == SURPRISE) break;
  }
  return py.PyLong_FromLongLong(done);
}

/* torch_looks(tensors, each, inputs): all of some tensors that decides whether a program takes them, and how: dtypes, devices,
   shapes and strides, as bytes. Of lists of so many tensors each, the program writes all from inputs on, and tensor 1 is none
   of these. None of what is no dense tensor of torch's own, or a negative view, where anything redirects torch's functions,
   and where the memory of what a list's program writes may be another's in it, or is not aligned: that decides too. */
static py_object *looks(py_object *self, py_object *const *args, ptrdiff_t n) {
  enum { WORDS = 2 + 2 * HOLOGRAM_MAX_RANK, MOST = 16 };
  native c = {.name = "torch_looks"};
  struct {
    uintptr_t from, to;
  } taken[MOST]; /* by the gradient, and what is written */
  py_object *found;
  int64_t *words;
  size_t used = 0;
  ptrdiff_t all;
  int32_t each, inputs;
  int num = 0;
  (void)self;
  if (!native_count(&c, n, 3) || (all = py.PyTuple_Size(args[0])) < 0) return NULL;
  if (hologram_support_forked() && !native_end(&c, HOLOGRAM_FORKED, true)) return NULL; /* before anything is changed */
  if (!native_i32(&c, args[1], "each", &each) || !native_i32(&c, args[2], "inputs", &inputs)) return NULL;
  if (each < 1 || each > MOST || inputs < 2 || all % each) {
    py.PyErr_SetString(py.PyExc_ValueError, "torch_looks: expected lists of up to 16 tensors");
    return NULL;
  }
  if (!torch_usual(false)) return py_none();
  if (!(words = malloc(((size_t)all * WORDS + 1) * sizeof *words))) return py.PyErr_NoMemory();
  for (ptrdiff_t i = 0; i < all; i++) {
    py_object *o = py.PyTuple_GetItem(args[0], i);
    int32_t at = (int32_t)(i % each), device, index;
    glance g;
    outcome mine = torch_is(o);
    bool fine = mine == DONE && torch_look(o, &g, &device, &index);
    if (!at) num = 0;
    if (fine && (at == 1 || at >= inputs)) {
      fine = torch_range(o, &g, &taken[num].from, &taken[num].to);
      for (int k = 0; k < num && fine && at >= inputs; k++) fine = taken[num].to <= taken[k].from || taken[k].to <= taken[num].from;
      num++;
    }
    if (!fine) {
      free(words);
      return mine == FAILED ? NULL : py_none();
    }
    words[used++] = (int64_t)g.type << 32 | (int64_t)g.rank;
    words[used++] = (int64_t)device << 32 | (uint32_t)index;
    for (int64_t k = 0; k < g.rank; k++) {
      words[used++] = g.shape[k];
      words[used++] = g.strides[k];
    }
  }
  found = py.PyBytes_FromStringAndSize((const char *)words, (ptrdiff_t)(used * sizeof *words));
  free(words);
  return found;
}

/* torch_counts(tensors, add): the numbers of tensors such as optimisers count steps in, f32 of no dimensions on the host,
   after 1 is added to each if add; None, with nothing changed, if one is another. */
static py_object *counts(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_counts"};
  py_object *found;
  outcome fine = DONE;
  ptrdiff_t all;
  bool add;
  (void)self;
  if (!native_count(&c, n, 2) || (all = py.PyTuple_Size(args[0])) < 0) return NULL;
  add = args[1] == py._Py_TrueStruct;
  if (!(found = py.PyTuple_New(all))) return NULL; /* before anything is looked at: it may run finalizers */
  for (ptrdiff_t i = 0; i < all && fine == DONE; i++) fine = torch_is(py.PyTuple_GetItem(args[0], i));
  if (fine == DONE && !torch_usual(false)) fine = SURPRISE;
  for (ptrdiff_t i = 0; i < all && fine == DONE; i++) {
    if (!torch_number(py.PyTuple_GetItem(args[0], i))) fine = SURPRISE;
  }
  if (fine != DONE) {
    py.Py_DecRef(found);
    return fine == FAILED ? NULL : py_none();
  }
  for (ptrdiff_t i = 0; add && i < all; i++) {
    py_object *o = py.PyTuple_GetItem(args[0], i);
    *torch_number(o) += 1;
    torch_asked()->wrote(o);
  }
  for (ptrdiff_t i = 0; i < all; i++) {
    py.PyTuple_SetItem(found, i, py.PyFloat_FromDouble(*torch_number(py.PyTuple_GetItem(args[0], i))));
  }
  return found;
}

static py_method methods[] = {
    {"launch_each", (void *)launch_each, PY_FASTCALL, NULL},
    {"torch_looks", (void *)looks, PY_FASTCALL, NULL},
    {"torch_counts", (void *)counts, PY_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int hologram_updates(py_object *into) { return hologram_builtins(into, methods); }
