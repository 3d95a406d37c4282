/* A call as it is put together in C: operands of all kinds, and how they are let go of again. */
#ifndef HOLOGRAM_PYTHON_CALL_H
#define HOLOGRAM_PYTHON_CALL_H

#include "dlpack.h"
#include "python.h"

/* With more operands, numbers or parameters than that Python puts the call together. */
enum { MAX_OPERANDS = 16, MAX_SCALARS = 16, MAX_PARAMS = 32 };

/* What came of an attempt: done, an exception, or something that C leaves to Python. */
typedef enum { DONE, FAILED, SURPRISE } outcome;

/* Where an operand is from. */
typedef struct {
  py_object *object;      /* the caller holds it */
  const dl_exchange *api; /* of what is borrowed, or owned by owned */
  dl_versioned *owned;
  uint64_t stream; /* of memory that CUDA's array interface showed: on which its owner works now; else 0 */
  int64_t offset; /* of a tensor of torch's: elements from where its storage begins */
  py_object *version; /* the tensor of torch's that is written, counted */
  bool exported, torch, held;
  bool written;
  bool view; /* the operand is one of the tensor's own making, and stays as it is */
} taken;

/* A fresh array like another of torch's or CuPy's, and of its type or, if dtype is not negative, of that, 0 for bools; NULL if
   it can't be made, with an exception or without. It runs Python. */
py_object *result_empty(py_object *like, int32_t dtype, const int64_t *shape, int rank);

/* An array of numpy's as an operand; see python_numpy.c. SURPRISE if it is to be taken as other exporters are. */
outcome numpy_take(hologram_operand *to, py_object *array);

/* An array of numpy's of a shape and a dtype, 0 for bools; NULL if it can't be made, with an exception or without. strides, in
   elements, are those of dense memory; NULL: row-major. */
py_object *numpy_empty(const int64_t *shape, int rank, int32_t dtype, const int64_t *strides);

/* How torch is asked about its tensors, see python_torch.c. */
typedef struct {
  outcome (*first)(taken *t);                   /* all that may run Python, of a tensor to be borrowed */
  outcome (*borrow)(taken *t, dl_tensor *out);  /* describes the memory, if that may be used as it is, and sets t->offset */
  outcome (*wrote)(py_object *tensor);          /* raises its version */
  /* A fresh tensor on the device of another, and of its type or, if dtype is not negative, of that, 0 for bools; NULL if it
     can't be made, with an exception or without. */
  py_object *(*empty)(py_object *like, int32_t dtype, const int64_t *shape, int rank);
} torch_way;

typedef struct {
  hologram_call_args args;
  py_object *executor; /* NULL: to be chosen by what the operands are */
  hologram_operand operands[MAX_OPERANDS];
  hologram_scalar scalars[MAX_SCALARS];
  int64_t dims[HOLOGRAM_MAX_RANK];
  taken taken[MAX_OPERANDS];
  py_buffer views[MAX_OPERANDS]; /* of those that are exported */
  int num_borrowed, num_torch; /* of these, torch's tensors, */
  const torch_way *torch;      /* and the way that they were asked last */
  int num_versions;
  int device_type, device_id; /* the executor's, on which tensors must be */
  bool changed; /* the work began, so written operands may have changed */
  int32_t ordered; /* HOLOGRAM_ORDERED, or 0: a flag of the call */
  py_object *stream; /* that the caller names; NULL: none */
  bool streamed;     /* it is found: the number is stream_number */
  uint64_t stream_number;
  uint32_t transposed; /* bit i: operand i's last two dimensions change places */
  uint32_t numbers; /* bit i: operand i is one of Python's, */
  uint64_t cells[MAX_OPERANDS]; /* and room for it */
  uint64_t cell; /* room for a result that is a number */
} request;

/* Begins a call on an executor, or on none yet; it may run Python. */
outcome request_begin(request *r, py_object *executor);

/* The same, that runs nothing. */
outcome request_reset(request *r, py_object *executor);

/* Describes a tensor of torch's on the request's device, while nothing redirects torch's functions: that runs nothing of Python.
   False of what is another, or to be asked for. */
bool request_lent(const request *r, py_object *tensor, hologram_operand *to);

/* Puts the call on an executor. */
outcome request_on(request *r, py_object *executor);

/* What a call does with an operand; what is FRESH is written, and nobody else has seen it. */
typedef enum { READ, WRITTEN, FRESH } use;

