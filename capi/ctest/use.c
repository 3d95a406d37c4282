/* A program that uses the library as a C caller would: executor, buffers, a program from text, its launch, operations,
   memory of its own, errors and faults. */
#include "hologram.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

static void show(const char *what, int32_t status) {
  char text[512];
  size_t size;
  hologram_last_error(text, sizeof text, &size);
  fprintf(stderr, "%s: status %d: %.*s\n", what, (int)status, (int)(size < sizeof text ? size : sizeof text), text);
  failures++;
}

/* Waits for work that goes on. */
static int32_t finish(int32_t status, hologram_event event) {
  if (status != HOLOGRAM_PENDING) return status;
  do status = hologram_event_wait(event, 100);
  while (status == HOLOGRAM_PENDING);
  hologram_event_free(event);
  return status;
}

#define TRY(call)                                             \
  do {                                                        \
    hologram_event event = 0;                                 \
    int32_t status_ = call;                                   \
    status_ = finish(status_, event);                         \
    if (status_ != HOLOGRAM_OK) show(#call, status_);         \
  } while (0)

#define EXPECT(condition)                                     \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: not %s\n", __LINE__, #condition); \
      failures++;                                             \
    }                                                         \
  } while (0)

static int contains(const char *word) {
  char text[8192];
  size_t size;
  hologram_last_error(text, sizeof text - 1, &size);
  text[size < sizeof text ? size : sizeof text - 1] = 0;
  return strstr(text, word) != NULL;
}

static int asked;
static int32_t interrupt(void) {
  asked++;
  return 1;
}

static int deleted;
static void deleter(void *context) { *(int *)context = 1; }

static const char text[] =
    "program axpy\n"
    "slot x f32\n"
    "slot y f32\n"
    "param alpha f32\n"
    "  ldg.f32 u, x[index]\n"
    "  ldg.f32 v, y[index]\n"
    "  ldp.f32 k, alpha\n"
    "  fma.f32 v, k, u, v\n"
    "  stg.f32 v, y[index]\n"
    "  exit\n";

/* An operand that is a buffer, and one that is memory of our own. */
static hologram_operand of(hologram_buffer buffer) {
  hologram_operand o = {0};
  o.buffer = buffer;
  return o;
}

static hologram_operand floats(float *data, int64_t n) {
  hologram_operand o = {0};
  o.data = data;
  o.dtype = HOLOGRAM_F32;
  o.rank = 1;
  o.device_type = 1;
  o.shape[0] = n;
  o.strides[0] = 1;
  return o;
}

/* The number of an operation, from the descriptions. */
static int32_t number_of(const char *name) {
  static char text[1 << 16];
  char wanted[64];
  const char *at;
  size_t size = 0;
  TRY(hologram_ops(text, sizeof text - 1, &size));
  EXPECT(size < sizeof text);
  snprintf(wanted, sizeof wanted, "\"name\":\"%s\"", name);
  at = strstr(text, wanted);
  if (!at) return -1;
  while (at > text && strncmp(at, "{\"number\":", 10) != 0) at--;
  return (int32_t)strtol(at + 10, NULL, 10);
}

static void count(void *context) { ++*(int *)context; }

