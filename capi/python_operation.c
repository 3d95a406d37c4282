/* Operations as builtins of Python: a call is bound, taken and made here if it is as it should be; anything else goes with
   the same values to a function of Python, which says what is wrong or finds another way. */
#include "python_call.h"

#include <math.h>
#include <string.h>

/* ---- results ---- */

const uint8_t hologram_sizes[] = {0, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8};

static double half(uint16_t bits) {
  int exponent = bits >> 10 & 31, fraction = bits & 1023;
  double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                 : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                : ldexp(fraction, -24);
  return bits >> 15 ? -value : value;
}

py_object *hologram_number_of(int32_t dtype, const void *at) {
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
  memcpy(&v, at, hologram_sizes[dtype]);
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
  if (o->buffer && !r->args.first) {
    hologram_event event = 0;
    work w = {.failure = NULL};
    int32_t status;
    if (!work_begin(&w)) return NULL;
    status = hologram_buffer_read(o->buffer, 0, hologram_sizes[o->dtype], &r->cell, &event);
    atomic_store(&w.event, event);
    if (!work_end(&w, status)) return NULL;
  }
  if (o->flags & HOLOGRAM_BOOL) return py.PyBool_FromLong(*(const uint8_t *)&r->cell != 0);
  return hologram_number_of(o->dtype, &r->cell);
}

/* ---- operations ---- */

/* What becomes of an operation's result. */
typedef enum {
  NOTHING, /* it is where the caller said, who gets the array back that was given as out, and None for another */
  GIVEN_BACK, /* so it is, and the caller gets that array back */
  MADE,
  NUMBER,
  FIRST /* a number, beside the output that it is in */
} product;

/* A call of an operation: its arguments by parameter, NULL for those not given. */
typedef struct {
  const signature *s;
  py_object *values[MAX_PARAMS];
  py_object *n, *axis; /* NULL: not given, or None */
  bool axes, keepdims; /* axes are given, or kept, which is as if all were given */
  product product;
  py_object *out;    /* what is given by that name, and so is the result; NULL: nothing */
  py_object *output; /* the array for the result, counted if it is made */
  py_object *stream; /* what is given by that name; NULL: nothing */
  bool later;        /* numbers are read later */
} operation;

static py_object *given(py_object *o) { return o == py._Py_NoneStruct ? NULL : o; }

/* The executor that a call without one runs on if an operand is a Buffer: that one's. */
static py_object *buffer_s_executor(const operation *o) {
  for (int i = 1; i < o->s->num_params; i++) {
    if (o->values[i] && o->s->params[i].operand && hologram_is_buffer(o->values[i])) {
      return ((py_array *)o->values[i])->executor;
    }
  }
  return NULL;
}

/* Looks at what decides over the result. */
static void look(operation *o, ptrdiff_t positional) {
  const signature *s = o->s;
  o->n = s->at_n ? given(o->values[s->at_n]) : NULL;
  o->axis = s->at_axes ? given(o->values[s->at_axes]) : NULL;
  o->keepdims = s->at_keepdims && o->values[s->at_keepdims] == py._Py_TrueStruct;
  o->axes = o->axis || o->keepdims;
  o->output = NULL;
  if (!s->at_output) {
    o->product = NOTHING;
  } else if (!given(o->values[s->at_output])) {
    o->product = s->reduces && !o->axes ? NUMBER : MADE;
  } else {
    o->product = s->result && s->at_output < positional && !o->axes ? FIRST : s->reduces ? GIVEN_BACK : NOTHING;
  }
}

/* The number that says which axes of operand 0 make a row. */
static outcome axes_of(const operation *o, const request *r, int64_t *number) {
  int rank = request_rank(r, 0);
  bool several = o->axis && o->axis->type == py.PyTuple_Type;
  ptrdiff_t count = several ? py.PyTuple_Size(o->axis) : 1;
  *number = o->axis ? 0 : ((int64_t)1 << rank) - 1;
  for (ptrdiff_t i = 0; o->axis && i < count; i++) {
    int64_t a;
    if (!hologram_exact(several ? py.PyTuple_GetItem(o->axis, i) : o->axis, &a) || a < -rank || a >= rank) return SURPRISE;
    a += a < 0 ? rank : 0;
    if (*number >> a & 1) return SURPRISE;
    *number |= (int64_t)1 << a;
  }
  if (o->keepdims) *number |= HOLOGRAM_KEEP_DIMS;
  return DONE;
}

/* Takes the sizes of a call whose operands are taken and borrowed. n receives how many elements are asked for, or -1. */
static outcome take_sizes(const operation *o, request *r, int64_t *n) {
  const signature *s = o->s;
  int64_t size, least = INT64_MAX, most = 0;
  *n = -1;
  if (o->axes) {
    if (o->n || axes_of(o, r, &size) != DONE) return SURPRISE;
    return request_dim(r, size);
  }
  if (!o->n && s->form == GIVEN) return DONE;
  for (int i = 1, k = 0; i < s->num_params && k < r->args.num_operands; i++) {
    if (!s->params[i].operand) continue;
    if (s->params[i].counted) {
      size = request_size(r, k);
      least = size < least ? size : least;
      most = size > most ? size : most;
    }
    k++;
  }
  if (o->n ? !hologram_exact(o->n, &least) || least < 0 : least < most) return SURPRISE;
  if (o->n) *n = least;
  /* Arrays of any shape are taken as they are. */
  if (!o->n && (s->form == GIVEN || o->product == NUMBER || o->product == MADE || o->product == GIVEN_BACK)) return DONE;
  if (s->form == ONE_ROW) request_dim(r, 1);
  return request_dim(r, least);
}

