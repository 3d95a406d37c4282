//go:build cgo && linux

#include "submit.h"

/* How many of a stream's works are under way when the next is left to Go, since nobody may wait here and the driver takes
   1,024; and how often a ticket is written, which takes half as long as a launch. */
enum { MOST_ENTERED = 256, TELL_ENTERED = 64 };

void hologram_cuda_enter(void *frame) {
  hologram_cuda_entry *e = frame;
  hologram_cuda_tickets *t = e->tickets;
  hologram_cuda_submission *s = &e->submission;
  uint64_t passed = __atomic_load_n(&t->passed, __ATOMIC_ACQUIRE), entered = __atomic_load_n(&t->entered, __ATOMIC_ACQUIRE);
  uint64_t next = __atomic_load_n(&t->last, __ATOMIC_RELAXED) + 1;
  if (passed < entered) passed = entered;
  e->refused = 1;
  if (next - passed > MOST_ENTERED) return;
  s->params[0] = (char *)frame + e->block;
  s->kernel.parameters = s->params;
  s->word = 0;
  if (next - t->asked >= TELL_ENTERED) {
    s->word = (uintptr_t)&t->entered;
    s->value = next;
  }
  /* What fails behind the launch fails at the next call too, which Go makes. */
  if (hologram_cuda_submit((uintptr_t)e->entries, (uintptr_t)s) && s->failed != HOLOGRAM_CUDA_WRITE && s->failed != HOLOGRAM_CUDA_POP) return;
  if (s->captured) return;
  if (s->word && s->failed != HOLOGRAM_CUDA_WRITE) t->asked = next;
  __atomic_store_n(&t->last, next, __ATOMIC_RELEASE);
  e->refused = 0;
}
