/* Torch's tensors: what must be asked about one before its memory is used, and how its version is raised.

   There are two ways to ask. One is Python's: attributes and methods of the tensor, which take some 0.1 µs each, and the
   exchange API. The other calls functions of torch's own libraries, which take some nanoseconds: the C shim that torch
   keeps for compiled models, and where that has nothing, C++ functions of a few words. The latter are no promised API.
   So they are looked up at run time in the libraries that lend the tensors, and used only when Python, by the hook
   "verify_torch", found that they say of tensors made for it what torch says in Python. Of the layout of C++ only this is
   used, and verified too: a tensor is the address of its implementation, which Python knows as tensor._cdata, and a
   version counter begins with a pointer that is NULL for tensors without one. Where a tensor of Python's has that address
   is found out, too, since tensor._cdata takes longer than all that is then asked.

   A C++ exception must not come here. The shim makes a status of it; bump_version throws for tensors without a version
   counter, which are not given to it; the other functions only look at a field. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif

#include "python_call.h"

#include <string.h>

#ifdef _WIN32
static void *beside(const void *function, const char *name) {
  (void)function, (void)name; /* the names are others there */
  return NULL;
}
#else
#include <dlfcn.h>

/* A function of the library that another one is in, or of those that this is linked with. */
static void *beside(const void *function, const char *name) {
  Dl_info at;
  void *library = dladdr(function, &at) && at.dli_fname ? dlopen(at.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  void *found = library ? dlsym(library, name) : NULL;
  if (library) dlclose(library); /* the tensors' type keeps it loaded */
  return found;
}
#endif

/* Descriptors of the class Tensor, looked up once. */
static struct {
  py_object *requires_grad, *is_neg, *storage_offset, *cdata;
  py_object *(*get)(py_object *descriptor, py_object *object, py_object *type);
} tensor;

/* ---- Python's way ---- */

static outcome is_true(py_object *answer, bool *yes) {
  if (!answer) return FAILED;
  *yes = answer == py._Py_TrueStruct;
  py.Py_DecRef(answer);
  return DONE;
}

/* This runs Python's and torch's code, which may let the GIL go. */
static outcome ask_first(taken *t) {
  py_object *answer;
  bool yes;
  if (is_true(tensor.get(tensor.requires_grad, t->object, t->object->type), &yes) != DONE) return FAILED;
  if (yes) {
    if (is_true(hologram_hook(HOOK_recording, py.PyTuple_New(0)), &yes) != DONE) return FAILED; /* of gradients */
    if (yes) return SURPRISE;
  }
  if (is_true(py.PyObject_VectorcallDict(tensor.is_neg, &t->object, 1, NULL), &yes) != DONE) return FAILED;
  if (yes) return SURPRISE;
  if (!(answer = py.PyObject_VectorcallDict(tensor.storage_offset, &t->object, 1, NULL))) return operand_refused();
  yes = hologram_exact(answer, &t->offset);
  py.Py_DecRef(answer);
  return yes ? DONE : SURPRISE;
}

static outcome lend(taken *t, dl_tensor *out) { return t->api->borrow(t->object, out) ? operand_refused() : DONE; }

static outcome left_to_python(py_object *o) {
  (void)o;
  return SURPRISE;
}

static const torch_way asking = {ask_first, lend, left_to_python, result_empty};

/* ---- torch's libraries ---- */

/* A tensor of C++, with room in case it grows. */
typedef struct {
  void *implementation, *none[3];
} cpp_tensor;

#define TORCH_FUNCTIONS(X)                                                                              \
  X(int, get_dtype, "aoti_torch_get_dtype", (const cpp_tensor *, int32_t *))                            \
  X(int, get_layout, "aoti_torch_get_layout", (const cpp_tensor *, int32_t *))                          \
  X(int, get_device_type, "aoti_torch_get_device_type", (const cpp_tensor *, int32_t *))                \
  X(int, get_device_index, "aoti_torch_get_device_index", (const cpp_tensor *, int32_t *))              \
  X(int, get_dim, "aoti_torch_get_dim", (const cpp_tensor *, int64_t *))                                \
  X(int, get_sizes, "aoti_torch_get_sizes", (const cpp_tensor *, int64_t **))                           \
  X(int, get_strides, "aoti_torch_get_strides", (const cpp_tensor *, int64_t **))                       \
  X(int, get_storage_offset, "aoti_torch_get_storage_offset", (const cpp_tensor *, int64_t *))          \
  X(int, get_storage_size, "aoti_torch_get_storage_size", (const cpp_tensor *, int64_t *))              \
  X(int, get_data, "aoti_torch_get_data_ptr", (const cpp_tensor *, void **))                            \
  X(int32_t, strided, "aoti_torch_layout_strided", (void))                                              \
  X(bool, recording, "aoti_torch_grad_mode_is_enabled", (void))                                         \
  X(bool, overridden, "_ZN2at4impl27torch_function_mode_enabledEv", (void))                             \
  X(bool, requires_grad, "_ZNK3c1010TensorImpl13requires_gradEv", (const void *implementation))         \
  X(bool, is_neg, "_ZN2at6native6is_negERKNS_6TensorE", (const cpp_tensor *))                           \
  X(void *const *, version_counter, "_ZN5torch8autograd4impl15version_counterERKN2at6TensorE", (const cpp_tensor *)) \
  X(void, bump_version, "_ZN5torch8autograd4impl12bump_versionERKN2at6TensorE", (const cpp_tensor *))

/* What makes tensors, which may be missing where the others are there. A wrapped tensor counts itself. */
#define TORCH_MAKERS(X)                                                                                                    \
  X(int, empty, "aoti_torch_empty_strided",                                                                                \
    (int64_t rank, const int64_t *, const int64_t *, int32_t dtype, int32_t device, int32_t index, cpp_tensor **))         \
  X(int, drop, "aoti_torch_delete_tensor_object", (cpp_tensor *))                                                          \
  X(py_object *, wrap, "_Z16THPVariable_WrapRKN2at10TensorBaseE", (const cpp_tensor *))

/* What says whether torch's functions are redirected in this thread, which may be missing too. */
#define TORCH_STATES(X)                                                                                 \
  X(bool, included, "_ZN3c104impl28tls_is_dispatch_key_includedENS_11DispatchKeyE", (uint16_t key))     \
  X(bool, autocast, "_ZN2at8autocast19is_autocast_enabledEN3c1010DeviceTypeE", (int8_t device))

#define FUNCTION(result, name, symbol, parameters) result(*name) parameters;
static struct {
  TORCH_FUNCTIONS(FUNCTION)
} libtorch;
static struct {
  TORCH_MAKERS(FUNCTION)
} makers;
static struct {
  TORCH_STATES(FUNCTION)
} states;
#undef FUNCTION

/* What torch's numbers of types and devices are in DLPack, learned from the first tensor of each that the exchange API
   describes. */
static struct {
  bool known;
  dl_dtype dtype;
} dtypes[128];
static struct {
  bool known;
  int32_t type;
} devices[64];

/* Whether the functions are there and were verified; and whether they are to be used, which tests change. */
static bool verified, wanted = true;
static const dl_exchange *lender;

/* The dispatch keys that redirect all functions while they are included: of modes, of transforms, of tracing. */
static uint16_t keys[8];
static int num_keys;

/* Where torch's Python has how deep the thread is in forward-mode derivatives, and what it has there outside of any. */
static struct {
  py_object *all, *name, *none;
} levels;

/* Torch's number of the layout that has strides. */
static int32_t strided;

/* Where in a tensor of Python's the address of its implementation was found; 0: to be asked for. */
static ptrdiff_t place;

/* The tensor of C++ of one of Python's. While no mode overrides torch's functions this runs none of Python's. */
static bool find(py_object *o, cpp_tensor *to) {
  py_object *address;
  int64_t number = 0;
  if (place) {
    *to = (cpp_tensor){*(void **)((char *)o + place), {NULL}};
    return to->implementation;
  }
  if (!(address = tensor.get(tensor.cdata, o, o->type))) {
    py.PyErr_Clear();
    return false;
  }
  hologram_exact(address, &number);
  py.Py_DecRef(address);
  *to = (cpp_tensor){(void *)(intptr_t)number, {NULL}};
  return number > 0;
}

/* Describes a strided tensor, as the exchange API would. */
static outcome describe(taken *t, const cpp_tensor *x, dl_tensor *out) {
  int32_t dtype, layout, device, index;
  int64_t dim;
  bool known;
  if (libtorch.get_dtype(x, &dtype) || libtorch.get_layout(x, &layout) || layout != strided) return SURPRISE;
  if (libtorch.get_device_type(x, &device) || dtype < 0 || dtype >= 128 || device < 0 || device >= 64) return SURPRISE;
  if (libtorch.get_dim(x, &dim) || dim > HOLOGRAM_MAX_RANK || libtorch.get_storage_offset(x, &t->offset)) return SURPRISE;
  known = dtypes[dtype].known && devices[device].known;
  index = 0; /* of the host, whose memory is the same for all */
  if (!(known && devices[device].type == DL_CPU) && libtorch.get_device_index(x, &index)) return SURPRISE;
  if (known) {
    out->device.type = devices[device].type;
    out->device.id = index < 0 ? 0 : index;
    out->dtype = dtypes[dtype].dtype;
    out->ndim = (int32_t)dim;
    out->byte_offset = 0;
    if (libtorch.get_sizes(x, &out->shape) || libtorch.get_strides(x, &out->strides) || libtorch.get_data(x, &out->data)) {
      return SURPRISE;
    }
  } else {
    outcome found = lend(t, out);
    if (found != DONE) return found;
    dtypes[dtype].known = true;
    dtypes[dtype].dtype = out->dtype;
    devices[device].known = out->device.id == (index < 0 ? 0 : index);
    devices[device].type = out->device.type;
  }
  return DONE;
}

static outcome nothing_first(taken *t) {
  (void)t;
  return DONE;
}

static outcome lend_directly(taken *t, dl_tensor *out) {
  cpp_tensor x;
  if (!find(t->object, &x)) return SURPRISE;
  if (libtorch.requires_grad(x.implementation) && libtorch.recording()) return SURPRISE;
  return libtorch.is_neg(&x) ? SURPRISE : describe(t, &x, out);
}

static outcome wrote_directly(py_object *o) {
  cpp_tensor x;
  if (!find(o, &x) || !*libtorch.version_counter(&x)) return SURPRISE; /* as tensors of inference have none */
  libtorch.bump_version(&x);
  return DONE;
}

/* Torch's number of a dtype, 0 for bools, if a tensor of it was seen; else negative. */
static int32_t number_of(int32_t dtype) {
  static const struct {
    uint8_t code, bits;
  } all[] = {{DL_BOOL, 8},  {DL_INT, 8},   {DL_INT, 16},   {DL_INT, 32},    {DL_INT, 64},   {DL_UINT, 8},  {DL_UINT, 16},
             {DL_UINT, 32}, {DL_UINT, 64}, {DL_FLOAT, 16}, {DL_BFLOAT, 16}, {DL_FLOAT, 32}, {DL_FLOAT, 64}};
  for (int32_t i = 0; i < 128; i++) {
    const dl_dtype *d = &dtypes[i].dtype;
    if (dtypes[i].known && d->code == all[dtype].code && d->bits == all[dtype].bits && d->lanes == 1) return i;
  }
  return -1;
}

/* This enters torch's dispatcher, where modes and others may run Python. */
static py_object *make(py_object *like, int32_t wanted, const int64_t *shape, int rank) {
  int64_t strides[HOLOGRAM_MAX_RANK], stride = 1;
  int32_t dtype = wanted < 0 ? 0 : number_of(wanted), device, index;
  cpp_tensor x, *made;
  py_object *result;
  if (dtype < 0) return result_empty(like, wanted, shape, rank); /* which is seen then */
  if (!find(like, &x) || (wanted < 0 && libtorch.get_dtype(&x, &dtype)) || libtorch.get_device_type(&x, &device) ||
      libtorch.get_device_index(&x, &index)) {
    return NULL;
  }
  for (int i = rank - 1; i >= 0; i--) {
    strides[i] = stride;
    stride *= shape[i] > 1 ? shape[i] : 1;
  }
  if (makers.empty(rank, shape, strides, dtype, device, index, &made)) return NULL;
  result = makers.wrap(made);
  makers.drop(made);
  return result;
}

static const torch_way directly = {nothing_first, lend_directly, wrote_directly, result_empty};
static const torch_way directly_made = {nothing_first, lend_directly, wrote_directly, make};

const torch_way *torch_asked(void) {
  if (!verified || !wanted || libtorch.overridden()) return &asking;
  return makers.wrap ? &directly_made : &directly;
}

static bool usual(bool autocast) {
  if (!num_keys || !makers.wrap || libtorch.overridden()) return false;
  if (levels.all && py.PyDict_GetItemWithError(levels.all, levels.name) != levels.none) return false;
  for (int i = 0; i < num_keys; i++) {
    if (states.included(keys[i])) return false;
  }
  return !autocast || !(states.autocast(0) || states.autocast(1)); /* CPU, CUDA */
}

bool torch_usual(bool autocast) { return verified && wanted && usual(autocast); }

bool torch_glance(py_object *tensor, glance *to) {
  cpp_tensor x;
  int64_t stride = 1;
  if (!find(tensor, &x) || libtorch.get_dtype(&x, &to->type) || libtorch.get_dim(&x, &to->rank)) return false;
  if (to->rank > HOLOGRAM_MAX_RANK || libtorch.get_sizes(&x, &to->shape) || libtorch.get_strides(&x, &to->strides)) return false;
  to->in_order = true;
  for (int64_t k = to->rank - 1; k >= 0; k--) {
    to->in_order = to->in_order && (to->shape[k] == 1 || to->strides[k] == stride);
    stride *= to->shape[k];
  }
  return true;
}

bool torch_look(py_object *tensor, glance *to, int32_t *device, int32_t *index) {
  cpp_tensor x;
  int32_t layout;
  if (!find(tensor, &x) || libtorch.get_layout(&x, &layout) || layout != strided || libtorch.is_neg(&x)) return false;
  if (libtorch.get_device_type(&x, device) || libtorch.get_device_index(&x, index)) return false;
  return torch_glance(tensor, to);
}

bool torch_range(py_object *tensor, const glance *look, uintptr_t *from, uintptr_t *to) {
  cpp_tensor x;
  void *data;
  int64_t offset, bytes;
  uintptr_t size, last = 0;
  if (look->type < 0 || look->type >= 128 || !dtypes[look->type].known || !find(tensor, &x) || libtorch.get_data(&x, &data)) return false;
  size = dtypes[look->type].dtype.bits / 8;
  if (!size || (uintptr_t)data % size) return false;
  *from = *to = (uintptr_t)data;
  for (int64_t k = 0; k < look->rank; k++) {
    if (!look->shape[k]) return true;
    last += (uintptr_t)(look->shape[k] - 1) * (uintptr_t)look->strides[k];
  }
  *to += (last + 1) * size;
  /* A storage may have been shrunk under its tensors. */
  if (libtorch.get_storage_offset(&x, &offset) || libtorch.get_storage_size(&x, &bytes)) return false;
  return data && ((uintptr_t)offset + last + 1) * size <= (uintptr_t)bytes;
}

float *torch_number(py_object *tensor) {
  enum { F32 = 6, HOST = 0 }; /* torch's ScalarType and DeviceType */
  glance look;
  int32_t device, index;
  void *data;
  cpp_tensor x;
  if (!torch_look(tensor, &look, &device, &index) || look.type != F32 || look.rank || device != HOST || !find(tensor, &x)) return NULL;
  if (libtorch.requires_grad(x.implementation) || !*libtorch.version_counter(&x)) return NULL;
  return libtorch.get_data(&x, &data) ? NULL : data;
}

bool torch_recorded(py_object *tensor) {
  cpp_tensor x;
  return find(tensor, &x) && libtorch.requires_grad(x.implementation) && libtorch.recording();
}

bool torch_recording(void) { return !verified || !wanted || libtorch.recording(); }

bool torch_has_memory(py_object *tensor) {
  cpp_tensor x;
  void *data;
  return find(tensor, &x) && !libtorch.get_data(&x, &data) && data;
}

/* ---- verification ---- */

/* torch_seen(tensor): what the libraries say of it: requires_grad, is_neg, whether it has a version, the data's address,
   shape, strides, and DLPack's code and bits of its dtype; None of what they don't describe. */
static py_object *seen(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_seen"};
  taken t = {.api = lender};
  cpp_tensor x;
  dl_tensor d;
  int64_t sizes[HOLOGRAM_MAX_RANK], steps[HOLOGRAM_MAX_RANK];
  py_object *all, *shape, *strides;
  outcome found;
  (void)self;
  if (!native_count(&c, n, 1)) return NULL;
  t.object = args[0];
  if (!libtorch.get_dtype || !find(args[0], &x)) return py_none();
  if ((found = describe(&t, &x, &d)) != DONE) return found == FAILED ? NULL : py_none();
  memcpy(sizes, d.shape, (size_t)d.ndim * sizeof *sizes); /* the tensor's, which finalizers may give others */
  memcpy(steps, d.strides, (size_t)d.ndim * sizeof *steps);
  all = py.PyTuple_New(8);
  shape = result_shape(sizes, d.ndim);
  strides = result_shape(steps, d.ndim);
  if (!all || !shape || !strides) {
    if (all) py.Py_DecRef(all);
    if (shape) py.Py_DecRef(shape);
    if (strides) py.Py_DecRef(strides);
    return NULL;
  }
  py.PyTuple_SetItem(all, 0, py.PyBool_FromLong(libtorch.requires_grad(x.implementation)));
  py.PyTuple_SetItem(all, 1, py.PyBool_FromLong(libtorch.is_neg(&x)));
  py.PyTuple_SetItem(all, 2, py.PyBool_FromLong(*libtorch.version_counter(&x) != NULL));
  py.PyTuple_SetItem(all, 3, py.PyLong_FromUnsignedLongLong((uintptr_t)d.data));
  py.PyTuple_SetItem(all, 4, shape);
  py.PyTuple_SetItem(all, 5, strides);
  py.PyTuple_SetItem(all, 6, py.PyLong_FromLongLong(d.dtype.code));
  py.PyTuple_SetItem(all, 7, py.PyLong_FromLongLong(d.dtype.bits));
  return all;
}

/* torch_points(capsule, tensor): whether the capsule, torch's own pointer to a tensor of C++, leads to what tensor._cdata
   says. */
static py_object *points(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_points"};
  cpp_tensor x;
  void *const *at;
  (void)self;
  if (!native_count(&c, n, 2) || !(at = py.PyCapsule_GetPointer(args[0], NULL))) return NULL;
  return py.PyBool_FromLong(find(args[1], &x) && *at == x.implementation);
}

/* torch_place(tensor, address, size): where in the size bytes of a tensor the address is; from now on it is looked for there,
   or if that is nowhere or the tensor None asked for. */
static py_object *find_place(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_place"};
  uint64_t address;
  int64_t size;
  (void)self;
  place = 0;
  if (!native_count(&c, n, 3) || !native_u64(&c, args[1], "address", &address) || !native_i64(&c, args[2], "size", &size)) return NULL;
  if (args[0] == py._Py_NoneStruct || !address) return py_none();
  for (ptrdiff_t at = sizeof(py_object); !place && at + (ptrdiff_t)sizeof(void *) <= size; at += sizeof(void *)) {
    if (*(uint64_t *)((char *)args[0] + at) == address) place = at;
  }
  return py.PyLong_FromLongLong(place);
}

/* torch_at(tensor): the address of its implementation. */
static py_object *found_at(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_at"};
  cpp_tensor x;
  (void)self;
  if (!native_count(&c, n, 1)) return NULL;
  return find(args[0], &x) ? py.PyLong_FromUnsignedLongLong((uintptr_t)x.implementation) : py_none();
}

/* torch_wrote(tensor): raises its version; False of what is left to Python. */
static py_object *wrote(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_wrote"};
  (void)self;
  if (!native_count(&c, n, 1)) return NULL;
  return py.PyBool_FromLong(libtorch.get_dtype && wrote_directly(args[0]) == DONE);
}

/* torch_empty(tensor, shape): a tensor like another; None where torch's libraries don't make them. */
static py_object *empty(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_empty"};
  int64_t shape[HOLOGRAM_MAX_RANK];
  ptrdiff_t rank;
  py_object *made;
  (void)self;
  if (!native_count(&c, n, 2) || (rank = py.PyTuple_Size(args[1])) < 0) return NULL;
  for (ptrdiff_t i = 0; i < rank && i < HOLOGRAM_MAX_RANK; i++) {
    if (!native_i64(&c, py.PyTuple_GetItem(args[1], i), "shape", &shape[i])) return NULL;
  }
  made = makers.wrap && libtorch.get_dtype && rank <= HOLOGRAM_MAX_RANK ? make(args[0], -1, shape, (int)rank) : NULL;
  return made || py.PyErr_Occurred() ? made : py_none();
}

/* torch_modes(): whether the libraries say that gradients are recorded, and that a mode overrides torch's functions. */
static py_object *modes(py_object *self, py_object *const *args, ptrdiff_t n) {
  py_object *both;
  (void)self, (void)args, (void)n;
  if (!libtorch.get_dtype) return py_none();
  if ((both = py.PyTuple_New(2))) {
    py.PyTuple_SetItem(both, 0, py.PyBool_FromLong(libtorch.recording()));
    py.PyTuple_SetItem(both, 1, py.PyBool_FromLong(libtorch.overridden()));
  }
  return both;
}

/* torch_keys(numbers): the dispatch keys that redirect functions; none if torch's libraries don't tell. */
static py_object *set_keys(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_keys"};
  int64_t key;
  ptrdiff_t count;
  (void)self;
  num_keys = 0;
  if (!native_count(&c, n, 1) || (count = py.PyTuple_Size(args[0])) < 0) return NULL;
  for (ptrdiff_t i = 0; i < count && i < 8; i++) {
    if (!native_i64(&c, py.PyTuple_GetItem(args[0], i), "key", &key)) return NULL;
    keys[i] = (uint16_t)key;
  }
  num_keys = states.included && count <= 8 ? (int)count : 0;
  return py_none();
}

/* torch_levels(all, name, none): what levels has, for as long as the process. */
static py_object *set_levels(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_levels"};
  (void)self;
  if (!native_count(&c, n, 3)) return NULL;
  if (!levels.all) {
    py.Py_IncRef(levels.name = args[1]);
    py.Py_IncRef(levels.none = args[2]);
    py.Py_IncRef(levels.all = args[0]);
  }
  return py_none();
}

/* torch_usual(autocast): whether the libraries say that nothing redirects functions in this thread, autocast included if
   that is asked. */
static py_object *is_usual(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_usual"};
  (void)self;
  if (!native_count(&c, n, 1)) return NULL;
  return py.PyBool_FromLong(libtorch.get_dtype && usual(args[0] == py._Py_TrueStruct));
}

/* torch_directly(wanted): whether tensors are asked by torch's libraries; from now on if wanted, unless that was not
   verified. */
static py_object *direct(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "torch_directly"};
  (void)self;
  if (!native_count(&c, n, 1)) return NULL;
  wanted = args[0] == py._Py_TrueStruct;
  return py.PyBool_FromLong(wanted && verified);
}

