/* Operations and launches as builtins of Python. What is as it should be is bound, taken and called here; anything else
   goes with the same arguments to a function of Python, which says what is wrong or finds another way. */
#include "python_call.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- signatures ---- */

/* How an operation or a program is called: an object that is the self of an operation's builtin, or a program's plan. */
typedef struct {
  py_object head;
  py_method method;
  int32_t op;     /* -1: a program */
  int form;       /* of the sizes, see below */
  bool result;    /* element 0 of the last operand is returned */
  bool copies;    /* bools may be written */
  int boundary;   /* of a program: the slot that need not be bound; -1 if there is none */
  bool careful;   /* of a program: C leaves all its launches to Python */
  int num_params, positional;
  struct param {
    py_object *name;
    char kind;    /* x executor, r operand, w operand that is written, s scalar, d size, f flag, n optional size */
    bool counted; /* an operand whose elements n is the least of */
    bool optional;
    double value;
  } params[MAX_PARAMS];
} signature;

/* Forms of sizes: those that are given; n, or the least number of elements of the counted operands; 1 and that. */
enum { GIVEN = 0, COUNT = 1, ONE_ROW = 2 };

static py_object *signature_type;

static void signature_dealloc(py_object *self) {
  signature *s = (signature *)self;
  py_object *type = self->type;
  for (int i = 0; i < s->num_params; i++) py.Py_DecRef(s->params[i].name);
  free((void *)s->method.name);
  free((void *)s->method.doc);
  ((void (*)(void *))py.PyType_GetSlot(type, PY_SLOT_FREE))(self);
  py.Py_DecRef(type);
}

static char *copied(py_object *text) {
  ptrdiff_t size;
  const char *from = py.PyUnicode_AsUTF8AndSize(text, &size);
  char *to = from ? malloc((size_t)size + 1) : NULL;
  if (to) memcpy(to, from, (size_t)size + 1);
  if (from && !to) py.PyErr_NoMemory();
  return to;
}

/* Reads parameters, (name, kind, counted, default or None) each. */
static bool read_params(signature *s, native *c, py_object *list) {
  ptrdiff_t n = py.PyTuple_Size(list);
  if (n < 0 || n > MAX_PARAMS) {
    if (n > 0) py.PyErr_SetString(py.PyExc_ValueError, "too many parameters");
    return false;
  }
  for (ptrdiff_t i = 0; i < n; i++) {
    py_object *from = py.PyTuple_GetItem(list, i), *value;
    struct param *p = &s->params[i];
    const char *kind;
    if (py.PyTuple_Size(from) != 4) return false;
    if (!native_text(c, py.PyTuple_GetItem(from, 1), "kind", &kind)) return false;
    p->kind = *kind;
    p->counted = py.PyTuple_GetItem(from, 2) == py._Py_TrueStruct;
    value = py.PyTuple_GetItem(from, 3);
    p->optional = value != py._Py_NoneStruct;
    if (p->optional) p->value = py.PyFloat_AsDouble(value);
    if (py.PyErr_Occurred()) return false;
    p->optional = p->optional || p->kind == 'n' || p->kind == 'f';
    py.Py_IncRef(p->name = py.PyTuple_GetItem(from, 0));
    py.PyUnicode_InternInPlace(&p->name); /* as the names of keywords are, so that they are compared by address */
    s->num_params = (int)i + 1;
  }
  return true;
}

static py_object *call_operation(py_object *self, py_object *const *args, ptrdiff_t n, py_object *keywords);

/* operation(name, number, parameters, positional, form, result, doc): the builtin of an operation. Its doc begins with
   its signature. */
static py_object *operation(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "operation"};
  signature *s;
  py_object *f = NULL;
  int32_t form = 0;
  (void)self;
  if (!native_count(&c, n, 8)) return NULL;
  if (!(s = (signature *)py.PyType_GenericAlloc(signature_type, 0))) return NULL;
  s->boundary = -1;
  if (native_i32(&c, args[1], "number", &s->op) && read_params(s, &c, args[2]) &&
      native_i32(&c, args[3], "positional", &s->positional) && native_i32(&c, args[4], "form", &form) &&
      (s->method.name = copied(args[0])) && (s->method.doc = copied(args[6]))) {
    s->form = form;
    s->result = args[5] == py._Py_TrueStruct;
    s->copies = args[7] == py._Py_TrueStruct;
    s->method.function = (void *)call_operation;
    s->method.flags = PY_FASTCALL | PY_KEYWORDS;
    f = py.PyCFunction_NewEx(&s->method, &s->head, NULL);
  }
  py.Py_DecRef(&s->head);
  return f;
}

/* plan(parameters, boundary, careful): how a program is launched. */
static py_object *plan(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "plan"};
  signature *s;
  int32_t boundary;
  (void)self;
  if (!native_count(&c, n, 3)) return NULL;
  if (!(s = (signature *)py.PyType_GenericAlloc(signature_type, 0))) return NULL;
  s->op = -1;
  s->careful = args[2] == py._Py_TrueStruct || py.PyTuple_Size(args[0]) > MAX_PARAMS;
  if (!native_i32(&c, args[1], "boundary", &boundary) || (!s->careful && !read_params(s, &c, args[0]))) {
    py.Py_DecRef(&s->head);
    return NULL;
  }
  s->boundary = boundary;
  return &s->head;
}

