/* Operations and launches as builtins of Python. What is as it should be is bound, taken and called here; anything else
   goes with the same arguments to a function of Python, which says what is wrong or finds another way. */
#include "python_call.h"

#include <math.h>
#include <string.h>

/* ---- numbers ---- */

outcome request_scalar(request *r, py_object *o) {
  hologram_scalar *to = &r->scalars[r->args.num_scalars];
  int64_t whole;
  double value;
  if (r->args.num_scalars++ == MAX_SCALARS) return SURPRISE;
  if (o->type == py.PyFloat_Type) {
    to->dtype = HOLOGRAM_F64;
    value = py.PyFloat_AsDouble(o);
    memcpy(&to->bits, &value, sizeof value);
  } else if (hologram_exact(o, &whole)) {
    to->dtype = HOLOGRAM_I64;
    to->bits = (uint64_t)whole;
  } else {
    return SURPRISE;
  }
  return DONE;
}

static outcome take_size(request *r, int64_t size) {
  if (r->args.num_dims < 0) r->args.num_dims = 0;
  if (r->args.num_dims == HOLOGRAM_MAX_RANK) return SURPRISE;
  r->dims[r->args.num_dims++] = size;
  return DONE;
}

/* ---- results ---- */

static double half(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                 : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                : ldexp(fraction, -24);
  return bits >> 15 ? -value : value;
}