/* Whether the output was made for the call. */
static bool made(const operation *o) { return o->output && (o->product == MADE || o->product == NUMBER); }

/* Finds the result of a call whose operands are taken and borrowed, and makes arrays of numbers. */
static outcome prepare_result(operation *o, request *r) {
  const signature *s = o->s;
  int first = -1, like = -1; /* the first operand that is no number, and that is no mask either */
  outcome found = DONE;
  int64_t n;
  for (int i = 1, k = 0; i < s->num_params && k < r->args.num_operands && like < 0; i++) {
    if (!s->params[i].operand) continue;
    if (!(r->numbers >> k & 1)) {
      first = first < 0 ? k : first;
      like = like < 0 && s->params[i].kind != 'b' ? k : like;
    }
    k++;
  }
  if (first < 0 || !r->executor) return SURPRISE;
  if (take_sizes(o, r, &n) != DONE) return SURPRISE;
  if (o->product == NUMBER) found = request_cell(r, o->later, &o->output);
  if (o->product == MADE) {
    found = request_result(r, s->elements, first, like, s->form == ONE_ROW && n >= 0, &o->output);
    if (found == DONE) found = request_take(r, o->output, FRESH);
  }
  if (found == DONE && r->numbers) {
    bool alike = like >= 0 && !(r->operands[like].flags & HOLOGRAM_BOOL);
    found = alike ? request_numbers(r, r->operands[like].dtype, n) : SURPRISE;
  }
  if (found == DONE && made(o)) found = request_borrow(r);
  if (found != DONE) return found;
  /* What is made of bools is bools, but not what is made of a number, which Python makes one first. What is written is last. */
  if (r->operands[r->args.num_operands - 1].flags & HOLOGRAM_BOOL && (!s->bools || r->args.num_scalars)) return SURPRISE;
  if (o->product != FIRST) return DONE;
  if (request_size(r, r->args.num_operands - 1) < 3) return SURPRISE;
  if (o->later) return r->operands[r->args.num_operands - 1].buffer ? DONE : SURPRISE;
  if (((py_handle *)r->executor)->host_visible) {
    r->args.first = &r->cell;
    return DONE;
  }
  return r->operands[r->args.num_operands - 1].buffer ? DONE : SURPRISE; /* it is read, after the work */
}

/* Takes all arguments of an operation. */
static outcome prepare(operation *o, request *r) {
  const signature *s = o->s;
  py_object *executor = given(o->values[0]);
  outcome found = request_begin(r, executor ? executor : buffer_s_executor(o));
  int missing = 0, sized = 0, turned = 0;
  int64_t size;
  r->args.op = s->op;
  r->stream = o->stream;
  for (int i = 1; found == DONE && i < s->num_params; i++) {
    const struct param *of = &s->params[i];
    py_object *given_value = o->values[i], *value = given(given_value);
    switch (of->kind) {
      case 'r':
        found = s->numbers && value && number_is(value) ? request_number(r, value) : request_take(r, given_value, READ);
        break;
      case 'b':
        found = request_take(r, given_value, READ);
        break;
      case 'w':
        found = request_take(r, given_value, WRITTEN);
        break;
      case 'v':
        found = value ? request_take(r, value, WRITTEN) : SURPRISE;
        break;
      case 'o': /* the last of the operands */
        if (value) found = request_take(r, o->output = value, WRITTEN);
        break;
      case 's':
        if (given_value) {
          found = of->counted && (o->product == MADE || o->product == NUMBER) ? SURPRISE : request_scalar(r, given_value);
        } else {
          r->scalars[r->args.num_scalars].dtype = HOLOGRAM_F64;
          memcpy(&r->scalars[r->args.num_scalars++].bits, &of->value, sizeof of->value);
        }
        break;
      case 'k':
        if (value && value->type != py.PyBool_Type) return SURPRISE;
        break;
      case 'm':
        missing += !value;
        sized += value != NULL;
        if (!value) break;
        /* fall through */
      case 'd':
        found = value && hologram_exact(value, &size) ? request_dim(r, size) : SURPRISE;
        break;
      case 'f':
        if (given_value && given_value->type != py.PyBool_Type) return SURPRISE;
        if (missing && value == py._Py_TrueStruct) request_transpose(r, turned);
        turned++; /* these flags are of the first operands, in order */
        found = request_dim(r, value == py._Py_TrueStruct);
        break;
      default:
        break;
    }
  }
  if (found != DONE) return found;
  if (missing) {
    if (sized) return SURPRISE;
    r->args.num_dims = -1; /* the arrays' shapes say them */
  }
  found = request_borrow(r);
  return found == DONE ? prepare_result(o, r) : found;
}

