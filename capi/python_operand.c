/* Operands of a call: our buffers, numpy's arrays and other exporters of memory, and tensors with DLPack's C exchange
   API. What is none of these, or not quite as it should be, is left to Python, which says what is wrong with it. */
#include "python_call.h"

#include <stdlib.h>
#include <string.h>

/* ---- kinds of objects ---- */

typedef enum { UNKNOWN, EXPORTER, EXCHANGER, TORCH, OTHER } kind;

/* What is known of a type. It is kept alive, so that its address stays its own. */
static struct known {
  py_object *type;
  kind kind;
  const dl_exchange *api;
} types[64];

/* What torch says of its tensors: the getter of requires_grad, and the method is_neg, looked up once. */
static struct {
  py_object *requires_grad, *is_neg;
  py_object *(*get)(py_object *descriptor, py_object *object, py_object *type);
} torch;

static struct known *slot_of(py_object *type) {
  size_t at = (size_t)(((uint64_t)(uintptr_t)type >> 4) * 0x9E3779B97F4A7C15u >> 58);
  for (size_t i = 0; i < 64; i++) {
    struct known *k = &types[(at + i) % 64];
    if (k->type == type || !k->type) return k;
  }
  return NULL;
}

/* Asks Python about a type that was not seen before. "probe" gives a number of the enumeration above, and the capsule of
   an exchange API or None; of torch's types also the descriptors of requires_grad and is_neg. */
static outcome probe(py_object *type, struct known *found) {
  py_object *arguments = py.PyTuple_New(1), *answer;
  int64_t number = OTHER;
  struct known *k;
  if (!arguments) return FAILED;
  py.Py_IncRef(type);
  py.PyTuple_SetItem(arguments, 0, type);
  if (!(answer = hologram_hook("probe", arguments))) return FAILED;
  found->api = NULL;
  hologram_exact(py.PyTuple_GetItem(answer, 0), &number);
  found->kind = (kind)number;
  if (found->kind == EXCHANGER || found->kind == TORCH) {
    dl_exchange_head *head = py.PyCapsule_GetPointer(py.PyTuple_GetItem(answer, 1), "dlpack_exchange_api");
    if (!head) py.PyErr_Clear();
    while (head && head->version.major != DL_MAJOR) head = head->previous;
    found->api = (const dl_exchange *)head;
    if (!head || !found->api->own) found->kind = OTHER;
  }
  if (found->kind == TORCH && !torch.get) {
    torch.requires_grad = py.PyTuple_GetItem(answer, 2);
    torch.is_neg = py.PyTuple_GetItem(answer, 3);
    py.Py_IncRef(torch.requires_grad);
    py.Py_IncRef(torch.is_neg);
    torch.get = (py_object * (*)(py_object *, py_object *, py_object *))
                    py.PyType_GetSlot(torch.requires_grad->type, PY_SLOT_DESCR_GET);
    if (!torch.get) {
      py.PyErr_Clear(); /* Python 3.9 gives no slots of its own types */
      found->kind = OTHER;
    }
  }
  py.Py_DecRef(answer);
  /* The probe may have run anything, and so come here again. */
  if ((k = slot_of(type)) && !k->type) {
    k->kind = found->kind;
    k->api = found->api;
    py.Py_IncRef(k->type = type);
  }
  return DONE;
}

/* ---- exporters ---- */

/* The dtype of an element's format, 0 for none of ours. boolean is set for '?'. */
static int32_t dtype_of(const char *format, ptrdiff_t itemsize, bool *boolean) {
  static const uint16_t one = 1;
  bool little = *(const uint8_t *)&one == 1;
  int base;
  *boolean = false;
  if (!format) return itemsize == 1 ? HOLOGRAM_U8 : 0;
  if (*format == '@' || *format == '=' || *format == (little ? '<' : '>')) format++;
  if (!*format || format[1]) return 0;
  if (strchr("bhilqn", *format)) {
    base = HOLOGRAM_I8;
  } else if (strchr("BHILQN", *format)) {
    base = HOLOGRAM_U8;
  } else if (*format == '?') {
    *boolean = true;
    return itemsize == 1 ? HOLOGRAM_U8 : 0;
  } else if (strchr("efd", *format)) {
    return itemsize == 2 ? HOLOGRAM_F16 : itemsize == 4 ? HOLOGRAM_F32 : itemsize == 8 ? HOLOGRAM_F64 : 0;
  } else {
    return 0;
  }
  return itemsize == 1 ? base : itemsize == 2 ? base + 1 : itemsize == 4 ? base + 2 : itemsize == 8 ? base + 3 : 0;
}

