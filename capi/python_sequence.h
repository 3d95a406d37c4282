/* Calls of torch's tensors as they were seen, shared by what records them (python_record.c) and what makes them again
   (python_sequence.c). */
#ifndef HOLOGRAM_PYTHON_SEQUENCE_H
#define HOLOGRAM_PYTHON_SEQUENCE_H

#include "python_call.h"

enum { MAX_STEPS = 64, MAX_BASES = 64, MAX_TENSORS = 16 };

/* An operand of a call that was made. */
typedef struct {
  py_object *object; /* the tensor, counted, so that no other storage gets its address; NULL: a number, or nothing */
  char *storage;     /* where the tensor's begins */
  int number;        /* of the storage, in the order in which the recording met them */
  bool written, versioned; /* and its version was raised */
  hologram_operand view;
  uint64_t cell; /* of a number */
} operand;

/* A call that was made. */
typedef struct {
  hologram_call_args args;
  operand *operands;
  hologram_scalar scalars[MAX_SCALARS];
  int64_t dims[HOLOGRAM_MAX_RANK];
} step;

/* What a thread's calls are recorded in; spoiled by what can't be made again. Those of signal handlers and finalizers are
   among them. */
typedef struct recording {
  struct recording *before; /* of the same function, to be compared: the tensors are gone */
  int num_steps;
  bool spoiled, done;
  step steps[MAX_STEPS];
} recording;

/* Takes a range of calls of the recording from arguments; NULL with an exception. */
const recording *recording_range(native *c, py_object *from, py_object *to, int32_t *begin, int32_t *end);

/* A tensor that calls work on. */
typedef struct {
  py_object *object; /* not counted; NULL: None */
  char *storage, *data;
  int64_t bytes; /* from data on, that its elements take up */
  int32_t dtype; /* ours; 0 for bools */
  glance look; /* without shape and strides */
  int64_t shape[HOLOGRAM_MAX_RANK], strides[HOLOGRAM_MAX_RANK];
} base;

/* Looks at some tensors, None among them; false if they can't be told apart, or are no such memory, or with an exception that is
   no error, as of Ctrl-C. */
bool bases_look(base *all, py_object *tensors, int n);

/* The number of the tensor in a storage, or -1. */
int bases_find(const base *all, int n, const char *storage);

/* How many bytes the elements of a view take up from its first, or -1 if one lies before that. */
int64_t view_extent(const hologram_operand *o);

/* Whether an object is a table of sequences; and a call of one: (executor, inputs…). */
bool sequence_is(py_object *o);
py_object *sequence_call(py_object *table, py_object *const *args, ptrdiff_t n);

/* Holds a table to taking so many inputs and giving so many results; false if it has others. */
bool sequence_promise(py_object *table, int inputs, int results);

/* What a node that a call with n inputs leads to makes of it; NULL, with an exception or without, of what is left to
   Python. */
py_object *node_record(py_object *answer, py_object *const *inputs, int n);

#endif
