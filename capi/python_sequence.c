/* Sequences: the calls that a function of torch's tensors was seen to make, which are made again for other tensors of the
   same types, shapes and strides without any Python between them. What a function does must follow from these alone, and
   be calls of this library, views of tensors and fresh tensors: what else a recording met spoils it. Inputs may be written
   that the function says it writes, in the places where the recorded calls wrote theirs. */
#include "python_sequence.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ENTRIES = 32 };

/* ---- entries ---- */

/* What an operand of an entry is a view of: an input, from 0 on, or after these a tensor that the sequence makes. */
enum { A_NUMBER = -1, NOTHING = -2 };

typedef struct {
  int of;
  int64_t offset; /* bytes */
  bool written;
  hologram_operand view;
  uint64_t cell;
} part;

/* What must hold of a tensor for views of it to lie in its memory. */
typedef struct {
  int32_t dtype; /* ours; 0 for bools */
  int rank;
  int64_t shape[HOLOGRAM_MAX_RANK], strides[HOLOGRAM_MAX_RANK];
} layout;

/* A sequence for inputs of some types, shapes and strides. */
typedef struct {
  int count; /* of those who use it */
  uint64_t used; /* the table's tick when a call last led to it */
  struct {
    bool given, recorded, written;
    int32_t type; /* torch's */
    layout is;
  } inputs[MAX_TENSORS];
  py_object *answer; /* what a call is answered with, instead of a sequence */
  int num_made, num_results, num_steps;
  layout made[MAX_BASES];
  int results[MAX_TENSORS]; /* numbers of what is made, or NOTHING */
  struct {
    step call;
    part *parts;
  } steps[];
} entry;

/* Sequences by what their inputs are. */
typedef struct {
  py_object head;
  py_method method;
  int32_t num_inputs;
  int promised; /* how many results each entry has, and 1; 0: not said */
  int num_entries;
  uint64_t tick;
  entry *entries[MAX_ENTRIES];
} table;

static py_object *table_type;

static void drop(entry *e) {
  if (--e->count) return;
  if (e->answer) py.Py_DecRef(e->answer);
  for (int i = 0; i < e->num_steps; i++) free(e->steps[i].parts);
  free(e);
}

static void table_dealloc(py_object *self) {
  table *t = (table *)self;
  for (int i = 0; i < t->num_entries; i++) drop(t->entries[i]);
  free((void *)t->method.name);
  hologram_give_back(self);
}

/* What a storage that calls write has of the first that did: one of its operands, and how many bytes those wrote, which
   have none in common; and how far it is used. */
typedef struct {
  char *storage;
  const operand *writer;
  int step;
  int64_t covered, bytes;
} fresh;

static int64_t bytes_of(const hologram_operand *o) {
  int64_t n = hologram_sizes[o->dtype];
  for (int k = 0; k < o->rank; k++) n *= o->shape[k];
  return n;
}

/* Puts the calls from begin to end into an entry; false if they don't follow from the inputs. */
static bool resolve(entry *e, const recording *seen, const base *inputs, int num_inputs, int begin, int end, fresh *made) {
  for (int i = begin; i < end; i++) {
    const step *from = &seen->steps[i];
    int n = from->args.num_operands;
    part *parts = calloc((size_t)n + 1, sizeof *parts);
    if (!parts) return false;
    e->steps[e->num_steps].call = *from;
    e->steps[e->num_steps].call.operands = NULL;
    e->steps[e->num_steps++].parts = parts;
    for (int k = 0; k < n; k++) {
      const operand *o = &from->operands[k];
      part *p = &parts[k];
      int at, j = 0;
      p->view = o->view;
      p->cell = o->cell;
      p->written = o->written;
      if (!o->object) {
        p->of = o->view.rank < 0 ? NOTHING : A_NUMBER;
        continue;
      }
      if ((at = bases_find(inputs, num_inputs, o->storage)) >= 0) {
        if (o->written && !e->inputs[at].written) return false;
        p->of = at;
        p->offset = (char *)o->view.data - inputs[at].data;
        if (p->offset < 0 || view_extent(&o->view) < 0 || p->offset + view_extent(&o->view) > inputs[at].bytes) return false;
        continue;
      }
      while (j < e->num_made && made[j].storage != o->storage) j++;
      if (j == e->num_made) {
        /* It is written whole before it is read, here and by this library. */
        if (!o->written || e->num_made == MAX_BASES) return false;
        for (int q = 0; q < n; q++) {
          if (from->operands[q].object && !from->operands[q].written && from->operands[q].storage == o->storage) return false;
        }
        made[e->num_made++] = (fresh){o->storage, o, i, 0, 0};
      }
      if (o->written && made[j].step == i) made[j].covered += bytes_of(&o->view);
      p->of = num_inputs + j;
      p->offset = (char *)o->view.data - o->storage;
      if (view_extent(&o->view) < 0) return false;
      if (p->offset + view_extent(&o->view) > made[j].bytes) made[j].bytes = p->offset + view_extent(&o->view);
    }
  }
  return true;
}