/* An array of CuPy's as an operand of a request, and the stream on which CuPy works now. */
outcome interface_take(const request *r, hologram_operand *to, py_object *array, uint64_t *stream);

/* Takes the next operand. Borrowed tensors stay to be borrowed until request_borrow. */
outcome request_take(request *r, py_object *o, use u);

/* Borrows tensors. From its return to the call nothing of Python may run. Without an executor tensors of all devices are
   borrowed, to be looked at: then the call goes on a default one for the first operand's device. */
outcome request_borrow(request *r);

/* Makes what an operation is to write, of the kind of operand first, which is no number; it may run Python, so tensors are to
   be borrowed anew. What is made element by element has the shape that the operands broadcast to, and is of bools or of the type of
   operand like, -1: there is none; else hologram_result says what it is, or if row it is that without the first dimension. */
outcome request_result(request *r, int elements, int first, int like, bool row, py_object **made);

/* Makes an array of the kind of an operand, dtype 0 being bools; it may run Python. */
outcome request_make(request *r, int first, int32_t dtype, const int64_t *shape, int rank, const int64_t *strides, py_object **made);

/* Makes room for a result that is a number the next operand: the call's cell or, where the device does not write there or
   the number is to be read later, a Buffer; it may run Python then, so tensors are to be borrowed anew. */
outcome request_cell(request *r, bool later, py_object **made);

/* A number of Python's for one of numpy's, which has memory; NULL, with an exception or without, for what else there is. */
py_object *scalar_number(py_object *o);

/* A number of Python's of an element's bytes. */
py_object *hologram_number_of(int32_t dtype, const void *at);

/* Takes the next number. */
outcome request_scalar(request *r, py_object *o);

/* Whether an object is a number of Python's, which may stand for an array. */
bool number_is(py_object *o);

/* Takes a number as the next operand. It stays to be made an array by request_numbers. */
outcome request_number(request *r, py_object *o);

/* Makes arrays of the numbers, of a dtype: of no dimensions, or of n elements if n is not negative. */
outcome request_numbers(request *r, int32_t dtype, int64_t n);

/* Takes the next size. */
outcome request_dim(request *r, int64_t size);

/* The number of dimensions of operand i, which is taken and borrowed, and no number. */
int request_rank(const request *r, int i);

/* Lets the last two dimensions of operand i, which is taken, change places. */
void request_transpose(request *r, int i);

/* The shape of operand i, which is taken and borrowed, and no number. */
outcome request_shape(const request *r, int i, int64_t *shape, int *rank);

/* The strides of the order in which the operands of a result's shape all lie, as numpy keeps it, and none with gaps; NULL:
   row-major. What is broadcast has no say. */
const int64_t *result_order(const request *r, const int64_t *shape, int rank);

/* Whether two shapes are the same. Here, since most operands' are, and need not be joined then. */
static inline bool result_same_shape(const int64_t *a, int rank, const int64_t *b, int other_rank) {
  int k = 0;
  while (rank == other_rank && k < rank && a[k] == b[k]) k++;
  return rank == other_rank && k == rank;
}

/* Broadcasts a shape with another one, as numpy does; false if they don't. */
bool result_join(int64_t *shape, int *rank, const int64_t *other, int other_rank);

/* Whether an array's elements fill its memory, in whatever order of its dimensions. */
bool result_dense(const hologram_operand *o);

/* A shape as a tuple; NULL with an exception. */
py_object *result_shape(const int64_t *shape, int rank);

/* Makes operand i, a borrowed tensor, owned, so that it lasts when the GIL goes. */
outcome request_own(request *r, int i);

/* Makes the call and waits for its end; false with an exception. */
bool request_run(request *r);

/* Tells autograd that up to MAX_OPERANDS tensors were written, by their versions; false with an exception. */
bool tensors_written(const torch_way *torch, py_object *const *tensors, int all);

/* Lets go of all operands, with an exception set or, if fine, without; raises the versions of tensors that the work
   wrote. False with an exception. */
bool request_end(request *r, bool fine);

/* What to do about a producer's exception, which is set or not: it is Python's to say again, unless it is no error at all. */
outcome operand_refused(void);

/* The way to ask now; of what it has only first may run Python. */
const torch_way *torch_asked(void);

/* Whether torch says directly that nothing redirects its functions in this thread: no mode, transform, tracing, and if that
   matters no autocast. */
bool torch_usual(bool autocast);

