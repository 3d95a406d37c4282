/* Recordings: the calls that a function of torch's tensors makes, noted while it runs, and what Python asks about them.
   What they lead to is in python_sequence.c. */
#include "python_sequence.h"

#include <stdlib.h>
#include <string.h>

static _Thread_local recording *recorder;
static bool ever_recorded; /* by any thread, ever: else none need be asked for its own, which takes longer; guarded by the GIL */

/* Lets the tensors of a recording go, which may run Python. */
static void let_go(recording *r) {
  for (int i = 0; i < r->num_steps; i++) {
    for (int k = 0; k < r->steps[i].args.num_operands; k++) {
      py_object *o = r->steps[i].operands[k].object;
      r->steps[i].operands[k].object = NULL;
      if (o) py.Py_DecRef(o);
    }
  }
}

static void forget(recording *r) {
  if (!r) return;
  forget(r->before);
  let_go(r);
  for (int i = 0; i < r->num_steps; i++) free(r->steps[i].operands);
  free(r);
}

void sequence_spoil(void) {
  if (recorder && !recorder->done) recorder->spoiled = true;
}

/* The number of a storage in the recording: another one if it is new there. */
static int number_of(const recording *r, const char *storage) {
  int next = 0;
  for (int i = 0; i <= r->num_steps; i++) {
    for (int k = 0; k < r->steps[i].args.num_operands; k++) {
      const operand *o = &r->steps[i].operands[k];
      if (!o->storage) continue;
      if (o->storage == storage) return o->number;
      if (o->number >= next) next = o->number + 1;
    }
  }
  return next;
}

void sequence_note(const request *r) {
  recording *to = ever_recorded ? recorder : NULL;
  int n = r->args.num_operands;
  step *s;
  if (!to || to->spoiled || to->done) return;
  to->spoiled = to->num_steps == MAX_STEPS || r->args.first || r->args.residue;
  for (int i = 0; i < n; i++) {
    const taken *t = &r->taken[i];
    bool bare = r->numbers >> i & 1 || (!r->operands[i].buffer && r->operands[i].rank < 0);
    to->spoiled = to->spoiled || r->operands[i].buffer || (!bare && !t->torch);
  }
  if (to->spoiled) return;
  s = &to->steps[to->num_steps];
  memset(s, 0, sizeof *s);
  if (!(s->operands = calloc((size_t)n + 1, sizeof *s->operands))) {
    to->spoiled = true;
    return;
  }
  s->args = r->args;
  memcpy(s->scalars, r->scalars, (size_t)r->args.num_scalars * sizeof *s->scalars);
  if (r->args.num_dims > 0) memcpy(s->dims, r->dims, (size_t)r->args.num_dims * sizeof *s->dims);
  for (int i = 0; i < n; i++) {
    operand *o = &s->operands[i];
    o->view = r->operands[i];
    if (r->numbers >> i & 1) o->cell = r->cells[i];
    if (r->numbers >> i & 1 || o->view.rank < 0) continue;
    py.Py_IncRef(o->object = r->taken[i].object);
    o->number = number_of(to, (char *)o->view.data - r->taken[i].offset * hologram_sizes[o->view.dtype]);
    o->storage = (char *)o->view.data - r->taken[i].offset * hologram_sizes[o->view.dtype];
    o->written = r->taken[i].written;
    o->versioned = r->taken[i].version;
  }
  to->num_steps++;
}

/* torch_record(on): begins to record this thread's calls, and keeps what was recorded last to be compared with; or forgets
   all that was recorded. */
static py_object *record(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_record"};
  recording *old = recorder, *next = NULL, *older;
  (void)self;
  if (!native_count(&c, n, 1)) return NULL;
  if (args[0] == py._Py_TrueStruct && !(next = calloc(1, sizeof *next))) return py.PyErr_NoMemory();
  recorder = NULL; /* what is let go may run Python, which is not to be noted, but may record */
  if (next && old) {
    older = old->before;
    old->before = NULL;
    forget(older);
    let_go(old);
    next->before = old;
  } else {
    forget(old);
  }
  older = recorder;
  recorder = next;
  ever_recorded = ever_recorded || next;
  forget(older);
  return py_none();
}

static bool same_operand(const operand *a, const operand *b) {
  const hologram_operand *v = &a->view, *w = &b->view;
  size_t size;
  if (!a->storage != !b->storage || v->rank != w->rank) return false;
  if (v->rank < 0) return true;
  size = (size_t)v->rank * sizeof *v->shape;
  if (v->dtype != w->dtype || v->flags != w->flags || memcmp(v->shape, w->shape, size)) return false;
  if (!a->storage) return !memcmp(&a->cell, &b->cell, hologram_sizes[v->dtype]);
  if (a->number != b->number || a->written != b->written || a->versioned != b->versioned) return false;
  return (char *)v->data - a->storage == (char *)w->data - b->storage && !memcmp(v->strides, w->strides, size);
}