/* Finds what is to be made, and which of it are the results. */
static bool find_results(entry *e, const base *results, int n, const fresh *made) {
  e->num_results = n;
  for (int i = 0; i < e->num_made; i++) {
    const hologram_operand *v = &made[i].writer->view;
    if (made[i].covered < made[i].bytes) return false;
    e->made[i].dtype = v->flags & HOLOGRAM_BOOL ? 0 : v->dtype;
    e->made[i].rank = 1;
    e->made[i].shape[0] = made[i].covered / hologram_sizes[v->dtype];
  }
  for (int i = 0; i < n; i++) {
    const base *b = &results[i];
    int at = 0;
    e->results[i] = NOTHING;
    if (!b->object) continue;
    while (at < e->num_made && made[at].storage != b->storage) at++;
    if (at == e->num_made || !b->look.in_order || b->data != b->storage || b->dtype != e->made[at].dtype) return false;
    if (b->bytes != e->made[at].shape[0] * hologram_sizes[made[at].writer->view.dtype]) return false;
    e->results[i] = at;
    e->made[at].rank = (int)b->look.rank;
    memcpy(e->made[at].shape, b->shape, sizeof b->shape);
  }
  for (int i = 0; i < e->num_made; i++) {
    int64_t stride = 1;
    for (int k = e->made[i].rank - 1; k >= 0; k--) {
      e->made[i].strides[k] = stride;
      stride *= e->made[i].shape[k];
    }
  }
  return true;
}

/* Puts an entry into a table, and returns the one that it gives up for it, or NULL. Calls that still use that have it. */
static entry *put(table *t, entry *e) {
  int at = 0;
  entry *gone;
  e->used = ++t->tick;
  if (t->num_entries < MAX_ENTRIES) {
    t->entries[t->num_entries++] = e;
    return NULL;
  }
  for (int i = 1; i < MAX_ENTRIES; i++) {
    if (t->entries[i]->used < t->entries[at]->used) at = i;
  }
  gone = t->entries[at];
  t->entries[at] = e;
  return gone;
}

/* torch_sequence_add(table, inputs, recorded, written, answer, begin, end, results): makes what a table is called with lead
   from inputs such as these, of which those recorded need gradients, to the answer or, if that is None, to results such
   as these by the recorded calls from begin to end, which may write the inputs that are written. A full table gives up the
   entry that was not used for longest. False if that can't be. */
