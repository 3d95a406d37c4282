/* Numbers and sizes of calls, and launches as a builtin of Python. What is as it should be is bound, taken and called here;
   anything else goes with the same arguments to a function of Python, which says what is wrong or finds another way. */
#include "python_call.h"

#include <math.h>
#include <string.h>

#include "half.h"

/* ---- numbers ---- */

outcome request_scalar(request *r, py_object *o) {
  hologram_scalar *to = &r->scalars[r->args.num_scalars];
  py_object *number;
  int64_t whole;
  double value;
  outcome found;
  if (r->args.num_scalars++ == MAX_SCALARS) return SURPRISE;
  if (o->type == py.PyFloat_Type) {
    to->dtype = HOLOGRAM_F64;
    value = py.PyFloat_AsDouble(o);
    memcpy(&to->bits, &value, sizeof value);
  } else if (hologram_exact(o, &whole)) {
    to->dtype = HOLOGRAM_I64;
    to->bits = (uint64_t)whole;
  } else if (number_is(o) || !(number = scalar_number(o))) {
    return operand_refused();
  } else {
    r->args.num_scalars--;
    found = request_scalar(r, number);
    py.Py_DecRef(number);
    return found;
  }
  return DONE;
}

bool number_is(py_object *o) { return o->type == py.PyFloat_Type || o->type == py.PyLong_Type || o->type == py.PyBool_Type; }

outcome request_number(request *r, py_object *o) {
  int i = r->args.num_operands;
  if (i == MAX_OPERANDS) return SURPRISE;
  r->args.num_operands++;
  r->taken[i] = (taken){.object = o};
  r->operands[i].buffer = 0;
  r->operands[i].rank = -1;
  r->numbers |= 1u << i;
  return DONE;
}

/* The cell of a number in a dtype that holds it; what is to be refused is Python's. */
static outcome cell_of(py_object *o, int32_t dtype, uint64_t *to) {
  int bits = 8 << (dtype - 1) % 4;
  int64_t whole;
  double value;
  float single;
  *to = 0;
  if (o->type == py.PyFloat_Type) {
    value = single = 0;
    value = py.PyFloat_AsDouble(o);
    if (dtype == HOLOGRAM_F16 || dtype == HOLOGRAM_BF16) return hologram_half(value, dtype, to) ? DONE : SURPRISE;
    if (dtype != HOLOGRAM_F64 && dtype != HOLOGRAM_F32) return SURPRISE;
    single = (float)value;
  } else {
    if (o->type == py.PyBool_Type) {
      whole = o == py._Py_TrueStruct;
    } else if (!hologram_exact(o, &whole)) {
      return SURPRISE;
    }
    if (dtype <= HOLOGRAM_I64) {
      if (whole < INT64_MIN >> (64 - bits) || whole > INT64_MAX >> (64 - bits)) return SURPRISE;
      memcpy(to, &whole, (size_t)bits / 8);
      return DONE;
    }
    if (dtype <= HOLOGRAM_U64) {
      if (whole < 0 || (bits < 64 && whole >> bits)) return SURPRISE;
      memcpy(to, &whole, (size_t)bits / 8);
      return DONE;
    }
    value = (double)whole;
    if (dtype == HOLOGRAM_F16 || dtype == HOLOGRAM_BF16) return hologram_half_of(whole, dtype, to) ? DONE : SURPRISE;
    if (dtype != HOLOGRAM_F64 && dtype != HOLOGRAM_F32) return SURPRISE;
    single = (float)whole; /* rounded once */
  }
  if (dtype == HOLOGRAM_F64) {
    memcpy(to, &value, sizeof value);
    return DONE;
  }
  memcpy(to, &single, sizeof single);
  return isinf(single) && !isinf(value) ? SURPRISE : DONE;
}

outcome request_numbers(request *r, int32_t dtype, int64_t n) {
  for (int i = 0; i < r->args.num_operands; i++) {
    hologram_operand *to = &r->operands[i];
    if (!(r->numbers >> i & 1)) continue;
    if (cell_of(r->taken[i].object, dtype, &r->cells[i]) != DONE) return SURPRISE;
    to->data = &r->cells[i];
    to->dtype = dtype;
    to->rank = n >= 0;
    to->shape[0] = n;
    to->strides[0] = 0;
    to->flags = HOLOGRAM_NUMBER;
  }
  return DONE;
}

