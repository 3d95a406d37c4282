/* Status codes. Everything but HOLOGRAM_OK and HOLOGRAM_PENDING is an error, of which hologram_last_error tells more. */
enum {
  HOLOGRAM_OK = 0,
  HOLOGRAM_PENDING = 1,       /* the work goes on: wait for the event that the call gave, then free it */
  HOLOGRAM_INVALID = 2,       /* an argument has a value that cannot be */
  HOLOGRAM_BAD_TYPE = 3,      /* an argument has the wrong dtype or kind */
  HOLOGRAM_BAD_HANDLE = 4,    /* a handle is null, freed, forged or of another kind */
  HOLOGRAM_OUT_OF_MEMORY = 5, /* the device's memory, its limit or the executor's quota is used up */
  HOLOGRAM_SYNTAX = 6,        /* the text or bytes of a program are wrong */
  HOLOGRAM_UNVERIFIED = 7,    /* a program breaks a rule of the verifier */
  HOLOGRAM_FAULT = 8,         /* a launch ran to its end, and a lane did what it must not; see hologram_last_fault */
  HOLOGRAM_CANCELLED = 9,     /* a launch was cancelled before its end */
  HOLOGRAM_UNAVAILABLE = 10,  /* a backend is not there, or cannot do what was asked */
  HOLOGRAM_FORKED = 11,       /* this process is a fork's child: only an exec'd one can use the library */
  HOLOGRAM_INTERNAL = 12,     /* a defect of Hologram */
  HOLOGRAM_BUSY = 13,         /* with HOLOGRAM_TRY: the call would have to wait; nothing has happened; call without it */
  HOLOGRAM_LOST = 14          /* the device is of no more use to this process: only a new one can work on it */
};

/* Element types. */
enum {
  HOLOGRAM_I8 = 1,
  HOLOGRAM_I16 = 2,
  HOLOGRAM_I32 = 3,
  HOLOGRAM_I64 = 4,
  HOLOGRAM_U8 = 5,
  HOLOGRAM_U16 = 6,
  HOLOGRAM_U32 = 7,
  HOLOGRAM_U64 = 8,
  HOLOGRAM_F16 = 9,
  HOLOGRAM_BF16 = 10,
  HOLOGRAM_F32 = 11,
  HOLOGRAM_F64 = 12
};

/* Kinds of faults. */
enum {
  HOLOGRAM_FAULT_ACCESS = 1, /* access outside a buffer, shared memory, table or scratch */
  HOLOGRAM_FAULT_DIVIDE = 2, /* integer division or remainder by zero */
  HOLOGRAM_FAULT_FUEL = 3,   /* the lane ran out of fuel */
  HOLOGRAM_FAULT_CLASS = 4,  /* class of 96 or more, or page of 48 or more */
  HOLOGRAM_FAULT_HANDLE = 5  /* slot number or pool handle that names nothing */
};

enum {
  HOLOGRAM_MAX_RANK = 8,     /* dimensions of a view or an index space */
  HOLOGRAM_NUM_CLASSES = 96, /* length of call_args' residue */
  HOLOGRAM_MAX_NAME = 255    /* bytes of a name in a program, without the final NUL */
};

/* Flags. */
enum {
  HOLOGRAM_UNINITIALIZED = 1, /* buffer_allocate: do not zero the memory */
  HOLOGRAM_READ_ONLY = 2,     /* buffer_wrap, operand: refuse the memory as an output */
  HOLOGRAM_BOOL = 4,          /* operand: its u8 are bools, of which an operation must make no others than 0 and 1 */
  HOLOGRAM_TRY = 8,           /* call, buffer_allocate: return HOLOGRAM_BUSY rather than wait for anything */
  HOLOGRAM_NUMBER = 16,       /* operand: a number, for all elements of a shape, that the call copies from the host */
  HOLOGRAM_ORDERED = 32,      /* call: who owns the memory of others uses and frees it in the order of stream */
  HOLOGRAM_TRANSPOSED = 64    /* operand: a matrix or stack of them, whose last two dimensions change places */
};

/* Flags of hologram_buffer_transfer. */
enum {
  HOLOGRAM_TO_HOST = 1, /* copy from the buffer to the host */
  HOLOGRAM_LATER = 2    /* return HOLOGRAM_PENDING at once, with the copy's event, unless it is over */
};

