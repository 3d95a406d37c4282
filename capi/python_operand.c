/* Operands of a call: our buffers, numpy's arrays and other exporters of memory, tensors with DLPack's C exchange API, and
   CuPy's arrays. What is none of these, or not quite as it should be, is left to Python, which says what is wrong with it. */
#include "python_call.h"

#include <stdlib.h>
#include <string.h>

/* ---- kinds of objects ---- */

typedef enum { UNKNOWN, EXPORTER, EXCHANGER, TORCH, OTHER, NUMPY, SCALAR, INTERFACE } kind;

/* What is known of a type. It is kept alive, so that its address stays its own. */
static struct known {
  py_object *type;
  kind kind;
  const dl_exchange *api;
} types[64];

/* How many of them C leaves to Python; more are asked about again. */
static int num_others;

enum { MAX_OTHERS = 32 };

static struct known *slot_of(py_object *type) {
  size_t at = (size_t)(((uint64_t)(uintptr_t)type >> 4) * 0x9E3779B97F4A7C15u >> 58);
  for (size_t i = 0; i < 64; i++) {
    struct known *k = &types[(at + i) % 64];
    if (k->type == type || !k->type) return k;
  }
  return NULL;
}

/* Asks Python about a type that was not seen before. "probe" gives a number of the enumeration above, and the capsule of
   an exchange API or None; of torch's types also the descriptors of requires_grad, is_neg, storage_offset and _cdata. */
static outcome probe(py_object *type, struct known *found) {
  py_object *arguments = py.PyTuple_New(1), *answer;
  int64_t number = OTHER;
  struct known *k;
  bool usable;
  if (!arguments) return FAILED;
  py.Py_IncRef(type);
  py.PyTuple_SetItem(arguments, 0, type);
  if (!(answer = hologram_hook(HOOK_probe, arguments))) return FAILED;
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
  if (found->kind == TORCH) {
    outcome verified = torch_found(answer, found->api, &usable);
    if (verified != DONE) {
      py.Py_DecRef(answer);
      return verified;
    }
    if (!usable) found->kind = OTHER;
  }
  py.Py_DecRef(answer);
  /* The probe may have run anything, and so come here again. What C takes is to find a place whatever came before. */
  if ((k = slot_of(type)) && !k->type && (found->kind != OTHER || num_others < MAX_OTHERS)) {
    num_others += found->kind == OTHER;
    k->kind = found->kind;
    k->api = found->api;
    py.Py_IncRef(k->type = type);
  }
  return DONE;
}

