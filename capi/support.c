#include "support.h"

#include <stdatomic.h>
#include <string.h>

#ifndef _WIN32
#include <pthread.h>
#endif

/* A thread's last error. Only a pointer to it is thread-local: a Go library's thread-local memory comes out of a small
   reserve that the C library keeps for all that are loaded late. */
typedef struct {
  size_t size;
  char text[8192];
  hologram_fault fault;
  hologram_shortage shortage;
} state;

static _Thread_local state *mine;
static state nothing; /* what a thread without memory for its own gets */

static volatile int forked;

#ifndef _WIN32
static pthread_key_t key;

static void in_child(void) { forked = 1; }

/* Another destructor of the thread may come later and call the library, which then makes a new state; the C library
   calls this for it too. */
static void at_end(void *of_thread) {
  free(of_thread);
  mine = NULL;
}

__attribute__((constructor)) static void at_load(void) {
  pthread_atfork(NULL, NULL, in_child);
  pthread_key_create(&key, at_end);
}
#endif

static state *last(void) {
  if (!mine) {
    mine = calloc(1, sizeof *mine);
#ifndef _WIN32
    if (mine) pthread_setspecific(key, mine); /* frees it when the thread ends */
#endif
  }
  return mine ? mine : &nothing;
}

int hologram_support_forked(void) {
  static const char text[] =
      "this process was forked from one that had loaded Hologram, and Go's threads do not survive a fork; "
      "start it with exec instead (in Python: multiprocessing.get_context(\"spawn\"))";
  if (forked) hologram_support_error((char *)text, sizeof text - 1);
  return forked;
}

void hologram_support_error(char *text, size_t size) {
  state *l = last();
  if (size > sizeof l->text) {
    /* Cut between characters, not within one. */
    size = sizeof l->text;
    while (size > 0 && (text[size] & 0xC0) == 0x80) size--;
  }
  memcpy(l->text, text, size);
  l->size = size;
  memset(&l->fault, 0, sizeof l->fault);
  memset(&l->shortage, 0, sizeof l->shortage);
}

void hologram_support_fault(int32_t kind, int32_t instruction, int32_t line, uint64_t lane) {
  hologram_fault fault = {sizeof fault, kind, instruction, line, lane};
  last()->fault = fault;
}

void hologram_support_shortage(int64_t asked, int64_t left, int64_t cached) {
  hologram_shortage shortage = {sizeof shortage, asked, left, cached};
  last()->shortage = shortage;
}

void hologram_support_delete(hologram_deleter deleter, void *context) { deleter(context); }

void hologram_support_line(hologram_line line, void *context, char *text, size_t size) { line(context, text, size); }

static _Atomic(hologram_interrupt) interrupt;

HOLOGRAM_API int32_t hologram_set_interrupt(hologram_interrupt function) {
  atomic_store(&interrupt, function);
  return HOLOGRAM_OK;
}

int hologram_support_interrupted(void) {
  hologram_interrupt function = atomic_load(&interrupt);
  return function && function();
}

HOLOGRAM_API int32_t hologram_last_error(char *text_out, size_t capacity, size_t *size_out) {
  state *l = last();
  if (size_out) *size_out = l->size;
  if (text_out) memcpy(text_out, l->text, capacity < l->size ? capacity : l->size);
  return HOLOGRAM_OK;
}

HOLOGRAM_API int32_t hologram_last_fault(hologram_fault *fault_out) {
  if (!fault_out || fault_out->size < sizeof *fault_out) return HOLOGRAM_INVALID;
  *fault_out = last()->fault;
  fault_out->size = sizeof *fault_out;
  return HOLOGRAM_OK;
}

HOLOGRAM_API int32_t hologram_last_shortage(hologram_shortage *shortage_out) {
  if (!shortage_out || shortage_out->size < sizeof *shortage_out) return HOLOGRAM_INVALID;
  *shortage_out = last()->shortage;
  shortage_out->size = sizeof *shortage_out;
  return HOLOGRAM_OK;
}
