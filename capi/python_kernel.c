/* Kernels: calls of hologram.kernel that are such as one before, by forms that Python adds, and of the functions that are made
   as kernels. They are put together of what operations' calls are; whatever differs goes to the object's _call_any. */
#include "python_call.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FORMS = 64 };

/* A call of so many arguments by position, and perhaps outs, of these types and dtypes. */
typedef struct {
  py_object *program, *types[MAX_OPERANDS]; /* of the arguments and, behind them, of the outs */
  int num_arguments, num_outs;              /* outs are none, or the results */
  int num_results, num_reads;               /* the program's slots are those that are read, and then the results */
  int buffer;                               /* the place of the first Buffer, -1: there is none */
  bool several;                             /* results that are made are in a tuple */
  uint8_t places[MAX_PARAMS]; /* of the program's slots and parameters among the arguments and, behind them, the results */
  uint8_t dtypes[MAX_OPERANDS]; /* of its slots, 0 for bools */
} form;

typedef struct {
  py_object head;
  int num_forms, room, oldest; /* when there can be no more the oldest goes */
  form *forms;
} kernel;

static py_object *kernel_type, *name_call, *name_out, *name_executor;

static void let_go(form *f) {
  for (int i = 0; i < f->num_arguments + f->num_outs; i++) py.Py_DecRef(f->types[i]);
  py.Py_DecRef(f->program);
}

static void kernel_dealloc(py_object *self) {
  kernel *k = (kernel *)self;
  for (int i = 0; i < k->num_forms; i++) let_go(&k->forms[i]);
  free(k->forms);
  hologram_give_back(self);
}

static const signature *plan_of(const form *f) { return (const signature *)((py_handle *)f->program)->plan; }

static const form *form_of(const kernel *k, py_object *const *values, ptrdiff_t n, ptrdiff_t outs) {
  for (int i = 0; i < k->num_forms; i++) {
    const form *f = &k->forms[i];
    ptrdiff_t same = 0;
    if (f->num_arguments != n || f->num_outs != outs) continue;
    while (same < n + outs && values[same]->type == f->types[same]) same++;
    if (same == n + outs && !((py_handle *)f->program)->freed) return f;
  }
  return NULL;
}

/* Whether what is taken has the dtypes of a form. */
static bool typed(const request *r, const form *f) {
  for (int i = 0; i < r->args.num_operands; i++) {
    const hologram_operand *o = &r->operands[i];
    if ((o->flags & HOLOGRAM_BOOL ? 0 : o->dtype) != f->dtypes[i]) return false;
  }
  return true;
}

/* The form that takes the same as another, and has the dtypes of what is taken. */
static const form *form_like(const kernel *k, const form *of, const request *r) {
  for (int i = 0; i < k->num_forms; i++) {
    const form *f = &k->forms[i];
    if (f->num_arguments == of->num_arguments && f->num_outs == of->num_outs && f->num_reads == of->num_reads &&
        f->num_results == of->num_results && plan_of(f)->num_params == plan_of(of)->num_params &&
        !memcmp(f->places, of->places, sizeof f->places) && typed(r, f) && !((py_handle *)f->program)->freed &&
        !memcmp(f->types, of->types, (size_t)(f->num_arguments + f->num_outs) * sizeof *f->types)) {
      return f;
    }
  }
  return NULL;
}

/* The shape that all operands broadcast to, which is the outs' if there are some. SURPRISE: they don't, or it is empty. */
static outcome join(const request *r, const form *f, const int64_t **shape, int *rank, int64_t *room) {
  const hologram_operand *first = &r->operands[0];
  int64_t other[HOLOGRAM_MAX_RANK], size = 1;
  int alike = first->buffer ? 0 : 1, other_rank;
  while (alike && alike < r->args.num_operands && !first[alike].buffer &&
         result_same_shape(first->shape, first->rank, first[alike].shape, first[alike].rank)) {
    alike++;
  }
  *shape = first->shape;
  *rank = first->rank;
  if (alike < r->args.num_operands) {
    *shape = room;
    for (int i = 0; i < r->args.num_operands; i++) {
      if (request_shape(r, i, other, &other_rank) != DONE) return SURPRISE;
      if (!i) *rank = 0;
      if (i <= f->num_reads && !result_join(room, rank, other, other_rank)) return SURPRISE;
      if (i >= f->num_reads && !result_same_shape(room, *rank, other, other_rank)) return SURPRISE;
    }
  }
  for (int k = 0; k < *rank; k++) size *= (*shape)[k];
  return size ? DONE : SURPRISE;
}

/* Takes all arguments, and makes the results if there are no outs: then values has them behind the arguments, made of them
   at last. What holds the program is changed to hold that of the form by which the call is made. */
