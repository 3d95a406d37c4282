#include "direct.h"
#include "dlpack.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "_cgo_export.h"
#include "half.h"

uint64_t hologram_buffers_freed;

static int32_t paused; /* atomic */

void hologram_direct_pause(int32_t all) { __atomic_store_n(&paused, all, __ATOMIC_SEQ_CST); }

/* ---- keys ---- */

/* All of a call that decides what becomes of it but addresses and numbers, as Go's key of a prepared call; 0 words: it is
   none for C. Operands that are numbers lie where a device that works by itself finds them, so of those it has the values. */
static int key_of(const hologram_gate *g, const hologram_call_args *a, uint64_t *to) {
  int n = 0;
  if (a->fuel || a->stream != g->stream || a->residue || a->deleter || a->num_operands < 1 || a->num_operands > HOLOGRAM_DIRECT_OPERANDS ||
      a->num_scalars > HOLOGRAM_DIRECT_SCALARS) {
    return 0;
  }
  to[n++] = (uint64_t)a->num_operands | (uint64_t)(uint8_t)a->num_dims << 8 | (uint64_t)a->num_scalars << 16 |
            (uint64_t)(a->first != NULL) << 24 | (uint64_t)((a->flags & HOLOGRAM_ORDERED) != 0) << 25 | (uint64_t)(uint32_t)a->op << 32;
  if (a->op == -1) {
    to[n++] = a->program;
    for (int i = 0; i < 3; i++) to[n++] = (uint64_t)a->grid[i] << 32 | a->block[i];
  }
  for (int i = 0; i < a->num_operands; i++) {
    const hologram_operand *o = &a->operands[i];
    bool here = o->device_type == g->device_type && (o->device_type == DL_CPU || o->device_id == g->device_id);
    bool told = o->buffer || a->flags & HOLOGRAM_ORDERED || !g->asynchronous; /* nobody waits for the work, to tell of it */
    if (o->rank < 0 || (!(here && told) && !(o->flags & HOLOGRAM_NUMBER)) || n + 2 * HOLOGRAM_MAX_RANK + 2 > HOLOGRAM_DIRECT_WORDS - 16) return 0;
    to[n++] = (uint64_t)o->dtype | (uint64_t)o->rank << 8 | (uint64_t)(uint32_t)o->flags << 32;
    for (int k = 0; k < o->rank; k++) {
      to[n++] = (uint64_t)o->shape[k];
      to[n++] = (uint64_t)o->strides[k];
    }
    if (o->flags & HOLOGRAM_NUMBER && g->asynchronous) {
      if (!o->data || o->dtype < HOLOGRAM_I8 || o->dtype > HOLOGRAM_F64) return 0;
      to[n] = 0;
      memcpy(&to[n++], o->data, hologram_sizes[o->dtype]);
    }
  }
  for (int i = 0; i < a->num_dims; i++) to[n++] = (uint64_t)a->dims[i];
  for (int i = 0; i < a->num_scalars; i++) to[n++] = (uint64_t)a->scalars[i].dtype;
  return n;
}

/* ---- calls ---- */

/* The caller's floating-point state may be another one than programs mean; see backends/fpenv. */
#if defined(__x86_64__) || defined(_M_X64)
enum { STANDARD = 0x1f80, FLAGS = 0x3f };
static uint32_t enter(void) {
  uint32_t before = __builtin_ia32_stmxcsr();
  if ((before & ~FLAGS) != STANDARD) __builtin_ia32_ldmxcsr(STANDARD);
  return before;
}
static void leave(uint32_t before) {
  if ((before & ~FLAGS) != STANDARD) __builtin_ia32_ldmxcsr(before);
}
#else /* where there is no machine code */
static uint32_t enter(void) { return 0; }
static void leave(uint32_t before) { (void)before; }
#endif

/* An integer of a type with this range, extended to 64 bits as that is signed or not. */
static bool narrow(uint64_t *to, bool integer, int64_t whole, int64_t least, int64_t most) {
  *to = (uint64_t)whole;
  return integer && whole >= least && whole <= most;
}

/* A call's number as machine code has it, as_single: a float of 16 bits as the f32 that it is; false of what Go converts, or
   refuses. */
