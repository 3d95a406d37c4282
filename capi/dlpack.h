/* The structures of DLPack's specification, version 1: https://dmlc.github.io/dlpack/latest/c_api.html */
#ifndef HOLOGRAM_DLPACK_H
#define HOLOGRAM_DLPACK_H

#include <stdint.h>

typedef struct {
  uint8_t code, bits;
  uint16_t lanes;
} dl_dtype;

typedef struct {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  dl_dtype dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} dl_tensor;

typedef struct dl_managed {
  dl_tensor dl;
  void *context;
  void (*deleter)(struct dl_managed *);
} dl_managed;

typedef struct {
  uint32_t major, minor;
} dl_version;

typedef struct dl_versioned {
  dl_version version;
  void *context;
  void (*deleter)(struct dl_versioned *);
  uint64_t flags;
  dl_tensor dl;
} dl_versioned;

/* The head of an exchange API, the same in all versions. */
typedef struct dl_exchange_head {
  dl_version version;
  struct dl_exchange_head *previous; /* of an older version; may be NULL */
} dl_exchange_head;

/* The C exchange API of version 1, which a type has as the capsule __dlpack_c_exchange_api__. All of it is called with
   the GIL held; it does not look whether a tensor may be handed out as it is. */
typedef struct {
  dl_exchange_head head;
  int (*allocate)(dl_tensor *prototype, dl_versioned **out, void *context,
                  void (*set_error)(void *context, const char *kind, const char *message));
  int (*own)(void *object, dl_versioned **out);
  int (*object_of)(dl_versioned *tensor, void **object_out);
  int (*borrow)(void *object, dl_tensor *out); /* may be NULL */
  int (*stream)(int32_t device_type, int32_t device_id, void **stream_out);
} dl_exchange;

enum { DL_MAJOR = 1, DL_READ_ONLY = 1, DL_COPIED = 2 };
enum { DL_CPU = 1, DL_CUDA = 2 };
enum { DL_INT = 0, DL_UINT = 1, DL_FLOAT = 2, DL_BFLOAT = 4, DL_BOOL = 6 };

#endif