outcome torch_is(py_object *o) {
  struct known unseen, *k = slot_of(o->type);
  if (!k || !k->type) {
    outcome found = hologram_is_buffer(o) ? SURPRISE : probe(o->type, &unseen);
    if (found != DONE) return found;
    k = &unseen;
  }
  return k->kind == TORCH ? DONE : SURPRISE;
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

static outcome take_export(hologram_operand *to, py_object *o, py_buffer *view, taken *t) {
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

py_object *scalar_number(py_object *o) {
  struct known unseen, *k = slot_of(o->type);
  py_buffer view;
  py_object *number = NULL;
  int32_t dtype;
  bool boolean;
  if (hologram_is_buffer(o)) return NULL; /* whose type stays unknown: request_take looks for it so */
  if (!k || !k->type) {
    k = &unseen;
    if (probe(o->type, &unseen) != DONE) return NULL;
  }
  if (k->kind != SCALAR || py.PyObject_GetBuffer(o, &view, PY_BUFFER_STRIDES | PY_BUFFER_FORMAT)) return NULL;
  if ((dtype = dtype_of(view.format, view.itemsize, &boolean))) number = hologram_number_of(dtype, view.data);
  py.PyBuffer_Release(&view);
  return number;
}

/* ---- tensors ---- */

/* A tensor as an operand, if it is where the executor works, and has memory: the wrappers and zeros of torch's that have
   none begin as many bytes after 0 as their offset says. */
static outcome describe(const request *r, hologram_operand *to, const dl_tensor *t, int64_t offset, uint64_t flags) {
  int32_t steps = t->dtype.bits == 8 ? 0 : t->dtype.bits == 16 ? 1 : t->dtype.bits == 32 ? 2 : t->dtype.bits == 64 ? 3 : -1;
  int64_t elements = 1, stride = 1;
  if (t->ndim < 0 || t->ndim > HOLOGRAM_MAX_RANK || t->dtype.lanes != 1 || steps < 0) return SURPRISE;
  if (r->executor && (t->device.type != r->device_type || (t->device.type != DL_CPU && t->device.id != r->device_id))) {
    return SURPRISE;
  }
  to->flags = flags & DL_READ_ONLY ? HOLOGRAM_READ_ONLY : 0;
  if (r->transposed && r->transposed >> (to - r->operands) & 1) to->flags |= HOLOGRAM_TRANSPOSED;
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
  if (elements && (uint64_t)(uintptr_t)to->data == (uint64_t)offset << steps) return SURPRISE;
  return (uintptr_t)to->data % (1u << steps) ? SURPRISE : DONE;
}

outcome operand_refused(void) {
  if (py.PyErr_Occurred() && !py.PyErr_ExceptionMatches(py.PyExc_Exception)) return FAILED;
  py.PyErr_Clear();
  return SURPRISE;
}

outcome request_own(request *r, int i) {
  taken *t = &r->taken[i];
  if (!t->owned && t->api->own(t->object, &t->owned)) {
    t->owned = NULL;
    return operand_refused();
  }
  if (t->owned->version.major != DL_MAJOR) return SURPRISE;
  if (t->view) return DONE;
  return describe(r, &r->operands[i], &t->owned->dl, t->offset, t->owned->flags);
}

/* ---- requests ---- */

outcome request_on(request *r, py_object *executor) {
  r->executor = executor;
  if (!hologram_is_executor(executor) || ((py_handle *)executor)->freed) return SURPRISE;
  r->device_type = ((py_handle *)executor)->device_type;
  r->device_id = ((py_handle *)executor)->device_id;
  return DONE;
}

/* The process's executor for a device's memory. */
typedef struct {
  int32_t type, id;
  py_object *executor;
} default_of;

enum { MAX_DEFAULTS = 16 };

/* Where a device's executor is or, with none there, belongs. */
static int place_of(const default_of *known, int32_t type, int32_t id) {
  int i = 0;
  while (i < MAX_DEFAULTS && known[i].executor && (known[i].type != type || known[i].id != id)) i++;
  return i;
}

/* Puts the call on the process's executor for a device's memory, which Python makes at first use: then ran is set. */
static outcome on_default(request *r, int32_t type, int32_t id, bool *ran) {
  static default_of known[MAX_DEFAULTS];
  py_object *arguments, *found;
  int i = place_of(known, type, id);
  *ran = false;
  if (i < MAX_DEFAULTS && known[i].executor && !((py_handle *)known[i].executor)->freed) return request_on(r, known[i].executor);
  *ran = true;
  if (!(arguments = py.PyTuple_New(2))) return FAILED;
  py.PyTuple_SetItem(arguments, 0, py.PyLong_FromLongLong(type));
  py.PyTuple_SetItem(arguments, 1, py.PyLong_FromLongLong(id));
  if (!(found = hologram_hook(HOOK_default_executor, arguments))) return operand_refused();
  i = place_of(known, type, id); /* what was called may have come here for another device */
  if (i == MAX_DEFAULTS || !hologram_is_executor(found)) {
    py.Py_DecRef(found);
    return SURPRISE;
  }
  known[i].type = type;
  known[i].id = id;
  known[i].executor = found; /* for as long as the process, unless somebody frees it */
  return request_on(r, found);
}

outcome request_begin(request *r, py_object *executor) {
  hologram_drain();
  return request_reset(r, executor);
}

outcome request_reset(request *r, py_object *executor) {
  r->args.size = sizeof r->args;
  r->args.program = 0;
  r->args.operands = r->operands;
  r->args.scalars = r->scalars;
  r->args.dims = r->dims;
  r->args.num_operands = r->args.num_scalars = 0;
  r->args.num_dims = -1;
  memset(r->args.grid, 0, sizeof r->args.grid);
  memset(r->args.block, 0, sizeof r->args.block);
  r->args.flags = 0;
  r->args.fuel = r->args.stream = 0;
  r->args.residue = NULL;
  r->args.deleter = NULL;
  r->args.context = NULL;
  r->args.first = NULL;
  r->num_borrowed = r->num_torch = r->num_versions = 0;
  r->torch = NULL;
  r->numbers = r->transposed = 0;
  r->changed = false;
  r->ordered = 0;
  r->stream = NULL;
  r->streamed = false;
  r->executor = NULL;
  return executor ? request_on(r, executor) : DONE;
}

/* Notes that the work writes to a tensor of torch's. */
static void writes(request *r, taken *t, py_object *tensor) {
  py.Py_IncRef(t->version = tensor);
  r->num_versions++;
}

/* Adds to a buffer's handle what C wants to know of its memory, if it may enter calls with that. */
static void see(hologram_operand *to, py_array *b) {
  const py_handle *executor = (const py_handle *)b->executor;
  const hologram_operand *seen = executor->asynchronous && !b->loan.gate ? NULL : hologram_buffer_seen(b);
  if (!seen) return;
  to->data = seen->data;
  to->rank = seen->rank;
  to->flags = seen->flags;
  to->device_type = seen->device_type;
  to->device_id = seen->device_id;
  memcpy(to->shape, seen->shape, (size_t)seen->rank * sizeof *seen->shape);
  memcpy(to->strides, seen->strides, (size_t)seen->rank * sizeof *seen->strides);
}

outcome request_take(request *r, py_object *o, use u) {
  hologram_operand *to;
  taken *t;
  struct known unseen, *k;
  int i = r->args.num_operands;
  if (i == MAX_OPERANDS) return SURPRISE;
  to = &r->operands[i];
  t = &r->taken[i];
  r->args.num_operands++;
  t->object = o;
  t->api = NULL;
  t->owned = NULL;
  t->stream = 0;
  t->offset = 0;
  t->exported = t->torch = t->held = t->view = false;
  t->written = u != READ;
  t->version = NULL;
  k = slot_of(o->type);
  if ((!k || !k->type) && hologram_is_buffer(o)) {
    py_array *b = (py_array *)o;
    to->buffer = b->handle;
    to->dtype = b->code;
    to->flags = b->boolean ? HOLOGRAM_BOOL : 0;
    to->device_type = 0; /* for C to leave it to Go, if it is another executor's */
    if (u == WRITTEN && b->tensor) writes(r, t, b->tensor);
    if (hologram_buffer_gone(b)) return SURPRISE; /* one that was never made has no executor, nor may the request yet */
    if (b->executor == r->executor && hologram_gate_of((py_handle *)r->executor, 0, false)) see(to, b);
    return DONE;
  }
  to->buffer = 0;
  if (!k || !k->type) {
    outcome found = probe(o->type, &unseen);
    if (found != DONE) return found;
    k = &unseen;
  }
  switch (k->kind) {
    case NUMPY:
    case SCALAR:
    case EXPORTER:
      if (!r->executor) {
        bool ran; /* nothing is borrowed yet */
        outcome found = on_default(r, DL_CPU, 0, &ran);
        if (found != DONE) return found;
      }
      if (!((py_handle *)r->executor)->host_visible) return SURPRISE;
      if (k->kind == NUMPY && numpy_take(to, o) == DONE) {
        py.Py_IncRef(o); /* for numpy, which resizes no array that others hold */
        t->held = true;
        return DONE;
      }
      return take_export(to, o, &r->views[i], t);
    case TORCH:
      t->torch = true;
      t->api = k->api;
      r->num_borrowed++;
      r->num_torch++;
      if (u == WRITTEN) writes(r, t, o);
      return DONE;
    case EXCHANGER:
      t->api = k->api;
      r->num_borrowed++;
      return DONE;
    case INTERFACE: /* described now, since asking runs Python; its memory stays as long as the array, which the caller holds */
      r->num_borrowed++;
      return interface_take(r, to, o, &t->stream);
    default:
      return SURPRISE;
  }
}

/* Finds the number of the stream that the caller names, 0 for the executor's own; it may run Python. */
static outcome find_named(request *r) {
  py_object *arguments, *found;
  int64_t number;
  if (r->streamed) return DONE;
  if (!r->executor) return SURPRISE; /* Python chooses one by what the operands are */
  if (!(arguments = py.PyTuple_New(2))) return FAILED;
  py.Py_IncRef(r->stream);
  py.Py_IncRef(r->executor);
  py.PyTuple_SetItem(arguments, 0, r->stream);
  py.PyTuple_SetItem(arguments, 1, r->executor);
  if (!(found = hologram_hook(HOOK_stream, arguments))) return operand_refused();
  r->streamed = hologram_exact(found, &number);
  r->stream_number = (uint64_t)number;
  py.Py_DecRef(found);
  return r->streamed ? DONE : SURPRISE;
}

/* Puts a call on the stream that the owner of its tensors works on now. DLPack has 1 for the legacy default stream, which
   the owner knows as none. Their memory is in its order, as for the owner's own kernels: what frees it on the host frees
   it behind the work. Memory of the host beside them, which the device sees, is in no stream's order: the call then waits
   for the work. */
static outcome find_stream(request *r) {
  const dl_exchange *asked = NULL; /* an owner has one stream, however many its tensors are */
  bool owned = false;
  r->ordered = HOLOGRAM_ORDERED;
  r->args.stream = 0;
  for (int i = 0; i < r->args.num_operands; i++) {
    const taken *t = &r->taken[i];
    uint64_t number = t->stream;
    if (!number && !t->api) {
      if (!r->operands[i].buffer && r->operands[i].rank >= 0 && !(r->numbers >> i & 1)) r->ordered = 0;
      continue;
    }
    owned = true;
    if (!number) {
      void *stream = NULL;
      if (t->api == asked) continue;
      asked = t->api;
      if (!t->api->stream || t->api->stream(r->device_type, r->device_id, &stream)) return operand_refused();
      number = stream ? (uint64_t)(uintptr_t)stream : 1;
    }
    if (r->args.stream && r->args.stream != number) return SURPRISE; /* two owners, two streams */
    r->args.stream = number;
  }
  /* Of another stream than theirs the owners know nothing: Python has them wait for the work before they let go. */
  return r->stream && owned && r->args.stream != r->stream_number ? SURPRISE : DONE;
}

bool request_lent(const request *r, py_object *o, hologram_operand *to) {
  taken t = {.object = o};
  struct known *k = slot_of(o->type);
  dl_tensor tensor;
  if (!k || k->type != o->type || k->kind != TORCH) return false;
  t.api = k->api;
  to->buffer = 0;
  return torch_asked()->borrow(&t, &tensor) == DONE && describe(r, to, &tensor, t.offset, 0) == DONE;
}

/* Describes operand i as an earlier one that is the same tensor of torch's: what a program changes in place is both read and
   written. */
static bool describe_again(request *r, int i) {
  hologram_operand *to = &r->operands[i];
  for (int k = 0; k < i && !r->transposed; k++) {
    const hologram_operand *from = &r->operands[k];
    if (r->taken[k].object != r->taken[i].object) continue;
    to->dtype = from->dtype;
    to->flags = from->flags;
    to->rank = from->rank;
    to->device_type = from->device_type;
    to->device_id = from->device_id;
    to->data = from->data;
    memcpy(to->shape, from->shape, (size_t)from->rank * sizeof *to->shape);
    memcpy(to->strides, from->strides, (size_t)from->rank * sizeof *to->strides);
    r->taken[i].offset = r->taken[k].offset;
    return true;
  }
  return false;
}

outcome request_borrow(request *r) {
  const torch_way *torch = r->torch = r->num_torch ? torch_asked() : NULL;
  outcome found = r->stream ? find_named(r) : DONE;
  for (int i = 0; torch && i < r->args.num_operands && found == DONE; i++) {
    if (r->taken[i].torch) found = torch->first(&r->taken[i]);
  }
  for (int i = 0; r->num_borrowed && i < r->args.num_operands && found == DONE; i++) {
    taken *t = &r->taken[i];
    dl_tensor tensor;
    if (t->stream && r->executor && (r->operands[i].device_type != r->device_type || r->operands[i].device_id != r->device_id)) {
      found = SURPRISE;
    }
    if (!t->api || (t->torch && describe_again(r, i))) continue;
    if (!t->api->borrow) {
      found = request_own(r, i);
      continue;
    }
    found = t->torch ? torch->borrow(t, &tensor) : t->api->borrow(t->object, &tensor) ? operand_refused() : DONE;
    if (found == DONE) found = describe(r, &r->operands[i], &tensor, t->offset, 0);
  }
  if (found != DONE) return found;
  if (r->stream) r->args.stream = r->stream_number;
  if (!r->num_borrowed) return DONE;
  for (int i = 0; !r->executor; i++) {
    bool ran;
    if (!r->taken[i].api && !r->taken[i].stream) continue;
    found = on_default(r, r->operands[i].device_type, r->operands[i].device_id, &ran);
    if (found != DONE || ran) return found == DONE ? request_borrow(r) : found;
  }
  return r->device_type != DL_CPU ? find_stream(r) : DONE;
}

void request_transpose(request *r, int i) {
  r->transposed |= 1u << i; /* for tensors, which are described when they are borrowed */
  r->operands[i].flags |= HOLOGRAM_TRANSPOSED;
}

int64_t request_size(const request *r, int i) {
  const hologram_operand *o = &r->operands[i];
  int64_t n = 1;
  if (o->buffer) return ((py_array *)r->taken[i].object)->size;
  for (int k = 0; k < o->rank; k++) n *= o->shape[k];
  return n;
}

int request_rank(const request *r, int i) {
  const hologram_operand *o = &r->operands[i];
  return o->buffer ? (int)py.PyTuple_Size(((py_array *)r->taken[i].object)->shape) : o->rank;
}