/* Kinds of places, of hologram_executor_locate. */
enum {
  HOLOGRAM_PLACE_ELSEWHERE = 0, /* nothing that the device knows of, as most of the host's memory is */
  HOLOGRAM_PLACE_LOCKED = 1,    /* the host's memory that does not move, which copies take in place */
  HOLOGRAM_PLACE_DEVICE = 2     /* a device's */
};

/* In the number of dims that stands for axes, beside a bit for each. */
enum { HOLOGRAM_KEEP_DIMS = 1 << 16 };

/* What hologram_program_text gives. */
enum {
  HOLOGRAM_TEXT_DISASSEMBLY = 0, /* the program's text form */
  HOLOGRAM_TEXT_BINARY = 1,      /* the program's binary form */
  HOLOGRAM_TEXT_CANONICAL = 2,   /* a readable dump of the canonical form */
  HOLOGRAM_TEXT_NAME = 3,        /* the program's name */
  HOLOGRAM_TEXT_ANALYSIS = 4     /* what is known of the program before any launch, to read */
};

/* Structures of which a caller has or gets one start with size, their own in bytes, which the caller sets: a later
   library knows by it how much of the structure there is. */

/* Objects are handles; 0 is none. A handle that was freed is told from all later ones. */
typedef uint64_t hologram_executor;
typedef uint64_t hologram_buffer;
typedef uint64_t hologram_program;
typedef uint64_t hologram_event;
typedef uint64_t hologram_lease;
typedef uint64_t hologram_profile;
typedef uint64_t hologram_mark;

/* Called when memory that was wrapped is no longer used; from any thread. */
typedef void (*hologram_deleter)(void *context);

/* Asked by calls that wait for a program to be assembled, verified, brought to its canonical form or compiled: every 20
   ms, on the thread that called. Not 0 ends the call with HOLOGRAM_CANCELLED and nothing done. It may use the library. */
typedef int32_t (*hologram_interrupt)(void);

/* Receives a line of text, size bytes of UTF-8 without a final NUL. */
typedef void (*hologram_line)(void *context, const char *text, size_t size);

/* A number. HOLOGRAM_I64, _U64 and _F64 are converted to the type wanted, if it can hold them; others must be of it.
   bits is the value's bit pattern, in the low bits, the others zero. */
typedef struct hologram_scalar {
  int32_t dtype;
  uint64_t bits;
} hologram_scalar;

/* The place and kind of a fault. line is 1-based, 0 where the program has no text. */
typedef struct hologram_fault {
  uint32_t size;
  int32_t kind;
  int32_t instruction;
  int32_t line;
  uint64_t lane;
} hologram_fault;

/* How memory was short, in bytes: what was asked for, what was left to be taken within the device's limit or the
   executor's, and what the device kept for reuse nevertheless. asked is 0 if the last error was another. */
typedef struct hologram_shortage {
  uint32_t size;
  int64_t asked;
  int64_t left;
  int64_t cached;
} hologram_shortage;

/* Where memory lies: a kind of place, of a device its number as DLPack has it, and the bytes from the address to the end
   of what was allocated, 0 if that is not known. */
typedef struct hologram_place {
  uint32_t size;
  int32_t kind;
  int32_t device_id;
  int64_t bytes;
} hologram_place;

/* A backend as "hologram info" shows it. reason says why it is not available. */
typedef struct hologram_backend_info {
  uint32_t size;
  char name[32];
  char device[128];
  char reason[512];
  int32_t available;
  int32_t host_visible;
  int32_t asynchronous;
  int32_t threads;
  int64_t memory_bytes;
  int32_t num_devices; /* of which the first is described; 0 if it is not available */
} hologram_backend_info;

/* An executor. used and quota are the bytes of its buffers and their bound (0: none). memory_bytes, processors, which run
   blocks beside each other, and capability, CUDA's as 10 · major + minor, are the device's; 0: not known, or it has none. */
typedef struct hologram_executor_info {
  uint32_t size;
  char backend[32];
  char device[128];
  int32_t host_visible;
  int32_t asynchronous;
  int32_t threads;
  int64_t used;
  int64_t quota;
  int32_t dlpack_type; /* of its memory, as DLPack numbers devices; 0: it is not shared so */
  int32_t dlpack_id;
  int64_t memory_bytes;
  int32_t processors;
  int32_t capability;
} hologram_executor_info;

/* The memory of an executor's device, in bytes, and the number of allocations. */
typedef struct hologram_memory_stats {
  uint32_t size;
  int64_t in_use;
  int64_t cached;
  int64_t reserved;
  int64_t peak;
  int64_t limit;
  int64_t allocations;
  int64_t reused;
} hologram_memory_stats;

