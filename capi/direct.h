/* Calls that C makes by itself, without Go, because they were made before: those of tens of milliseconds at most on host memory, those on tensors
   of a device's in the order of their owner's stream, and those on buffers of a device's while their memory is lent. Go
   publishes each as a hologram_direct, code beside what it wants to know of a call's addresses and numbers, in the
   hologram_gate of its executor and stream, and takes it back when the code goes. Whoever changes the gate's turn from open to taken has the turn of the stream, and finds there what stays until
   the turn is given back. */
#ifndef HOLOGRAM_DIRECT_H
#define HOLOGRAM_DIRECT_H

#include <stdbool.h>

#include "support.h"

/* How many operands and numbers the calls have that C makes by itself. */
enum { HOLOGRAM_DIRECT_OPERANDS = 16, HOLOGRAM_DIRECT_SCALARS = 8 };

/* A hash of words: a multiplication each, as wyhash and its kin do, in two chains, since each is waited for. */
static inline uint64_t hologram_words_hash(const uint64_t *words, int n) {
  uint64_t even = (uint64_t)n, odd = 0;
  int i = 0;
  for (; i < n - 1; i += 2) {
    even = (even ^ words[i]) * 0x9e3779b97f4a7c15u;
    odd = (odd ^ words[i + 1]) * 0xe7037ed1a0b428dbu;
  }
  if (i < n) even = (even ^ words[i]) * 0x9e3779b97f4a7c15u;
  even ^= even >> 29 ^ odd >> 32 ^ odd << 32;
  even *= 0x9e3779b97f4a7c15u;
  return even ^ even >> 32;
}

/* Whether words are the same. They are few: memcmp takes as long before it begins. One by one, as they were stored
   just before: without the way out compilers load two at a time, which waits until both stores are in the cache. */
