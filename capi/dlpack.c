/* DLPack: arrays handed from library to library in place. The structures are those of its specification, version 1:
   https://dmlc.github.io/dlpack/latest/c_api.html */
#include "support.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
  void *data;
  struct {
    int32_t type, id;
  } device;
  int32_t ndim;
  struct {
    uint8_t code, bits;
    uint16_t lanes;
  } dtype;
  int64_t *shape, *strides;
  uint64_t byte_offset;
} tensor;

typedef struct managed {
  tensor dl;
  void *context;
  void (*deleter)(struct managed *);
} managed;

typedef struct versioned {
  struct {
    uint32_t major, minor;
  } version;
  void *context;
  void (*deleter)(struct versioned *);
  uint64_t flags;
  tensor dl;
} versioned;

enum { MAJOR = 1, READ_ONLY = 1 };

/* One block of memory holds all that an export needs. */
typedef struct {
  union {
    managed plain;
    versioned versioned;
  } as;
  uint64_t lease;
  int64_t shape[HOLOGRAM_MAX_RANK], strides[HOLOGRAM_MAX_RANK];
} exported;

static void end(exported *e) {
  hologram_lease_free(e->lease);
  free(e);
}

static void end_plain(managed *m) { end((exported *)m); }

static void end_versioned(versioned *v) { end((exported *)v); }

void *hologram_support_export(const hologram_tensor *t, uint64_t lease, int is_versioned) {
  exported *e = calloc(1, sizeof *e);
  tensor *dl;
  if (!e) return NULL;
  e->lease = lease;
  memcpy(e->shape, t->shape, sizeof e->shape);
  memcpy(e->strides, t->strides, sizeof e->strides);
  if (is_versioned) {
    e->as.versioned.version.major = MAJOR;
    e->as.versioned.flags = t->read_only ? READ_ONLY : 0;
    e->as.versioned.deleter = end_versioned;
    dl = &e->as.versioned.dl;
  } else {
    e->as.plain.deleter = end_plain;
    dl = &e->as.plain.dl;
  }
  dl->data = t->data;
  dl->device.type = t->device_type;
  dl->device.id = t->device_id;
  dl->ndim = t->rank;
  dl->dtype.code = (uint8_t)t->type_code;
  dl->dtype.bits = (uint8_t)t->type_bits;
  dl->dtype.lanes = 1;
  dl->shape = e->shape;
  dl->strides = e->strides;
  return e;
}

int hologram_support_import(void *pointer, int is_versioned, hologram_tensor *out) {
  const tensor *dl;
  out->read_only = 0;
  if (is_versioned) {
    versioned *v = pointer;
    if (v->version.major != MAJOR) return 0;
    out->read_only = (v->flags & READ_ONLY) != 0;
    dl = &v->dl;
  } else {
    dl = &((managed *)pointer)->dl;
  }
  out->data = dl->data ? (char *)dl->data + dl->byte_offset : NULL;
  out->device_type = dl->device.type;
  out->device_id = dl->device.id;
  out->type_code = dl->dtype.code;
  out->type_bits = dl->dtype.bits;
  out->type_lanes = dl->dtype.lanes;
  out->rank = dl->ndim;
  out->shape = dl->shape;
  out->strides = dl->strides;
  return 1;
}

void hologram_support_discard(void *pointer, int is_versioned) {
  if (is_versioned) {
    versioned *v = pointer;
    if (v->deleter) v->deleter(v);
  } else {
    managed *m = pointer;
    if (m->deleter) m->deleter(m);
  }
}
