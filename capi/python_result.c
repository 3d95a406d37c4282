/* Results that are left to us: an array of the first operand's kind, or a number. */
#include "python_call.h"

#include <string.h>

/* ---- shapes ---- */

outcome request_shape(const request *r, int i, int64_t *shape, int *rank) {
  const hologram_operand *o = &r->operands[i];
  const py_array *b = (py_array *)r->taken[i].object;
  if (!o->buffer) {
    *rank = o->rank;
    memcpy(shape, o->shape, (size_t)o->rank * sizeof *shape);
    return DONE;
  }
  *rank = request_rank(r, i);
  for (int k = 0; k < *rank; k++) {
    if (!hologram_exact(py.PyTuple_GetItem(b->shape, k), &shape[k])) return SURPRISE;
  }
  return DONE;
}

bool result_join(int64_t *shape, int *rank, const int64_t *other, int other_rank) {
  int64_t all[HOLOGRAM_MAX_RANK];
  int most = *rank > other_rank ? *rank : other_rank;
  for (int k = 1; k <= most; k++) {
    int64_t a = k <= *rank ? shape[*rank - k] : 1, b = k <= other_rank ? other[other_rank - k] : 1;
    if (a != b && a != 1 && b != 1) return false;
    all[most - k] = a == 1 ? b : a;
  }
  memcpy(shape, all, (size_t)most * sizeof *all);
  *rank = most;
  return true;
}

/* ---- what Go says of results ---- */

enum { ASKED_WORDS = 40, ASKED_CALLS = 64 };

/* All of a call that hologram_result looks at, of operands that are no buffers; 0 words: there are some, or too many. */
static int asked_key(const hologram_call_args *a, uint64_t *to) {
  int n = 0;
  to[n++] = (uint64_t)a->num_operands | (uint64_t)(uint8_t)a->num_dims << 8 | (uint64_t)(uint32_t)a->op << 32;
  for (int i = 0; i < a->num_operands; i++) {
    const hologram_operand *o = &a->operands[i];
    bool bound = o->rank >= 0;
    if (o->buffer || n + 1 + HOLOGRAM_MAX_RANK > ASKED_WORDS) return 0;
    to[n++] = bound ? (uint64_t)o->dtype | (uint64_t)o->rank << 8 | (uint64_t)(uint32_t)o->flags << 32 : UINT64_MAX;
    for (int k = 0; k < o->rank; k++) to[n++] = (uint64_t)o->shape[k];
  }
  if (n + a->num_dims > ASKED_WORDS) return 0;
  for (int i = 0; i < a->num_dims; i++) to[n++] = (uint64_t)a->dims[i];
  return n;
}

/* hologram_result, which takes longer than a small call: what it said is kept, since that is the same every time. */
static bool ask(const hologram_call_args *a, hologram_operand *result) {
  static struct {
    int n;
    uint64_t key[ASKED_WORDS];
    hologram_operand result;
  } kept[ASKED_CALLS], *at;
  uint64_t key[ASKED_WORDS];
  int n = asked_key(a, key);
  at = &kept[hologram_words_hash(key, n) % ASKED_CALLS];
  if (!n || at->n != n || !hologram_words_alike(at->key, key, n)) {
    if (hologram_result(a, result) != HOLOGRAM_OK) return false;
    if (!n) return true;
    at->n = n;
    memcpy(at->key, key, (size_t)n * sizeof *key);
    at->result = *result;
  }
  *result = at->result;
  return true;
}

/* ---- kinds ---- */

py_object *result_shape(const int64_t *shape, int rank) {
  py_object *made = py.PyTuple_New(rank);
  for (int k = 0; made && k < rank; k++) {
    py_object *n = py.PyLong_FromLongLong(shape[k]);
    if (!n) {
      py.Py_DecRef(made);
      return NULL;
    }
    py.PyTuple_SetItem(made, k, n);
  }
  return made;
}

/* The exchange API makes tensors whose storage can't be resized. */
py_object *result_empty(py_object *like, int32_t dtype, const int64_t *shape, int rank) {
  py_object *arguments = py.PyTuple_New(3), *sizes = arguments ? result_shape(shape, rank) : NULL;
  if (!sizes) {
    if (arguments) py.Py_DecRef(arguments);
    return NULL;
  }
  py.Py_IncRef(like);
  py.PyTuple_SetItem(arguments, 0, like);
  py.PyTuple_SetItem(arguments, 1, sizes);
  py.PyTuple_SetItem(arguments, 2, py.PyLong_FromLongLong(dtype));
  return hologram_hook(HOOK_empty, arguments);
}

/* What is made element by element: of the shape that all broadcast to, and of the type of operand like or of bools. */
static outcome broadcast(const request *r, int like, bool bools, hologram_operand *to) {
  int64_t other[HOLOGRAM_MAX_RANK];
  int rank, other_rank;
  to->dtype = bools ? HOLOGRAM_U8 : r->operands[like].dtype;
  to->flags = bools ? HOLOGRAM_BOOL : 0;
  if (request_shape(r, like, to->shape, &rank) != DONE) return SURPRISE;
  for (int i = 0; i < r->args.num_operands; i++) {
    if (i == like || r->numbers >> i & 1) continue;
    if (!r->operands[i].buffer && result_same_shape(to->shape, rank, r->operands[i].shape, r->operands[i].rank)) continue;
    if (request_shape(r, i, other, &other_rank) != DONE || !result_join(to->shape, &rank, other, other_rank)) return SURPRISE;
  }
  to->rank = rank;
  return DONE;
}

