//go:build cgo && linux

#include "submit.h"

/* CUlaunchConfig with one CUlaunchAttribute. */
typedef struct {
  uint32_t grid[3], block[3], shared;
  uintptr_t stream;
  const void *attributes;
  uint32_t count;
} launch_config;

typedef struct {
  int32_t id, pad;
  uint64_t value[8];
} launch_attribute;

_Static_assert(sizeof(launch_config) == 56 && sizeof(launch_attribute) == 72, "as cuda.h has them");

static int32_t dependent(const hologram_cuda_entries *e, hologram_cuda_submission *s) {
  enum { PROGRAMMATIC = 6 };
  const uint32_t *g = s->kernel.grid, *b = s->kernel.block;
  launch_attribute a = {PROGRAMMATIC, 0, {1}};
  launch_config c = {{g[0], g[1], g[2]}, {b[0], b[1], b[2]}, s->kernel.shared, s->stream, &a, 1};
  return ((int32_t (*)(const launch_config *, uintptr_t, void **, void **))e->launch_ex)(&c, s->kernel.function, s->params, 0);
}

/* What (*API).submit does, in the same order. */
int32_t hologram_cuda_submit(uintptr_t entries, uintptr_t submission) {
  enum { CAPTURE_IMPLICIT = 906 };
  const hologram_cuda_entries *e = (const hologram_cuda_entries *)entries;
  hologram_cuda_submission *s = (hologram_cuda_submission *)submission;
  int32_t r = 0;
  int pushed = 0;
  s->failed = s->captured = 0;
  if (((int32_t (*)(uintptr_t *))e->current)(&s->at) != 0 || s->at != s->context) {
    if ((r = ((int32_t (*)(uintptr_t))e->push)(s->context))) {
      s->failed = HOLOGRAM_CUDA_PUSH;
      return r;
    }
    pushed = 1;
  }
  if (s->others) {
    s->status = 0;
    r = ((int32_t (*)(uintptr_t, int32_t *))e->capturing)(s->stream, &s->status);
    if (r == CAPTURE_IMPLICIT || (!r && s->status)) {
      s->captured = 1;
      r = 0;
    } else if (r) {
      s->failed = HOLOGRAM_CUDA_CAPTURING;
    }
  }
  if (!r && !s->captured) {
    if (s->exec && !((int32_t (*)(uintptr_t, uintptr_t, void *))e->set)(s->exec, s->node, &s->kernel)) {
      if ((r = ((int32_t (*)(uintptr_t, uintptr_t))e->graph)(s->exec, s->stream))) s->failed = HOLOGRAM_CUDA_GRAPH;
    } else {
      const uint32_t *g = s->kernel.grid, *b = s->kernel.block;
      r = s->dependent
              ? dependent(e, s)
              : ((int32_t (*)(uintptr_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uintptr_t, void **, void **))e->launch)(
                    s->kernel.function, g[0], g[1], g[2], b[0], b[1], b[2], s->kernel.shared, s->stream, s->params, 0);
      if (r) s->failed = HOLOGRAM_CUDA_LAUNCH;
    }
    if (!r && s->word) {
      r = ((int32_t (*)(uintptr_t, uint64_t, uint64_t, uint32_t))e->write)(s->stream, s->word, s->value, 0);
      if (r) s->failed = HOLOGRAM_CUDA_WRITE;
    }
  }
  if (pushed) {
    int32_t popped = ((int32_t (*)(uintptr_t *))e->pop)(&s->at);
    if (popped && !r) {
      r = popped;
      s->failed = HOLOGRAM_CUDA_POP;
    }
  }
  return r;
}
