/* Numpy's arrays, as every extension of numpy's has read and made them since version 1.7: by the fields that its headers
   show, which takes nanoseconds where the buffer protocol takes some 0.1 µs to write a format, and by a function of the
   table that numpy offers as a capsule. They are used only after Python found, in "verify_numpy" of _foreign.py, that they
   say of arrays and make what they should. */
#include "python_call.h"

#include <string.h>

typedef struct {
  py_object head;
  char *data;
  int rank;
  ptrdiff_t *shape, *strides; /* in bytes */
  py_object *base, *dtype;
  int flags;
} np_array;

enum { NP_WRITEABLE = 0x400, NP_WARNS = (int)0x80000000 }; /* the latter: a deprecation that the buffer protocol tells of */

/* Of the hook "numpy", kept for as long as the process: numpy's type of arrays, its table of functions if that begins as it
   should, and the dtypes by code, at 0 that of bools, None of what numpy has not. */
static py_object *dtypes[HOLOGRAM_F64 + 1], *type;
static py_object *(*make)(py_object *type, py_object *dtype, int rank, const ptrdiff_t *shape, const ptrdiff_t *strides, void *data,
                          int flags, py_object *from); /* PyArray_NewFromDescr, which takes the reference to dtype */

enum { API_TYPE = 2, API_MAKE = 94 };

static bool find(void) {
  py_object *found = type ? NULL : hologram_hook_of(HOOK_numpy);
  void *const *table;
  if (type || !found) return type;
  for (int i = 0; i <= HOLOGRAM_F64; i++) py.Py_IncRef(dtypes[i] = py.PyTuple_GetItem(found, 2 + i));
  py.Py_IncRef(type = py.PyTuple_GetItem(found, 0));
  if (!(table = py.PyCapsule_GetPointer(py.PyTuple_GetItem(found, 1), NULL))) py.PyErr_Clear();
  if (table && table[API_TYPE] == type) *(void **)&make = table[API_MAKE];
  return true;
}

static const uint8_t shifts[] = {0, 0, 1, 2, 3, 0, 1, 2, 3, 1, 1, 2, 3}; /* binary logarithms of the items' sizes */

outcome numpy_take(hologram_operand *to, py_object *array) {
  const np_array *a = (np_array *)array;
  int code = HOLOGRAM_F32;
  uintptr_t places;
  if (!find() || a->rank > HOLOGRAM_MAX_RANK || a->flags & NP_WARNS) return SURPRISE;
  if (a->dtype != dtypes[code]) {
    for (code = 0; code <= HOLOGRAM_F64 && a->dtype != dtypes[code]; code++) {
    }
    if (code > HOLOGRAM_F64) return SURPRISE;
  }
  to->dtype = code ? code : HOLOGRAM_U8;
  to->flags = (a->flags & NP_WRITEABLE ? 0 : HOLOGRAM_READ_ONLY) | (code ? 0 : HOLOGRAM_BOOL);
  to->data = a->data;
  to->rank = a->rank;
  to->device_type = DL_CPU;
  to->device_id = 0;
  places = (uintptr_t)a->data;
  for (int i = 0; i < a->rank; i++) {
    to->shape[i] = a->shape[i];
    to->strides[i] = a->strides[i] >> shifts[code];
    places |= (uintptr_t)a->strides[i];
  }
  return places & ((1u << shifts[code]) - 1) ? SURPRISE : DONE;
}

py_object *numpy_empty(const int64_t *shape, int rank, int32_t dtype, const int64_t *strides) {
  ptrdiff_t dims[HOLOGRAM_MAX_RANK], steps[HOLOGRAM_MAX_RANK];
  bool rows = true;
  int64_t step = 1;
  if (!find() || !make || dtypes[dtype] == py._Py_NoneStruct) return NULL;
  for (int i = rank - 1; i >= 0; i--) {
    dims[i] = (ptrdiff_t)shape[i];
    /* What a dimension of one element has for a stride says nothing, and may be negative, which torch takes of no array. */
    if (strides) steps[i] = (ptrdiff_t)(shape[i] == 1 ? 1 : strides[i]) << shifts[dtype];
    rows = rows && (!strides || shape[i] == 1 || strides[i] == step);
    step *= shape[i];
  }
  if (rows) strides = NULL;
  py.Py_IncRef(dtypes[dtype]);
  return make(type, dtypes[dtype], rank, dims, strides ? steps : NULL, NULL, 0, NULL);
}

/* numpy_seen(array): what the fields say: the data's address, shape, strides in elements, code and flags; None of what is
   left to the buffer protocol. */
static py_object *seen(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "numpy_seen"};
  hologram_operand o;
  py_object *all, *shape, *strides;
  (void)self;
  if (!native_count(&c, n, 1)) return NULL;
  if (numpy_take(&o, args[0]) != DONE) return py_none();
  all = py.PyTuple_New(5);
  shape = py.PyTuple_New(o.rank);
  strides = py.PyTuple_New(o.rank);
  if (!all || !shape || !strides) return NULL;
  for (int i = 0; i < o.rank; i++) {
    py.PyTuple_SetItem(shape, i, py.PyLong_FromLongLong(o.shape[i]));
    py.PyTuple_SetItem(strides, i, py.PyLong_FromLongLong(o.strides[i]));
  }
  py.PyTuple_SetItem(all, 0, py.PyLong_FromUnsignedLongLong((uintptr_t)o.data));
  py.PyTuple_SetItem(all, 1, shape);
  py.PyTuple_SetItem(all, 2, strides);
  py.PyTuple_SetItem(all, 3, py.PyLong_FromLongLong(o.dtype));
  py.PyTuple_SetItem(all, 4, py.PyLong_FromLongLong((long long)o.flags));
  return all;
}

/* numpy_empty(array): another of its shape, order and dtype; None if it is left to Python. */
static py_object *empty(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "numpy_empty"};
  hologram_operand o;
  py_object *made;
  (void)self;
  if (!native_count(&c, n, 1)) return NULL;
  made = numpy_take(&o, args[0]) == DONE && !(o.flags & HOLOGRAM_BOOL) ? numpy_empty(o.shape, o.rank, o.dtype, result_dense(&o) ? o.strides : NULL) : NULL;
  return made || py.PyErr_Occurred() ? made : py_none();
}

/* numpy_makes_none(): no arrays are made here any more, since what was made was found to be wrong. */
static py_object *no_more(py_object *self, py_object *const *args, ptrdiff_t n) {
  (void)self, (void)args, (void)n;
  make = NULL;
  return py_none();
}

static py_method methods[] = {{"numpy_seen", (void *)seen, PY_FASTCALL, NULL},
                              {"numpy_empty", (void *)empty, PY_FASTCALL, NULL},
                              {"numpy_makes_none", (void *)no_more, PY_FASTCALL, NULL},
                              {NULL, NULL, 0, NULL}};

int hologram_numpy(py_object *into) { return hologram_builtins(into, methods); }