static bool convert(const hologram_scalar *s, int32_t dtype, bool as_single, uint64_t *to) {
  double value;
  float single;
  int64_t whole;
  bool integer = s->dtype == HOLOGRAM_I64;
  memcpy(&whole, &s->bits, sizeof whole);
  memcpy(&value, &s->bits, sizeof value);
  if (!integer && (s->dtype != HOLOGRAM_F64 || isnan(value))) return false;
  if (!integer && dtype <= HOLOGRAM_U64 && value >= (double)INT64_MIN && value < -(double)INT64_MIN) { /* an integer it must be */
    whole = (int64_t)value;
    integer = (double)whole == value;
  }
  switch (dtype) {
    case HOLOGRAM_F64:
      if (integer) value = (double)whole;
      memcpy(to, &value, sizeof value);
      return true;
    case HOLOGRAM_F32:
      single = integer ? (float)whole : (float)value;
      if (isinf(single) && (integer || !isinf(value))) return false;
      *to = 0;
      memcpy(to, &single, sizeof single);
      return true;
    case HOLOGRAM_F16:
    case HOLOGRAM_BF16:
      if (!(integer ? hologram_half_of(whole, dtype, to) : hologram_half(value, dtype, to))) return false;
      if (as_single) *to = hologram_half_single(*to, dtype);
      return true;
    case HOLOGRAM_I8:
      return narrow(to, integer, whole, INT8_MIN, INT8_MAX);
    case HOLOGRAM_I16:
      return narrow(to, integer, whole, INT16_MIN, INT16_MAX);
    case HOLOGRAM_I32:
      return narrow(to, integer, whole, INT32_MIN, INT32_MAX);
    case HOLOGRAM_U8:
      return narrow(to, integer, whole, 0, UINT8_MAX);
    case HOLOGRAM_U16:
      return narrow(to, integer, whole, 0, UINT16_MAX);
    case HOLOGRAM_U32:
      return narrow(to, integer, whole, 0, UINT32_MAX);
    case HOLOGRAM_I64:
      return narrow(to, integer, whole, INT64_MIN, INT64_MAX);
    case HOLOGRAM_U64:
      return narrow(to, integer, whole, 0, INT64_MAX);
    default:
      return false;
  }
}

/* Whether addresses are as they should be. */
static bool fits(const hologram_direct *d, const hologram_call_args *a) {
  for (int i = 0; i < d->num_operands; i++) {
    uintptr_t address = (uintptr_t)a->operands[i].data;
    if (!address || address & (d->align[i] - 1u)) return false;
  }
  for (int i = 0; i < d->num_checks; i++) {
    const hologram_direct_check *c = &d->checks[i];
    int64_t gap = (int64_t)((uintptr_t)a->operands[c->other].data - (uintptr_t)a->operands[c->written].data);
    bool apart = c->written_to <= gap + c->other_from || gap + c->other_to <= c->written_from;
    if (!apart && !(c->same && gap == c->gap)) return false;
  }
  return true;
}

/* Runs a call; false if nothing was changed that Go does not write anew. */
static bool run(const hologram_direct *d, const hologram_call_args *a) {
  for (int i = 0; i < d->num_params; i++) {
    const hologram_direct_param *p = &d->params[i];
    if (!convert(&a->scalars[p->scalar], p->dtype, p->single, (uint64_t *)p->to)) return false;
  }
  for (int i = 0; i < d->num_bases; i++) {
    const hologram_direct_base *b = &d->bases[i];
    *(uint64_t *)b->to = (uint64_t)((uintptr_t)a->operands[b->operand].data + (uintptr_t)b->offset);
  }
  for (int i = 0; i < d->num_resets; i++) *(uint64_t *)d->resets[i].to = d->resets[i].value;
  for (int i = 0; i < d->num_steps; i++) {
    const hologram_direct_step *s = &d->steps[i];
    s->code((void *)s->frame);
    if (s->faults && *(const uint32_t *)s->fault) return false;
  }
  if (a->first) memcpy(a->first, a->operands[a->num_operands - 1].data, d->first);
  return true;
}

hologram_gate *hologram_direct_gate(uint64_t executor, uint64_t stream) {
  return hologram_support_forked() ? NULL : direct_gate(executor, stream);
}

