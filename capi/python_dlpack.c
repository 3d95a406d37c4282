/* DLPack's capsules. */
#include "dlpack.h"
#include "python.h"

#include <stdlib.h>

static const char *const fresh[] = {"dltensor", "dltensor_versioned"};
static const char *const used[] = {"used_dltensor", "used_dltensor_versioned"};

/* Deletes the tensor of a capsule that nobody consumed. */
static void unused(py_object *capsule) {
  for (int versioned = 0; versioned < 2; versioned++) {
    if (py.PyCapsule_IsValid(capsule, fresh[versioned])) {
      hologram_support_discard(py.PyCapsule_GetPointer(capsule, fresh[versioned]), versioned);
    }
  }
}

/* to_capsule(buffer, versioned, copied, stream): a capsule of a buffer's memory, which it keeps alive, and after its end
   until the work is done that is on the stream then, if that is not 0. */
static py_object *to_capsule(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "to_capsule"};
  void *managed = NULL;
  py_object *capsule;
  uint64_t stream;
  int versioned;
  (void)self;
  if (!native_count(&c, n, 4) || !native_u64(&c, args[3], "stream", &stream)) return NULL;
  if (!hologram_is_buffer(args[0])) {
    py.PyErr_SetString(py.PyExc_TypeError, "to_capsule: expected a Buffer");
    return NULL;
  }
  versioned = args[1] == py._Py_TrueStruct;
  if (!work_check(hologram_buffer_lend(((py_array *)args[0])->handle, versioned, stream, &managed))) return NULL;
  if (((py_array *)args[0])->boolean) {
    if (versioned) {
      ((dl_versioned *)managed)->dl.dtype.code = DL_BOOL;
    } else {
      ((dl_managed *)managed)->dl.dtype.code = DL_BOOL;
    }
  }
  if (versioned && args[2] == py._Py_TrueStruct) ((dl_versioned *)managed)->flags |= DL_COPIED;
  capsule = py.PyCapsule_New(managed, fresh[versioned], unused);
  if (!capsule) hologram_support_discard(managed, versioned);
  return capsule;
}

/* What the library gets of a capsule's tensor: the same, but that its end comes to pass with the GIL held, on whichever
   thread the library lets go of it. */
typedef struct {
  union {
    dl_managed plain;
    dl_versioned versioned;
  } as;
  struct hologram_owner *owner; /* of a capsule that deletes the tensor */
} proxy;

static void end_proxy(proxy *p) {
  hologram_disown(p->owner);
  free(p);
}

static void end_plain(dl_managed *m) { end_proxy((proxy *)m); }
static void end_versioned(dl_versioned *v) { end_proxy((proxy *)v); }

static const char *const taken[] = {"hologram_dltensor", "hologram_dltensor_versioned"};

static void end_taken(py_object *capsule) {
  for (int versioned = 0; versioned < 2; versioned++) {
    if (py.PyCapsule_IsValid(capsule, taken[versioned])) {
      hologram_support_discard(py.PyCapsule_GetPointer(capsule, taken[versioned]), versioned);
    }
  }
}

/* A proxy of a tensor, or NULL with an exception. holder is the capsule that will delete the tensor. */
static proxy *proxy_of(void *managed, int versioned, py_object **holder) {
  proxy *p = malloc(sizeof *p);
  if (!p) {
    py.PyErr_NoMemory();
    return NULL;
  }
  *holder = py.PyCapsule_New(managed, taken[versioned], end_taken);
  if (!*holder || !(p->owner = hologram_own(*holder))) {
    if (*holder) {
      py.PyCapsule_SetName(*holder, "abandoned");
      py.Py_DecRef(*holder);
    }
    free(p);
    return NULL;
  }
  if (versioned) {
    p->as.versioned = *(dl_versioned *)managed;
    p->as.versioned.deleter = end_versioned;
  } else {
    p->as.plain = *(dl_managed *)managed;
    p->as.plain.deleter = end_plain;
  }
  return p;
}

/* from_capsule(executor, capsule): the owner of a buffer, and whether its u8 are bools. The capsule is used up by it. */
static py_object *from_capsule(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "from_capsule"};
  hologram_executor executor;
  (void)self;
  if (!native_count(&c, n, 2) || !native_u64(&c, args[0], "executor", &executor)) return NULL;
  for (int versioned = 0; versioned < 2; versioned++) {
    hologram_tensor tensor = {.type_code = -1};
    py_object *both, *holder;
    py_owner *made;
    void *managed;
    proxy *p;
    if (!py.PyCapsule_IsValid(args[1], fresh[versioned])) continue;
    managed = py.PyCapsule_GetPointer(args[1], fresh[versioned]);
    if (!hologram_support_import(managed, versioned, &tensor)) {
      /* Of another version than 1, whose structure nobody knows: the library says so. */
      hologram_buffer none;
      work_check(hologram_buffer_from_dlpack(executor, managed, versioned, &none));
      return NULL;
    }
    if (!(both = py.PyTuple_New(2))) return NULL;
    if ((made = hologram_owner_new(OWNED_buffer))) py.PyTuple_SetItem(both, 0, (py_object *)made);
    if (!made || !(p = proxy_of(managed, versioned, &holder))) {
      py.Py_DecRef(both);
      return NULL;
    }
    if (!work_check(hologram_buffer_from_dlpack(executor, p, versioned, &made->handle))) {
      py.PyCapsule_SetName(holder, "abandoned"); /* the tensor stays the capsule's that we got */
      py.Py_DecRef(holder);
      end_proxy(p);
      hologram_drain();
      py.Py_DecRef(both);
      return NULL;
    }
    py.PyCapsule_SetName(args[1], used[versioned]);
    py.Py_DecRef(holder);
    py.PyTuple_SetItem(both, 1, py.PyBool_FromLong(tensor.type_code == DL_BOOL));
    return both;
  }
  py.PyErr_SetString(py.PyExc_BufferError, "expected a fresh DLPack capsule");
  return NULL;
}

/* capsule_flags(capsule): the flags of a fresh versioned one. */
static py_object *capsule_flags(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "capsule_flags"};
  dl_versioned *managed;
  (void)self;
  if (!native_count(&c, n, 1) || !(managed = py.PyCapsule_GetPointer(args[0], fresh[1]))) return NULL;
  return py.PyLong_FromUnsignedLongLong(managed->flags);
}

static py_method methods[] = {
    {"to_capsule", (void *)to_capsule, PY_FASTCALL, NULL},
    {"from_capsule", (void *)from_capsule, PY_FASTCALL, NULL},
    {"capsule_flags", (void *)capsule_flags, PY_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int hologram_dlpack(py_object *into) { return hologram_builtins(into, methods); }
