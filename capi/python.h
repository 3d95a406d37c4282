/* The bindings to Python: what they need of CPython, declared here and looked up at run time, never linked, so that one
   library serves every Python from 3.9 on, and programs without one. All is for the thread that holds the GIL unless
   its comment says otherwise. */
#ifndef HOLOGRAM_PYTHON_H
#define HOLOGRAM_PYTHON_H

#include "direct.h"
#include "support.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The head of every object, in a build with the GIL; hologram_python refuses others. */
typedef struct py_object {
  ptrdiff_t count;
  struct py_object *type;
} py_object;

/* Py_buffer, of the buffer protocol (PEP 3118). */
typedef struct {
  void *data;
  py_object *object;
  ptrdiff_t bytes, itemsize;
  int readonly, rank;
  char *format;
  ptrdiff_t *shape, *strides, *suboffsets;
  void *internal;
} py_buffer;

enum { PY_BUFFER_WRITABLE = 1, PY_BUFFER_STRIDES = 0x18, PY_BUFFER_FORMAT = 4 };

typedef struct {
  const char *name;
  void *function;
  int flags;
  const char *doc;
} py_method;

enum { PY_FASTCALL = 0x80, PY_KEYWORDS = 2 };

typedef struct {
  const char *name;
  int kind;
  ptrdiff_t offset;
  int flags;
  const char *doc;
} py_member;

enum { PY_MEMBER_INT = 1, PY_MEMBER_OPTIONAL = 6, PY_MEMBER_BOOL = 14, PY_MEMBER_OBJECT = 16, PY_MEMBER_LONGLONG = 17, PY_MEMBER_ULONGLONG = 18, PY_MEMBER_READONLY = 1 };

typedef struct {
  int number;
  void *value;
} py_slot;

enum { PY_SLOT_GET_BUFFER = 1, PY_SLOT_BASE = 48, PY_SLOT_CALL = 50, PY_SLOT_CLEAR = 51, PY_SLOT_DEALLOC = 52, PY_SLOT_TRAVERSE = 71, PY_SLOT_DESCR_GET = 54, PY_SLOT_MEMBERS = 72, PY_SLOT_GETATTRO = 58, PY_SLOT_FREE = 74 };

typedef struct {
  const char *name;
  int size, itemsize;
  unsigned flags;
  py_slot *slots;
} py_spec;

enum { PY_TYPE_DEFAULT = 1 << 18, PY_TYPE_BASE = 1 << 10, PY_TYPE_GC = 1 << 14 };

typedef int (*py_visit)(py_object *, void *);