static bool same_step(const step *a, const step *b) {
  const hologram_call_args *x = &a->args, *y = &b->args;
  if (x->op != y->op || x->program != y->program || x->fuel != y->fuel || x->num_operands != y->num_operands) return false;
  if (x->num_scalars != y->num_scalars || x->num_dims != y->num_dims) return false;
  if (memcmp(x->grid, y->grid, sizeof x->grid) || memcmp(x->block, y->block, sizeof x->block)) return false;
  for (int i = 0; i < x->num_scalars; i++) {
    if (a->scalars[i].dtype != b->scalars[i].dtype || a->scalars[i].bits != b->scalars[i].bits) return false;
  }
  for (int i = 0; i < x->num_dims; i++) {
    if (a->dims[i] != b->dims[i]) return false;
  }
  for (int i = 0; i < x->num_operands; i++) {
    if (!same_operand(&a->operands[i], &b->operands[i])) return false;
  }
  return true;
}

/* torch_agreed(): ends the recording; whether it has the same calls as the one before. */
static py_object *agreed(py_object *self, py_object *const *args, ptrdiff_t n) {
  recording *r = recorder;
  bool same = r && r->before && !r->spoiled && !r->before->spoiled && r->num_steps == r->before->num_steps;
  (void)self, (void)args, (void)n;
  if (r) r->done = true;
  for (int i = 0; same && i < r->num_steps; i++) same = same_step(&r->steps[i], &r->before->steps[i]);
  return py.PyBool_FromLong(same);
}

/* torch_recorded(): how many calls were recorded; negative if what was done can't be. */
static py_object *recorded(py_object *self, py_object *const *args, ptrdiff_t n) {
  (void)self, (void)args, (void)n;
  return py.PyLong_FromLongLong(recorder && !recorder->spoiled ? recorder->num_steps : -1);
}

/* Counts tensors of the recording. Up to Python 3.11 whatever makes a tuple may run the collector, and so finalizers, which
   may end the recording or begin another: nothing of it is looked at afterwards. */
static void hold(py_object **tensors, int n) {
  for (int i = 0; i < n; i++) py.Py_IncRef(tensors[i]);
}

/* torch_written(): a tensor of each storage that recorded calls wrote, with how often they raised its version. */
static py_object *written(py_object *self, py_object *const *args, ptrdiff_t n) {
  const char *storages[MAX_BASES];
  py_object *tensors[MAX_BASES];
  long long counts[MAX_BASES];
  int num = 0;
  py_object *found;
  (void)self, (void)args, (void)n;
  for (int i = 0; recorder && i < recorder->num_steps; i++) {
    for (int k = 0; k < recorder->steps[i].args.num_operands; k++) {
      const operand *o = &recorder->steps[i].operands[k];
      int at = 0;
      if (!o->written) continue;
      while (at < num && storages[at] != o->storage) at++;
      if (at == MAX_BASES) {
        recorder->spoiled = true;
        return py.PyTuple_New(0);
      }
      if (at == num) {
        storages[num] = o->storage;
        tensors[num] = o->object;
        counts[num++] = 0;
      }
      counts[at] += o->versioned;
    }
  }
  hold(tensors, num);
  found = py.PyTuple_New(num);
  for (int i = 0; i < num; i++) {
    py_object *both = found ? py.PyTuple_New(2) : NULL;
    if (!both) {
      py.Py_DecRef(tensors[i]);
      if (found) py.Py_DecRef(found);
      found = NULL;
      continue;
    }
    py.PyTuple_SetItem(both, 0, tensors[i]);
    py.PyTuple_SetItem(both, 1, py.PyLong_FromLongLong(counts[i]));
    py.PyTuple_SetItem(found, i, both);
  }
  return found;
}

/* ---- tensors by their storages ---- */

int64_t view_extent(const hologram_operand *o) {
  int64_t last = 0;
  for (int k = 0; k < o->rank; k++) {
    if (!o->shape[k]) return 0;
    if (o->strides[k] < 0) return -1;
    last += (o->shape[k] - 1) * o->strides[k];
  }
  return (last + 1) * hologram_sizes[o->dtype];
}

bool bases_look(base *all, py_object *tensors, int n) {
  for (int i = 0; i < n; i++) {
    py_object *o = py.PyTuple_GetItem(tensors, i);
    base *b = &all[i];
    request r;
    outcome found;
    memset(b, 0, sizeof *b);
    if (o == py._Py_NoneStruct) continue;
    r.args.num_operands = 0;
    found = request_begin(&r, NULL);
    if (found == DONE) found = request_take(&r, o, READ);
    if (found == DONE && !r.taken[0].torch) found = SURPRISE;
    if (found == DONE) found = request_borrow(&r);
    if (found == DONE && torch_glance(o, &b->look)) {
      b->object = o;
      b->data = r.operands[0].data;
      b->storage = b->data - r.taken[0].offset * hologram_sizes[r.operands[0].dtype];
      b->bytes = view_extent(&r.operands[0]);
      b->dtype = r.operands[0].flags & HOLOGRAM_BOOL ? 0 : r.operands[0].dtype;
      memcpy(b->strides, r.operands[0].strides, sizeof b->strides);
      memcpy(b->shape, b->look.shape, (size_t)b->look.rank * sizeof *b->shape);
      b->look.shape = b->look.strides = NULL; /* the tensor's, which may be given others */
    }
    request_end(&r, found != FAILED);
    if (found == FAILED) operand_refused();
    if (!b->object || b->bytes <= 0) return false;
    for (int k = 0; k < i; k++) {
      if (all[k].object && all[k].storage == b->storage) return false;
    }
  }
  return true;
}

