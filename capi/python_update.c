/* Updates: launches of a program on many tensors of torch's in place, one after the other, as optimisers have them, and what
   they look at before. */
#include "python_call.h"

#include <stdlib.h>
#include <string.h>

static py_object *grad_name; /* interned */

enum { MOST_BATCHED = 512 }; /* launches that hologram_launch_batch takes */

/* Takes the arrays of one launch, from args on, and its numbers. */
static outcome prepare_update(request *r, const signature *s, uint64_t program, py_object *executor, py_object *arrays,
                              ptrdiff_t from, py_object *numbers) {
  outcome found = request_reset(r, executor);
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

/* Makes launches ready that are to be queued together, since their code is not there yet; false with an exception. What
   else is wrong with them is told where each is made. */
static bool prepare_batch(uint64_t executor, const hologram_call_args *args, int32_t count) {
  work w = {.failure = NULL};
  if (!work_begin(&w)) return false;
  if (work_end(&w, hologram_prepare_batch(executor, args, count))) return true;
  if (w.raised) return false; /* by a signal handler */
  py.PyErr_Clear();
  return true;
}

/* Gathers the operands of launches of tensors of torch's, arrays from one on to another, whose owner orders their memory on
   one stream. Nothing of Python runs behind the first. False with an exception or, of what is to be launched one by one,
   without. */
static bool gather_batch(request *r, const signature *s, py_handle *program, py_object *executor, py_object *arrays, ptrdiff_t from,
                         ptrdiff_t end, py_object *numbers, hologram_operand *to) {
  outcome found;
  ptrdiff_t slots;
  bool fine;
  hologram_drain();
  found = prepare_update(r, s, program->handle, executor, arrays, from, numbers);
  slots = r->args.num_operands;
  fine = found == DONE && r->ordered && r->num_torch == slots; /* a tensor's stream is that of all */
  if (fine) memcpy(to, r->operands, (size_t)slots * sizeof *to);
  r->changed = false;
  if (!request_end(r, found != FAILED)) return false;
  for (ptrdiff_t i = slots; i < end - from && fine; i++) {
    py_object *o = py.PyTuple_GetItem(arrays, from + i);
    ptrdiff_t same = i - i % slots;
    while (py.PyTuple_GetItem(arrays, from + same) != o) same++;
    if (same < i) { /* what is written is mostly an input */
      to[i] = to[same];
    } else {
      fine = request_lent(r, o, &to[i]);
    }
  }
  r->args.operands = to;
  r->args.flags = HOLOGRAM_TRY | HOLOGRAM_ORDERED;
  return fine;
}

/* Raises the versions of what the launch wrote whose arrays are from one on; false with an exception. */
static bool written(const signature *s, py_object *arrays, ptrdiff_t from) {
  py_object *list[MAX_OPERANDS];
  int n = 0;
  for (int i = 0; i < s->num_params; i++) {
    if (s->params[i].kind == 's') continue;
    if (s->params[i].kind == 'w') list[n++] = py.PyTuple_GetItem(arrays, from);
    from++;
  }
  return tensors_written(torch_asked(), list, n);
}

/* Launches those of arrays from one on to another together, if the device and the tensors are such; false with an exception. */
static bool launch_together(const signature *s, py_handle *program, py_object *executor, py_object *arrays, ptrdiff_t from, ptrdiff_t end,
                            ptrdiff_t slots, py_object *numbers, bool *done) {
  uint64_t handle = ((py_handle *)executor)->handle;
  int32_t count = (int32_t)((end - from) / slots), queued = 0, status;
  hologram_operand *operands;
  request r;
  bool fine = true;
  *done = false;
  if (!((py_handle *)executor)->asynchronous || count < 2 || !torch_usual(false)) return true;
  if (!(operands = malloc((size_t)(end - from) * sizeof *operands))) return py.PyErr_NoMemory() != NULL;
  r.args.num_operands = 0;
  if (gather_batch(&r, s, program, executor, arrays, from, end, numbers, operands)) {
    status = hologram_launch_batch(handle, &r.args, count, &queued);
    if (status == HOLOGRAM_BUSY) {
      fine = prepare_batch(handle, &r.args, count);
      /* Meanwhile others may have had the GIL, and the tensors other memory. */
      status = fine && gather_batch(&r, s, program, executor, arrays, from, end, numbers, operands)
                   ? hologram_launch_batch(handle, &r.args, count, &queued)
                   : HOLOGRAM_BUSY;
    }
    if ((*done = queued)) sequence_spoil(); /* a recording is of single calls */
    for (; queued && from < end && fine; from += slots) fine = written(s, arrays, from); /* also if the device failed behind some */
    fine = fine && (status == HOLOGRAM_BUSY || work_check(status));
  }
  free(operands);
  return fine && !py.PyErr_Occurred();
}

/* launch_each(executor, program, arrays, numbers): launches a program with the numbers on each so many of the arrays as it
   has slots, in its own order; in few launches, where the device and the tensors are such. Returns how many of the arrays have
   had theirs; the next one is left to Python. */
static py_object *launch_each(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "launch_each"};
  const signature *s;
  py_handle *program;
  ptrdiff_t all, slots = 0, done = 0;
  bool together;
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
  for (ptrdiff_t end = 0; done == end && done < all;) {
    end = all - done > MOST_BATCHED * slots ? done + MOST_BATCHED * slots : all;
    if (!launch_together(s, program, args[0], args[2], done, end, slots, args[3], &together)) return NULL;
    if (together) done = end;
    for (; done < end; done += slots) {
      request r;
      outcome found;
      bool fine;
      hologram_drain();
      r.args.num_operands = 0;
      found = prepare_update(&r, s, program->handle, args[0], args[2], done, args[3]);
      fine = request_end(&r, found == SURPRISE || (found == DONE && request_run(&r)));
      if (!fine) return NULL;
      if (found == SURPRISE) break;
    }
  }
  return py.PyLong_FromLongLong(done);
}