#define PYTHON_FUNCTIONS(X)                                                                 \
  X(void, Py_IncRef, (py_object *))                                                         \
  X(void, Py_DecRef, (py_object *))                                                         \
  X(int, Py_AddPendingCall, (int (*)(void *), void *))                                      \
  X(void *, PyEval_SaveThread, (void))                                                      \
  X(void, PyEval_RestoreThread, (void *))                                                   \
  X(int, PyGILState_Ensure, (void))                                                         \
  X(void, PyGILState_Release, (int))                                                        \
  X(void *, PyInterpreterState_Get, (void))                                                 \
  X(void *, PyInterpreterState_Main, (void))                                                \
  X(void *, PyInterpreterState_ThreadHead, (void *))                                        \
  X(void *, PyThreadState_Next, (void *))                                                   \
  X(int, PyErr_CheckSignals, (void))                                                        \
  X(void, PyErr_Clear, (void))                                                              \
  X(void, PyErr_Fetch, (py_object **, py_object **, py_object **))                          \
  X(void, PyErr_Restore, (py_object *, py_object *, py_object *))                           \
  X(void, PyErr_SetObject, (py_object *, py_object *))                                      \
  X(void, PyErr_SetString, (py_object *, const char *))                                     \
  X(py_object *, PyErr_Format, (py_object *, const char *, ...))                            \
  X(py_object *, PyErr_Occurred, (void))                                                    \
  X(py_object *, PyErr_NoMemory, (void))                                                    \
  X(int, PyErr_ExceptionMatches, (py_object *))                                             \
  X(int, PyObject_GetBuffer, (py_object *, py_buffer *, int))                               \
  X(void, PyBuffer_Release, (py_buffer *))                                                  \
  X(py_object *, PyObject_GetAttr, (py_object *, py_object *))                              \
  X(int, PyObject_SetAttr, (py_object *, py_object *, py_object *))                         \
  X(py_object *, PyModule_GetDict, (py_object *))                                           \
  X(py_object *, PyObject_CallObject, (py_object *, py_object *))                           \
  X(py_object *, PyObject_CallFunctionObjArgs, (py_object *, ...))                          \
  X(py_object *, PyObject_VectorcallDict, (py_object *, py_object *const *, size_t, py_object *)) \
  X(py_object *, PyObject_Call, (py_object *, py_object *, py_object *))                    \
  X(py_object *, PyDescr_NewMethod, (py_object *, py_method *))                             \
  X(int, PyObject_IsTrue, (py_object *))                                                    \
  X(int, PyUnicode_Compare, (py_object *, py_object *))                                     \
  X(void, PyObject_GC_UnTrack, (void *))                                                    \
  X(py_object *, PyType_FromSpec, (py_spec *))                                              \
  X(py_object *, PyType_GenericAlloc, (py_object *, ptrdiff_t))                             \
  X(void *, PyType_GetSlot, (py_object *, int))                                             \
  X(int, PyType_IsSubtype, (py_object *, py_object *))                                      \
  X(py_object *, PyCFunction_NewEx, (py_method *, py_object *, py_object *))                \
  X(py_object *, PyCapsule_New, (void *, const char *, void (*)(py_object *)))              \
  X(void *, PyCapsule_GetPointer, (py_object *, const char *))                              \
  X(int, PyCapsule_IsValid, (py_object *, const char *))                                    \
  X(int, PyCapsule_SetName, (py_object *, const char *))                                    \
  X(py_object *, PyLong_FromLongLong, (long long))                                          \
  X(py_object *, PyLong_FromUnsignedLongLong, (unsigned long long))                         \
  X(long long, PyLong_AsLongLongAndOverflow, (py_object *, int *))                          \
  X(unsigned long long, PyLong_AsUnsignedLongLong, (py_object *))                           \
  X(py_object *, PyNumber_Index, (py_object *))                                             \
  X(py_object *, PyFloat_FromDouble, (double))                                              \
  X(double, PyFloat_AsDouble, (py_object *))                                                \
  X(py_object *, PyBool_FromLong, (long))                                                   \
  X(py_object *, PyUnicode_FromString, (const char *))                                      \
  X(py_object *, PyUnicode_InternFromString, (const char *))                                \
  X(void, PyUnicode_InternInPlace, (py_object **))                                          \
  X(py_object *, PyUnicode_DecodeUTF8, (const char *, ptrdiff_t, const char *))             \
  X(const char *, PyUnicode_AsUTF8AndSize, (py_object *, ptrdiff_t *))                      \
  X(int, PyBytes_AsStringAndSize, (py_object *, char **, ptrdiff_t *))                      \
  X(py_object *, PyBytes_FromStringAndSize, (const char *, ptrdiff_t))                      \
  X(py_object *, PyTuple_New, (ptrdiff_t))                                                  \
  X(ptrdiff_t, PyTuple_Size, (py_object *))                                                 \
  X(py_object *, PyTuple_GetItem, (py_object *, ptrdiff_t))                                 \
  X(int, PyTuple_SetItem, (py_object *, ptrdiff_t, py_object *))                            \
  X(ptrdiff_t, PyList_Size, (py_object *))                                                  \
  X(py_object *, PyList_GetItem, (py_object *, ptrdiff_t))                                  \
  X(py_object *, PyDict_New, (void))                                                        \
  X(py_object *, PyDict_Copy, (py_object *))                                                \
  X(ptrdiff_t, PyDict_Size, (py_object *))                                                  \
  X(py_object *, PyDict_GetItemWithError, (py_object *, py_object *))                       \
  X(int, PyDict_Next, (py_object *, ptrdiff_t *, py_object **, py_object **))               \
  X(int, PyDict_SetItem, (py_object *, py_object *, py_object *))                           \
  X(int, PyDict_SetItemString, (py_object *, const char *, py_object *))

