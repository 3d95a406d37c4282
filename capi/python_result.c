/* Results that are left to us: an array of the first operand's kind, or a number. */
#include "python_call.h"

#include <string.h>

/* ---- shapes ---- */

/* The shape of operand i. */
static outcome shape_of(const request *r, int i, int64_t *shape, int *rank) {
  const hologram_operand *o = &r->operands[i];
  const py_array *b = (py_array *)r->taken[i].object;
  if (!o->buffer) {
    *rank = o->rank;
    memcpy(shape, o->shape, (size_t)o->rank * sizeof *shape);
    return DONE;
  }
  *rank = (int)py.PyTuple_Size(b->shape);
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

/* What an elementwise operation on one type makes: the first operand's, and the shape that all broadcast to. */
static outcome broadcast(const request *r, hologram_operand *to) {
  int64_t other[HOLOGRAM_MAX_RANK];
  int rank, other_rank;
  to->dtype = r->operands[0].dtype;
  to->flags = 0;
  if (r->operands[0].flags & HOLOGRAM_BOOL || shape_of(r, 0, to->shape, &rank) != DONE) return SURPRISE;
  for (int i = 1; i < r->args.num_operands; i++) {
    if (shape_of(r, i, other, &other_rank) != DONE || !result_join(to->shape, &rank, other, other_rank)) return SURPRISE;
  }
  to->rank = rank;
  return DONE;
}

outcome request_cell(request *r) {
  hologram_operand result, *to = &r->operands[r->args.num_operands];
  if (r->args.num_operands == MAX_OPERANDS || r->device_type != DL_CPU) return SURPRISE;
  if (hologram_result(&r->args, &result) != HOLOGRAM_OK) return SURPRISE;
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

outcome request_result(request *r, bool elementwise, py_object **made) {
  hologram_operand result;
  const int64_t *shape = result.shape;
  int64_t size = 1;
  int rank;
  py_object *wanted;
  const py_array *like = r->operands[0].buffer ? (py_array *)r->taken[0].object : NULL;
  if (elementwise) {
    if (broadcast(r, &result) != DONE) return SURPRISE;
  } else {
    if (hologram_result(&r->args, &result) != HOLOGRAM_OK) return SURPRISE;
    if ((r->taken[0].torch || like) &&
        ((result.flags | r->operands[0].flags) & HOLOGRAM_BOOL || result.dtype != r->operands[0].dtype)) {
      return SURPRISE; /* of another dtype */
    }
  }
  rank = result.rank;
  if (r->taken[0].torch) {
    *made = torch_asked()->empty(r->taken[0].object, shape, rank);
    return *made ? DONE : operand_refused();
  }
  if (r->taken[0].api) return SURPRISE;
  for (int k = 0; k < rank; k++) size *= shape[k];
  if (like && !size) return SURPRISE;
  if (!like) return (*made = numpy_empty(shape, rank, result.flags & HOLOGRAM_BOOL ? 0 : result.dtype)) ? DONE : operand_refused();
  if (!(wanted = result_shape(shape, rank))) return FAILED;
  *made = hologram_new_buffer(r->executor, wanted, size, like->dtype, like->code, false, HOLOGRAM_UNINITIALIZED);
  py.Py_DecRef(wanted);
  return *made ? DONE : operand_refused();
}
