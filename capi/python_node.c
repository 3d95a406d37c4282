/* Nodes: how autograd records a call that is a sequence (python_sequence.c), and asks for its gradient, without any Python
   between. Torch calls two functions of ours: "forward" of a torch.autograd.Function, and "apply" of the class of what is
   recorded, which a gradient is asked of. What they leave to Python goes with the same arguments to functions of Python
   that do the same, and more. */
#include "python_sequence.h"

#include <string.h>

/* What Python's class of nodes derives from. */
typedef struct {
  py_object head;
  py_object *forward, *backward; /* tables; NULL: Python has not said yet */
  int num_inputs, num_kept, num_held;
  int8_t kept[MAX_TENSORS], held[MAX_TENSORS]; /* inputs that the gradient reads, and all others that there are */
  bool wanted[MAX_TENSORS];
  int shared, saved; /* the place of the result among what is saved beside the inputs kept, or -1; and how much that is */
} node;

static py_object *node_type;

/* What Python does of it: each of these is a function, kept for as long as the process. */
static struct {
  py_object *apply;    /* records a call: (node, inputs…) */
  py_object *packed;   /* whether saved tensors go through hooks: (True) is not None */
  py_object *executor; /* for a tensor, in this thread */
  py_object *aside;    /* what stands for an input that is held, and what has its version: (input, wanted) */
  py_object *forward, *backward; /* whatever comes */
  py_object *yes, *no;
} python;

static struct {
  py_object *to_save, *saved_tensors, *node, *held, *version, *grad_fn;
} names;

static void node_dealloc(py_object *self) {
  node *k = (node *)self;
  if (k->forward) py.Py_DecRef(k->forward);
  if (k->backward) py.Py_DecRef(k->backward);
  hologram_give_back(self);
}

static bool is_node(py_object *o) { return py.PyType_IsSubtype(o->type, node_type) && ((node *)o)->forward; }

/* ---- calls ---- */

py_object *node_record(py_object *answer, py_object *const *inputs, int n) {
  py_object *all[1 + MAX_TENSORS], *hook;
  if (!python.apply || !is_node(answer) || ((node *)answer)->num_inputs != n) return NULL;
  for (int i = 0; i < n; i++) {
    if (inputs[i] != py._Py_NoneStruct && !torch_has_memory(inputs[i])) return NULL;
    all[1 + i] = inputs[i];
  }
  if (!(hook = py.PyObject_VectorcallDict(python.packed, &python.yes, 1, NULL))) return NULL;
  py.Py_DecRef(hook);
  if (hook != py._Py_NoneStruct) return NULL;
  all[0] = answer;
  return py.PyObject_VectorcallDict(python.apply, all, (size_t)n + 1, NULL);
}

/* What is remembered of an input that is held: it or what stands for it, what has its version, and that. */
static py_object *hold(py_object *input, bool wanted) {
  py_object *all[2] = {input, wanted ? python.yes : python.no}, *found = py.PyTuple_New(3), *of = NULL, *both = NULL, *version = NULL;
  bool leaf;
  if (!found || (wanted && !(of = py.PyObject_GetAttr(input, names.grad_fn)))) goto failed;
  leaf = of == py._Py_NoneStruct; /* which stands for itself */
  if (of) py.Py_DecRef(of);
  if (!leaf && !(both = py.PyObject_VectorcallDict(python.aside, all, 2, NULL))) goto failed;
  if (!(version = py.PyObject_GetAttr(input, names.version))) goto failed;
  for (int i = 0; i < 2; i++) {
    py_object *o = leaf ? input : py.PyTuple_GetItem(both, i);
    py.Py_IncRef(o);
    py.PyTuple_SetItem(found, i, o);
  }
  py.PyTuple_SetItem(found, 2, version);
  if (both) py.Py_DecRef(both);
  return found;
failed:
  if (both) py.Py_DecRef(both);
  if (found) py.Py_DecRef(found);
  return NULL;
}

static bool set(py_object *to, py_object *name, py_object *value) {
  bool fine = value && !py.PyObject_SetAttr(to, name, value);
  if (value) py.Py_DecRef(value);
  return fine;
}

/* Keeps in what is recorded what the gradient needs of a call's inputs, its result and the others that the answer has. */
static bool keep(py_object *to, const node *k, py_object *self, py_object *const *inputs, py_object *answer, py_object *result) {
  py_object *save = py.PyTuple_New(k->num_kept + k->saved), *held;
  int next = answer == result ? 0 : 1;
  if (!save) return false;
  for (int i = 0; i < k->num_kept + k->saved; i++) {
    py_object *o = i < k->num_kept                 ? inputs[k->kept[i]]
                   : i - k->num_kept == k->shared ? result
                                                  : py.PyTuple_GetItem(answer, next++);
    py.Py_IncRef(o);
    py.PyTuple_SetItem(save, i, o);
  }
  if (!set(to, names.to_save, save) || !(held = py.PyTuple_New(k->num_held))) return false;
  for (int i = 0; i < k->num_held; i++) {
    py_object *one = hold(inputs[k->held[i]], k->wanted[k->held[i]]);
    if (!one) {
      py.Py_DecRef(held);
      return false;
    }
    py.PyTuple_SetItem(held, i, one);
  }
  return set(to, names.held, held) && !py.PyObject_SetAttr(to, names.node, self);
}