/* Objects that are there by themselves: types, None and True. */
#define PYTHON_OBJECTS(X)                                                                                     \
  X(_Py_NoneStruct) X(_Py_TrueStruct) X(PyBool_Type) X(PyByteArray_Type) X(PyBytes_Type) X(PyDict_Type)       \
  X(PyFloat_Type) X(PyList_Type) X(PyLong_Type) X(PyMemoryView_Type) X(PyTuple_Type) X(PyUnicode_Type)

/* Variables that point to an exception. */
#define PYTHON_EXCEPTIONS(X) \
  X(PyExc_BufferError) X(PyExc_Exception) X(PyExc_ImportError) X(PyExc_MemoryError) X(PyExc_OverflowError) X(PyExc_RuntimeError) X(PyExc_TypeError) X(PyExc_ValueError)

#define FUNCTION(result, name, parameters) result(*name) parameters;
#define OBJECT(name) py_object *name;
/* CPython's functions and objects. */
extern struct hologram_cpython {
  PYTHON_FUNCTIONS(FUNCTION)
  PYTHON_OBJECTS(OBJECT)
  PYTHON_EXCEPTIONS(OBJECT)
} py;
#undef FUNCTION
#undef OBJECT

static inline py_object *py_none(void) {
  py.Py_IncRef(py._Py_NoneStruct);
  return py._Py_NoneStruct;
}

/* What C leaves to Python: functions and tables that its modules put into the dictionary which hologram_python got. */
#define PYTHON_HOOKS(X)                                                                                         \
  X(allocate) X(default_executor) X(dtypes) X(empty) X(error) X(export) X(free) X(keyword) X(launch) X(numpy) X(operation) \
  X(probe) X(recording) X(renamed) X(stream) X(verify_torch) X(written)
#define HOOK(name) HOOK_##name,
typedef enum { PYTHON_HOOKS(HOOK) NUM_HOOKS } hook;
#undef HOOK

/* What a hook is now, borrowed; NULL if its module is not there, or with an exception. */
py_object *hologram_hook_of(hook h);

/* Calls a hook with a tuple of arguments, of which it takes the reference. NULL in place of it or of one in it stands for
   what could not be made: the exception of that stays. */
py_object *hologram_hook(hook h, py_object *arguments);

/* Adds builtins to a dictionary; the table ends with a name of NULL. -1 with an exception. */
int hologram_builtins(py_object *into, py_method *methods);

/* Calls the hook that is the Python function for which a method of C stands, with the method's arguments. */
py_object *hologram_again(hook h, py_object *self, py_object *const *args, ptrdiff_t n, py_object *keywords);

/* Offers a method of a base type to method(name, doc), by which Python puts it in place of its own of that name. */
void hologram_method(const char *name, py_object *of, void *function);

/* ---- work ---- */

/* A call into the library that may take long, in the C frame of its caller: nothing of it is kept for the thread, since
   signal handlers, finalizers and other threads call meanwhile. */
typedef struct work {
  struct work *next, **link;
  _Atomic hologram_event event;
  void *thread; /* what PyEval_SaveThread gave; NULL while the GIL is held */
  py_object **failure; /* of a callback's, which cancels the work; may be NULL */
  struct work *outer;  /* of the same thread: that whose waiting runs the signal handler which calls */
  bool raised;         /* a signal handler did, while the library was making a program */
  _Atomic bool parked; /* the interpreter ends, and what goes on is over */
} work;