/* Whatever refuses a call, the deleter of its memory is called once; but where the call says of a wrong size or a NULL. */
static void refusals(hologram_executor ex, hologram_buffer buffer, float *own, int64_t n) {
  hologram_operand operands[3];
  hologram_call_args args;
  hologram_event event = 0;
  hologram_executor gone = 0;
  int told;
  TRY(hologram_executor_new("cpu", &gone));
  TRY(hologram_executor_free(gone));
#define REFUSED(change, executor, event_out, code, times)                                      \
  do {                                                                                         \
    args = (hologram_call_args){.size = sizeof args, .op = number_of("vector_add"),            \
                                .operands = operands, .num_operands = 3, .num_dims = -1,       \
                                .deleter = count, .context = &told};                           \
    operands[0] = operands[1] = operands[2] = floats(own, n);                                  \
    told = 0;                                                                                  \
    change;                                                                                    \
    EXPECT(finish(hologram_call(executor, &args, event_out), event) == code && told == times); \
  } while (0)
  REFUSED((void)0, ex, &event, HOLOGRAM_OK, 1);
  REFUSED((void)0, gone, &event, HOLOGRAM_BAD_HANDLE, 1);
  REFUSED((void)0, (hologram_executor)buffer, &event, HOLOGRAM_BAD_HANDLE, 1);
  REFUSED(args.op = 12345, ex, &event, HOLOGRAM_INVALID, 1);
  REFUSED(args.op = -1; args.program = 12345, ex, &event, HOLOGRAM_BAD_HANDLE, 1);
  REFUSED(args.flags = 1024, ex, &event, HOLOGRAM_INVALID, 1);
  REFUSED(args.num_operands = -1, ex, &event, HOLOGRAM_INVALID, 1);
  REFUSED(args.num_operands = 2, ex, &event, HOLOGRAM_INVALID, 1);
  REFUSED(args.num_scalars = -1, ex, &event, HOLOGRAM_INVALID, 1);
  REFUSED(args.num_dims = -2, ex, &event, HOLOGRAM_INVALID, 1);
  REFUSED(operands[0] = of(12345), ex, &event, HOLOGRAM_BAD_HANDLE, 1);
  REFUSED(operands[1].rank = 9, ex, &event, HOLOGRAM_INVALID, 1);
  REFUSED(operands[1].dtype = 13, ex, &event, HOLOGRAM_BAD_TYPE, 1);
  REFUSED(operands[1].dtype = HOLOGRAM_I32, ex, &event, HOLOGRAM_BAD_TYPE, 1);
  REFUSED(operands[2].flags = HOLOGRAM_READ_ONLY, ex, &event, HOLOGRAM_INVALID, 1);
  REFUSED(operands[2] = floats(own + 1, n - 1), ex, &event, HOLOGRAM_INVALID, 1);
  REFUSED(args.size = 8, ex, &event, HOLOGRAM_INVALID, 0);
  REFUSED((void)0, ex, NULL, HOLOGRAM_INVALID, 0);
#undef REFUSED
}