/* What decides which results a tensor of torch's leads to; type is torch's number of it, below 64. */
typedef struct {
  int32_t type;
  int64_t rank, *shape, *strides; /* the tensor's own */
  bool in_order;
} glance;

/* Looks at a tensor of torch's while torch_usual holds; false of what has no sizes and strides. */
bool torch_glance(py_object *tensor, glance *to);

/* DONE of a tensor of torch's own, SURPRISE of what else there is; asking about a type that is new runs Python. */
outcome torch_is(py_object *o);

/* The same of a dense tensor that is no negative view, and torch's numbers of its device; false of others. */
bool torch_look(py_object *tensor, glance *to, int32_t *device, int32_t *index);

/* The addresses that a tensor's elements take up, from one on to another; false if they are no multiples of an element's size,
   this is not known yet, or there is no memory. */
bool torch_range(py_object *tensor, const glance *look, uintptr_t *from, uintptr_t *to);

/* The f32 that a tensor of torch's is, of no dimensions, on the host, with a version and without a gradient; NULL of others. */
float *torch_number(py_object *tensor);

/* Whether a call with a tensor of torch's, of which torch_usual holds, is to be recorded for autograd. */
bool torch_recorded(py_object *tensor);

/* Keeps what "probe" answered of a type of torch's, with its exchange API, and verifies the ways to ask when called first;
   usable is set if its tensors can be asked at all. */
outcome torch_found(py_object *answer, const dl_exchange *api, bool *usable);

/* Whether torch records gradients in this thread, or does not say. */
bool torch_recording(void);

/* Whether a tensor of torch's has memory: what a transform that has ended left has not. */
bool torch_has_memory(py_object *tensor);

/* The number of elements of operand i. */
int64_t request_size(const request *r, int i);

/* Notes a call that was made, where its thread records such; and that something was done that can't be recorded. */
void sequence_note(const request *r);
void sequence_spoil(void);

/* How an operation or a program is called: an object that is the self of an operation's builtin, or a program's plan. */
typedef struct {
  py_object head;
  py_method method;
  int32_t op;     /* -1: a program */
  int form;       /* of the sizes, see below */
  enum { ASKED, ALIKE, BOOLS } elements; /* what is made element by element: of the operands' one type, or bools */
  bool numbers;     /* may stand for arrays that are read, but not for masks */
  bool reduces;   /* without an array for it, and axes, the result is a number; an array for it is returned */
  bool result;    /* element 0 of the last operand, given by position, is returned */
  bool bools;     /* bools may be written: the library looks whether of bools */
  int boundary;   /* of a program: the slot that need not be bound; -1 if there is none */
  bool careful;   /* of a program: C leaves all its launches to Python */
  int num_params, positional;
  int at_n, at_axes, at_keepdims, at_output; /* parameters of kinds n, a, k and o; 0: there is none */
  struct param {
    py_object *name;
    /* x executor, r operand, b one that is a mask, w operand that is written, v one that is made
       if it is left out, o the last of these, s scalar, d size of a matrix, f flag, n optional size, m size of a product, which
       arrays' shapes have if it is left out, as they have d, a axes, k whether these are kept */
    char kind;
    bool operand; /* r, b, w or o */
    bool counted; /* an operand whose elements n is the least of; a scalar that needs the output */
    bool optional;
    double value;
  } params[MAX_PARAMS];
} signature;

/* Forms of sizes: those that are given; n, or the least number of elements of the counted operands; 1 and that. */
enum { GIVEN = 0, COUNT = 1, ONE_ROW = 2 };

/* Puts arguments where their parameters are, NULL for those not given; false with a TypeError. An executor may be left out
   where others begin. Positional receives how many, the executor counted, are by position, and out what is given for the
   array that is written as "out", as numpy calls it: who calls gets it back; else NULL. stream receives what is given by
   that name, which no operation has for another parameter, or NULL. */
bool signature_bind(const signature *s, py_object *const *args, ptrdiff_t n, py_object *keywords, py_object **values,
                    ptrdiff_t *positional, py_object **out, py_object **stream);

/* Whether an object is the signature of an operation. */
bool signature_is(py_object *o);

/* The builtin of an operation, whose self is its signature. */
py_object *hologram_operation(py_object *self, py_object *const *args, ptrdiff_t n, py_object *keywords);

/* The same, which waits for no number: number is set where the result is a Buffer that a number is to be read of. */
py_object *hologram_operation_later(py_object *self, py_object *const *args, ptrdiff_t n, py_object *keywords, bool *number);

#endif