/* What lists gathers: objects that it counts. */
typedef struct {
  py_object **lists, **counts;
  ptrdiff_t num_lists, num_counts;
} gathered;

static void keep(py_object **at, ptrdiff_t *num, py_object *o) {
  py.Py_IncRef(o);
  at[(*num)++] = o;
}

/* Keeps a dictionary's object of a name, if it is a tensor of torch's; to ask that may run Python. */
static outcome keep_named(py_object **at, ptrdiff_t *num, py_object *dict, py_object *name) {
  py_object *o = py.PyDict_GetItemWithError(dict, name);
  if (!o) return py.PyErr_Occurred() ? FAILED : SURPRISE;
  keep(at, num, o);
  return torch_is(o);
}

/* The state of a parameter, counted, or NULL. Dictionaries have what was added in the order in which it was, mostly that of
   parameters: at is where it is looked for before the parameter is hashed, which a tensor has Python do. */
static py_object *state_of(py_object *p, py_object *states, ptrdiff_t *at, bool asked) {
  ptrdiff_t next = *at;
  py_object *key, *state = NULL;
  if (py.PyDict_Next(states, &next, &key, &state) && key == p) {
    *at = next;
  } else {
    state = asked ? py.PyDict_GetItemWithError(states, p) : NULL;
  }
  if (state) py.Py_IncRef(state);
  return state;
}

/* Gathers what a step takes of one parameter, which the caller holds, where it has a gradient. */
static outcome gather_one(gathered *to, py_object *p, py_object *states, ptrdiff_t *at, py_object *kept, py_object *count) {
  ptrdiff_t num = py.PyTuple_Size(kept), first = to->num_lists;
  py_object *g, *state = NULL;
  outcome found = torch_is(p);
  if (found != DONE) return found;
  if (!(g = py.PyObject_GetAttr(p, grad_name))) return FAILED;
  if (g != py._Py_NoneStruct) {
    keep(to->lists, &to->num_lists, p);
    keep(to->lists, &to->num_lists, g);
    found = torch_is(g);
  }
  if (found == DONE && (num || count)) state = state_of(p, states, at, g != py._Py_NoneStruct);
  py.Py_DecRef(g); /* which is kept, or none */
  if (to->num_lists > first && found == DONE) {
    if ((num || count) && !state) found = py.PyErr_Occurred() ? FAILED : SURPRISE;
    if (state && state->type != py.PyDict_Type) found = SURPRISE;
    for (ptrdiff_t i = 0; i < num && found == DONE; i++) {
      found = keep_named(to->lists, &to->num_lists, state, py.PyTuple_GetItem(kept, i));
    }
    if (count && found == DONE) found = keep_named(to->counts, &to->num_counts, state, count);
    if (found == DONE) keep(to->lists, &to->num_lists, p);
    for (ptrdiff_t i = 0; i < num && found == DONE; i++) keep(to->lists, &to->num_lists, to->lists[first + 2 + i]);
  }
  if (state) py.Py_DecRef(state);
  return found;
}

