/* A program that uses the library as a C caller would: executor, buffers, a program from text, its launch, operations,
   memory of its own, errors and faults. */
#include "hologram.h"

#include <stdio.h>
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
static int32_t wait(int32_t status) {
  hologram_event event;
  if (status != HOLOGRAM_PENDING) return status;
  hologram_pending(&event);
  do status = hologram_event_wait(event, 100);
  while (status == HOLOGRAM_PENDING);
  hologram_event_free(event);
  return status;
}

#define TRY(call)                              \
  do {                                         \
    int32_t status_ = wait(call);              \
    if (status_ != HOLOGRAM_OK) show(#call, status_); \
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

int main(void) {
  enum { N = 1000 };
  static float values[N], own[N];
  hologram_executor ex = 0;
  hologram_buffer x = 0, y = 0, mine = 0, bound[2];
  hologram_program axpy = 0, wrong = 0;
  hologram_scalar alpha = {HOLOGRAM_F32, 0x40000000}, whole = {HOLOGRAM_I64, 3}; /* 2.0 and 3 */
  hologram_launch_args args = {0};
  hologram_buffer_info info;
  hologram_program_info about;
  int64_t shape[1] = {N};
  int32_t op = -1;
  int i;

  EXPECT(hologram_abi_version() == 1);
  TRY(hologram_executor_new("cpu", &ex));
  TRY(hologram_buffer_allocate(ex, N, HOLOGRAM_F32, 0, &x));
  TRY(hologram_buffer_allocate(ex, N, HOLOGRAM_F32, HOLOGRAM_UNINITIALIZED, &y));
  for (i = 0; i < N; i++) values[i] = (float)i;
  TRY(hologram_buffer_write(x, 0, sizeof values, values));
  TRY(hologram_buffer_fill(y, &whole));

  /* A program from text. */
  TRY(hologram_program_assemble("axpy.atlas", text, strlen(text), &axpy));
  TRY(hologram_program_describe(axpy, &about));
  EXPECT(about.slots == 2 && about.params == 1 && about.instructions == 6);
  bound[0] = x;
  bound[1] = y;
  args.slots = bound;
  args.num_slots = 2;
  args.params = &alpha;
  args.num_params = 1;
  TRY(hologram_launch(ex, axpy, &args));
  TRY(hologram_buffer_read(y, 0, sizeof values, values));
  for (i = 0; i < N; i++) EXPECT(values[i] == 2 * (float)i + 3);

  /* Operations, one of them on memory of our own. */
  TRY(hologram_buffer_wrap(ex, own, HOLOGRAM_F32, 1, shape, NULL, 0, deleter, &deleted, &mine));
  TRY(hologram_op_id("vector_add", &op));
  TRY(hologram_op_call(ex, op, x, y, mine, 0));
  TRY(hologram_executor_synchronize(ex));
  for (i = 0; i < N; i++) EXPECT(own[i] == 3 * (float)i + 3);
  TRY(hologram_buffer_describe(mine, &info));
  EXPECT(info.data == own && info.length == N && info.dtype == HOLOGRAM_F32 && info.class_index == -1);
  EXPECT(!deleted);
  TRY(hologram_buffer_free(mine));
  EXPECT(deleted);
  TRY(hologram_op_id("scalar_mul", &op));
  bound[0] = x;
  bound[1] = y;
  shape[0] = 10;
  TRY(hologram_op(ex, op, bound, 2, &whole, 1, shape, 1));
  TRY(hologram_buffer_read(y, 9 * sizeof(float), sizeof(float), values));
  EXPECT(values[0] == 27);

  /* Errors say what is wrong. */
  EXPECT(hologram_buffer_free(mine) == HOLOGRAM_BAD_HANDLE && contains("freed"));
  EXPECT(hologram_executor_synchronize(x) == HOLOGRAM_BAD_HANDLE && contains("a buffer; expected an executor"));
  EXPECT(hologram_op_call(ex, 0, x, y, 12345, 0) == HOLOGRAM_BAD_HANDLE && contains("never given out"));
  EXPECT(hologram_op_id("vector_frobnicate", &op) == HOLOGRAM_INVALID && contains("vector_frobnicate"));
  EXPECT(hologram_program_assemble("bad.atlas", "program p\n  foo x\n", 19, &wrong) == HOLOGRAM_SYNTAX);
  EXPECT(contains("bad.atlas:2:3"));
  args.num_slots = 1;
  EXPECT(hologram_launch(ex, axpy, &args) == HOLOGRAM_INVALID && contains("1 slots given; the program has 2"));
  EXPECT(hologram_executor_new("tpu", &ex) == HOLOGRAM_INVALID && contains("Invalid backend"));

  /* A fault tells instruction and lane. */
  {
    static const char stray[] = "program stray\nslot a f32\n  stg.f32 1.0, a[400000]\n  exit\n";
    hologram_program p = 0;
    hologram_fault fault;
    int32_t status;
    TRY(hologram_program_assemble("stray.atlas", stray, strlen(stray), &p));
    memset(&args, 0, sizeof args);
    args.slots = bound;
    args.num_slots = 1;
    args.shape = shape;
    args.rank = 1;
    shape[0] = 1;
    status = wait(hologram_launch(ex, p, &args));
    EXPECT(status == HOLOGRAM_FAULT && contains("stray access in lane 0 at line 3"));
    hologram_last_fault(&fault);
    EXPECT(fault.kind == HOLOGRAM_FAULT_ACCESS && fault.instruction == 0 && fault.line == 3 && fault.lane == 0);
    TRY(hologram_program_free(p));
  }

  TRY(hologram_program_free(axpy));
  TRY(hologram_buffer_free(x));
  TRY(hologram_executor_free(ex)); /* and y with it */
  EXPECT(hologram_buffer_fill(y, &whole) == HOLOGRAM_BAD_HANDLE && contains("freed"));
  if (failures) return 1;
  printf("hologram %s: all is well\n", hologram_version());
  return 0;
}