/* Leaves a call to Python: the hook gets the name, whether element 0 of the output is returned, whether the output is,
   whether numbers are read later, the stream, and the values, None for those not given. */
static py_object *leave_to_python(const operation *o) {
  const signature *s = o->s;
  py_object *all = py.PyTuple_New(s->num_params + 5);
  if (!all) return NULL;
  py.PyTuple_SetItem(all, 0, py.PyUnicode_FromString(s->method.name));
  py.PyTuple_SetItem(all, 1, py.PyBool_FromLong(o->product == FIRST));
  py.PyTuple_SetItem(all, 2, py.PyBool_FromLong(o->out != NULL));
  py.PyTuple_SetItem(all, 3, py.PyBool_FromLong(o->later));
  for (int i = -1; i < s->num_params; i++) {
    py_object *value = i < 0 ? o->stream : o->values[i];
    if (!value) value = py._Py_NoneStruct;
    py.Py_IncRef(value);
    py.PyTuple_SetItem(all, i + 5, value);
  }
  return hologram_hook(HOOK_operation, all);
}

/* Lets the exception that is set speak of the function that was called, where the library's operation has another name, and
   of bools, which are bytes to the library, and say what to write instead: the hook gets the names of the operands that are
   bools, and what was given for operands by their names. */
static void rename_error(const operation *o, const request *r) {
  const signature *s = o->s;
  py_object *type, *value, *traceback, *arguments, *bools, *values, *done;
  int n = 0;
  py.PyErr_Fetch(&type, &value, &traceback);
  arguments = py.PyTuple_New(4);
  bools = py.PyTuple_New(r->args.num_operands);
  values = py.PyDict_New();
  for (int i = 1; bools && values && i < s->num_params; i++) {
    if (!s->params[i].operand) continue;
    if (n < r->args.num_operands) {
      py_object *name = r->operands[n].flags & HOLOGRAM_BOOL ? s->params[i].name : py._Py_NoneStruct;
      py.Py_IncRef(name);
      py.PyTuple_SetItem(bools, n++, name);
    }
    if (o->values[i]) py.PyDict_SetItem(values, s->params[i].name, o->values[i]);
  }
  if (value && arguments && bools && values) {
    py.Py_IncRef(value);
    py.PyTuple_SetItem(arguments, 0, py.PyUnicode_FromString(s->method.name));
    py.PyTuple_SetItem(arguments, 1, value);
    py.PyTuple_SetItem(arguments, 2, bools);
    py.PyTuple_SetItem(arguments, 3, values);
    if ((done = hologram_hook(HOOK_renamed, arguments))) py.Py_DecRef(done);
  } else {
    if (arguments) py.Py_DecRef(arguments);
    if (bools) py.Py_DecRef(bools);
    if (values) py.Py_DecRef(values);
  }
  py.PyErr_Clear();
  py.PyErr_Restore(type, value, traceback);
}

/* Makes a call; later, where numbers are read later, is set if the result is the Buffer of such a one. */
static py_object *operate(py_object *self, py_object *const *args, ptrdiff_t n, py_object *keywords, bool *later) {
  operation o;
  py_object *number = NULL;
  ptrdiff_t positional;
  request r;
  outcome found;
  bool fine;
  o.s = (signature *)self;
  if (!signature_bind(o.s, args, n, keywords, o.values, &positional, &o.out, &o.stream)) return NULL;
  o.later = later;
  o.out = o.out ? given(o.out) : NULL;
  look(&o, positional);
  r.args.num_operands = 0;
  found = prepare(&o, &r);
  if (found != DONE) {
    request_end(&r, found == SURPRISE);
    if (made(&o)) py.Py_DecRef(o.output);
    return found == FAILED ? NULL : leave_to_python(&o);
  }
  fine = request_run(&r);
  if (!fine) rename_error(&o, &r);
  if (fine && later && (o.product == FIRST || o.product == NUMBER)) {
    *later = true;
    o.product = o.product == NUMBER ? MADE : GIVEN_BACK;
  }
  if (fine && (o.product == FIRST || o.product == NUMBER)) fine = (number = first_of(&r, r.args.num_operands - 1)) != NULL;
  fine = request_end(&r, fine);
  if (made(&o) && !(fine && o.product == MADE)) py.Py_DecRef(o.output);
  if (!fine && number) py.Py_DecRef(number);
  if (!fine) return NULL;
  if (o.product == NOTHING && !(o.output = o.out)) return py_none();
  if (o.product == NOTHING || o.product == GIVEN_BACK) py.Py_IncRef(o.output);
  return number ? number : o.output;
}

py_object *hologram_operation(py_object *self, py_object *const *args, ptrdiff_t n, py_object *keywords) {
  return operate(self, args, n, keywords, NULL);
}

py_object *hologram_operation_later(py_object *self, py_object *const *args, ptrdiff_t n, py_object *keywords, bool *number) {
  *number = false;
  return operate(self, args, n, keywords, number);
}