static outcome take_export(hologram_operand *to, py_object *o, py_buffer *view, struct taken *t) {
  bool boolean;
  if (py.PyObject_GetBuffer(o, view, PY_BUFFER_STRIDES | PY_BUFFER_FORMAT)) {
    if (!py.PyErr_ExceptionMatches(py.PyExc_Exception)) return FAILED;
    py.PyErr_Clear();
    return SURPRISE;
  }
  t->exported = true;
  if (view->rank > HOLOGRAM_MAX_RANK || view->suboffsets) return SURPRISE;
  if (!(to->dtype = dtype_of(view->format, view->itemsize, &boolean))) return SURPRISE;
  to->data = view->data;
  to->rank = view->rank;
  to->flags = (view->readonly ? HOLOGRAM_READ_ONLY : 0) | (boolean ? HOLOGRAM_BOOL : 0);
  to->device_type = DL_CPU;
  to->device_id = 0;
  for (int i = 0; i < view->rank; i++) {
    ptrdiff_t stride = view->strides[i];
    to->shape[i] = view->shape[i];
    to->strides[i] = stride / view->itemsize;
    if (to->strides[i] * view->itemsize != stride) return SURPRISE;
  }
  return (uintptr_t)view->data % (size_t)view->itemsize ? SURPRISE : DONE;
}

/* ---- tensors ---- */

/* Whether torch lets a tensor be taken as it is. This runs Python's and torch's code, which may let the GIL go. */
static outcome check_torch(py_object *o) {
  py_object *answer = torch.get(torch.requires_grad, o, o->type);
  int yes;
  if (!answer) return FAILED;
  yes = answer == py._Py_TrueStruct;
  py.Py_DecRef(answer);
  if (yes) {
    answer = hologram_hook("recording", py.PyTuple_New(0)); /* of gradients */
    if (!answer) return FAILED;
    yes = py.PyObject_IsTrue(answer);
    py.Py_DecRef(answer);
    if (yes) return yes < 0 ? FAILED : SURPRISE;
  }
  answer = py.PyObject_VectorcallDict(torch.is_neg, &o, 1, NULL);
  if (!answer) return FAILED;
  yes = answer == py._Py_TrueStruct;
  py.Py_DecRef(answer);
  return yes ? SURPRISE : DONE;
}

/* A tensor as an operand, if it is where the executor works. */
static outcome describe(const request *r, hologram_operand *to, const dl_tensor *t, uint64_t flags) {
  int32_t steps = t->dtype.bits == 8 ? 0 : t->dtype.bits == 16 ? 1 : t->dtype.bits == 32 ? 2 : t->dtype.bits == 64 ? 3 : -1;
  int64_t elements = 1, stride = 1;
  if (t->ndim < 0 || t->ndim > HOLOGRAM_MAX_RANK || t->dtype.lanes != 1 || steps < 0) return SURPRISE;
  if (t->device.type != r->device_type || (t->device.type != DL_CPU && t->device.id != r->device_id)) return SURPRISE;
  to->flags = flags & DL_READ_ONLY ? HOLOGRAM_READ_ONLY : 0;
  switch (t->dtype.code) {
    case DL_INT:
      to->dtype = HOLOGRAM_I8 + steps;
      break;
    case DL_UINT:
      to->dtype = HOLOGRAM_U8 + steps;
      break;
    case DL_BOOL:
      if (steps) return SURPRISE;
      to->dtype = HOLOGRAM_U8;
      to->flags |= HOLOGRAM_BOOL;
      break;
    case DL_FLOAT:
      if (!steps) return SURPRISE;
      to->dtype = steps == 1 ? HOLOGRAM_F16 : steps == 2 ? HOLOGRAM_F32 : HOLOGRAM_F64;
      break;
    case DL_BFLOAT:
      if (steps != 1) return SURPRISE;
      to->dtype = HOLOGRAM_BF16;
      break;
    default:
      return SURPRISE;
  }
  to->rank = t->ndim;
  to->device_type = t->device.type;
  to->device_id = t->device.id;
  to->data = t->data ? (char *)t->data + t->byte_offset : NULL;
  for (int i = t->ndim - 1; i >= 0; i--) {
    to->shape[i] = t->shape[i];
    to->strides[i] = t->strides ? t->strides[i] : stride;
    stride *= t->shape[i];
    elements *= t->shape[i];
  }
  return (!to->data && elements) || (uintptr_t)to->data % (1u << steps) ? SURPRISE : DONE;
}