int main(void) {
  enum { N = 1000 };
  static float values[N], own[N];
  hologram_executor ex = 0;
  hologram_buffer x = 0, y = 0, mine = 0;
  hologram_program axpy = 0, wrong = 0;
  hologram_scalar alpha = {HOLOGRAM_F32, 0x40000000}, whole = {HOLOGRAM_I64, 3}; /* 2.0 and 3 */
  hologram_operand operands[3];
  hologram_call_args args = {0};
  hologram_event event = 0;
  hologram_buffer_info info;
  hologram_program_info about;
  int64_t shape[1] = {N};
  int32_t add, status;
  int i, told = 0;

  EXPECT(hologram_abi_version() == 2);
  TRY(hologram_executor_new("cpu", &ex));
  TRY(hologram_buffer_allocate(ex, N, HOLOGRAM_F32, 0, &x));
  TRY(hologram_buffer_allocate(ex, N, HOLOGRAM_F32, HOLOGRAM_UNINITIALIZED, &y));
  for (i = 0; i < N; i++) values[i] = (float)i;
  TRY(hologram_buffer_write(x, 0, sizeof values, values, &event));
  TRY(hologram_buffer_fill(y, &whole, &event));

  /* A program from text. */
  TRY(hologram_program_assemble("axpy.atlas", text, strlen(text), &axpy));
  about.size = sizeof about;
  TRY(hologram_program_describe(axpy, &about));
  EXPECT(about.slots == 2 && about.params == 1 && about.instructions == 6 && about.size == sizeof about);
  operands[0] = of(x);
  operands[1] = of(y);
  args.size = sizeof args;
  args.op = -1;
  args.program = axpy;
  args.operands = operands;
  args.num_operands = 2;
  args.scalars = &alpha;
  args.num_scalars = 1;
  args.num_dims = -1;
  TRY(hologram_call(ex, &args, &event));
  TRY(hologram_buffer_read(y, 0, sizeof values, values, &event));
  for (i = 0; i < N; i++) EXPECT(values[i] == 2 * (float)i + 3);

  /* An index space of no dimensions has one lane, and is not what the arrays broadcast to. */
  args.num_dims = 0;
  EXPECT(hologram_call(ex, &args, &event) == HOLOGRAM_INVALID && contains("slot x"));
  operands[0] = operands[1] = floats(own, N);
  operands[0].rank = operands[1].rank = 0;
  own[0] = 5;
  TRY(hologram_call(ex, &args, &event));
  EXPECT(own[0] == 2 * 5 + 5 && own[1] == 0);
  operands[0] = of(x);
  operands[1] = of(y);
  args.num_dims = -1;

  /* Operations, on memory of our own: wrapped, and as it is. */
  TRY(hologram_buffer_wrap(ex, own, HOLOGRAM_F32, 1, shape, NULL, 0, deleter, &deleted, &mine));
  EXPECT((add = number_of("vector_add")) == 0);
  args.op = add;
  operands[2] = of(mine);
  args.num_operands = 3;
  args.num_scalars = 0;
  TRY(hologram_call(ex, &args, &event));
  TRY(hologram_executor_synchronize(ex, &event));
  for (i = 0; i < N; i++) EXPECT(own[i] == 3 * (float)i + 3);

  /* The same once more, profiled. */
  {
    static char trace[1 << 16];
    hologram_profile profile = 0, none = 0;
    int64_t under_way = 1;
    size_t size = 0;
    EXPECT(hologram_profile_start(-1, &none) == HOLOGRAM_INVALID && contains("limit is -1") && none == 0);
    TRY(hologram_profile_start(0, &profile));
    TRY(hologram_call(ex, &args, &event));
    TRY(hologram_executor_synchronize(ex, &event));
    TRY(hologram_profile_stop(profile, &under_way));
    EXPECT(under_way == 0);
    TRY(hologram_profile_trace(profile, NULL, 0, &size));
    EXPECT(size > 0 && size < sizeof trace);
    TRY(hologram_profile_trace(profile, trace, sizeof trace, &size));
    EXPECT(strncmp(trace, "{\"traceEvents\":[", 16) == 0 && trace[size - 1] == '}');
    EXPECT(strstr(trace, "\"name\":\"vector_add\",\"cat\":\"call\",\"ph\":\"X\""));
    EXPECT(strstr(trace, "\"name\":\"vector_add\",\"cat\":\"kernel\",\"ph\":\"X\""));
    EXPECT(strstr(trace, "\"bytes\":12000"));
    TRY(hologram_profile_free(profile));
    EXPECT(hologram_profile_trace(profile, NULL, 0, &size) == HOLOGRAM_BAD_HANDLE && contains("freed"));
    EXPECT(hologram_profile_stop(profile, NULL) == HOLOGRAM_INVALID && contains("under_way_out is NULL"));
    TRY(hologram_profile_start(1, &none)); /* which is cleared with all */
  }
  info.size = sizeof info;
  TRY(hologram_buffer_describe(mine, &info));
  EXPECT(info.data == own && info.length == N && info.dtype == HOLOGRAM_F32 && info.class_index == -1);
  EXPECT(!deleted);
  TRY(hologram_buffer_free(mine));
  EXPECT(deleted);
  operands[0] = operands[2] = floats(own, N);
  args.deleter = deleter;
  args.context = &told;
  args.flags = HOLOGRAM_TRY;
  status = hologram_call(ex, &args, &event);
  if (status == HOLOGRAM_BUSY) { /* so is what was not prepared yet, until it is called without the flag */
    EXPECT(!told);
    args.flags = 0;
    status = hologram_call(ex, &args, &event);
    status = finish(status, event);
  }
  EXPECT(status == HOLOGRAM_OK && told);
  args.flags = 0;
  for (i = 0; i < N; i++) EXPECT(own[i] == 5 * (float)i + 6);
  told = 0;
  operands[2] = floats(own + 1, N - 1);
  shape[0] = N - 1;
  args.dims = shape;
  args.num_dims = 1;
  EXPECT(hologram_call(ex, &args, &event) == HOLOGRAM_INVALID && contains("vector_add: c overlaps a"));
  EXPECT(told);
  args.num_dims = -1;
  told = 0;
  args.num_operands = -1;
  EXPECT(hologram_call(ex, &args, &event) == HOLOGRAM_INVALID && contains("the number of operands is -1"));
  EXPECT(told);
  args.num_operands = 3;
  args.deleter = NULL;
  args.flags = 0;
  operands[2].rank = 9;
  EXPECT(hologram_call(ex, &args, &event) == HOLOGRAM_INVALID && contains("vector_add: c has rank 9"));
  operands[2] = floats(own, N);
  operands[2].dtype = 13;
  EXPECT(hologram_call(ex, &args, &event) == HOLOGRAM_BAD_TYPE && contains("dtype 13"));
  operands[2] = floats(own, N);
  operands[2].flags = HOLOGRAM_READ_ONLY;
  EXPECT(hologram_call(ex, &args, &event) == HOLOGRAM_INVALID && contains("vector_add: c is written") && contains("read-only"));
  operands[2] = floats(own, N);
  args.flags = 1024;
  EXPECT(hologram_call(ex, &args, &event) == HOLOGRAM_INVALID && contains("flags is 1024"));
  args.flags = 0;
  EXPECT(hologram_buffer_allocate(ex, N, HOLOGRAM_F32, 64, &wrong) == HOLOGRAM_INVALID && contains("flags is 64"));
  args.op = number_of("scalar_mul");
  operands[0] = of(x);
  operands[1] = of(y);
  args.num_operands = 2;
  args.scalars = &whole;
  args.num_scalars = 1;
  shape[0] = 10;
  args.dims = shape;
  args.num_dims = 1;
  TRY(hologram_call(0, &args, &event)); /* the default executor */
  TRY(hologram_executor_synchronize(0, &event));
  TRY(hologram_buffer_read(y, 9 * sizeof(float), sizeof(float), values, &event));
  EXPECT(values[0] == 27);

  /* Errors say what is wrong. */
  EXPECT(hologram_buffer_free(mine) == HOLOGRAM_BAD_HANDLE && contains("freed"));
  EXPECT(hologram_executor_synchronize(x, &event) == HOLOGRAM_BAD_HANDLE && contains("a buffer; expected an executor"));
  EXPECT(hologram_executor_free(0) == HOLOGRAM_BAD_HANDLE && contains("null"));
  operands[1] = of(12345);
  EXPECT(hologram_call(ex, &args, &event) == HOLOGRAM_BAD_HANDLE && contains("scalar_mul: c") && contains("never given out"));
  args.op = 12345;
  EXPECT(hologram_call(ex, &args, &event) == HOLOGRAM_INVALID && contains("12345"));
  args.size = 8;
  EXPECT(hologram_call(ex, &args, &event) == HOLOGRAM_INVALID && contains("args->size is 8"));
  args.size = sizeof args;
  EXPECT(hologram_call(ex, &args, NULL) == HOLOGRAM_INVALID && contains("event_out is NULL"));
  info.size = 4;
  EXPECT(hologram_buffer_describe(x, &info) == HOLOGRAM_INVALID && contains("info_out->size is 4"));
  EXPECT(hologram_program_assemble("bad.atlas", "program p\n  foo x\n", 19, &wrong) == HOLOGRAM_SYNTAX);
  EXPECT(contains("bad.atlas:2:3"));
  args.op = -1;
  args.num_operands = 1;
  EXPECT(hologram_call(ex, &args, &event) == HOLOGRAM_INVALID && contains("1 slots given; the program has 2"));
  EXPECT(hologram_executor_new("tpu", &ex) == HOLOGRAM_INVALID && contains("Invalid backend"));

  refusals(ex, x, own, N);

  /* Making a program can be interrupted. */
  {
    enum { LINES = 60000 };
    char *large = malloc(40 * LINES + 100), *end = large;
    hologram_program p = 0;
    end += sprintf(end, "program large\nslot x u32\nldg.u32 v, x[index]\n");
    for (i = 0; i < LINES; i++) end += sprintf(end, i % 2 ? "mul.u32 v, v, %d\n" : "add.u32 v, v, %d\n", i);
    end += sprintf(end, "stg.u32 v, x[index]\nexit\n");
    hologram_set_interrupt(interrupt);
    status = hologram_program_assemble("large.atlas", large, (size_t)(end - large), &p);
    EXPECT(status == HOLOGRAM_CANCELLED && asked == 1 && p == 0 && contains("interrupted"));
    hologram_set_interrupt(NULL);
    TRY(hologram_program_assemble("large.atlas", large, (size_t)(end - large), &p));
    TRY(hologram_program_free(p));
    free(large);
  }

  /* A fault tells instruction and lane. */
  {
    static const char stray[] = "program stray\nslot a f32\n  stg.f32 1.0, a[400000]\n  exit\n";
    hologram_fault fault;
    TRY(hologram_program_assemble("stray.atlas", stray, strlen(stray), &args.program));
    args.num_scalars = 0;
    shape[0] = 1;
    status = hologram_call(ex, &args, &event);
    status = finish(status, event);
    EXPECT(status == HOLOGRAM_FAULT && contains("stray access in lane 0 at line 3"));
    fault.size = sizeof fault;
    hologram_last_fault(&fault);
    EXPECT(fault.kind == HOLOGRAM_FAULT_ACCESS && fault.instruction == 0 && fault.line == 3 && fault.lane == 0);
    fault.size = 3;
    EXPECT(hologram_last_fault(&fault) == HOLOGRAM_INVALID);

    /* An error leaves nothing of the one before: text and fault are its own, whatever came in which order. */
    for (unsigned order = 0; order < 81; order++) {
      for (unsigned k = 0, rest = order; k < 4; k++, rest /= 3) {
        if (rest % 3 == 0) {
          status = hologram_call(ex, &args, &event);
          EXPECT(finish(status, event) == HOLOGRAM_FAULT && contains("stray access") && !contains("handle"));
        } else if (rest % 3 == 1) {
          EXPECT(hologram_buffer_free(0) == HOLOGRAM_BAD_HANDLE && contains("handle is null") && !contains("stray"));
        } else {
          hologram_program none = 0;
          EXPECT(hologram_program_assemble("e.atlas", "program", 7, &none) == HOLOGRAM_SYNTAX && contains("e.atlas") &&
                 !contains("stray") && !contains("handle"));
        }
        fault.size = sizeof fault;
        hologram_last_fault(&fault);
        EXPECT(fault.size == sizeof fault && fault.kind == (rest % 3 ? 0 : HOLOGRAM_FAULT_ACCESS));
        EXPECT(fault.line == (rest % 3 ? 0 : 3) && fault.instruction == 0 && fault.lane == 0);
      }
    }
    TRY(hologram_program_free(args.program));
  }

  /* Work without an end ends with everything else, whoever uses whose memory. */
  {
    static const char endless[] = "program endless\nslot c u32\nagain:\n  ldg.u32 x, c[0]\n  set.eq.u32 p, x, 0\n  bra again, p\n  exit\n";
    static uint32_t zeros[4];
    hologram_executor other = 0;
    TRY(hologram_executor_new("cpu", &other));
    TRY(hologram_program_assemble("endless.atlas", endless, strlen(endless), &args.program));
    shape[0] = 4;
    TRY(hologram_buffer_wrap(ex, zeros, HOLOGRAM_U32, 1, shape, NULL, 0, NULL, NULL, &mine));
    operands[0] = of(mine);
    EXPECT(hologram_call(other, &args, &event) == HOLOGRAM_PENDING);
    EXPECT(hologram_call(0, &args, &event) == HOLOGRAM_PENDING);
    /* A tensor of DLPack is its owner's: its memory is not recycled before its deleter is called. */
    void *tensor = NULL;
    int64_t left = 0;
    hologram_executor fresh;
    hologram_buffer next;
    TRY(hologram_executor_new("cpu", &fresh));
    TRY(hologram_buffer_allocate(fresh, 4, HOLOGRAM_F32, 0, &next));
    hologram_buffer_info tensors = {.size = sizeof tensors}, nexts = {.size = sizeof nexts};
    TRY(hologram_buffer_describe(next, &tensors));
    TRY(hologram_buffer_to_dlpack(next, 1, &tensor));
    TRY(hologram_clear_all());
    TRY(hologram_executor_new("cpu", &fresh));
    TRY(hologram_buffer_allocate(fresh, 4, HOLOGRAM_F32, 0, &next));
    TRY(hologram_buffer_describe(next, &nexts));
    EXPECT(nexts.data != tensors.data);
    TRY(hologram_executor_free(fresh));
    TRY(hologram_dlpack_free(tensor, 1));
    TRY(hologram_clear_all());
    TRY(hologram_object_count(&left));
    EXPECT(left == 0);
    EXPECT(hologram_event_wait(event, 0) == HOLOGRAM_BAD_HANDLE && contains("freed"));
    EXPECT(hologram_buffer_free(x) == HOLOGRAM_BAD_HANDLE && contains("freed"));
    EXPECT(hologram_buffer_fill(y, &whole, &event) == HOLOGRAM_BAD_HANDLE && contains("freed"));
  }
  if (failures) return 1;
  printf("hologram %s: all is well\n", hologram_version());
  return 0;
}