/* ---- binding ---- */

static int index_of(const signature *s, py_object *name) {
  for (int i = 0; i < s->num_params; i++) {
    if (s->params[i].name == name) return i;
  }
  for (int i = 0; i < s->num_params; i++) {
    if (!py.PyUnicode_Compare(s->params[i].name, name)) return i;
  }
  return -1;
}

static const char *text_of(py_object *name) {
  ptrdiff_t size;
  const char *text = py.PyUnicode_AsUTF8AndSize(name, &size);
  return text ? text : "?";
}

/* Puts arguments where their parameters are, NULL for those not given; false with a TypeError. */
static bool bind(const signature *s, py_object *const *args, ptrdiff_t n, py_object *keywords, py_object **values) {
  ptrdiff_t named = keywords ? py.PyTuple_Size(keywords) : 0;
  if (n > s->positional) {
    py.PyErr_Format(py.PyExc_TypeError, "%s() takes at most %d positional arguments (%zd given)", s->method.name, s->positional, n);
    return false;
  }
  for (int i = 0; i < s->num_params; i++) values[i] = i < n ? args[i] : NULL;
  for (ptrdiff_t k = 0; k < named; k++) {
    py_object *name = py.PyTuple_GetItem(keywords, k);
    int at = index_of(s, name);
    if (at < 0 || values[at]) {
      py.PyErr_Format(py.PyExc_TypeError,
                      at < 0 ? "%s() got an unexpected keyword argument '%s'" : "%s() got multiple values for argument '%s'",
                      s->method.name, text_of(name));
      return false;
    }
    values[at] = args[n + k];
  }
  for (int i = 0; i < s->num_params; i++) {
    if (!values[i] && !s->params[i].optional) {
      py.PyErr_Format(py.PyExc_TypeError, "%s() missing required argument: '%s'", s->method.name, text_of(s->params[i].name));
      return false;
    }
  }
  return true;
}