static py_object *tuple_of(py_object *const *from, ptrdiff_t n) {
  py_object *made = py.PyTuple_New(n);
  for (ptrdiff_t i = 0; made && i < n; i++) {
    py.Py_IncRef(from[i]);
    py.PyTuple_SetItem(made, i, from[i]);
  }
  return made;
}

/* torch_lists(parameters, states, kept, count): of each of a list of parameters that has a gradient what an optimiser's step
   takes: it, the gradient, the tensors in its state of the names kept, and again what is written: it and those; and, where a
   name is given, the tensors that count its steps. All in one tuple, and the counts in another. None of what has no such
   state yet, is no tensor of torch's own, or where anything redirects torch's functions. */
static py_object *lists(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_lists"};
  gathered to = {NULL, NULL, 0, 0};
  py_object *made[2] = {NULL, NULL}, *result = NULL, *count;
  outcome found = DONE;
  ptrdiff_t all, each, at = 0;
  (void)self;
  if (!native_count(&c, n, 4) || (each = py.PyTuple_Size(args[2])) < 0) return NULL;
  if (args[0]->type != py.PyList_Type || !torch_usual(false)) return py_none();
  count = args[3] == py._Py_NoneStruct ? NULL : args[3];
  all = py.PyList_Size(args[0]);
  each = 2 * each + 3;
  if (!(to.lists = malloc((size_t)(all * (each + 1) + 1) * sizeof *to.lists))) return py.PyErr_NoMemory();
  to.counts = to.lists + all * each;
  for (ptrdiff_t i = 0; i < all && found == DONE; i++) {
    py_object *p;
    if (py.PyList_Size(args[0]) != all) { /* by what Python ran */
      found = SURPRISE;
      break;
    }
    py.Py_IncRef(p = py.PyList_GetItem(args[0], i));
    found = gather_one(&to, p, args[1], &at, args[2], count);
    py.Py_DecRef(p);
  }
  if (found == DONE && (made[0] = tuple_of(to.lists, to.num_lists)) && (made[1] = tuple_of(to.counts, to.num_counts))) {
    result = tuple_of(made, 2);
  }
  for (int i = 0; i < 2; i++) {
    if (made[i]) py.Py_DecRef(made[i]);
  }
  for (ptrdiff_t i = 0; i < to.num_lists; i++) py.Py_DecRef(to.lists[i]);
  for (ptrdiff_t i = 0; i < to.num_counts; i++) py.Py_DecRef(to.counts[i]);
  free(to.lists);
  return found == SURPRISE ? py_none() : result;
}

/* torch_looks(tensors, each, inputs, last): all of some tensors that decides whether a program takes them, and how: dtypes, devices,
   shapes and strides, as bytes. Of lists of so many tensors each, the program writes all from inputs on, and tensor 1 is none
   of these. None of what is no dense tensor of torch's own, or a negative view, where anything redirects torch's functions,
   and where the memory of what a list's program writes may be another's in it, or is not aligned: that decides too. last are
   bytes that this gave before, or None: they come again if they are the same, whose hash then is known. */