/* The cache of compiled kernels of an executor's device. */
typedef struct hologram_kernel_stats {
  uint32_t size;
  int64_t entries;
  int64_t limit;
  int64_t hits;
  int64_t misses;
  int64_t evictions;
} hologram_kernel_stats;

/* A buffer. data is the address of element 0 in the device's memory; strides are in elements; class_index is -1
   unless the buffer is on the boundary pool. */
typedef struct hologram_buffer_info {
  uint32_t size;
  void *data;
  int64_t length;
  int64_t bytes;
  int32_t dtype;
  int32_t element_size;
  int32_t rank;
  int32_t contiguous;
  int32_t read_only;
  int32_t class_index;
  int32_t host_visible;
  int32_t freed;
  int64_t shape[HOLOGRAM_MAX_RANK];
  int64_t strides[HOLOGRAM_MAX_RANK];
} hologram_buffer_info;

/* A program. block is the block shape that it demands, zeros for any; residue says whether it uses RES_ACCUM. */
typedef struct hologram_program_info {
  uint32_t size;
  int32_t slots;
  int32_t params;
  int32_t instructions;
  int32_t residue;
  int64_t shared_bytes;
  uint32_t block[3];
  uint8_t hash[32];
} hologram_program_info;

/* A slot or a parameter of a program. The last four are a slot's: how the program uses it. */
typedef struct hologram_operand_info {
  uint32_t size;
  char name[HOLOGRAM_MAX_NAME + 1];
  int32_t dtype;
  int32_t reads;
  int32_t writes;
  int32_t indexed;
  int32_t bytes;
} hologram_operand_info;

/* An array of a call: a buffer of ours, whose other fields but HOLOGRAM_BOOL and
   HOLOGRAM_TRANSPOSED are then not looked at, or memory of others: data is the address of element 0, strides are in elements, and device_type and device_id are DLPack's:
   the executor's, or (1, 0), the host's, where its device sees that. With HOLOGRAM_NUMBER, data is the address of one
   element in the host's memory, which is read before the call returns, whatever the device sees; strides are 0 then, and
   nothing may write it. Neither, which is buffer 0 and rank -1, stands for a boundary slot that is not bound. */
typedef struct hologram_operand {
  hologram_buffer buffer;
  void *data;
  int32_t dtype;
  int32_t rank;
  int32_t flags;
  int32_t device_type;
  int32_t device_id;
  int64_t shape[HOLOGRAM_MAX_RANK];
  int64_t strides[HOLOGRAM_MAX_RANK];
} hologram_operand;

/* A call of operation number op, or if op is -1 a launch of program.

   operands are the operation's, in order, or one for each slot; scalars the operation's numbers, or one for each
   parameter. dims are the operation's sizes (of an elementwise one n or nothing; of one with axes a number in which bit i
   says that a row lies along dimension i of the first operand), or the index space: without it, which
   num_dims -1 says, it is what the operands accessed by [index] broadcast to. grid and block, of a launch, may be zeros:
   a block then is the program's own or (256, 1, 1), and the grid covers the index space. fuel is the steps that a lane
   may take, 0 for no limit. residue, which may be NULL, receives 96 sums; first, which may be NULL, in
   its low bytes element 0 of the last operand, which the host must see and no later work may write until the event is
   done.

   stream is that on which the memory of others is ready, as its platform numbers it; 0 for none. deleter is called once
   with context, from any thread, when nobody uses the memory of others any more, whatever the call returns but
   HOLOGRAM_BUSY and what it says of a wrong size or a NULL. Without it that memory must last until the call, or its
   event, is done, so that an asynchronous device waits; unless flags have HOLOGRAM_ORDERED, with which nobody is told
   and nobody waits, and what the owner does to that memory comes behind the call on stream. What the other pointers lead
   to is read before the call returns, but for residue and first, which stay as they are until the work is done. */
typedef struct hologram_call_args {
  uint32_t size;
  int32_t op;
  hologram_program program;
  const hologram_operand *operands;
  const hologram_scalar *scalars;
  const int64_t *dims;
  int32_t num_operands;
  int32_t num_scalars;
  int32_t num_dims;
  int32_t flags;
  uint32_t grid[3];
  uint32_t block[3];
  uint64_t fuel;
  uint64_t *residue;
  uint64_t stream;
  hologram_deleter deleter;
  void *context;
  uint64_t *first;
} hologram_call_args;
