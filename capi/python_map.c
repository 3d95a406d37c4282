/* Maps: functions of torch's tensors, element by element, as builtins that look at the tensors, make the results and launch
   the program for their types. They do what most calls come down to, and tell by their answer what is left to Python. */
#include "python_call.h"

#include <stdlib.h>
#include <string.h>

/* A key has so many bits for an input, so that there can be so many. */
enum { KEY_BITS = 7, NUMBER = 64, MAX_INPUTS = 9, MAX_FORMS = 16 };

typedef struct {
  py_object head;
  py_method method;
  int32_t inputs, scalars, outputs;
  bool autocast;  /* which would change the inputs' types */
  int num_forms, oldest; /* when there is no room the oldest goes */
  struct form {
    uint64_t key;
    py_object *program;         /* its slots are the inputs and then the outputs, its parameters the scalars */
    uint8_t like[MAX_OPERANDS]; /* for each output the input whose type it has */
  } forms[MAX_FORMS];
} map;

static py_object *map_type;

static void map_dealloc(py_object *self) {
  map *m = (map *)self;
  for (int i = 0; i < m->num_forms; i++) py.Py_DecRef(m->forms[i].program);
  free((void *)m->method.name);
  hologram_give_back(self);
}

/* What the inputs' types are. Those of no dimension are marked where types differ, since they count less then. */
static uint64_t key_of(const glance *all, int n) {
  uint64_t key = 0, marks = 0;
  bool mixed = false;
  for (int i = 0; i < n; i++) {
    key = key << KEY_BITS | (uint64_t)all[i].type;
    marks = marks << KEY_BITS | (all[i].rank ? 0 : NUMBER);
    mixed = mixed || all[i].type != all[0].type;
  }
  return mixed ? key | marks : key;
}

/* What torch makes of a number beside floats: one of theirs, but of f32 beside 16 bits; SURPRISE of what else there is. */
static outcome number_beside(const glance *like, glance *to) {
  enum { F16 = 5, F32 = 6, F64 = 7, BF16 = 15 }; /* torch's ScalarType */
  bool half = like->type == F16 || like->type == BF16;
  if ((!half && like->type != F32 && like->type != F64) || (half && !like->rank)) return SURPRISE;
  *to = (glance){.type = half ? F32 : like->type, .in_order = true};
  return DONE;
}

/* Takes all arguments, and makes the results. recorded is set where all is as it should be but that autograd is to record
   the call. */
static outcome prepare(const map *m, request *r, py_object *const *args, py_object **made, int *num_made, bool *recorded) {
  const struct form *known = NULL;
  struct form form;
  glance inputs[MAX_INPUTS];
  int64_t shape[HOLOGRAM_MAX_RANK], size = 1;
  int rank = 0, like = -1;
  uint64_t key;
  outcome found = request_begin(r, args[0]);
  for (int i = 0; i < m->inputs && found == DONE; i++) {
    if (number_is(args[1 + i])) {
      found = request_number(r, args[1 + i]);
      continue;
    }
    found = request_take(r, args[1 + i], READ);
    if (found == DONE && !r->taken[i].torch) found = SURPRISE;
    if (like < 0) like = i;
  }
  if (like < 0) return SURPRISE;
  if (found != DONE) return found;
  if (!torch_usual(m->autocast)) return SURPRISE;
  for (int i = 0; i < m->inputs; i++) {
    if (r->numbers >> i & 1) continue;
    *recorded = *recorded || torch_recorded(args[1 + i]);
    if (!torch_glance(args[1 + i], &inputs[i])) return SURPRISE;
    /* The results' strides are those of the order then, whatever is broadcast. */
    if (!inputs[i].in_order || !result_join(shape, &rank, inputs[i].shape, (int)inputs[i].rank)) return SURPRISE;
    if (r->numbers && inputs[i].type != inputs[like].type) return SURPRISE;
  }
  for (int i = 0; i < m->inputs; i++) {
    if (r->numbers >> i & 1 && number_beside(&inputs[like], &inputs[i]) != DONE) return SURPRISE;
  }
  if (*recorded) return SURPRISE;
  key = key_of(inputs, m->inputs);
  for (int i = 0; i < m->num_forms && !known; i++) {
    if (m->forms[i].key == key) known = &m->forms[i];
  }
  if (!known || ((py_handle *)known->program)->freed) return SURPRISE;
  form = *known; /* what makes results may run Python, which may change the map */
  r->args.op = -1;
  r->args.program = ((py_handle *)form.program)->handle;
  for (int k = 0; k < rank; k++) size *= shape[k];
  if (!size) return SURPRISE;
  for (int i = 0; i < m->scalars; i++) {
    if ((found = request_scalar(r, args[1 + m->inputs + i])) != DONE) return found;
  }
  for (int i = 0; i < m->outputs; i++) {
    int of = form.like[i];
    if (r->numbers >> of & 1) {
      if (inputs[of].type != inputs[like].type) return SURPRISE;
      of = like;
    }
    if (!(made[i] = torch_asked()->empty(r->taken[of].object, -1, shape, rank))) return operand_refused();
    ++*num_made;
    if ((found = request_take(r, made[i], FRESH)) != DONE) return found;
  }
  found = request_borrow(r);
  if (found != DONE || !r->numbers) return found;
  return request_numbers(r, r->operands[like].dtype == HOLOGRAM_F64 ? HOLOGRAM_F64 : HOLOGRAM_F32, -1);
}

