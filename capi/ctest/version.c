/* The library answers with the version of the ABI that this program was compiled for. */
#include "hologram.h"

#include <stdio.h>

int main(void) {
  if (hologram_abi_version() != 2) {
    fprintf(stderr, "ABI version %d, expected 2\n", (int)hologram_abi_version());
    return 1;
  }
  printf("hologram %s\n", hologram_version());
  return 0;
}
