/* What the Go code of this folder needs of C: the thread's last error, callbacks, and fork. */
#ifndef HOLOGRAM_SUPPORT_H
#define HOLOGRAM_SUPPORT_H

#define HOLOGRAM_BUILD /* the functions are defined here */
#include "hologram.h"

#include <stdlib.h>

/* How many bytes an element of a dtype has. */
extern const uint8_t hologram_sizes[];

/* Whether this process is a fork's child. Says so in the last error. */
int hologram_support_forked(void);

/* Keeps a copy of the text, which need not end in NUL, as the thread's last error, and forgets the last fault. */
void hologram_support_error(char *text, size_t size);

/* Keeps a fault beside the last error. */
void hologram_support_fault(int32_t kind, int32_t instruction, int32_t line, uint64_t lane);

/* Keeps how memory was short beside the last error. */
void hologram_support_shortage(int64_t asked, int64_t left, int64_t cached);

/* Calls a deleter. */
void hologram_support_delete(hologram_deleter deleter, void *context);

/* Whether the function that hologram_set_interrupt was given ends the calling thread's call. */
int hologram_support_interrupted(void);

/* Calls a receiver of lines. */
void hologram_support_line(hologram_line line, void *context, char *text, size_t size);

/* What a DLPack capsule's pointer leads to. */
typedef struct hologram_tensor {
  void *data;
  int32_t device_type, device_id;
  int32_t type_code, type_bits, type_lanes;
  int32_t rank;
  int32_t read_only;
  int64_t *shape, *strides;
} hologram_tensor;

/* Makes a DLManagedTensor (versioned: a DLManagedTensorVersioned) that frees the lease when it is deleted. NULL if
   there is no memory. */
void *hologram_support_export(const hologram_tensor *tensor, uint64_t lease, int versioned);

/* Reads one; 0 if its major version is unknown. */
int hologram_support_import(void *managed, int versioned, hologram_tensor *tensor_out);

/* Deletes one. */
void hologram_support_discard(void *managed, int versioned);

#endif