/* A producer's exception is Python's to say again, unless it is no error at all. */
static outcome refused(void) {
  if (py.PyErr_Occurred() && !py.PyErr_ExceptionMatches(py.PyExc_Exception)) return FAILED;
  py.PyErr_Clear();
  return SURPRISE;
}

static outcome take_owned(request *r, int i, struct taken *t) {
  if (t->api->own(t->object, &t->owned)) {
    t->owned = NULL;
    return refused();
  }
  if (t->owned->version.major != DL_MAJOR) return SURPRISE;
  return describe(r, &r->operands[i], &t->owned->dl, t->owned->flags);
}

/* ---- requests ---- */

outcome request_begin(request *r, py_object *executor) {
  r->args.size = sizeof r->args;
  r->args.program = 0;
  r->args.operands = r->operands;
  r->args.scalars = r->scalars;
  r->args.dims = r->dims;
  r->args.num_operands = r->args.num_scalars = 0;
  r->args.num_dims = -1;
  memset(r->args.grid, 0, sizeof r->args.grid);
  memset(r->args.block, 0, sizeof r->args.block);
  r->args.fuel = r->args.stream = 0;
  r->args.residue = NULL;
  r->args.deleter = NULL;
  r->args.context = NULL;
  r->num_borrowed = 0;
  r->device_type = ((py_handle *)executor)->device_type;
  r->device_id = ((py_handle *)executor)->device_id;
  r->changed = false;
  hologram_drain();
  return hologram_is_executor(executor) && !((py_handle *)executor)->freed ? DONE : SURPRISE;
}

outcome request_take(request *r, py_object *executor, py_object *o, bool written) {
  hologram_operand *to;
  struct taken *t;
  struct known unseen, *k;
  int i = r->args.num_operands;
  if (i == MAX_OPERANDS) return SURPRISE;
  to = &r->operands[i];
  t = &r->taken[i];
  r->args.num_operands++;
  t->object = o;
  t->api = NULL;
  t->owned = NULL;
  t->exported = t->torch = false;
  t->written = written;
  if (hologram_is_buffer(o)) {
    py_array *b = (py_array *)o;
    to->buffer = b->handle;
    to->dtype = b->code;
    to->flags = b->boolean ? HOLOGRAM_BOOL : 0;
    return hologram_buffer_gone(b) ? SURPRISE : DONE;
  }
  to->buffer = 0;
  k = slot_of(o->type);
  if (!k || !k->type) {
    outcome found = probe(o->type, &unseen);
    if (found != DONE) return found;
    k = &unseen;
  }
  switch (k->kind) {
    case EXPORTER:
      if (!((py_handle *)executor)->host_visible) return SURPRISE;
      return take_export(to, o, &r->views[i], t);
    case TORCH:
      t->torch = true;
      t->api = k->api;
      r->num_borrowed++;
      return check_torch(o);
    case EXCHANGER:
      t->api = k->api;
      r->num_borrowed++;
      return DONE;
    default:
      return SURPRISE;
  }
}

/* The deleter of tensors on a device: there is nothing to do. Their memory is in the order of the stream that the work
   goes to, as for the owner's own kernels: what frees it on the host frees it behind the work. */
static void nothing(void *context) { (void)context; }

/* Puts a call on the stream that the owner of its tensors works on now. DLPack has 1 for the legacy default stream, which
   the owner knows as none. */
