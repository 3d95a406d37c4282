#pragma once
#include <stdint.h>

/* Entry points of the driver that a submission goes through. */
typedef struct {
  uintptr_t current, push, pop, capturing, set, graph, launch, write;
} hologram_cuda_entries;

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
  uint32_t others;
  int32_t failed, captured, status;
  uintptr_t at;
  void *params[1];
  uintptr_t size;
} hologram_cuda_submission;

int32_t hologram_cuda_submit(uintptr_t entries, uintptr_t submission);