/* Whether the interpreter has begun to finalize, after the functions of atexit. Without the GIL too. */
bool hologram_finalizing(void);

/* Lets the GIL go; false with an exception if the interpreter ends and goes on ending for a while: until then the thread
   waits, for ever if it has ended. So does work_end. Until that nothing of Python may be used. */
bool work_begin(work *w);

/* The same for work that has begun, which is to be ended even then. */
void work_continue(work *w);

/* Takes the GIL again, waits for the end of work that goes on (status HOLOGRAM_PENDING, w->event set), and lets signal
   handlers run meanwhile; what they raise cancels it. False with the exception, also of the status. */
bool work_end(work *w, int32_t status);

/* The same for a call that was made with the GIL held. */
bool work_check(int32_t status);

/* Cancels work that goes on, and waits for its end with the GIL held: what it works on is only lent until that is let go. */
void work_stop(hologram_event event);

/* Whether the interpreter ends. */
bool work_closing(void);

/* Raises the exception of a status from the thread's last error. */
void hologram_raise(int32_t status);

/* Drops what other threads found unused. */
void hologram_drop_orphans(void);

extern _Atomic(struct hologram_owner *) hologram_orphans;

static inline void hologram_drain(void) {
  if (atomic_load_explicit(&hologram_orphans, memory_order_relaxed)) hologram_drop_orphans();
}

/* Reads the environment, which Python's other threads change with the GIL, for devices that open hereafter. */
void hologram_hold_environment(void);

/* A reference that the library's deleter drops, from any thread and without the GIL. NULL with an exception. */
struct hologram_owner *hologram_own(py_object *object);
void hologram_disown(void *owner); /* the deleter */

/* ---- arguments of the generated builtins ---- */

enum { NATIVE_VIEWS = 4 };

typedef struct {
  const char *name;
  work work;
  py_buffer views[NATIVE_VIEWS];
  int num_views;
  int64_t sizes[2][HOLOGRAM_MAX_RANK + 1];
  int64_t *more[2]; /* where there are more */
  int num_sizes;
  hologram_scalar scalar;
  struct hologram_owner *owner;
} native;

bool native_count(native *c, ptrdiff_t given, ptrdiff_t expected);
bool native_i64(native *c, py_object *o, const char *name, int64_t *out);
bool native_i32(native *c, py_object *o, const char *name, int32_t *out);
bool native_size(native *c, py_object *o, const char *name, size_t *out);
bool native_u64(native *c, py_object *o, const char *name, uint64_t *out); /* or an object that has a handle */
bool native_text(native *c, py_object *o, const char *name, const char **out);
bool native_memory(native *c, py_object *o, const char *name, bool writable, void **out);
bool native_sizes(native *c, py_object *o, const char *name, const int64_t **out);
bool native_scalar(native *c, py_object *o, const char *name, const hologram_scalar **out);
bool native_owner(native *c, py_object *o, hologram_deleter *deleter_out, void **context_out);
/* Lets go of all that was taken. */
py_object *native_refused(native *c);
/* Ends a call that was made with or without the GIL; false with an exception. */
bool native_end(native *c, int32_t status, bool quick);
/* Bytes of text, which is freed. */
py_object *native_give_text(char *text, size_t size);

extern py_method hologram_generated[];

/* ---- objects ---- */

/* What Executor and Program derive from. */
typedef struct {
  py_object head;
  uint64_t handle;
  py_object *plan; /* of a program: how it is called */
  char freed, host_visible, asynchronous;
  int device_type, device_id; /* of an executor, as DLPack numbers them */
  struct {
    struct hologram_gate *gate; /* NULL if there is none */
    uint64_t asked;             /* the handle for which hologram_gate_of was asked */
  } gates[2];                   /* of an executor's own stream, and of the default stream that others have */
} py_handle;