static outcome find_stream(request *r) {
  for (int i = 0; i < r->args.num_operands; i++) {
    const struct taken *t = &r->taken[i];
    void *stream = NULL;
    uint64_t number;
    if (!t->api) continue;
    if (!t->api->stream || t->api->stream(r->device_type, r->device_id, &stream)) return refused();
    number = stream ? (uint64_t)(uintptr_t)stream : 1;
    if (r->args.stream && r->args.stream != number) return SURPRISE; /* two owners, two streams */
    r->args.stream = number;
  }
  r->args.deleter = nothing;
  return DONE;
}

outcome request_borrow(request *r) {
  for (int i = 0; r->num_borrowed && i < r->args.num_operands; i++) {
    struct taken *t = &r->taken[i];
    outcome found;
    if (!t->api) continue;
    if (t->api->borrow) {
      dl_tensor tensor;
      found = t->api->borrow(t->object, &tensor) ? refused() : describe(r, &r->operands[i], &tensor, 0);
    } else {
      found = take_owned(r, i, t);
    }
    if (found != DONE) return found;
  }
  return r->num_borrowed && r->device_type != DL_CPU ? find_stream(r) : DONE;
}

int64_t request_size(const request *r, int i) {
  const hologram_operand *o = &r->operands[i];
  int64_t n = 1;
  if (o->buffer) return ((py_array *)r->taken[i].object)->size;
  for (int k = 0; k < o->rank; k++) n *= o->shape[k];
  return n;
}

/* Makes borrowed tensors owned, so that they last when the GIL goes. */
static outcome own_all(request *r) {
  for (int i = 0; r->num_borrowed && i < r->args.num_operands; i++) {
    struct taken *t = &r->taken[i];
    if (t->api && !t->owned) {
      outcome found = take_owned(r, i, t);
      if (found != DONE) return found;
    }
  }
  return DONE;
}

static bool began(int32_t status) {
  return status == HOLOGRAM_OK || status == HOLOGRAM_PENDING || status == HOLOGRAM_FAULT || status == HOLOGRAM_CANCELLED;
}

bool request_run(request *r, py_object *executor) {
  uint64_t handle = ((py_handle *)executor)->handle;
  hologram_event event = 0;
  work w = {.failure = NULL};
  int32_t status;
  r->args.flags = HOLOGRAM_TRY;
  status = hologram_call(handle, &r->args, &event);
  r->changed = began(status);
  if (status == HOLOGRAM_OK) return true;
  if (status != HOLOGRAM_BUSY && status != HOLOGRAM_PENDING) return work_check(status);
  if (own_all(r) != DONE && status == HOLOGRAM_BUSY) {
    if (!py.PyErr_Occurred()) py.PyErr_SetString(py.PyExc_BufferError, "a tensor can no longer be taken");
    return false;
  }
  r->args.flags = 0;
  work_begin(&w);
  if (status == HOLOGRAM_BUSY) status = hologram_call(handle, &r->args, &event);
  r->changed = began(status);
  atomic_store(&w.event, event);
  return work_end(&w, status);
}

bool request_end(request *r, bool fine) {
  py_object *type, *value, *traceback, *list[MAX_OPERANDS], *tensors, *done;
  int written = 0;
  if (!fine) py.PyErr_Fetch(&type, &value, &traceback);
  for (int i = 0; i < r->args.num_operands; i++) {
    struct taken *t = &r->taken[i];
    if (t->exported) py.PyBuffer_Release(&r->views[i]);
    if (t->owned && t->owned->deleter) t->owned->deleter(t->owned);
    if (t->torch && t->written) list[written++] = t->object;
  }
  /* Autograd learns of the writing by the tensors' versions. */
  if (r->changed && written) {
    if ((tensors = py.PyTuple_New(written))) {
      for (int i = 0; i < written; i++) {
        py.Py_IncRef(list[i]);
        py.PyTuple_SetItem(tensors, i, list[i]);
      }
      done = py.PyDict_GetItemString(hologram_hooks, "written");
      done = done ? py.PyObject_CallFunctionObjArgs(done, tensors, NULL) : NULL;
      py.Py_DecRef(tensors);
      if (done) py.Py_DecRef(done);
    } else {
      done = NULL;
    }
    if (!done && fine) return false;
    if (!done) py.PyErr_Clear();
  }
  if (!fine) {
    py.PyErr_Restore(type, value, traceback);
  }
  return fine;
}