static py_object *add(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_sequence_add"};
  base inputs[MAX_TENSORS], results[MAX_TENSORS];
  fresh made[MAX_BASES];
  int32_t begin, end;
  ptrdiff_t num_results;
  bool fine;
  const recording *seen;
  table *t;
  entry *e;
  (void)self;
  if (!native_count(&c, n, 8)) return NULL;
  t = (table *)args[0];
  num_results = args[7]->type == py.PyTuple_Type ? py.PyTuple_Size(args[7]) : -1;
  if (t->head.type != table_type || args[1]->type != py.PyTuple_Type || py.PyTuple_Size(args[1]) != t->num_inputs ||
      args[2]->type != py.PyTuple_Type || py.PyTuple_Size(args[2]) != t->num_inputs ||
      args[3]->type != py.PyTuple_Type || py.PyTuple_Size(args[3]) != t->num_inputs || num_results < 0) {
    py.PyErr_SetString(py.PyExc_TypeError, "torch_sequence_add: expected a table, tuples for its inputs, and of results");
    return NULL;
  }
  if (t->promised && num_results != t->promised - 1) {
    py.PyErr_SetString(py.PyExc_ValueError, "torch_sequence_add: the table is a node's, which counts on as many results as before");
    return NULL;
  }
  if (num_results > MAX_TENSORS || !torch_usual(true)) return py.PyBool_FromLong(0);
  if (!bases_look(inputs, args[1], t->num_inputs) || !bases_look(results, args[7], (int)num_results)) {
    return py.PyErr_Occurred() ? NULL : py.PyBool_FromLong(0);
  }
  /* Last, since looking may run Python, which may begin another recording. */
  if (!(seen = recording_range(&c, args[5], args[6], &begin, &end))) return NULL;
  if (seen->spoiled) return py.PyBool_FromLong(0);
  if (!(e = calloc(1, sizeof *e + (size_t)(end - begin) * sizeof *e->steps))) return py.PyErr_NoMemory();
  e->count = 1;
  for (int i = 0; i < t->num_inputs; i++) {
    const base *b = &inputs[i];
    e->inputs[i].given = b->object;
    e->inputs[i].recorded = py.PyTuple_GetItem(args[2], i) == py._Py_TrueStruct;
    e->inputs[i].written = py.PyTuple_GetItem(args[3], i) == py._Py_TrueStruct;
    if (!b->object) continue;
    e->inputs[i].type = b->look.type;
    e->inputs[i].is.dtype = b->dtype;
    e->inputs[i].is.rank = (int)b->look.rank;
    memcpy(e->inputs[i].is.shape, b->shape, sizeof b->shape);
    memcpy(e->inputs[i].is.strides, b->strides, sizeof b->strides);
  }
  if (args[4] != py._Py_NoneStruct) {
    py.Py_IncRef(e->answer = args[4]);
    fine = true;
  } else {
    fine = resolve(e, seen, inputs, t->num_inputs, begin, end, made) && find_results(e, results, (int)num_results, made);
  }
  if (fine) e = put(t, e);
  if (e) drop(e); /* last, since it may run Python */
  return py.PyBool_FromLong(fine);
}

/* ---- calls ---- */

static bool lies(const layout *is, int64_t rank, const int64_t *shape, const int64_t *strides) {
  if (rank != is->rank) return false;
  for (int k = 0; k < rank; k++) {
    if (shape[k] != is->shape[k] || (shape[k] != 1 && strides[k] != is->strides[k])) return false;
  }
  return true;
}

static bool fits(const entry *e, int i, py_object *o, const glance *look) {
  if (e->inputs[i].given != (o != py._Py_NoneStruct)) return false;
  if (!e->inputs[i].given) return true;
  return look->type == e->inputs[i].type && lies(&e->inputs[i].is, look->rank, look->shape, look->strides);
}

/* Whether a tensor that was borrowed still is what the entry was found by: finalizers, which run where anything is made,
   may have given it other memory. */
static bool still(const layout *is, const hologram_operand *o) {
  return is->dtype == (o->flags & HOLOGRAM_BOOL ? 0 : o->dtype) && lies(is, o->rank, o->shape, o->strides);
}

/* The entry for some inputs; NULL if there is none. */
static entry *find_entry(table *t, py_object *const *inputs) {
  glance looks[MAX_TENSORS];
  bool recorded_bits[MAX_TENSORS] = {false};
  for (int i = 0; i < t->num_inputs; i++) {
    if (inputs[i] == py._Py_NoneStruct) continue;
    if (!torch_glance(inputs[i], &looks[i])) return NULL;
    recorded_bits[i] = torch_recorded(inputs[i]);
  }
  for (int j = 0; j < t->num_entries; j++) {
    entry *e = t->entries[j];
    int i = 0;
    while (i < t->num_inputs && e->inputs[i].recorded == recorded_bits[i] && fits(e, i, inputs[i], &looks[i])) i++;
    if (i == t->num_inputs) {
      e->used = ++t->tick;
      return e;
    }
  }
  return NULL;
}