static outcome prepare(request *r, const kernel *k, form *f, py_object **values, int *made, py_object **holds) {
  const signature *s = plan_of(f);
  const int64_t *strides, *shape;
  int64_t room[HOLOGRAM_MAX_RANK];
  int rank;
  outcome found = request_begin(r, f->buffer < 0 ? NULL : ((py_array *)values[f->buffer])->executor);
  r->args.op = -1;
  for (int i = 0; i < s->num_params && found == DONE; i++) {
    py_object *o = values[f->places[i]];
    if (s->params[i].kind == 's') {
      found = request_scalar(r, o);
    } else if (o) {
      found = request_take(r, o, s->params[i].kind == 'w' ? WRITTEN : READ);
    }
  }
  if (found == DONE) found = request_borrow(r);
  if (found != DONE) return found;
  if (!r->executor) return SURPRISE;
  if (!typed(r, f)) {
    const form *other = form_like(k, f, r);
    if (!other) return SURPRISE;
    *f = *other;
    py.Py_IncRef(*holds = f->program);
  }
  r->args.program = ((py_handle *)f->program)->handle;
  if (join(r, f, &shape, &rank, room) != DONE) return SURPRISE;
  if (f->num_outs) return DONE;
  strides = rank > 1 ? result_order(r, shape, rank) : NULL;
  for (; *made < f->num_results && found == DONE; ++*made) {
    py_object **to = &values[f->num_arguments + *made];
    found = request_make(r, 0, f->dtypes[f->num_reads + *made], shape, rank, strides, to);
    if (found != DONE) return found;
    found = request_take(r, *to, FRESH);
  }
  return found == DONE ? request_borrow(r) : found;
}

/* The results that were made, of which it takes the references. */
static py_object *packed(py_object *const *made, const form *f) {
  py_object *all = f->several ? py.PyTuple_New(f->num_results) : made[0];
  for (int i = 0; i < f->num_results && f->several; i++) {
    if (all) {
      py.PyTuple_SetItem(all, i, made[i]);
    } else {
      py.Py_DecRef(made[i]);
    }
  }
  return all;
}

/* Makes a call such as one before, of n arguments and so many outs behind them, of which values has them; out is how the latter
   were given, or NULL. NULL with an exception or, of what is left to Python, without. */
static py_object *known(const kernel *k, py_object **values, ptrdiff_t n, ptrdiff_t outs, py_object *out) {
  const form *found_form = form_of(k, values, n, outs);
  form f;
  request r;
  outcome found;
  py_object *holds[2];
  int made = 0;
  bool fine;
  if (!found_form) return NULL;
  f = *found_form; /* what runs meanwhile may change the kernel's */
  py.Py_IncRef(holds[0] = f.program);
  holds[1] = NULL;
  for (int i = 0; i < f.num_results && !outs; i++) values[n + i] = NULL;
  r.args.num_operands = 0;
  found = prepare(&r, k, &f, values, &made, &holds[1]);
  fine = request_end(&r, found == SURPRISE || (found == DONE && request_run(&r)));
  py.Py_DecRef(holds[0]);
  if (holds[1]) py.Py_DecRef(holds[1]);
  if (fine && found == DONE) {
    if (!out) return packed(&values[n], &f);
    py.Py_IncRef(out);
    return out;
  }
  for (int i = 0; i < made; i++) py.Py_DecRef(values[n + i]);
  return NULL;
}

/* Puts what is given as out behind n arguments, and returns how many arrays that is; -1 of so many that there is no room. */
static ptrdiff_t spread(py_object **values, ptrdiff_t n, py_object *out) {
  ptrdiff_t outs = !out ? 0 : out->type == py.PyTuple_Type ? py.PyTuple_Size(out) : 1;
  if (n + outs > MAX_OPERANDS || (out && !outs)) return -1;
  for (ptrdiff_t i = 0; i < outs; i++) values[n + i] = out->type == py.PyTuple_Type ? py.PyTuple_GetItem(out, i) : out;
  return outs;
}

/* Whether a call's keywords are no other than out and executor, of which the latter is None. */
static bool simple(py_object *keywords, py_object **out) {
  py_object *executor;
  ptrdiff_t others = keywords ? py.PyDict_Size(keywords) : 0;
  if (!others) return true;
  if ((*out = py.PyDict_GetItemWithError(keywords, name_out))) others--;
  if ((executor = py.PyDict_GetItemWithError(keywords, name_executor))) others--;
  if (*out == py._Py_NoneStruct) *out = NULL;
  return !others && (!executor || executor == py._Py_NoneStruct);
}

/* The object's __call__. */
static py_object *call(py_object *self, py_object *args, py_object *keywords) {
  const kernel *k = (kernel *)self;
  py_object *values[MAX_OPERANDS], *out = NULL, *again, *result = NULL;
  ptrdiff_t n = py.PyTuple_Size(args), outs;
  if (k->num_forms && n <= MAX_OPERANDS && simple(keywords, &out) && (outs = spread(values, n, out)) >= 0) {
    for (ptrdiff_t i = 0; i < n; i++) values[i] = py.PyTuple_GetItem(args, i);
    result = known(k, values, n, outs, out);
  }
  if (result || py.PyErr_Occurred() || !(again = py.PyObject_GetAttr(self, name_call))) return result;
  result = py.PyObject_Call(again, args, keywords);
  py.Py_DecRef(again);
  return result;
}