/* The results in one object. */
static py_object *packed(py_object **made, int n) {
  py_object *all;
  if (n == 1) return made[0];
  all = py.PyTuple_New(n);
  for (int i = 0; i < n; i++) {
    if (all) {
      py.PyTuple_SetItem(all, i, made[i]);
    } else {
      py.Py_DecRef(made[i]);
    }
  }
  return all;
}

/* A map: (executor, inputs…, scalars…), numbers among the inputs beside floats, to its result, or a tuple of several; True of what is to be recorded, None of what
   else is left to Python. */
static py_object *call(py_object *self, py_object *const *args, ptrdiff_t n) {
  const map *m = (const map *)self;
  py_object *made[MAX_OPERANDS];
  int num_made = 0;
  bool recorded = false, fine;
  request r;
  outcome found;
  if (n != 1 + m->inputs + m->scalars || m->inputs > MAX_INPUTS || m->inputs + m->outputs > MAX_OPERANDS ||
      !hologram_is_executor(args[0])) {
    return py_none();
  }
  r.args.num_operands = 0;
  found = prepare(m, &r, args, made, &num_made, &recorded);
  fine = found == SURPRISE || (found == DONE && request_run(&r));
  if (!fine && found == DONE && !r.changed) { /* refused */
    found = operand_refused();
    fine = found == SURPRISE;
  }
  fine = request_end(&r, fine);
  if (fine && found == DONE) return packed(made, num_made);
  for (int i = 0; i < num_made; i++) py.Py_DecRef(made[i]);
  /* Tensors alone are what is recorded as it is, wherever in prepare a surprise came. */
  return !fine ? NULL : recorded && !r.numbers ? py.PyBool_FromLong(1) : py_none();
}

/* torch_map(name, inputs, scalars, outputs, autocast): a map without forms, to which torch_map_add adds some. */
static py_object *make(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_map"};
  const char *name;
  py_object *f = NULL;
  map *m;
  (void)self;
  if (!native_count(&c, n, 5) || !native_text(&c, args[0], "name", &name)) return NULL;
  if (!(m = (map *)py.PyType_GenericAlloc(map_type, 0))) return NULL;
  m->autocast = args[4] == py._Py_TrueStruct;
  if (native_i32(&c, args[1], "inputs", &m->inputs) && native_i32(&c, args[2], "scalars", &m->scalars) &&
      native_i32(&c, args[3], "outputs", &m->outputs)) {
    size_t size = strlen(name) + 1;
    if ((m->method.name = malloc(size))) memcpy((char *)m->method.name, name, size);
    m->method.function = (void *)call;
    m->method.flags = PY_FASTCALL;
    f = m->method.name ? py.PyCFunction_NewEx(&m->method, &m->head, NULL) : py.PyErr_NoMemory();
  }
  py.Py_DecRef(&m->head);
  return f;
}

/* torch_map_add(map, inputs, program, like): the program for inputs of the types that some tensors have, and for each result
   the input whose type it has. What can't be looked at is left to Python as before. */
static py_object *add(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_map_add"};
  struct form form = {0};
  glance inputs[MAX_INPUTS];
  int64_t like;
  map *m;
  (void)self;
  if (!native_count(&c, n, 4)) return NULL;
  m = (map *)args[0];
  if (m->head.type != map_type || py.PyTuple_Size(args[1]) != m->inputs || !hologram_is_program(args[2]) ||
      py.PyTuple_Size(args[3]) != m->outputs) {
    py.PyErr_Clear();
    py.PyErr_SetString(py.PyExc_TypeError, "torch_map_add: expected a map, its inputs, a program, and an input for each output");
    return NULL;
  }
  if (m->inputs > MAX_INPUTS || m->outputs > MAX_OPERANDS || !torch_usual(false)) return py_none();
  for (int i = 0; i < m->inputs; i++) {
    if (!torch_glance(py.PyTuple_GetItem(args[1], i), &inputs[i])) return py_none();
  }
  form.key = key_of(inputs, m->inputs);
  for (int i = 0; i < m->num_forms; i++) {
    if (m->forms[i].key == form.key) return py_none();
  }
  for (int i = 0; i < m->outputs; i++) {
    if (!native_i64(&c, py.PyTuple_GetItem(args[3], i), "like", &like)) return NULL;
    if (like < 0 || like >= m->inputs) return py_none();
    form.like[i] = (uint8_t)like;
  }
  py.Py_IncRef(form.program = args[2]);
  if (m->num_forms < MAX_FORMS) {
    m->forms[m->num_forms++] = form;
  } else {
    py_object *gone = m->forms[m->oldest].program;
    m->forms[m->oldest] = form;
    m->oldest = (m->oldest + 1) % MAX_FORMS;
    py.Py_DecRef(gone);
  }
  return py_none();
}

static py_method methods[] = {
    {"torch_map", (void *)make, PY_FASTCALL, NULL},
    {"torch_map_add", (void *)add, PY_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int hologram_maps(py_object *into) {
  static py_slot slots[] = {{PY_SLOT_DEALLOC, (void *)map_dealloc}, {0, NULL}};
  static py_spec spec = {"hologram._native.Map", sizeof(map), 0, PY_TYPE_DEFAULT, slots};
  if (!(map_type = py.PyType_FromSpec(&spec))) return -1;
  return hologram_builtins(into, methods);
}
