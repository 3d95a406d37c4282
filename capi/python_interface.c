/* CuPy's arrays: by CUDA's array interface, which they offer in place of DLPack's C exchange API. What Python would make of
   each, a Buffer for the time of a call, takes ten times as long. */
#include "python_call.h"

#include <string.h>

#define NAMES(X) X(__cuda_array_interface__) X(data) X(device_id) X(mask) X(shape) X(stream) X(strides) X(typestr)
#define NAME(name) static py_object *name_of_##name; /* interned, for as long as the process */
NAMES(NAME)
#undef NAME

/* The dtype of an array's typestr, 0 for none of ours, and the size of its elements. */
static int32_t dtype_of(const char *text, bool *boolean, int64_t *size) {
  static const uint16_t one = 1;
  int steps;
  *boolean = false;
  if (strlen(text) != 3 || !(*text == '|' || *text == '=' || *text == (*(const uint8_t *)&one ? '<' : '>'))) return 0;
  *size = text[2] - '0';
  steps = *size == 1 ? 0 : *size == 2 ? 1 : *size == 4 ? 2 : *size == 8 ? 3 : -1;
  if (steps < 0) return 0;
  switch (text[1]) {
    case 'i':
      return HOLOGRAM_I8 + steps;
    case 'u':
      return HOLOGRAM_U8 + steps;
    case 'f':
      return steps == 1 ? HOLOGRAM_F16 : steps == 2 ? HOLOGRAM_F32 : steps == 3 ? HOLOGRAM_F64 : 0;
    case 'b':
      *boolean = true;
      return steps ? 0 : HOLOGRAM_U8;
    default:
      return 0;
  }
}

/* What an interface has of a name; NULL if that is None or nothing. */
static py_object *entry(py_object *interface, py_object *name) {
  py_object *found = py.PyDict_GetItemWithError(interface, name);
  return found == py._Py_NoneStruct ? NULL : found;
}

static bool is_tuple(py_object *o, ptrdiff_t size) {
  return o && o->type == py.PyTuple_Type && (size < 0 || py.PyTuple_Size(o) == size);
}

/* Reads an interface; SURPRISE for what is to be refused, has no memory, or names no stream that can be waited for. */
static outcome read(hologram_operand *to, py_object *interface, uint64_t *stream) {
  enum { PER_THREAD = 2 };
  py_object *shape, *strides, *data, *typestr, *number;
  const char *text;
  int64_t address, size = 0, steps, elements = 1;
  bool boolean;
  if (interface->type != py.PyDict_Type || entry(interface, name_of_mask)) return SURPRISE;
  shape = entry(interface, name_of_shape);
  data = entry(interface, name_of_data);
  typestr = entry(interface, name_of_typestr);
  strides = entry(interface, name_of_strides);
  number = entry(interface, name_of_stream);
  if (!is_tuple(shape, -1) || !is_tuple(data, 2) || !typestr || typestr->type != py.PyUnicode_Type || !number) return SURPRISE;
  to->rank = (int32_t)py.PyTuple_Size(shape);
  if (to->rank > HOLOGRAM_MAX_RANK || (strides && !is_tuple(strides, to->rank))) return SURPRISE;
  if (!(text = py.PyUnicode_AsUTF8AndSize(typestr, NULL)) || !(to->dtype = dtype_of(text, &boolean, &size))) return SURPRISE;
  for (int i = to->rank - 1; i >= 0; i--) {
    if (!hologram_exact(py.PyTuple_GetItem(shape, i), &to->shape[i]) || to->shape[i] < 0) return SURPRISE;
    to->strides[i] = elements;
    elements *= to->shape[i];
    if (!strides) continue;
    if (!hologram_exact(py.PyTuple_GetItem(strides, i), &steps) || steps % size) return SURPRISE;
    to->strides[i] = steps / size;
  }
  if (!hologram_exact(py.PyTuple_GetItem(data, 0), &address) || address <= 0 || address % size || !elements) return SURPRISE;
  to->data = (void *)(uintptr_t)address;
  to->flags = (py.PyTuple_GetItem(data, 1) == py._Py_TrueStruct ? HOLOGRAM_READ_ONLY : 0) | (boolean ? HOLOGRAM_BOOL : 0);
  return hologram_exact(number, &steps) && steps > 0 && (*stream = (uint64_t)steps) != PER_THREAD ? DONE : SURPRISE;
}

/* The number of the device that an array's memory is on, of which the interface says nothing. */
static bool device_of(py_object *array, int64_t *id) {
  py_object *data = py.PyObject_GetAttr(array, name_of_data), *number = data ? py.PyObject_GetAttr(data, name_of_device_id) : NULL;
  bool found = number && hologram_exact(number, id);
  if (number) py.Py_DecRef(number);
  if (data) py.Py_DecRef(data);
  return found;
}

outcome interface_take(const request *r, hologram_operand *to, py_object *array, uint64_t *stream) {
  const py_handle *executor = (const py_handle *)r->executor;
  py_object *interface;
  int64_t id;
  outcome found;
  *stream = 0;
  if (executor && executor->host_visible) return SURPRISE;
  if (!device_of(array, &id) || (executor && id != r->device_id)) return operand_refused();
  if (!(interface = py.PyObject_GetAttr(array, name_of___cuda_array_interface__))) return operand_refused();
  found = read(to, interface, stream);
  py.Py_DecRef(interface);
  if (found != DONE) {
    *stream = 0;
    return operand_refused();
  }
  to->device_type = executor ? r->device_type : DL_CUDA;
  to->device_id = (int32_t)id;
  return DONE;
}

int hologram_interfaces(py_object *into) {
  (void)into;
#define INTERN(name) \
  if (!(name_of_##name = py.PyUnicode_InternFromString(#name))) return -1;
  NAMES(INTERN)
#undef INTERN
  return 0;
}
