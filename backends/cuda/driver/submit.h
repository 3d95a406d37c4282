#pragma once
#include <stdint.h>

/* Entry points of the driver that a submission goes through. */
typedef struct {
  uintptr_t current, push, pop, capturing, launch, write;
} hologram_cuda_entries;

/* Submission of submit.go. */
typedef struct {
  uintptr_t context, stream, function;
  uint32_t grid[3], block[3], shared, others;
  uint64_t word, value;
  int32_t failed, captured, status;
  uintptr_t at;
  void *params[1];
  uintptr_t size;
} hologram_cuda_submission;

int32_t hologram_cuda_submit(uintptr_t entries, uintptr_t submission);