static bool look_up(const void *lender) {
#define FUNCTION(result, name, symbol, parameters) \
  if (!(*(void **)&libtorch.name = beside(lender, symbol))) missing = true;
#define MAKER(result, name, symbol, parameters) \
  if (!(*(void **)&makers.name = beside(lender, symbol))) unmade = true;
#define STATE(result, name, symbol, parameters) \
  if (!(*(void **)&states.name = beside(lender, symbol))) untold = true;
  bool missing = false, unmade = false, untold = false;
  TORCH_FUNCTIONS(FUNCTION)
  TORCH_MAKERS(MAKER)
  TORCH_STATES(STATE)
#undef FUNCTION
#undef MAKER
#undef STATE
  if (missing) memset(&libtorch, 0, sizeof libtorch);
  if (missing || untold) memset(&states, 0, sizeof states);
  if (missing || unmade) memset(&makers, 0, sizeof makers);
  if (!missing) strided = libtorch.strided();
  return !missing;
}

outcome torch_found(py_object *descriptors, const dl_exchange *api, bool *usable) {
  py_object **all[] = {&tensor.requires_grad, &tensor.is_neg, &tensor.storage_offset, &tensor.cdata};
  static bool tried;
  outcome found = DONE;
  for (int i = 0; !tensor.get && i < 4; i++) py.Py_IncRef(*all[i] = py.PyTuple_GetItem(descriptors, 2 + i));
  if (!tensor.get) {
    tensor.get = (py_object * (*)(py_object *, py_object *, py_object *))
                     py.PyType_GetSlot(tensor.requires_grad->type, PY_SLOT_DESCR_GET);
  }
  *usable = tensor.get;
  if (!tensor.get) py.PyErr_Clear(); /* Python 3.9 gives no slots of its own types */
  if (tensor.get && !tried && api->borrow && look_up((const void *)api->borrow)) {
    tried = true;
    lender = api;
    found = is_true(hologram_hook(HOOK_verify_torch, py.PyTuple_New(0)), &verified);
    tried = found == DONE; /* else it was interrupted */
  }
  return found;
}

static py_method methods[] = {
    {"torch_seen", (void *)seen, PY_FASTCALL, NULL},     {"torch_points", (void *)points, PY_FASTCALL, NULL},
    {"torch_wrote", (void *)wrote, PY_FASTCALL, NULL},   {"torch_modes", (void *)modes, PY_FASTCALL, NULL},
    {"torch_place", (void *)find_place, PY_FASTCALL, NULL}, {"torch_at", (void *)found_at, PY_FASTCALL, NULL},
    {"torch_directly", (void *)direct, PY_FASTCALL, NULL}, {"torch_empty", (void *)empty, PY_FASTCALL, NULL},
    {"torch_keys", (void *)set_keys, PY_FASTCALL, NULL},    {"torch_usual", (void *)is_usual, PY_FASTCALL, NULL},
    {"torch_levels", (void *)set_levels, PY_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int hologram_torch(py_object *into) { return hologram_builtins(into, methods); }