/* What Buffer derives from. */
typedef struct {
  py_object head;
  uint64_t handle;
  py_object *executor, *dtype, *shape;
  py_object *tensor; /* of torch's, whose memory this is: its version is raised by what writes to the buffer; may be NULL */
  int64_t size;
  int32_t code; /* of the dtype */
  char freed, boolean;
  hologram_operand *seen; /* as memory of its device; NULL until hologram_buffer_seen was asked */
  uint64_t seen_at;       /* how many buffers had been freed by others then */
  hologram_loan loan;     /* of its memory, on a device that works by itself */
  uint8_t unlent, patience; /* how many calls came in vain since that was asked for, and how many have to before it is again */
} py_array;

extern struct hologram_types {
  py_object *executor, *program, *buffer;     /* the bases */
  py_object *an_executor, *a_program, *a_buffer; /* the classes */
} hologram_types;

/* What has a handle, from before the library gives it: freed when this is dropped, unless another object owns it by then. */
typedef enum {
  OWNED_none,
  OWNED_executor,
  OWNED_buffer,
  OWNED_program,
  OWNED_event,
  OWNED_lease,
  OWNED_profile,
  OWNED_mark,
  OWNED_stream
} owned;

typedef struct {
  py_object head;
  uint64_t handle; /* 0: there is none yet, or another object owns it */
  uint64_t of;     /* of a stream: its executor */
  owned kind;
} py_owner;

/* An owner that has no handle yet; NULL with an exception. */
py_owner *hologram_owner_new(owned kind);
bool hologram_is_owner(py_object *o);

/* Ends a call that makes what an owner, which it takes, has from then on: the owner, or NULL with an exception. */
py_object *native_made(native *c, int32_t status, bool quick, py_owner *made);
/* Lets go of all that was taken, and of an owner. */
py_object *native_unmade(native *c, py_owner *made);

/* Frees what an owner has, quietly. */
void hologram_owned_end(const py_owner *o);

/* Ends the deallocation of an object of a type that PyType_FromSpec made. */
void hologram_give_back(py_object *self);

bool hologram_is_executor(py_object *o);
bool hologram_is_program(py_object *o);
bool hologram_is_buffer(py_object *o);

/* Whether a buffer, or the executor that it belongs to, was freed. */
bool hologram_buffer_gone(const py_array *b);

/* A buffer as memory of its device, until something of Python runs; NULL if it is gone. Its handle is 0. */
const hologram_operand *hologram_buffer_seen(py_array *b);

/* Frees a buffer whose handle no other than the bindings had. */
void hologram_buffer_done(uint64_t handle);

/* The gate of an executor's stream, see direct.h; NULL if it has none. One of others has it once there was a call on it. */
struct hologram_gate *hologram_gate_of(py_handle *executor, uint64_t stream, bool called);

/* A Buffer of a shape that is not empty, on fresh memory. */
py_object *hologram_new_buffer(py_object *executor, py_object *shape, int64_t size, py_object *dtype, int32_t code, bool boolean,
                               int32_t flags);

/* An integer that is exactly an int and fits. */
bool hologram_exact(py_object *o, int64_t *out);

int hologram_work(py_object *into);
int hologram_objects(py_object *into);
int hologram_owners(py_object *into);
int hologram_modules(py_object *into);
int hologram_signatures(py_object *into);
int hologram_calls(py_object *into);
int hologram_plain(py_object *into);
int hologram_dlpack(py_object *into);
int hologram_futures(py_object *into);
int hologram_torch(py_object *into);
int hologram_numpy(py_object *into);
int hologram_interfaces(py_object *into);
int hologram_kernels(py_object *into);
int hologram_maps(py_object *into);
int hologram_updates(py_object *into);
int hologram_recordings(py_object *into);
int hologram_sequences(py_object *into);
int hologram_nodes(py_object *into);

#endif