int bases_find(const base *all, int n, const char *storage) {
  for (int i = 0; i < n; i++) {
    if (all[i].object && all[i].storage == storage) return i;
  }
  return -1;
}

/* The first call of all that wrote a storage, as the operand that it was; NULL if none did. */
static const operand *writer_of(const char *storage) {
  for (int i = 0; i < recorder->num_steps; i++) {
    const step *s = &recorder->steps[i];
    for (int k = 0; k < s->args.num_operands; k++) {
      if (s->operands[k].written && s->operands[k].storage == storage) return &s->operands[k];
    }
  }
  return NULL;
}

const recording *recording_range(native *c, py_object *from, py_object *to, int32_t *begin, int32_t *end) {
  if (!native_i32(c, from, "begin", begin) || !native_i32(c, to, "end", end)) return NULL;
  if (recorder && *begin >= 0 && *begin <= *end && *end <= recorder->num_steps) return recorder;
  py.PyErr_SetString(py.PyExc_RuntimeError, "there is no such range of recorded calls");
  return NULL;
}

/* torch_uses(inputs, begin, end): of a range of recorded calls whether each of the inputs is used, and a tensor of each
   storage that is used before it is written there, and no input's. None if the inputs can't be told apart. */
static py_object *uses(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_uses"};
  base inputs[MAX_TENSORS];
  char *fresh[MAX_BASES], *asked[MAX_BASES];
  py_object *found[MAX_BASES], *all, *used, *others;
  bool touched[MAX_TENSORS] = {false};
  int32_t begin, end;
  int num_fresh = 0, num_asked = 0;
  ptrdiff_t count;
  (void)self;
  if (!native_count(&c, n, 3) || (count = py.PyTuple_Size(args[0])) < 0) return NULL;
  if (count > MAX_TENSORS || !bases_look(inputs, args[0], (int)count)) return py.PyErr_Occurred() ? NULL : py_none();
  if (!recording_range(&c, args[1], args[2], &begin, &end)) return NULL; /* last, since looking may run Python */
  for (int i = begin; i < end; i++) {
    for (int pass = 0; pass < 2; pass++) { /* what is read, then what is written */
      for (int k = 0; k < recorder->steps[i].args.num_operands; k++) {
        const operand *o = &recorder->steps[i].operands[k];
        int at = o->object ? bases_find(inputs, (int)count, o->storage) : 0;
        bool seen = false;
        if (!o->object || o->written != (pass == 1)) continue;
        if (at >= 0) {
          touched[at] = true;
          continue;
        }
        for (int j = 0; j < num_fresh; j++) seen = seen || fresh[j] == o->storage;
        for (int j = 0; j < num_asked; j++) seen = seen || asked[j] == o->storage;
        if (seen) continue;
        if (num_fresh == MAX_BASES || num_asked == MAX_BASES) return py_none();
        if (o->written) {
          fresh[num_fresh++] = o->storage;
        } else {
          const operand *writer = writer_of(o->storage);
          found[num_asked] = writer ? writer->object : o->object;
          asked[num_asked++] = o->storage;
        }
      }
    }
  }
  hold(found, num_asked);
  all = py.PyTuple_New(2);
  used = py.PyTuple_New(count);
  others = py.PyTuple_New(num_asked);
  if (!all || !used || !others) {
    for (int i = 0; i < num_asked; i++) py.Py_DecRef(found[i]);
    if (all) py.Py_DecRef(all);
    if (used) py.Py_DecRef(used);
    if (others) py.Py_DecRef(others);
    return NULL;
  }
  for (int i = 0; i < count; i++) py.PyTuple_SetItem(used, i, py.PyBool_FromLong(touched[i]));
  for (int i = 0; i < num_asked; i++) py.PyTuple_SetItem(others, i, found[i]);
  py.PyTuple_SetItem(all, 0, used);
  py.PyTuple_SetItem(all, 1, others);
  return all;
}
static py_method methods[] = {
    {"torch_record", (void *)record, PY_FASTCALL, NULL},
    {"torch_agreed", (void *)agreed, PY_FASTCALL, NULL},
    {"torch_recorded", (void *)recorded, PY_FASTCALL, NULL},
    {"torch_written", (void *)written, PY_FASTCALL, NULL},
    {"torch_uses", (void *)uses, PY_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int hologram_recordings(py_object *into) { return hologram_builtins(into, methods); }