static py_object *looks(py_object *self, py_object *const *args, ptrdiff_t n) {
  enum { WORDS = 2 + 2 * HOLOGRAM_MAX_RANK, MOST = 16 };
  native c = {.name = "torch_looks"};
  struct {
    uintptr_t from, to;
  } taken[MOST]; /* by the gradient, and what is written */
  py_object *objects[MOST];
  glance seen[MOST]; /* of a list's tensors */
  py_object *found;
  int64_t *words;
  size_t used = 0;
  ptrdiff_t all, bytes;
  char *last;
  int32_t each, inputs;
  int num = 0;
  (void)self;
  if (!native_count(&c, n, 4) || (all = py.PyTuple_Size(args[0])) < 0) return NULL;
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
    int32_t at = (int32_t)(i % each), same = 0, device, index;
    outcome mine = DONE;
    bool fine = true;
    if (!at) num = 0;
    objects[at] = o;
    while (objects[same] != o) same++;
    if (same < at) { /* what is written is mostly an input */
      seen[at] = seen[same];
    } else {
      mine = torch_is(o);
      fine = mine == DONE && torch_look(o, &seen[at], &device, &index);
    }
    if (fine && (at == 1 || at >= inputs)) {
      fine = torch_range(o, &seen[at], &taken[num].from, &taken[num].to);
      for (int k = 0; k < num && fine && at >= inputs; k++) fine = taken[num].to <= taken[k].from || taken[k].to <= taken[num].from;
      num++;
    }
    if (!fine) {
      free(words);
      return mine == FAILED ? NULL : py_none();
    }
    if (same < at) {
      words[used++] = -1 - same;
      continue;
    }
    words[used++] = (int64_t)seen[at].type << 32 | (int64_t)seen[at].rank;
    words[used++] = (int64_t)device << 32 | (uint32_t)index;
    for (int64_t k = 0; k < seen[at].rank; k++) {
      words[used++] = seen[at].shape[k];
      words[used++] = seen[at].strides[k];
    }
  }
  if (args[3]->type == py.PyBytes_Type && !py.PyBytes_AsStringAndSize(args[3], &last, &bytes) && bytes == (ptrdiff_t)(used * sizeof *words) &&
      !memcmp(last, words, (size_t)bytes)) {
    py.Py_IncRef(found = args[3]);
  } else {
    found = py.PyBytes_FromStringAndSize((const char *)words, (ptrdiff_t)(used * sizeof *words));
  }
  free(words);
  return found;
}

/* torch_counts(tensors, add): the number that all of some tensors have such as optimisers count steps in, f32 of no dimensions
   on the host, or a tuple of theirs if these differ; after 1 is added to each if add. None, with nothing changed, if one is
   another or there is none. */
static py_object *counts(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_counts"};
  py_object *found;
  outcome fine = DONE;
  ptrdiff_t all;
  float first = 0;
  bool add, differ = false;
  (void)self;
  if (!native_count(&c, n, 2) || (all = py.PyTuple_Size(args[0])) < 0) return NULL;
  add = args[1] == py._Py_TrueStruct;
  if (!all) return py_none();
  if (!(found = py.PyTuple_New(all))) return NULL; /* before anything is looked at: it may run finalizers */
  for (ptrdiff_t i = 0; i < all && fine == DONE; i++) fine = torch_is(py.PyTuple_GetItem(args[0], i));
  if (fine == DONE && !torch_usual(false)) fine = SURPRISE;
  for (ptrdiff_t i = 0; i < all && fine == DONE; i++) {
    const float *at = torch_number(py.PyTuple_GetItem(args[0], i));
    if (!at) {
      fine = SURPRISE;
    } else if (!i) {
      first = *at;
    } else {
      differ = differ || *at != first;
    }
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
  if (!differ && first == first) {
    py.Py_DecRef(found);
    return py.PyFloat_FromDouble(*torch_number(py.PyTuple_GetItem(args[0], 0)));
  }
  for (ptrdiff_t i = 0; i < all; i++) {
    py.PyTuple_SetItem(found, i, py.PyFloat_FromDouble(*torch_number(py.PyTuple_GetItem(args[0], i))));
  }
  return found;
}

static py_method methods[] = {
    {"launch_each", (void *)launch_each, PY_FASTCALL, NULL},
    {"torch_lists", (void *)lists, PY_FASTCALL, NULL},
    {"torch_looks", (void *)looks, PY_FASTCALL, NULL},
    {"torch_counts", (void *)counts, PY_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int hologram_updates(py_object *into) {
  if (!(grad_name = py.PyUnicode_InternFromString("grad"))) return -1;
  return hologram_builtins(into, methods);
}
