/* A call as it is put together in C: operands of all kinds, and how they are let go of again. */
#ifndef HOLOGRAM_PYTHON_CALL_H
#define HOLOGRAM_PYTHON_CALL_H

#include "dlpack.h"
#include "python.h"

/* With more operands, numbers or parameters than that Python puts the call together. */
enum { MAX_OPERANDS = 16, MAX_SCALARS = 16, MAX_PARAMS = 32 };

typedef struct {
  hologram_call_args args;
  hologram_operand operands[MAX_OPERANDS];
  hologram_scalar scalars[MAX_SCALARS];
  int64_t dims[HOLOGRAM_MAX_RANK];
  struct taken {
    py_object *object;      /* the caller holds it */
    const dl_exchange *api; /* of what is borrowed, or owned by owned */
    dl_versioned *owned;
    bool exported, torch, written;
  } taken[MAX_OPERANDS];
  py_buffer views[MAX_OPERANDS]; /* of those that are exported */
  int num_borrowed;
  int device_type, device_id; /* the executor's, on which tensors must be */
  bool changed; /* the work began, so written operands may have changed */
} request;

/* What came of an attempt: done, an exception, or something that C leaves to Python. */
typedef enum { DONE, FAILED, SURPRISE } outcome;

/* Begins a call on an executor. */
outcome request_begin(request *r, py_object *executor);

/* Takes the next operand. Borrowed tensors stay to be borrowed until request_borrow. */
outcome request_take(request *r, py_object *executor, py_object *o, bool written);

/* Borrows tensors. From here to the call nothing of Python may run. */
outcome request_borrow(request *r);

/* Makes the call and waits for its end; false with an exception. */
bool request_run(request *r, py_object *executor);

/* Lets go of all operands, with an exception set or, if fine, without; raises the versions of tensors that the work
   wrote. False with an exception. */
bool request_end(request *r, bool fine);

/* The number of elements of operand i. */
int64_t request_size(const request *r, int i);

#endif