/* Makes one of the calls, after which *changed tells whether inputs may have been changed. */
static outcome run_step(const entry *e, int number, py_object *executor, py_object *const *inputs, int num_inputs,
                        py_object *const *made, bool *changed) {
  const step *s = &e->steps[number].call;
  const part *parts = e->steps[number].parts;
  request r;
  bool fine;
  outcome found = request_begin(&r, executor);
  for (int k = 0; k < s->args.num_operands && found == DONE; k++) {
    const part *p = &parts[k];
    if (p->of >= 0) {
      bool given = p->of < num_inputs;
      found = request_take(&r, given ? inputs[p->of] : made[p->of - num_inputs], !p->written ? READ : given ? WRITTEN : FRESH);
      if (found == DONE && !r.taken[k].torch) found = SURPRISE;
      continue;
    }
    r.taken[k] = (taken){0};
    r.operands[k].buffer = 0;
    r.operands[k].rank = -1;
    r.numbers |= (uint32_t)(p->of == A_NUMBER) << k;
    r.args.num_operands++;
  }
  if (found == DONE) found = request_borrow(&r);
  for (int k = 0; k < s->args.num_operands && found == DONE; k++) {
    const part *p = &parts[k];
    hologram_operand *to = &r.operands[k];
    void *data = p->of == A_NUMBER ? (void *)&r.cells[k] : (char *)to->data + p->offset;
    if (p->of == NOTHING) continue;
    if (p->of >= 0 && !still(p->of < num_inputs ? &e->inputs[p->of].is : &e->made[p->of - num_inputs], to)) {
      found = SURPRISE;
      break;
    }
    r.cells[k] = p->cell;
    r.taken[k].view = true;
    /* The device is where the tensor is. */
    to->data = data;
    to->dtype = p->view.dtype;
    to->rank = p->view.rank;
    to->flags = p->view.flags;
    memcpy(to->shape, p->view.shape, sizeof to->shape);
    memcpy(to->strides, p->view.strides, sizeof to->strides);
  }
  if (found == DONE) {
    r.args.op = s->args.op;
    r.args.program = s->args.program;
    r.args.num_scalars = s->args.num_scalars;
    r.args.num_dims = s->args.num_dims;
    r.args.fuel = s->args.fuel;
    memcpy(r.args.grid, s->args.grid, sizeof r.args.grid);
    memcpy(r.args.block, s->args.block, sizeof r.args.block);
    memcpy(r.scalars, s->scalars, (size_t)s->args.num_scalars * sizeof *r.scalars);
    if (s->args.num_dims > 0) memcpy(r.dims, s->dims, (size_t)s->args.num_dims * sizeof *r.dims);
  }
  fine = found != FAILED && (found == SURPRISE || request_run(&r));
  if (!fine && found == DONE && !r.changed) { /* refused */
    found = operand_refused();
    fine = found == SURPRISE;
  }
  for (int k = 0; k < s->args.num_operands; k++) *changed = *changed || (r.changed && parts[k].written && parts[k].of < num_inputs);
  return request_end(&r, fine) ? found : FAILED;
}

/* Whether all inputs are torch's own tensors and, with an entry, such as the executor's device works on and it was found
   by. */
static outcome check(py_object *executor, py_object *const *inputs, int n, const entry *e) {
  request r;
  outcome found = request_begin(&r, executor);
  for (int i = 0; i < n && found == DONE; i++) {
    if (inputs[i] == py._Py_NoneStruct) continue;
    found = request_take(&r, inputs[i], READ);
    if (found == DONE && !r.taken[r.args.num_operands - 1].torch) found = SURPRISE;
  }
  if (e && found == DONE) found = request_borrow(&r);
  for (int i = 0, k = 0; e && i < n && found == DONE; i++) {
    if (inputs[i] != py._Py_NoneStruct && !still(&e->inputs[i].is, &r.operands[k++])) found = SURPRISE;
  }
  return request_end(&r, found != FAILED) ? found : FAILED;
}

/* Whether a sequence writes an input before its last step: a later one must not find then that another is no such memory. */
static bool writes_early(const entry *e, int num_inputs) {
  for (int i = 0; i + 1 < e->num_steps; i++) {
    for (int k = 0; k < e->steps[i].call.args.num_operands; k++) {
      const part *p = &e->steps[i].parts[k];
      if (p->written && p->of >= 0 && p->of < num_inputs) return true;
    }
  }
  return false;
}

/* A table: (executor, inputs…) to an entry's answer, the result of a node that is one, or the result of its sequence, a
   tuple of several; None of inputs that there is no entry for, or where anything redirects torch's functions. */