/* A number of Python's of an element's bytes. */
static py_object *number_of(int32_t dtype, const void *at) {
  union {
    int8_t i8;
    int16_t i16;
    int32_t i32;
    int64_t i64;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    float f32;
    double f64;
  } v;
  static const uint8_t sizes[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  memcpy(&v, at, sizes[dtype]);
  switch (dtype) {
    case HOLOGRAM_I8:
      return py.PyLong_FromLongLong(v.i8);
    case HOLOGRAM_I16:
      return py.PyLong_FromLongLong(v.i16);
    case HOLOGRAM_I32:
      return py.PyLong_FromLongLong(v.i32);
    case HOLOGRAM_I64:
      return py.PyLong_FromLongLong(v.i64);
    case HOLOGRAM_U8:
      return py.PyLong_FromLongLong(v.u8);
    case HOLOGRAM_U16:
      return py.PyLong_FromLongLong(v.u16);
    case HOLOGRAM_U32:
      return py.PyLong_FromLongLong(v.u32);
    case HOLOGRAM_U64:
      return py.PyLong_FromUnsignedLongLong(v.u64);
    case HOLOGRAM_F16:
      return py.PyFloat_FromDouble(half(v.u16));
    case HOLOGRAM_BF16:
      v.u32 = (uint32_t)v.u16 << 16;
      return py.PyFloat_FromDouble(v.f32);
    case HOLOGRAM_F32:
      return py.PyFloat_FromDouble(v.f32);
    default:
      return py.PyFloat_FromDouble(v.f64);
  }
}

/* Element 0 of an operand, after the work: it is in the cell, or the host does not see it. */
static py_object *first_of(request *r, int i) {
  const hologram_operand *o = &r->operands[i];
  static const uint8_t sizes[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  uint64_t cell = 0;
  hologram_event event = 0;
  work w = {.failure = NULL};
  int32_t status;
  if (!o->buffer || r->args.first) {
    if (o->flags & HOLOGRAM_BOOL) return py.PyBool_FromLong(*(const uint8_t *)&r->cell != 0);
    return number_of(o->dtype, &r->cell);
  }
  if (!work_begin(&w)) return NULL;
  status = hologram_buffer_read(o->buffer, 0, sizes[o->dtype], &cell, &event);
  atomic_store(&w.event, event);
  return work_end(&w, status) ? number_of(o->dtype, &cell) : NULL;
}

/* ---- operations ---- */

/* The executor that a call without one runs on if an operand is a Buffer: that one's. */
static py_object *buffer_s_executor(const signature *s, py_object **values) {
  for (int i = 1; i < s->num_params; i++) {
    if (values[i] && strchr("rwo", s->params[i].kind) && hologram_is_buffer(values[i])) return ((py_array *)values[i])->executor;
  }
  return NULL;
}

/* What becomes of an operation's result. */
typedef enum {
  NOTHING, /* it is where the caller said */
  GIVEN_BACK, /* so it is, and the caller gets that array back */
  MADE,
  NUMBER,
  FIRST /* a number, beside the output that it is in */
} product;

static product product_of(const signature *s, py_object **values, ptrdiff_t positional) {
  for (int i = 1; i < s->num_params; i++) {
    if (s->params[i].kind != 'o') continue;
    if (!values[i] || values[i] == py._Py_NoneStruct) return s->reduces ? NUMBER : MADE;
    return s->result && i < positional ? FIRST : s->reduces ? GIVEN_BACK : NOTHING;
  }
  return NOTHING;
}

/* Takes the sizes, and finds the result of a call whose operands are taken. made receives an array for it. */
static outcome prepare_result(const signature *s, request *r, py_object *n, product p, py_object **made) {
  bool whole = !n && (p == NUMBER || p == MADE || p == GIVEN_BACK); /* arrays of any shape, as they are */
  outcome found = DONE;
  int64_t size, least = INT64_MAX, most = 0;
  if (p == MADE || p == NUMBER || !r->executor) found = request_borrow(r);
  if (n && (p == MADE || p == NUMBER)) return SURPRISE;
  if (found == DONE && p == NUMBER) found = request_cell(r);
  if (found == DONE && p == MADE) found = request_result(r, s->elementwise, made);
  if (found == DONE && p == MADE) found = request_take(r, *made, FRESH);
  if (found == DONE) found = request_borrow(r);
  if (found != DONE) return found;
  for (int i = 1, k = 0; i < s->num_params; i++) {
    const struct param *of = &s->params[i];
    if (of->kind != 'r' && of->kind != 'w' && of->kind != 'o') continue;
    if (of->counted) {
      size = request_size(r, k);
      least = size < least ? size : least;
      most = size > most ? size : most;
    }
    /* What is made of bools is bools, but not what is made of a number, which Python makes one first. */
    if (of->kind != 'r' && r->operands[k].flags & HOLOGRAM_BOOL && (!s->bools || r->args.num_scalars)) return SURPRISE;
    k++;
  }
  if (n ? !hologram_exact(n, &least) || least < 0 : least < most) return SURPRISE;
  if (whole) return DONE;
  if (s->form == ONE_ROW) take_size(r, 1);
  if (s->form != GIVEN || n) take_size(r, least);
  if (p != FIRST) return DONE;
  if (request_size(r, r->args.num_operands - 1) < 3) return SURPRISE;
  if (((py_handle *)r->executor)->host_visible) {
    r->args.first = &r->cell;
    return DONE;
  }
  return r->operands[r->args.num_operands - 1].buffer ? DONE : SURPRISE; /* it is read, after the work */
}

/* Takes all arguments of an operation. output receives the array for its result if there is one, counted if it is made. */
static outcome prepare(const signature *s, request *r, py_object **values, product p, py_object **output) {
  bool given = values[0] && values[0] != py._Py_NoneStruct;
  outcome found = request_begin(r, given ? values[0] : buffer_s_executor(s, values));
  py_object *n = NULL;
  int missing = 0, sized = 0;
  int64_t size;
  r->args.op = s->op;
  for (int i = 1; found == DONE && i < s->num_params; i++) {
    const struct param *of = &s->params[i];
    py_object *o = values[i] == py._Py_NoneStruct ? NULL : values[i];
    switch (of->kind) {
      case 'r':
      case 'w':
        found = request_take(r, values[i], of->kind == 'w' ? WRITTEN : READ);
        break;
      case 'o': /* the last of the operands */
        if (o) found = request_take(r, *output = o, WRITTEN);
        break;
      case 's':
        if (values[i]) {
          found = of->counted && (p == MADE || p == NUMBER) ? SURPRISE : request_scalar(r, values[i]);
        } else {
          r->scalars[r->args.num_scalars].dtype = HOLOGRAM_F64;
          memcpy(&r->scalars[r->args.num_scalars++].bits, &of->value, sizeof of->value);
        }
        break;
      case 'a':
        if (o) return SURPRISE;
        break;
      case 'k':
        if (o && (o->type != py.PyBool_Type || o == py._Py_TrueStruct)) return SURPRISE;
        break;
      case 'm':
        missing += !o;
        sized += o != NULL;
        if (!o) break;
        /* fall through */
      case 'd':
        found = o && hologram_exact(o, &size) ? take_size(r, size) : SURPRISE;
        break;
      case 'f':
        if (values[i] && values[i]->type != py.PyBool_Type) return SURPRISE;
        if (missing && o == py._Py_TrueStruct) return SURPRISE;
        found = take_size(r, o == py._Py_TrueStruct);
        break;
      default:
        n = o;
    }
  }
  if (found != DONE) return found;
  if (missing) {
    if (sized) return SURPRISE;
    r->args.num_dims = -1; /* the arrays' shapes say them */
  }
  return prepare_result(s, r, n, p, output);
}

/* Leaves a call to Python: the hook gets the name, whether element 0 of the output is returned, and the values, None for
   those not given. */
static py_object *leave_to_python(const signature *s, py_object *const *values, product p) {
  py_object *all = py.PyTuple_New(s->num_params + 2);
  if (!all) return NULL;
  py.PyTuple_SetItem(all, 0, py.PyUnicode_FromString(s->method.name));
  py.PyTuple_SetItem(all, 1, py.PyBool_FromLong(p == FIRST));
  for (int i = 0; i < s->num_params; i++) {
    py_object *o = values[i] ? values[i] : py._Py_NoneStruct;
    py.Py_IncRef(o);
    py.PyTuple_SetItem(all, i + 2, o);
  }
  return hologram_hook(HOOK_operation, all);
}

/* Lets the exception that is set speak of the function that was called, where the library's operation has another name. */
static void rename_error(const signature *s) {
  py_object *type, *value, *traceback, *arguments, *done;
  py.PyErr_Fetch(&type, &value, &traceback);
  if (value && (arguments = py.PyTuple_New(2))) {
    py.Py_IncRef(value);
    py.PyTuple_SetItem(arguments, 0, py.PyUnicode_FromString(s->method.name));
    py.PyTuple_SetItem(arguments, 1, value);
    if ((done = hologram_hook(HOOK_renamed, arguments))) py.Py_DecRef(done);
    py.PyErr_Clear();
  }
  py.PyErr_Restore(type, value, traceback);
}

py_object *hologram_operation(py_object *self, py_object *const *args, ptrdiff_t n, py_object *keywords) {
  const signature *s = (signature *)self;
  py_object *values[MAX_PARAMS], *number = NULL, *output = NULL;
  ptrdiff_t positional;
  product p;
  request r;
  outcome found;
  bool fine;
  if (!signature_bind(s, args, n, keywords, values, &positional)) return NULL;
  p = product_of(s, values, positional);
  r.args.num_operands = 0;
  found = prepare(s, &r, values, p, &output);
  if (found != DONE) {
    request_end(&r, found == SURPRISE);
    if (p == MADE && output) py.Py_DecRef(output);
    return found == FAILED ? NULL : leave_to_python(s, values, p);
  }
  fine = request_run(&r);
  if (!fine) rename_error(s);
  if (fine && (p == FIRST || p == NUMBER)) fine = (number = first_of(&r, r.args.num_operands - 1)) != NULL;
  fine = request_end(&r, fine);
  if (p == MADE && !fine) py.Py_DecRef(output);
  if (!fine && number) py.Py_DecRef(number);
  if (!fine) return NULL;
  if (p == GIVEN_BACK) py.Py_IncRef(output);
  return number ? number : p == NOTHING ? py_none() : output;
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
  py_object *program, *bindings, *grid, *block, *n, *shape, *fuel; /* NULL: not given */
  py_object *const *values;                                        /* of the names */
  py_object *names;                                                /* a tuple, or NULL */
  ptrdiff_t num_names;
} launch_args;

static py_object *own_names[5]; /* interned: grid, block, n, shape, fuel */

/* Sorts arguments; false if Python is to say what is wrong with them. */
static bool sort_launch(launch_args *to, py_object *const *args, ptrdiff_t n, py_object *keywords, py_object **values) {
  py_object **own[] = {&to->grid, &to->block, &to->n, &to->shape, &to->fuel};
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
    for (int i = 0; i < 5; i++) {
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
  outcome found = request_begin(r, executor);
  if (found != DONE) return found;
  if (!hologram_is_program(a->program) || program->freed || !program->plan) return SURPRISE;
  s = (signature *)program->plan;
  if (s->careful) return SURPRISE;
  r->args.op = -1;
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
    take_size(r, size);
  } else if (a->shape) {
    ptrdiff_t rank = a->shape->type == py.PyTuple_Type ? py.PyTuple_Size(a->shape) : 0;
    if (rank < 1 || rank > HOLOGRAM_MAX_RANK) return SURPRISE;
    for (ptrdiff_t i = 0; i < rank; i++) {
      if (!hologram_exact(py.PyTuple_GetItem(a->shape, i), &size) || size < 0) return SURPRISE;
      take_size(r, size);
    }
  }
  if (a->fuel) {
    if (!hologram_exact(a->fuel, &size) || size <= 0) return SURPRISE;
    r->args.fuel = (uint64_t)size;
  }
  return request_borrow(r);
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

int hologram_calls(py_object *into) {
  static const char *const names[] = {"grid", "block", "n", "shape", "fuel"};
  (void)into;
  for (int i = 0; i < 5; i++) {
    if (!(own_names[i] = py.PyUnicode_InternFromString(names[i]))) return -1;
  }
  hologram_method("launch", hologram_types.executor, (void *)launch);
  return 0;
}