static outcome take_scalar(request *r, py_object *o) {
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

/* Element 0 of an operand, after the work. */
static py_object *first_of(request *r, int i) {
  const hologram_operand *o = &r->operands[i];
  static const uint8_t sizes[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};
  uint64_t cell = 0;
  hologram_event event = 0;
  work w = {.failure = NULL};
  int32_t status;
  if (!o->buffer) return number_of(o->dtype, o->data);
  work_begin(&w);
  status = hologram_buffer_read(o->buffer, 0, sizes[o->dtype], &cell, &event);
  atomic_store(&w.event, event);
  return work_end(&w, status) ? number_of(o->dtype, &cell) : NULL;
}

/* ---- operations ---- */

/* Takes all arguments of an operation. */
static outcome prepare(const signature *s, request *r, py_object **values) {
  outcome found = request_begin(r, values[0]);
  py_object *n = NULL;
  int64_t size, least = INT64_MAX, most = 0;
  r->args.op = s->op;
  for (int i = 1; found == DONE && i < s->num_params; i++) {
    const struct param *p = &s->params[i];
    py_object *o = values[i];
    switch (p->kind) {
      case 'r':
      case 'w':
        found = request_take(r, values[0], o, p->kind == 'w');
        break;
      case 's':
        if (o) {
          found = take_scalar(r, o);
        } else {
          r->scalars[r->args.num_scalars].dtype = HOLOGRAM_F64;
          memcpy(&r->scalars[r->args.num_scalars++].bits, &p->value, sizeof p->value);
        }
        break;
      case 'd':
        found = hologram_exact(o, &size) ? take_size(r, size) : SURPRISE;
        break;
      case 'f':
        if (o && o->type != py.PyBool_Type) return SURPRISE;
        found = take_size(r, o && o == py._Py_TrueStruct);
        break;
      default:
        if (o && o != py._Py_NoneStruct) n = o;
    }
  }
  if (found == DONE) found = request_borrow(r);
  if (found != DONE) return found;
  for (int i = 1, k = 0; i < s->num_params; i++) {
    const struct param *p = &s->params[i];
    if (p->kind != 'r' && p->kind != 'w') continue;
    if (p->counted) {
      size = request_size(r, k);
      least = size < least ? size : least;
      most = size > most ? size : most;
    }
    if (p->kind == 'w' && r->operands[k].flags & HOLOGRAM_BOOL && !s->copies) return SURPRISE;
    k++;
  }
  if (n ? !hologram_exact(n, &least) : least < most) return SURPRISE;
  if (s->form == ONE_ROW) take_size(r, 1);
  if (s->form != GIVEN || n) take_size(r, least);
  if (!s->result) return DONE;
  if (request_size(r, r->args.num_operands - 1) < 3) return SURPRISE;
  /* The result is read, so it is in a buffer or where the host sees it. */
  return r->operands[r->args.num_operands - 1].buffer || r->device_type == DL_CPU ? DONE : SURPRISE;
}

/* Leaves a call to Python: the hook gets the name and the values, None for those not given. */
static py_object *leave_to(const char *hook, const char *name, py_object *const *values, int n) {
  py_object *all = py.PyTuple_New(n + 1);
  if (!all) return NULL;
  py.PyTuple_SetItem(all, 0, py.PyUnicode_FromString(name));
  for (int i = 0; i < n; i++) {
    py_object *o = values[i] ? values[i] : py._Py_NoneStruct;
    py.Py_IncRef(o);
    py.PyTuple_SetItem(all, i + 1, o);
  }
  return hologram_hook(hook, all);
}

/* Lets the exception that is set speak of the function that was called, where the library's operation has another name. */
static void rename_error(const signature *s) {
  py_object *type, *value, *traceback, *arguments, *done;
  py.PyErr_Fetch(&type, &value, &traceback);
  if (value && (arguments = py.PyTuple_New(2))) {
    py.Py_IncRef(value);
    py.PyTuple_SetItem(arguments, 0, py.PyUnicode_FromString(s->method.name));
    py.PyTuple_SetItem(arguments, 1, value);
    if ((done = hologram_hook("renamed", arguments))) py.Py_DecRef(done);
    py.PyErr_Clear();
  }
  py.PyErr_Restore(type, value, traceback);
}

static py_object *call_operation(py_object *self, py_object *const *args, ptrdiff_t n, py_object *keywords) {
  const signature *s = (signature *)self;
  py_object *values[MAX_PARAMS], *result = NULL;
  request r;
  outcome found;
  bool fine;
  if (!bind(s, args, n, keywords, values)) return NULL;
  r.args.num_operands = 0;
  found = prepare(s, &r, values);
  if (found != DONE) {
    request_end(&r, found == SURPRISE);
    return found == FAILED ? NULL : leave_to("operation", s->method.name, values, s->num_params);
  }
  fine = request_run(&r, values[0]);
  if (!fine) rename_error(s);
  if (fine && s->result) fine = (result = first_of(&r, r.args.num_operands - 1)) != NULL;
  if (!request_end(&r, fine)) {
    if (result) py.Py_DecRef(result);
    return NULL;
  }
  return result ? result : py_none();
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
    if (!o && i == s->boundary) {
      if (i == MAX_OPERANDS) return SURPRISE;
      r->operands[i].buffer = 0;
      r->operands[i].rank = -1;
      r->taken[i] = (taken){0};
      r->args.num_operands++;
      continue;
    }
    if (!o) return SURPRISE;
    found = p->kind == 's' ? take_scalar(r, o) : request_take(r, executor, o, p->kind == 'w');
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
    fine = request_end(&r, found == SURPRISE || (found == DONE && request_run(&r, self)));
    if (a.bindings) py.Py_DecRef(a.bindings);
  }
  if (found == SURPRISE) return hologram_again("launch", self, args, n, keywords);
  return fine ? py_none() : NULL;
}

/* ---- the plain call ---- */

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

/* call(executor, number, program, buffers, scalars, dims, grid, block, fuel, residue, lane, receive): an operation, or if
   number is -1 a launch, or with a receiver of lines a trace of one lane. buffers are a tuple, None for a slot that is
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
  if (!native_count(&c, n, 12)) return NULL;
  if (native_u64(&c, args[0], "executor", &executor) && read_plain(&c, &p, args) &&
      (args[10] == py._Py_NoneStruct || native_u64(&c, args[10], "lane", &lane))) {
    bool trace = args[11] != py._Py_NoneStruct;
    to.receive = args[11];
    c.work.failure = to.failure;
    hologram_drain();
    work_begin(&c.work);
    status = trace ? hologram_trace(executor, &p.args, lane, line, &to, &event) : hologram_call(executor, &p.args, &event);
    atomic_store(&c.work.event, event);
    fine = work_end(&c.work, status);
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

static py_method methods[] = {
    {"operation", (void *)operation, PY_FASTCALL, NULL},
    {"plan", (void *)plan, PY_FASTCALL, NULL},
    {"call", (void *)call, PY_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int hologram_calls(py_object *into) {
  static py_slot slots[] = {{PY_SLOT_DEALLOC, (void *)signature_dealloc}, {0, NULL}};
  static py_spec spec = {"hologram._native.Signature", sizeof(signature), 0, PY_TYPE_DEFAULT, slots};
  static const char *const names[] = {"grid", "block", "n", "shape", "fuel"};
  for (int i = 0; i < 5; i++) {
    if (!(own_names[i] = py.PyUnicode_InternFromString(names[i]))) return -1;
  }
  hologram_method("launch", hologram_types.executor, (void *)launch);
  if (!(signature_type = py.PyType_FromSpec(&spec))) return -1;
  return hologram_builtins(into, methods);
}