outcome request_dim(request *r, int64_t size) {
  if (r->args.num_dims < 0) r->args.num_dims = 0;
  if (r->args.num_dims == HOLOGRAM_MAX_RANK) return SURPRISE;
  r->dims[r->args.num_dims++] = size;
  return DONE;
}

/* ---- launches ---- */

/* One to three numbers of a grid or block; NULL leaves zeros. */
static bool take_grid(py_object *o, uint32_t *to) {
  int64_t value;
  ptrdiff_t n;
  if (!o) return true;
  to[0] = to[1] = to[2] = 1;
  if (o->type != py.PyTuple_Type) {
    if (!hologram_exact(o, &value) || value < 1 || value > UINT32_MAX) return false;
    to[0] = (uint32_t)value;
    return true;
  }
  n = py.PyTuple_Size(o);
  if (n < 1 || n > 3) return false;
  for (ptrdiff_t i = 0; i < n; i++) {
    if (!hologram_exact(py.PyTuple_GetItem(o, i), &value) || value < 1 || value > UINT32_MAX) return false;
    to[i] = (uint32_t)value;
  }
  return true;
}

/* The arguments of a launch: Executor.launch's own keywords by place, all others by name. */
typedef struct {
  py_object *program, *bindings, *grid, *block, *n, *shape, *fuel, *stream; /* NULL: not given */
  py_object *const *values; /* of the names */
  py_object *names;         /* a tuple, or NULL */
  ptrdiff_t num_names;
} launch_args;

enum { OWN_NAMES = 6 };
static py_object *own_names[OWN_NAMES]; /* interned: grid, block, n, shape, fuel, stream */

/* Sorts arguments; false if Python is to say what is wrong with them. */
static bool sort_launch(launch_args *to, py_object *const *args, ptrdiff_t n, py_object *keywords, py_object **values) {
  py_object **own[] = {&to->grid, &to->block, &to->n, &to->shape, &to->fuel, &to->stream};
  ptrdiff_t named = keywords ? py.PyTuple_Size(keywords) : 0;
  if (n < 1 || n > 2 || named > MAX_PARAMS) return false;
  to->program = args[0];
  to->bindings = n == 2 && args[1] != py._Py_NoneStruct ? args[1] : NULL;
  to->names = keywords;
  to->values = values;
  to->num_names = named;
  for (ptrdiff_t k = 0; k < named; k++) {
    py_object *name = py.PyTuple_GetItem(keywords, k);
    values[k] = args[n + k];
    for (int i = 0; i < OWN_NAMES; i++) {
      if (name == own_names[i]) {
        *own[i] = values[k] == py._Py_NoneStruct ? NULL : values[k];
        values[k] = NULL; /* no slot's or parameter's */
        break;
      }
    }
  }
  return !to->bindings || to->bindings->type == py.PyDict_Type;
}

/* The value of a slot or parameter; it is counted in used. */
static py_object *given(const launch_args *a, py_object *name, ptrdiff_t *used) {
  py_object *found = NULL;
  for (ptrdiff_t k = 0; k < a->num_names && !found; k++) {
    if (a->values[k] && py.PyTuple_GetItem(a->names, k) == name) found = a->values[k];
  }
  *used += found != NULL;
  if (!found && a->bindings) {
    found = py.PyDict_GetItemWithError(a->bindings, name);
    *used += found != NULL;
  }
  return found == py._Py_NoneStruct ? NULL : found;
}

