/* Results that are left to us: an array of the shape that the operands broadcast to, of the first one's kind and type. */
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

outcome request_result(request *r, py_object **made) {
  int64_t shape[HOLOGRAM_MAX_RANK], other[HOLOGRAM_MAX_RANK], size = 1;
  int rank, other_rank;
  py_object *wanted;
  const py_array *like = r->operands[0].buffer ? (py_array *)r->taken[0].object : NULL;
  if (r->operands[0].flags & HOLOGRAM_BOOL || shape_of(r, 0, shape, &rank) != DONE) return SURPRISE;
  for (int i = 1; i < r->args.num_operands; i++) {
    if (shape_of(r, i, other, &other_rank) != DONE || !result_join(shape, &rank, other, other_rank)) return SURPRISE;
  }
  if (r->taken[0].torch) {
    *made = torch_asked()->empty(r->taken[0].object, shape, rank);
    return *made ? DONE : operand_refused();
  }
  if (r->taken[0].api) return SURPRISE;
  for (int k = 0; k < rank; k++) size *= shape[k];
  if (like && !size) return SURPRISE;
  if (!like) return (*made = numpy_empty(shape, rank, r->operands[0].dtype)) ? DONE : operand_refused();
  if (!(wanted = result_shape(shape, rank))) return FAILED;
  *made = hologram_new_buffer(r->executor, wanted, size, like->dtype, like->code, false, HOLOGRAM_UNINITIALIZED);
  py.Py_DecRef(wanted);
  return *made ? DONE : operand_refused();
}