py_object *sequence_call(py_object *self, py_object *const *args, ptrdiff_t n) {
  table *t = (table *)self;
  py_object *const *inputs = args + 1;
  py_object *made[MAX_BASES] = {NULL}, *like = NULL, *answer = NULL;
  outcome found;
  bool changed = false;
  entry *e;
  if (n != 1 + t->num_inputs || !hologram_is_executor(args[0])) return py_none();
  found = check(args[0], inputs, t->num_inputs, NULL);
  if (found != DONE) return found == FAILED ? NULL : py_none();
  if (!torch_usual(true) || !(e = find_entry(t, inputs))) return py_none();
  if (e->answer) {
    py.Py_IncRef(like = e->answer); /* what follows may let others change the table */
    if (!(answer = node_record(like, inputs, t->num_inputs)) && !py.PyErr_Occurred()) return like;
    py.Py_DecRef(like);
    return answer;
  }
  e->count++; /* what follows may let others change the table */
  for (int i = 0; !like && i < t->num_inputs; i++) like = inputs[i] == py._Py_NoneStruct ? NULL : inputs[i];
  for (int i = 0; i < e->num_made && found == DONE; i++) {
    if (!(made[i] = torch_asked()->empty(like, e->made[i].dtype, e->made[i].shape, e->made[i].rank))) found = operand_refused();
  }
  if (found == DONE && writes_early(e, t->num_inputs)) found = check(args[0], inputs, t->num_inputs, e);
  for (int i = 0; i < e->num_steps && found == DONE; i++) found = run_step(e, i, args[0], inputs, t->num_inputs, made, &changed);
  if (found == SURPRISE && changed) { /* from the beginning it would be done twice */
    py.PyErr_SetString(py.PyExc_RuntimeError, "hologram: a call could not be finished after it had changed its arguments");
    found = FAILED;
  }
  if (found == DONE && e->num_results == 1 && e->results[0] >= 0) {
    py.Py_IncRef(answer = made[e->results[0]]);
  } else if (found == DONE && (answer = py.PyTuple_New(e->num_results))) {
    for (int i = 0; i < e->num_results; i++) {
      py_object *o = e->results[i] < 0 ? py._Py_NoneStruct : made[e->results[i]];
      py.Py_IncRef(o);
      py.PyTuple_SetItem(answer, i, o);
    }
  }
  for (int i = 0; i < e->num_made; i++) {
    if (made[i]) py.Py_DecRef(made[i]);
  }
  drop(e);
  return found == SURPRISE ? py_none() : answer;
}

bool sequence_is(py_object *o) { return o->type == table_type; }

bool sequence_promise(py_object *o, int inputs, int results) {
  table *t = (table *)o;
  if (t->num_inputs != inputs) return false;
  for (int i = 0; i < t->num_entries; i++) {
    if (t->entries[i]->num_results != results) return false;
  }
  t->promised = results + 1;
  return true;
}

/* torch_sequences(name, inputs): a table without entries. */
static py_object *make(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_sequences"};
  const char *name;
  py_object *f = NULL;
  table *t;
  (void)self;
  if (!native_count(&c, n, 2) || !native_text(&c, args[0], "name", &name)) return NULL;
  if (!(t = (table *)py.PyType_GenericAlloc(table_type, 0))) return NULL;
  if (native_i32(&c, args[1], "inputs", &t->num_inputs)) {
    size_t size = strlen(name) + 1;
    if (t->num_inputs < 1 || t->num_inputs > MAX_TENSORS) {
      py.PyErr_SetString(py.PyExc_ValueError, "torch_sequences: expected 1 to 16 inputs");
    } else if ((t->method.name = malloc(size))) {
      memcpy((char *)t->method.name, name, size);
      t->method.function = (void *)sequence_call;
      t->method.flags = PY_FASTCALL;
      f = py.PyCFunction_NewEx(&t->method, &t->head, NULL);
    } else {
      py.PyErr_NoMemory();
    }
  }
  py.Py_DecRef(&t->head);
  return f;
}

static py_method methods[] = {
    {"torch_sequences", (void *)make, PY_FASTCALL, NULL},
    {"torch_sequence_add", (void *)add, PY_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int hologram_sequences(py_object *into) {
  static py_slot slots[] = {{PY_SLOT_DEALLOC, (void *)table_dealloc}, {0, NULL}};
  static py_spec spec = {"hologram._native.Sequences", sizeof(table), 0, PY_TYPE_DEFAULT, slots};
  if (!(table_type = py.PyType_FromSpec(&spec))) return -1;
  return hologram_builtins(into, methods);
}
