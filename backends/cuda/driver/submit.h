#pragma once
#include <stdint.h>

/* Entry points of the driver that a submission goes through. */
typedef struct {
  uintptr_t current, push, pop, capturing, set, graph, launch, launch_ex, write;
} hologram_cuda_entries;

/* The calls of a submission: Failed of submit.go. */
enum {
  HOLOGRAM_CUDA_PUSH = 1,
  HOLOGRAM_CUDA_CAPTURING,
  HOLOGRAM_CUDA_LAUNCH,
  HOLOGRAM_CUDA_WRITE,
  HOLOGRAM_CUDA_POP,
  HOLOGRAM_CUDA_GRAPH
};

/* Submission of submit.go. */
typedef struct {
  uintptr_t context, stream;
  struct { /* CUDA_KERNEL_NODE_PARAMS */
    uintptr_t function;
    uint32_t grid[3], block[3], shared;
    void **parameters, **extra;
  } kernel;
  uintptr_t exec, node;
  uint64_t word, value;
  uint32_t others, dependent;
  int32_t failed, captured, status;
  uintptr_t at;
  void *params[1];
  uintptr_t size;
} hologram_cuda_submission;

int32_t hologram_cuda_submit(uintptr_t entries, uintptr_t submission);

/* Tickets of enter.go. */
typedef struct {
  uint64_t passed, entered, last, asked;
} hologram_cuda_tickets;

/* Entry of enter.go: what a frame begins with. The launch block follows. */
typedef struct {
  uint32_t refused, block; /* where that is */
  const hologram_cuda_entries *entries;
  hologram_cuda_tickets *tickets;
  hologram_cuda_submission submission;
} hologram_cuda_entry;

/* Queues a frame's launch, in the stream's turn, and gives it the next ticket; or refuses it. */
void hologram_cuda_enter(void *frame);