/* What the hook "dtypes" has of a dtype, 0 for bools: (dtype, code, whether it is bool); NULL if there is none. */
static py_object *dtype_of(int32_t dtype) {
  static const char *const names[] = {"bool", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"};
  py_object *known = hologram_hook_of(HOOK_dtypes), *name = known ? py.PyUnicode_InternFromString(names[dtype]) : NULL;
  py_object *found = name ? py.PyDict_GetItemWithError(known, name) : NULL;
  if (name) py.Py_DecRef(name);
  return found;
}

/* A Buffer of one element; dtype is 0 for bools. */
static py_object *buffer_of_one(const request *r, int32_t dtype) {
  static const int64_t shape[1] = {1};
  py_object *wanted, *made, *of = dtype_of(dtype);
  if (!of || !(wanted = result_shape(shape, 1))) return NULL;
  made = hologram_new_buffer(r->executor, wanted, 1, py.PyTuple_GetItem(of, 0), dtype ? dtype : HOLOGRAM_U8, !dtype,
                             HOLOGRAM_UNINITIALIZED);
  py.Py_DecRef(wanted);
  return made;
}

outcome request_cell(request *r, bool later, py_object **made) {
  hologram_operand result, *to = &r->operands[r->args.num_operands];
  if (r->args.num_operands == MAX_OPERANDS) return SURPRISE;
  if (!ask(&r->args, &result)) return SURPRISE;
  if (later || !((py_handle *)r->executor)->host_visible) {
    *made = buffer_of_one(r, result.flags & HOLOGRAM_BOOL ? 0 : result.dtype);
    return *made ? request_take(r, *made, FRESH) : operand_refused();
  }
  to->buffer = 0;
  to->data = &r->cell;
  to->dtype = result.dtype;
  to->rank = 0;
  to->flags = result.flags & HOLOGRAM_BOOL;
  to->device_type = DL_CPU;
  to->device_id = 0;
  r->taken[r->args.num_operands++] = (taken){0};
  return DONE;
}

/* A Buffer of a shape, like another but for its dtype, 0 for bools. */
static py_object *buffer_like(const request *r, const py_array *like, int32_t dtype, const int64_t *shape, int rank) {
  py_object *wanted, *made, *of = dtype == (like->boolean ? 0 : like->code) ? NULL : dtype_of(dtype);
  bool same = dtype == (like->boolean ? 0 : like->code);
  int64_t size = 1;
  for (int k = 0; k < rank; k++) size *= shape[k];
  if (!size || (!same && !of) || !(wanted = result_shape(shape, rank))) return NULL;
  made = hologram_new_buffer(r->executor, wanted, size, same ? like->dtype : py.PyTuple_GetItem(of, 0),
                             dtype ? dtype : HOLOGRAM_U8, !dtype, HOLOGRAM_UNINITIALIZED);
  py.Py_DecRef(wanted);
  return made;
}

bool result_dense(const hologram_operand *o) {
  int64_t step = 1;
  unsigned left = (1u << o->rank) - 1;
  for (int k = 0; k < o->rank; k++) {
    if (!o->shape[k]) return false;
    if (o->shape[k] == 1) left &= ~(1u << k);
  }
  while (left) {
    int k = 0;
    while (k < o->rank && !(left >> k & 1 && o->strides[k] == step)) k++;
    if (k == o->rank) return false;
    left &= ~(1u << k);
    step *= o->shape[k];
  }
  return true;
}

const int64_t *result_order(const request *r, const int64_t *shape, int rank) {
  const hologram_operand *like = NULL;
  for (int i = 0; i < r->args.num_operands; i++) {
    const hologram_operand *o = &r->operands[i];
    if (r->numbers >> i & 1) continue;
    if (o->buffer) return NULL;
    if (!result_same_shape(shape, rank, o->shape, o->rank)) continue;
    if (like && memcmp(like->strides, o->strides, (size_t)o->rank * sizeof *o->strides) != 0) return NULL;
    like = o;
  }
  return like && result_dense(like) ? like->strides : NULL;
}

outcome request_make(request *r, int first, int32_t dtype, const int64_t *shape, int rank, const int64_t *strides, py_object **made) {
  const hologram_operand *of = &r->operands[first];
  bool same = of->flags & HOLOGRAM_BOOL ? !dtype : of->dtype == dtype;
  if (r->taken[first].torch) {
    *made = torch_asked()->empty(r->taken[first].object, same ? -1 : dtype, shape, rank);
  } else if (r->taken[first].stream) {
    *made = result_empty(r->taken[first].object, same ? -1 : dtype, shape, rank);
  } else if (r->taken[first].api) {
    return SURPRISE;
  } else if (of->buffer) {
    *made = buffer_like(r, (py_array *)r->taken[first].object, dtype, shape, rank);
  } else {
    *made = numpy_empty(shape, rank, dtype, strides);
  }
  return *made ? DONE : operand_refused();
}

outcome request_result(request *r, int elements, int first, int like, bool row, py_object **made) {
  hologram_operand result;
  const int64_t *shape = result.shape, *strides = NULL;
  if (elements != ASKED && r->args.num_dims < 0 && like >= 0 && !(r->operands[like].flags & HOLOGRAM_BOOL)) {
    if (broadcast(r, like, elements == BOOLS, &result) != DONE) return SURPRISE;
    if (result.rank > 1) strides = result_order(r, result.shape, result.rank);
  } else if (!ask(&r->args, &result)) {
    return SURPRISE;
  }
  return request_make(r, first, result.flags & HOLOGRAM_BOOL ? 0 : result.dtype, shape + row, result.rank - row, strides, made);
}