/* The forward of torch's Function: (ctx, node, inputs…). */
static py_object *forward(py_object *self, py_object *const *args, ptrdiff_t n) {
  py_object *all[1 + MAX_TENSORS], *answer = NULL, *result;
  const node *k = n > 2 && is_node(args[1]) ? (const node *)args[1] : NULL;
  (void)self;
  if (!k || k->num_inputs != n - 2) return py.PyObject_VectorcallDict(python.forward, args, (size_t)n, NULL);
  if (!(all[0] = py.PyObject_VectorcallDict(python.executor, args + 2, 1, NULL))) return NULL;
  memcpy(all + 1, args + 2, (size_t)(n - 2) * sizeof *all);
  answer = sequence_call(k->forward, all, n - 1);
  py.Py_DecRef(all[0]);
  if (!answer) return NULL;
  if (answer == py._Py_NoneStruct) { /* as where memory was short */
    py.Py_DecRef(answer);
    return py.PyObject_VectorcallDict(python.forward, args, (size_t)n, NULL);
  }
  result = answer->type == py.PyTuple_Type ? py.PyTuple_GetItem(answer, 0) : answer;
  py.Py_IncRef(result);
  if (!keep(args[0], k, args[1], args + 2, answer, result)) {
    py.Py_DecRef(result);
    result = NULL;
  }
  py.Py_DecRef(answer);
  return result;
}

/* The gradients by a node's inputs, of those that its table gave; None by the node itself. */
static py_object *spread(const node *k, py_object *grads) {
  py_object *all = py.PyTuple_New(1 + k->num_inputs);
  bool many = grads->type == py.PyTuple_Type;
  int next = 0;
  if (!all) return NULL;
  py.PyTuple_SetItem(all, 0, py_none());
  for (int i = 0; i < k->num_inputs; i++) {
    py_object *o = !k->wanted[i] ? py._Py_NoneStruct : many ? py.PyTuple_GetItem(grads, next++) : grads;
    py.Py_IncRef(o);
    py.PyTuple_SetItem(all, 1 + i, o);
  }
  return all;
}

/* The apply of what is recorded: (gradient). */
static py_object *backward(py_object *ctx, py_object *const *args, ptrdiff_t n) {
  py_object *all[1 + MAX_TENSORS], *again[2] = {ctx, n == 1 ? args[0] : NULL}, *self = NULL, *saved = NULL, *grads = NULL, *found = NULL;
  const node *k;
  ptrdiff_t num;
  if (n != 1) {
    py.PyErr_SetString(py.PyExc_TypeError, "apply: expected one gradient");
    return NULL;
  }
  if (torch_recording() || !(self = py.PyObject_GetAttr(ctx, names.node)) || !is_node(self)) goto python;
  k = (const node *)self;
  if (!(saved = py.PyObject_GetAttr(ctx, names.saved_tensors))) goto end;
  num = py.PyTuple_Size(saved);
  if (num != k->num_kept + k->saved) goto python; /* what Python computed, which has nothing but inputs */
  if (!(all[0] = py.PyObject_VectorcallDict(python.executor, args, 1, NULL))) goto end;
  all[1] = args[0];
  for (ptrdiff_t i = 0; i < num; i++) all[2 + i] = py.PyTuple_GetItem(saved, i);
  grads = sequence_call(k->backward, all, num + 2);
  py.Py_DecRef(all[0]);
  if (!grads) goto end;
  if (grads != py._Py_NoneStruct) {
    found = spread(k, grads);
    goto end;
  }
python:
  if (!py.PyErr_Occurred()) found = py.PyObject_VectorcallDict(python.backward, again, 2, NULL);
end:
  if (grads) py.Py_DecRef(grads);
  if (saved) py.Py_DecRef(saved);
  if (self) py.Py_DecRef(self);
  return found;
}

/* ---- Python's ---- */

/* Numbers of a node's inputs, from a list. */
static bool numbers_of(native *c, py_object *list, ptrdiff_t inputs, int8_t *to, int *n) {
  ptrdiff_t count = py.PyTuple_Size(list);
  int64_t number;
  if (count < 0 || count > MAX_TENSORS) return false;
  for (ptrdiff_t i = 0; i < count; i++) {
    if (!native_i64(c, py.PyTuple_GetItem(list, i), "input", &number) || number < 0 || number >= inputs) return false;
    to[i] = (int8_t)number;
  }
  *n = (int)count;
  return true;
}

/* torch_node(node, forward, backward, wanted, kept, held, shared, saved): what a node is; forward and backward are tables, wanted,
   kept and held tuples. Calls look at no number of these again, so they are held against each other here. */
