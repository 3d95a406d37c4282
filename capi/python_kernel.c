/* Kernels: calls of hologram.kernel that are such as one before, by forms that Python adds. They are put together of what
   operations' calls are; whatever differs goes to Kernel._call_any. */
#include "python_call.h"

#include <string.h>

enum { MAX_FORMS = 8 };

/* A call of so many arguments by position, and perhaps out, of these types and dtypes. */
typedef struct {
  py_object *program, *types[MAX_OPERANDS]; /* of the arguments and, behind them, of out */
  int num_arguments;
  bool out;
  int32_t dtype;               /* of the result that is made without out, 0 for bools */
  uint8_t places[MAX_PARAMS];  /* of the program's slots and parameters among the arguments; num_arguments: the result */
  int16_t dtypes[MAX_PARAMS];  /* of its slots, 0 for bools */
} form;

typedef struct {
  py_object head;
  int num_forms, oldest; /* when there is no room the oldest goes */
  form forms[MAX_FORMS];
} kernel;

static py_object *kernel_type, *name_call, *name_out, *name_executor;

static void let_go(form *f) {
  for (int i = 0; i < f->num_arguments + f->out; i++) py.Py_DecRef(f->types[i]);
  py.Py_DecRef(f->program);
}

static void kernel_dealloc(py_object *self) {
  kernel *k = (kernel *)self;
  py_object *type = self->type;
  for (int i = 0; i < k->num_forms; i++) let_go(&k->forms[i]);
  ((void (*)(void *))py.PyType_GetSlot(type, PY_SLOT_FREE))(self);
  py.Py_DecRef(type);
}

static const form *form_of(const kernel *k, py_object *const *values, ptrdiff_t n, bool out) {
  for (int i = 0; i < k->num_forms; i++) {
    const form *f = &k->forms[i];
    ptrdiff_t same = 0;
    if (f->num_arguments != n || f->out != out) continue;
    while (same < n + out && values[same]->type == f->types[same]) same++;
    if (same == n + out) return f;
  }
  return NULL;
}

/* Whether all operands have one shape, which is not empty, and with in_order all of it is row-major. */
static bool alike(const request *r, bool in_order) {
  const hologram_operand *first = &r->operands[0];
  int64_t step = 1;
  for (int i = 0; i < r->args.num_operands; i++) {
    const hologram_operand *o = &r->operands[i];
    if (o->buffer || o->rank != first->rank || memcmp(o->shape, first->shape, (size_t)o->rank * sizeof *o->shape) != 0) return false;
  }
  for (int k = first->rank; k-- > 0;) {
    for (int i = 0; i < r->args.num_operands && in_order; i++) {
      if (r->operands[i].strides[k] != step) return false;
    }
    step *= first->shape[k];
  }
  return step > 0;
}

/* Takes all arguments, and makes the result if there is no out: then values has it behind the others. */
static outcome prepare(request *r, const form *f, py_object **values) {
  const signature *s = (signature *)((py_handle *)f->program)->plan;
  int result = -1; /* its slot, the last one that is taken */
  outcome found = request_begin(r, NULL);
  r->args.op = -1;
  r->args.program = ((py_handle *)f->program)->handle;
  for (int i = 0; i < s->num_params && found == DONE; i++) {
    py_object *o = values[f->places[i]];
    if (s->params[i].kind == 's') {
      found = request_scalar(r, o);
    } else if (o) {
      found = request_take(r, o, s->params[i].kind == 'w' ? WRITTEN : READ);
    } else {
      result = i;
    }
  }
  if (found == DONE) found = request_borrow(r);
  if (found != DONE) return found;
  if (!r->executor || !alike(r, result >= 0)) return SURPRISE;
  for (int i = 0; i < r->args.num_operands; i++) {
    const hologram_operand *o = &r->operands[i];
    if ((o->flags & HOLOGRAM_BOOL ? 0 : o->dtype) != f->dtypes[i]) return SURPRISE;
  }
  if (result < 0) return DONE;
  found = request_make(r, 0, f->dtype, r->operands[0].shape, r->operands[0].rank, NULL, &values[f->num_arguments]);
  if (found == DONE) found = request_take(r, values[f->num_arguments], FRESH);
  return found == DONE ? request_borrow(r) : found;
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

/* Kernel.__call__. */
static py_object *call(py_object *self, py_object *args, py_object *keywords) {
  kernel *k = (kernel *)self;
  py_object *values[MAX_OPERANDS + 1], *out = NULL, *again, *result;
  ptrdiff_t n = py.PyTuple_Size(args);
  if (k->num_forms && n < MAX_OPERANDS && simple(keywords, &out)) {
    const form *known;
    for (ptrdiff_t i = 0; i < n; i++) values[i] = py.PyTuple_GetItem(args, i);
    values[n] = out;
    if ((known = form_of(k, values, n, out != NULL)) && !((py_handle *)known->program)->freed) {
      form f = *known; /* what runs meanwhile may change the kernel's */
      request r;
      outcome found;
      bool fine;
      py.Py_IncRef(f.program);
      r.args.num_operands = 0;
      found = prepare(&r, &f, values);
      fine = request_end(&r, found == SURPRISE || (found == DONE && request_run(&r)));
      py.Py_DecRef(f.program);
      if (fine && found == DONE) {
        if (out) py.Py_IncRef(out);
        return values[n];
      }
      if (!out && values[n]) py.Py_DecRef(values[n]);
      if (!fine) return NULL;
    }
  }
  if (py.PyErr_Occurred() || !(again = py.PyObject_GetAttr(self, name_call))) return NULL;
  result = py.PyObject_Call(again, args, keywords);
  py.Py_DecRef(again);
  return result;
}

/* kernel_add(kernel, program, types, out, places, dtypes, dtype): calls of arguments of these types, the last one out's if that
   is so, are the program's; dtype is that of a result that is made. Without a program all that were added are gone. */
static py_object *add(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "kernel_add"};
  form f = {0};
  kernel *k;
  const signature *s;
  ptrdiff_t types, slots;
  int32_t number;
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
  slots = py.PyTuple_Size(args[5]);
  if (types < 0 || slots < 0) return NULL;
  if (!s || s->careful || s->boundary >= 0 || !types || types >= MAX_OPERANDS || slots > MAX_OPERANDS) return py_none();
  f.out = args[3] == py._Py_TrueStruct;
  f.num_arguments = (int)types - f.out;
  if (py.PyTuple_Size(args[4]) != s->num_params || !native_i32(&c, args[6], "dtype", &f.dtype)) return native_refused(&c);
  for (int i = 0; i < s->num_params; i++) {
    if (!native_i32(&c, py.PyTuple_GetItem(args[4], i), "places", &number)) return NULL;
    if (number < 0 || number > f.num_arguments) return py_none();
    f.places[i] = (uint8_t)number;
  }
  for (ptrdiff_t i = 0; i < slots; i++) {
    if (!native_i32(&c, py.PyTuple_GetItem(args[5], i), "dtypes", &number)) return NULL;
    f.dtypes[i] = (int16_t)number;
  }
  for (ptrdiff_t i = 0; i < types; i++) py.Py_IncRef(f.types[i] = py.PyTuple_GetItem(args[2], i));
  py.Py_IncRef(f.program = args[1]);
  if (k->num_forms < MAX_FORMS) {
    k->forms[k->num_forms++] = f;
  } else {
    form gone = k->forms[k->oldest];
    k->forms[k->oldest] = f;
    k->oldest = (k->oldest + 1) % MAX_FORMS;
    let_go(&gone);
  }
  return py_none();
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