static outcome prepare_launch(request *r, py_object *executor, const launch_args *a) {
  const signature *s;
  py_handle *program = (py_handle *)a->program;
  ptrdiff_t used = 0, all = a->bindings ? py.PyDict_Size(a->bindings) : 0;
  int64_t size;
  bool counts = false;
  outcome found = request_begin(r, executor);
  if (found != DONE) return found;
  if (!hologram_is_program(a->program) || program->freed || !program->plan) return SURPRISE;
  s = (signature *)program->plan;
  if (s->careful) return SURPRISE;
  r->args.op = -1;
  r->stream = a->stream;
  r->args.program = program->handle;
  for (int i = 0; i < s->num_params && found == DONE; i++) {
    const struct param *p = &s->params[i];
    py_object *o = given(a, p->name, &used);
    if (!o && i == s->boundary && !py.PyErr_Occurred()) {
      if (i == MAX_OPERANDS) return SURPRISE;
      r->operands[i].buffer = 0;
      r->operands[i].rank = -1;
      r->taken[i] = (taken){0};
      r->args.num_operands++;
      continue;
    }
    if (!o) return py.PyErr_Occurred() ? FAILED : SURPRISE; /* comparing a name may have raised */
    found = p->kind == 's' ? request_scalar(r, o) : request_take(r, o, p->kind == 'w' ? WRITTEN : READ);
  }
  if (found != DONE) return found;
  for (ptrdiff_t k = 0; k < a->num_names; k++) all += a->values[k] != NULL;
  if (used != all || !take_grid(a->grid, r->args.grid) || !take_grid(a->block, r->args.block)) return SURPRISE;
  if (a->n) {
    if (a->shape || !hologram_exact(a->n, &size) || size < 0) return SURPRISE;
    request_dim(r, size);
  } else if (a->shape) {
    ptrdiff_t rank = a->shape->type == py.PyTuple_Type ? py.PyTuple_Size(a->shape) : 0;
    if (rank < 1 || rank > HOLOGRAM_MAX_RANK) return SURPRISE;
    for (ptrdiff_t i = 0; i < rank; i++) {
      if (!hologram_exact(py.PyTuple_GetItem(a->shape, i), &size) || size < 0) return SURPRISE;
      request_dim(r, size);
    }
    counts = rank == 1;
  }
  if (a->fuel) {
    if (!hologram_exact(a->fuel, &size) || size <= 0) return SURPRISE;
    r->args.fuel = (uint64_t)size;
  }
  found = request_borrow(r);
  /* To the library a shape of one number is n, which takes the first elements; Python looks whether that is one. */
  for (int i = 0; i < r->args.num_operands && counts && found == DONE; i++) {
    if ((r->operands[i].buffer || r->operands[i].rank >= 0) && request_size(r, i) > r->dims[0]) found = SURPRISE;
  }
  return found;
}

/* Executor.launch. */
static py_object *launch(py_object *self, py_object *const *args, ptrdiff_t n, py_object *keywords) {
  launch_args a = {0};
  py_object *values[MAX_PARAMS];
  request r;
  outcome found = SURPRISE;
  bool fine = false;
  r.args.num_operands = 0;
  if (sort_launch(&a, args, n, keywords, values)) {
    /* A copy, since another thread that changes the dictionary must not take what is in it away. */
    if (a.bindings && !(a.bindings = py.PyDict_Copy(a.bindings))) return NULL;
    found = prepare_launch(&r, self, &a);
    fine = request_end(&r, found == SURPRISE || (found == DONE && request_run(&r)));
    if (a.bindings) py.Py_DecRef(a.bindings);
  }
  if (found == SURPRISE) return hologram_again(HOOK_launch, self, args, n, keywords);
  return fine ? py_none() : NULL;
}

/* direct(executor): how many of its calls C made by itself. */
static py_object *direct(py_object *self, py_object *const *args, ptrdiff_t n) {
  uint64_t all = 0;
  (void)self;
  if (n != 1 || !hologram_is_executor(args[0])) {
    py.PyErr_SetString(py.PyExc_TypeError, "direct: expected an executor");
    return NULL;
  }
  for (uint64_t stream = 0; stream < 2; stream++) all += hologram_direct_count(hologram_gate_of((py_handle *)args[0], stream, false));
  return py.PyLong_FromUnsignedLongLong(all);
}

int hologram_calls(py_object *into) {
  static const char *const names[OWN_NAMES] = {"grid", "block", "n", "shape", "fuel", "stream"};
  static py_method methods[] = {{"direct", (void *)direct, PY_FASTCALL, NULL}, {NULL, NULL, 0, NULL}};
  for (int i = 0; i < OWN_NAMES; i++) {
    if (!(own_names[i] = py.PyUnicode_InternFromString(names[i]))) return -1;
  }
  hologram_method("launch", hologram_types.executor, (void *)launch);
  return hologram_builtins(into, methods);
}