static py_object *describe(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_node"};
  int32_t shared, saved;
  ptrdiff_t inputs;
  int wanted = 0;
  node *k;
  (void)self;
  if (!native_count(&c, n, 8)) return NULL;
  k = (node *)args[0];
  inputs = args[3]->type == py.PyTuple_Type ? py.PyTuple_Size(args[3]) : -1;
  if (!py.PyType_IsSubtype(args[0]->type, node_type) || k->forward || !sequence_is(args[1]) || !sequence_is(args[2]) || inputs < 1 ||
      inputs > MAX_TENSORS || args[4]->type != py.PyTuple_Type || args[5]->type != py.PyTuple_Type) {
    py.PyErr_SetString(py.PyExc_TypeError, "torch_node: expected a new node, two tables, and tuples of its inputs");
    return NULL;
  }
  if (!native_i32(&c, args[6], "shared", &shared) || !native_i32(&c, args[7], "saved", &saved)) return NULL;
  if (!numbers_of(&c, args[4], inputs, k->kept, &k->num_kept) || !numbers_of(&c, args[5], inputs, k->held, &k->num_held)) {
    if (!py.PyErr_Occurred()) py.PyErr_SetString(py.PyExc_ValueError, "torch_node: there is no such input");
    return NULL;
  }
  if (saved < 0 || 1 + k->num_kept + saved > MAX_TENSORS) {
    py.PyErr_SetString(py.PyExc_ValueError, "torch_node: too much is saved");
    return NULL;
  }
  if (shared < -1 || shared >= saved) {
    py.PyErr_SetString(py.PyExc_ValueError, "torch_node: the result's place is none of what is saved");
    return NULL;
  }
  for (ptrdiff_t i = 0; i < inputs; i++) wanted += k->wanted[i] = py.PyTuple_GetItem(args[3], i) == py._Py_TrueStruct;
  /* Forward gives the result and what is saved beside it, backward the gradients. */
  if (!sequence_promise(args[1], (int)inputs, 1 + saved - (shared >= 0)) || !sequence_promise(args[2], 1 + k->num_kept + saved, wanted)) {
    py.PyErr_SetString(py.PyExc_ValueError, "torch_node: the tables have other numbers of inputs or results");
    return NULL;
  }
  k->num_inputs = (int)inputs;
  k->shared = shared;
  k->saved = saved;
  py.Py_IncRef(k->backward = args[2]);
  py.Py_IncRef(k->forward = args[1]);
  return py_none();
}

/* torch_nodes(class, apply, packed, executor, aside, forward, backward): the functions of Python above. Returns the forward of
   the Function, and for the class of what it records the method apply. */
static py_object *install(py_object *self, py_object *const *args, ptrdiff_t n) {
  static py_method ours[] = {{"forward", (void *)forward, PY_FASTCALL, NULL}, {"apply", (void *)backward, PY_FASTCALL, NULL}};
  native c = {.name = "torch_nodes"};
  py_object *both, *first, *second;
  (void)self;
  if (!native_count(&c, n, 7)) return NULL;
  first = py.PyCFunction_NewEx(&ours[0], NULL, NULL);
  second = py.PyDescr_NewMethod(args[0], &ours[1]);
  if (!first || !second || !(both = py.PyTuple_New(2))) {
    if (first) py.Py_DecRef(first);
    if (second) py.Py_DecRef(second);
    return NULL;
  }
  for (ptrdiff_t i = 1; i < n; i++) py.Py_IncRef(args[i]); /* for good */
  python.packed = args[2];
  python.executor = args[3];
  python.aside = args[4];
  python.forward = args[5];
  python.backward = args[6];
  python.apply = args[1];
  py.PyTuple_SetItem(both, 0, first);
  py.PyTuple_SetItem(both, 1, second);
  return both;
}

static py_method methods[] = {
    {"torch_node", (void *)describe, PY_FASTCALL, NULL},
    {"torch_nodes", (void *)install, PY_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int hologram_nodes(py_object *into) {
  static py_slot slots[] = {{PY_SLOT_DEALLOC, (void *)node_dealloc}, {0, NULL}};
  static py_spec spec = {"hologram._native.NodeBase", sizeof(node), 0, PY_TYPE_DEFAULT | PY_TYPE_BASE, slots};
  static const struct {
    py_object **to;
    const char *text;
  } all[] = {{&names.to_save, "to_save"}, {&names.saved_tensors, "saved_tensors"}, {&names.node, "node"}, {&names.held, "held"}, {&names.version, "_version"}, {&names.grad_fn, "grad_fn"}};
  for (int i = 0; i < 6; i++) {
    if (!(*all[i].to = py.PyUnicode_InternFromString(all[i].text))) return -1;
  }
  python.yes = py._Py_TrueStruct;
  if (!(python.no = py.PyBool_FromLong(0)) || !(node_type = py.PyType_FromSpec(&spec))) return -1;
  return py.PyDict_SetItemString(into, "NodeBase", node_type) || hologram_builtins(into, methods);
}