static inline bool hologram_words_alike(const uint64_t *a, const uint64_t *b, int n) {
  for (int i = 0; i < n; i++) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

/* A gate's turn, as core has it. */
enum { HOLOGRAM_GATE_OPEN = 0, HOLOGRAM_GATE_TAKEN = 1, HOLOGRAM_GATE_SHUT = 2 };

enum { HOLOGRAM_DIRECT_WORDS = 96, HOLOGRAM_DIRECT_CALLS = 256, HOLOGRAM_DIRECT_WAYS = 4 };

/* What publishing a call costs of a gate's credit, to which each call adds 1, and how much of that there is at first and at
   most. To publish takes as long as some tens of calls, so of calls with ever new layouts few are. */
enum { HOLOGRAM_DIRECT_COST = 64, HOLOGRAM_DIRECT_CREDIT = HOLOGRAM_DIRECT_COST * HOLOGRAM_DIRECT_CALLS };

#ifdef __x86_64__
#define HOLOGRAM_MACHINE_CODE __attribute__((sysv_abi)) /* on Windows too */
#else
#define HOLOGRAM_MACHINE_CODE
#endif

/* Where something is in a call's memory Go counts from that memory on: hologram_direct_new makes addresses of it. */

/* A launch. */
typedef struct {
  void(HOLOGRAM_MACHINE_CODE *code)(void *frame);
  uintptr_t frame, fault; /* where a u32 is that is not 0 after a launch that is to be made again by Go */
  int32_t faults;         /* whether one is */
} hologram_direct_step;

/* An operand's address and so many bytes are written there. */
typedef struct {
  uintptr_t to;
  int64_t offset;
  int32_t operand;
} hologram_direct_base;

/* A number, converted to a dtype, is written there; single: see backends' ParamPlace. */
typedef struct {
  uintptr_t to;
  int32_t scalar, dtype, single;
} hologram_direct_param;

/* A value is written there, which may itself be where something is in the call's own memory. */
typedef struct {
  uintptr_t to;
  uint64_t value;
  int32_t own;
} hologram_direct_word;

/* See core's DirectCheck. */
typedef struct {
  int32_t written, other, same;
  int64_t written_from, written_to, other_from, other_to, gap;
} hologram_direct_check;

/* A call; without steps one that C leaves to Go, which it need not ask again. */
typedef struct hologram_direct {
  uint64_t hash, *key;
  int32_t num_words, num_steps, num_bases, num_params, num_resets, num_checks, num_operands;
  uint8_t align[HOLOGRAM_DIRECT_OPERANDS]; /* of operands, in bytes */
  uint8_t first;     /* how many bytes an element of the last has */
  uint8_t used;      /* since another wanted its place */
  uint8_t takes_long; /* see EnterBounds.Alone */
  hologram_direct_step *steps;
  hologram_direct_base *bases;
  hologram_direct_param *params;
  hologram_direct_word *resets;
  hologram_direct_check *checks;
  char *memory; /* of the frames and the workspace, at a multiple of 64 */
} hologram_direct;

/* Of an executor's stream. All but turn, turns and calls is for who has the turn. */
typedef struct hologram_gate {
  uint32_t turn;                  /* atomic: core's GateOpen, GateTaken, GateShut, GateWanted */
  uint32_t turns;                 /* that were given back; atomic */
  uint64_t executor, stream;      /* which others own; 0: the executor's */
  int32_t device_type, device_id; /* of operands */
  int32_t asynchronous;           /* the device works by itself */
  uint64_t done;                  /* calls that C made; atomic */
  hologram_direct *calls[HOLOGRAM_DIRECT_CALLS]; /* atomic; WAYS of each hash */
  uint32_t seen[HOLOGRAM_DIRECT_CALLS];          /* hashes of calls that Go was left */
  int32_t credit;
} hologram_gate;

/* For what the memory of a buffer on a device that works by itself is lent: a gate's calls, as long as word has id, which
   comes once. The word stays while the process does. */
typedef struct {
  const hologram_gate *gate; /* NULL: for none */
  const uint64_t *word;
  uint64_t id;
} hologram_loan;

typedef enum {
  DIRECT_DONE, /* the call is made */
  DIRECT_NEW,  /* Go may be asked to publish it, once it has made it */
  DIRECT_LONG, /* it can be made, but takes long, and somebody waits */
  DIRECT_NO
} hologram_direct_outcome;

/* The gate of an executor's stream; NULL if it has none. It stays while the process does. */
hologram_gate *hologram_direct_gate(uint64_t executor, uint64_t stream);

/* How many buffers were freed by their handles. */
extern uint64_t hologram_buffers_freed; /* atomic */

/* Makes a call on the executor of a gate, or leaves all as it was. Waits for nothing. On a device that works by itself
   there is a loan for each operand that is a buffer. alone is asked before what takes long, tens of milliseconds at most: whether
   nobody waits for what the caller holds, nor will meanwhile; NULL: the caller holds nothing that others wait for. */
hologram_direct_outcome hologram_direct_run(hologram_gate *gate, uint64_t executor, const hologram_call_args *args,
                                            const hologram_loan *const *loans, bool (*alone)(void));

/* Whether a loan is for the gate, as it seems to who does not have the gate's turn. */
bool hologram_direct_lent(const hologram_loan *loan, const hologram_gate *gate);

/* Has a buffer's memory lent for a gate's calls; false if it never can be. If it can't now, the loan's gate is NULL. */
bool hologram_direct_lend(const hologram_gate *gate, uint64_t executor, uint64_t buffer, hologram_loan *loan);

/* How many calls were made on a gate, which may be NULL. */
uint64_t hologram_direct_count(const hologram_gate *gate);

/* Has Go publish a call like one that it just made. */
void hologram_direct_offer(const hologram_gate *gate, uint64_t executor, const hologram_call_args *args);

/* ---- for Go ---- */

/* A copy of a call and its memory, which has so many bytes, to be freed by free; NULL if there is no room. */
hologram_direct *hologram_direct_new(const hologram_direct *call, size_t bytes);

/* Puts a call where it is found, if there is a place that is free or of one that was not used since this was asked last.
   Gives what was there before, which may still be in use: itself if there is no place. */
hologram_direct *hologram_direct_put(hologram_gate *gate, hologram_direct *call);

/* Takes it away from there, if it is there. It may still be in use. */
void hologram_direct_remove(hologram_gate *gate, hologram_direct *call);

/* Whether all calls go to Go, as while somebody profiles them. */
void hologram_direct_pause(int32_t paused);

#endif
