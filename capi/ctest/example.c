/* y = 2x + y, on the memory of an array of the caller's and a buffer of Hologram's. */
#include "hologram.h"

#include <stdio.h>
#include <stdlib.h>

static const char axpy[] =
    "program axpy\nslot x f32\nslot y f32\nparam alpha f32\n"
    "ldg.f32 u, x[index]\nldg.f32 v, y[index]\nldp.f32 k, alpha\n"
    "fma.f32 v, k, u, v\nstg.f32 v, y[index]\nexit\n";

/* Waits for work that goes on. */
static int32_t done(int32_t status, hologram_event event) {
  if (status != HOLOGRAM_PENDING) return status;
  while ((status = hologram_event_wait(event, 100)) == HOLOGRAM_PENDING) continue;
  hologram_event_free(event);
  return status;
}

static void check(int32_t status) {
  char text[1024];
  size_t size;
  if (status == HOLOGRAM_OK) return;
  hologram_last_error(text, sizeof text, &size);
  fprintf(stderr, "%.*s\n", (int)(size < sizeof text ? size : sizeof text), text);
  exit(1);
}

int main(void) {
  float x[4] = {1, 2, 3, 4}, y[4];
  hologram_executor executor;
  hologram_buffer buffer;
  hologram_program program;
  hologram_event event = 0;
  hologram_operand operands[2] = {{0}, {0}};
  hologram_scalar alpha = {HOLOGRAM_F32, 0x40000000}; /* the bits of 2.0f */
  hologram_call_args args = {0};
  int32_t status;

  check(hologram_executor_new("cpu", &executor));
  check(hologram_buffer_allocate(executor, 4, HOLOGRAM_F32, 0, &buffer)); /* zeros */
  check(hologram_program_assemble("axpy", axpy, sizeof axpy - 1, &program));
  operands[0].data = x;
  operands[0].dtype = HOLOGRAM_F32;
  operands[0].device_type = 1; /* the host's memory */
  operands[0].rank = 1;
  operands[0].shape[0] = 4;
  operands[0].strides[0] = 1; /* in elements */
  operands[1].buffer = buffer;
  args.size = sizeof args;
  args.op = -1; /* no operation, but a program */
  args.program = program;
  args.operands = operands;
  args.num_operands = 2;
  args.scalars = &alpha;
  args.num_scalars = 1;
  args.num_dims = -1; /* on the shape of the operands */
  status = hologram_call(executor, &args, &event);
  check(done(status, event));
  status = hologram_buffer_read(buffer, 0, sizeof y, y, &event);
  check(done(status, event));
  printf("%g %g %g %g\n", y[0], y[1], y[2], y[3]); /* 2 4 6 8 */
  hologram_program_free(program);
  hologram_buffer_free(buffer);
  hologram_executor_free(executor);
  return y[3] == 8 ? 0 : 1;
}