/* The places of a hash. */
static hologram_direct **places(hologram_gate *g, uint64_t hash) {
  return &g->calls[hash % (HOLOGRAM_DIRECT_CALLS / HOLOGRAM_DIRECT_WAYS) * HOLOGRAM_DIRECT_WAYS];
}

static hologram_direct *find(hologram_gate *g, uint64_t hash, const uint64_t *key, int n) {
  hologram_direct **at = places(g, hash);
  for (int i = 0; i < HOLOGRAM_DIRECT_WAYS; i++) {
    hologram_direct *d = __atomic_load_n(&at[i], __ATOMIC_ACQUIRE);
    if (d && d->hash == hash && d->num_words == n && hologram_words_alike(d->key, key, n)) return d;
  }
  return NULL;
}

/* Takes a gate's turn, if it is open. Sequentially consistent: who takes a call away from the gate looks at the turn after that. */
static bool take(hologram_gate *g) {
  uint32_t open = HOLOGRAM_GATE_OPEN;
  return __atomic_compare_exchange_n(&g->turn, &open, HOLOGRAM_GATE_TAKEN, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}

/* Whether all memory that has to be lent is, for who has the turn: who ends a loan looks at the turn after that. */
static bool lent(const hologram_gate *g, const hologram_call_args *a, const hologram_loan *const *loans) {
  for (int i = 0; g->asynchronous && i < a->num_operands; i++) {
    if (a->operands[i].buffer && !(loans[i]->gate == g && __atomic_load_n(loans[i]->word, __ATOMIC_SEQ_CST) == loans[i]->id)) return false;
  }
  return true;
}

bool hologram_direct_lent(const hologram_loan *loan, const hologram_gate *g) {
  return loan->gate == g && __atomic_load_n(loan->word, __ATOMIC_RELAXED) == loan->id;
}

bool hologram_direct_lend(const hologram_gate *g, uint64_t executor, uint64_t buffer, hologram_loan *loan) {
  loan->gate = NULL;
  return direct_lend(executor, (hologram_gate *)g, buffer, loan);
}

/* Gives it back, or to Go, if that wants it. */
static void give(hologram_gate *g) {
  uint32_t taken = HOLOGRAM_GATE_TAKEN;
  __atomic_store_n(&g->turns, g->turns + 1, __ATOMIC_RELEASE); /* nobody else changes it meanwhile */
  if (!__atomic_compare_exchange_n(&g->turn, &taken, HOLOGRAM_GATE_OPEN, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
    __atomic_store_n(&g->turn, HOLOGRAM_GATE_SHUT, __ATOMIC_RELEASE);
  }
}

hologram_direct_outcome hologram_direct_run(hologram_gate *g, uint64_t executor, const hologram_call_args *args,
                                            const hologram_loan *const *loans, bool (*alone)(void)) {
  hologram_direct_outcome outcome = DIRECT_NO;
  uint64_t key[HOLOGRAM_DIRECT_WORDS], hash;
  uint32_t *seen;
  hologram_direct *d;
  int n, at = 0;
  if (__atomic_load_n(&paused, __ATOMIC_RELAXED) || hologram_support_forked() || !(n = key_of(g, args, key))) return DIRECT_NO;
  hash = hologram_words_hash(key, n);
  if (!take(g)) return DIRECT_NO;
  if (g->executor != executor || !lent(g, args, loans)) {
    /* it is another's by now, or the memory is */
  } else if ((d = find(g, hash, key, n))) {
    __atomic_store_n(&d->used, 1, __ATOMIC_RELAXED);
    if (d->num_steps && fits(d, args)) {
      if (d->takes_long && alone && !alone()) {
        outcome = DIRECT_LONG;
      } else {
        uint32_t before = enter();
        if (run(d, args)) outcome = DIRECT_DONE;
        leave(before);
      }
    }
    if (outcome == DIRECT_DONE) __atomic_store_n(&g->done, g->done + 1, __ATOMIC_RELAXED);
  } else {
    /* What comes once is not worth the making. Of each place the last few are known: calls that come by turns would have
       each other forgotten in one. */
    seen = &g->seen[hash % (HOLOGRAM_DIRECT_CALLS / HOLOGRAM_DIRECT_WAYS) * HOLOGRAM_DIRECT_WAYS];
    while (at < HOLOGRAM_DIRECT_WAYS - 1 && seen[at] != (uint32_t)(hash >> 32)) at++;
    if (seen[at] == (uint32_t)(hash >> 32) && g->credit >= HOLOGRAM_DIRECT_COST) {
      outcome = DIRECT_NEW;
      g->credit -= HOLOGRAM_DIRECT_COST;
    }
    for (; at; at--) seen[at] = seen[at - 1];
    seen[0] = (uint32_t)(hash >> 32);
  }
  g->credit += g->credit < HOLOGRAM_DIRECT_CREDIT;
  give(g);
  return outcome;
}

uint64_t hologram_direct_count(const hologram_gate *g) { return g ? __atomic_load_n(&g->done, __ATOMIC_RELAXED) : 0; }

void hologram_direct_offer(const hologram_gate *g, uint64_t executor, const hologram_call_args *args) {
  uint64_t key[HOLOGRAM_DIRECT_WORDS];
  hologram_direct call = {.key = key};
  if (!(call.num_words = key_of(g, args, key))) return;
  call.hash = hologram_words_hash(key, call.num_words);
  direct_publish(executor, (hologram_call_args *)args, &call);
}

/* ---- for Go ---- */

/* Copies an array to a place, which it moves behind it. */
static void *part(char **at, const void *from, size_t bytes) {
  void *to = *at;
  if (bytes) memcpy(to, from, bytes);
  *at += bytes;
  return to;
}

hologram_direct *hologram_direct_new(const hologram_direct *c, size_t bytes) {
  enum { ALIGN = 64 };
  size_t words = (size_t)c->num_words * sizeof *c->key, steps = (size_t)c->num_steps * sizeof *c->steps;
  size_t bases = (size_t)c->num_bases * sizeof *c->bases, resets = (size_t)c->num_resets * sizeof *c->resets;
  size_t checks = (size_t)c->num_checks * sizeof *c->checks, params = (size_t)c->num_params * sizeof *c->params;
  hologram_direct *d = calloc(1, sizeof *d + words + steps + bases + resets + checks + params + ALIGN + bytes);
  uintptr_t memory;
  char *at;
  if (!d) return NULL;
  *d = *c;
  at = (char *)(d + 1);
  d->key = part(&at, c->key, words);
  d->steps = part(&at, c->steps, steps);
  d->bases = part(&at, c->bases, bases);
  d->resets = part(&at, c->resets, resets);
  d->checks = part(&at, c->checks, checks);
  d->params = part(&at, c->params, params);
  at += (ALIGN - (uintptr_t)at % ALIGN) % ALIGN;
  memory = (uintptr_t)(d->memory = part(&at, c->memory, bytes));
  for (int i = 0; i < d->num_steps; i++) {
    d->steps[i].frame += memory;
    d->steps[i].fault += memory;
  }
  for (int i = 0; i < d->num_bases; i++) d->bases[i].to += memory;
  for (int i = 0; i < d->num_params; i++) d->params[i].to += memory;
  for (int i = 0; i < d->num_resets; i++) {
    d->resets[i].to += memory;
    if (d->resets[i].own) d->resets[i].value += memory;
  }
  return d;
}

hologram_direct *hologram_direct_put(hologram_gate *g, hologram_direct *d) {
  hologram_direct **at = places(g, d->hash), **to = NULL;
  for (int i = 0; i < HOLOGRAM_DIRECT_WAYS; i++) {
    hologram_direct *there = __atomic_load_n(&at[i], __ATOMIC_RELAXED);
    if (!there) {
      to = &at[i];
      break;
    }
    if (!__atomic_exchange_n(&there->used, 0, __ATOMIC_RELAXED) && !to) to = &at[i];
  }
  return to ? __atomic_exchange_n(to, d, __ATOMIC_SEQ_CST) : d;
}

void hologram_direct_remove(hologram_gate *g, hologram_direct *d) {
  hologram_direct **at = places(g, d->hash);
  for (int i = 0; i < HOLOGRAM_DIRECT_WAYS; i++) {
    hologram_direct *there = d;
    __atomic_compare_exchange_n(&at[i], &there, NULL, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
  }
}