/* Puts a form, whose references it takes, among the others; false with an exception. */
static bool put(kernel *k, form *f) {
  form gone;
  if (k->num_forms == MAX_FORMS) {
    gone = k->forms[k->oldest];
    k->forms[k->oldest] = *f;
    k->oldest = (k->oldest + 1) % MAX_FORMS;
    let_go(&gone);
    return true;
  }
  if (k->num_forms == k->room) {
    int room = k->room ? 2 * k->room : 2;
    form *more = realloc(k->forms, (size_t)room * sizeof *more);
    if (!more) {
      let_go(f);
      return py.PyErr_NoMemory() != NULL;
    }
    k->forms = more;
    k->room = room;
  }
  k->forms[k->num_forms++] = *f;
  return true;
}

/* Reads the places of a form's slots and parameters; false of what is left to Python, or with an exception. */
static bool read_places(native *c, form *f, const signature *s, py_object *places, py_object *dtypes) {
  int32_t number;
  int slots = 0;
  if (py.PyTuple_Size(places) != s->num_params) return false;
  for (int i = 0; i < s->num_params; i++) {
    if (!native_i32(c, py.PyTuple_GetItem(places, i), "places", &number) || number < 0) return false;
    f->places[i] = (uint8_t)number;
    if (s->params[i].kind == 's') {
      if (number >= f->num_arguments) return false;
      continue;
    }
    if (number != f->num_arguments + f->num_results && (number >= f->num_arguments || f->num_results)) return false;
    f->num_reads += number < f->num_arguments;
    f->num_results += number >= f->num_arguments;
    if (f->num_arguments + f->num_results > MAX_OPERANDS || py.PyTuple_Size(dtypes) <= slots) return false;
    if (!native_i32(c, py.PyTuple_GetItem(dtypes, slots), "dtypes", &number)) return false;
    f->dtypes[slots++] = (uint8_t)number;
  }
  return f->num_reads && f->num_results && (!f->num_outs || f->num_outs == f->num_results);
}

/* kernel_add(kernel, program, types, outs, places, dtypes, several): calls of arguments of these types, the last ones so many
   outs', are the program's. Without a program all that were added are gone. What can't be a form is left to Python as before. */
static py_object *add(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "kernel_add"};
  form f = {.buffer = -1};
  kernel *k;
  const signature *s;
  ptrdiff_t types;
  int32_t outs;
  (void)self;
  if (!native_count(&c, n, 7)) return NULL;
  if (!py.PyType_IsSubtype(args[0]->type, kernel_type)) {
    py.PyErr_SetString(py.PyExc_TypeError, "kernel_add: expected a kernel");
    return NULL;
  }
  k = (kernel *)args[0];
  if (args[1] == py._Py_NoneStruct) {
    while (k->num_forms) {
      f = k->forms[--k->num_forms];
      let_go(&f);
    }
    k->oldest = 0;
    return py_none();
  }
  s = hologram_is_program(args[1]) ? (signature *)((py_handle *)args[1])->plan : NULL;
  types = py.PyTuple_Size(args[2]);
  if (types < 0 || !native_i32(&c, args[3], "outs", &outs)) return NULL;
  if (!s || s->careful || s->boundary >= 0 || outs < 0 || outs >= types || types > MAX_OPERANDS) return py_none();
  f.num_outs = outs;
  f.num_arguments = (int)types - outs;
  f.several = args[6] == py._Py_TrueStruct;
  if (!read_places(&c, &f, s, args[4], args[5])) return py.PyErr_Occurred() ? NULL : py_none();
  for (ptrdiff_t i = 0; i < types; i++) {
    py.Py_IncRef(f.types[i] = py.PyTuple_GetItem(args[2], i));
    if (f.buffer < 0 && f.types[i] == hologram_types.a_buffer) f.buffer = (int)i;
  }
  py.Py_IncRef(f.program = args[1]);
  return put(k, &f) ? py_none() : NULL;
}

int hologram_kernels(py_object *into) {
  static py_method methods[] = {{"kernel_add", (void *)add, PY_FASTCALL, NULL}, {NULL, NULL, 0, NULL}};
  static py_slot slots[] = {{PY_SLOT_DEALLOC, (void *)kernel_dealloc}, {PY_SLOT_CALL, (void *)call}, {0, NULL}};
  static py_spec spec = {"hologram._native.KernelBase", sizeof(kernel), 0, PY_TYPE_DEFAULT | PY_TYPE_BASE, slots};
  if (!(kernel_type = py.PyType_FromSpec(&spec)) || !(name_call = py.PyUnicode_InternFromString("_call_any")) ||
      !(name_out = py.PyUnicode_InternFromString("out")) || !(name_executor = py.PyUnicode_InternFromString("executor")) ||
      py.PyDict_SetItemString(into, "KernelBase", kernel_type)) {
    return -1;
  }
  return hologram_builtins(into, methods);
}
