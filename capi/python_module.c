/* Modules that say what there is instead of what is not: of one with a __getattr__ of its own Python looks for each name
   first in the module's type, and then where names are, 40 ns a call of hologram.ops.fill, of 140. So such modules get a
   type that looks where names are, and asks __getattr__ for what is not there, as it always was. */
#include "python.h"

static py_object *module_type, *name_class;
static py_object *(*base_get)(py_object *, py_object *);

static py_object *module_get(py_object *self, py_object *name) {
  py_object *names = py.PyModule_GetDict(self), *found = names ? py.PyDict_GetItemWithError(names, name) : NULL;
  if (found) {
    py.Py_IncRef(found);
    return found;
  }
  return py.PyErr_Occurred() ? NULL : base_get(self, name);
}

/* look_there(module): gives it that type. */
static py_object *look_there(py_object *self, py_object *const *args, ptrdiff_t n) {
  native c = {.name = "look_there"};
  (void)self;
  if (!native_count(&c, n, 1)) return NULL;
  if (!module_type) {
    py_slot slots[] = {{PY_SLOT_BASE, args[0]->type}, {PY_SLOT_GETATTRO, (void *)module_get}, {0, NULL}};
    py_spec spec = {"hologram._native.Module", 0, 0, PY_TYPE_DEFAULT, slots};
    *(void **)&base_get = py.PyType_GetSlot(args[0]->type, PY_SLOT_GETATTRO);
    if (!base_get) { /* before Python 3.10 types that are not on the heap don't tell: all stays as it was */
      py.PyErr_Clear();
      return py_none();
    }
    if (!(name_class = py.PyUnicode_InternFromString("__class__")) || !(module_type = py.PyType_FromSpec(&spec))) return NULL;
  }
  return py.PyObject_SetAttr(args[0], name_class, module_type) ? NULL : py_none();
}

int hologram_modules(py_object *into) {
  static py_method methods[] = {{"look_there", (void *)look_there, PY_FASTCALL, NULL}, {NULL, NULL, 0, NULL}};
  return hologram_builtins(into, methods);
}
