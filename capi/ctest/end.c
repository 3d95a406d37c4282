/* A thread's destructors call the library after its own has freed the thread's last error. */
#include "hologram.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 8240, BLOCKS = 64 };

static pthread_key_t key; /* made after the library's, so that its destructor is called later */
static int failures;

static void at_end(void *context) {
  char *blocks[BLOCKS];
  size_t size = 1;
  int i, k;
  (void)context;
  hologram_last_error(NULL, 0, &size);
  if (size != 0) {
    fprintf(stderr, "the last error has %zu bytes after the thread's end; expected none\n", size);
    failures++;
  }
  /* One of these takes the block that was freed. */
  for (i = 0; i < BLOCKS; i++) {
    blocks[i] = malloc(SIZE - 8 * (size_t)(i % 8));
    memset(blocks[i], 'v', SIZE - 64);
  }
  hologram_buffer_free(12345);
  for (i = 0; i < BLOCKS; i++) {
    for (k = 0; k < SIZE - 64; k++) {
      if (blocks[i][k] != 'v') {
        fprintf(stderr, "byte %d of another's memory was overwritten\n", k);
        failures++;
        break;
      }
    }
    free(blocks[i]);
  }
}

static void *work(void *context) {
  hologram_buffer_free(999);
  pthread_setspecific(key, &key);
  return context;
}

int main(void) {
  int i;
  pthread_key_create(&key, at_end);
  for (i = 0; i < 20; i++) {
    pthread_t thread;
    pthread_create(&thread, NULL, work, NULL);
    pthread_join(thread, NULL);
  }
  if (failures) return 1;
  puts("all is well");
  return 0;
}
