/* DLPack: arrays handed from library to library in place. */
#include "dlpack.h"

#include "support.h"

#include <stdlib.h>
#include <string.h>

/* One block of memory holds all that an export needs. */
typedef struct {
  union {
    dl_managed plain;
    dl_versioned versioned;
  } as;
  uint64_t lease;
  int64_t shape[HOLOGRAM_MAX_RANK], strides[HOLOGRAM_MAX_RANK];
} exported;

static void end(exported *e) {
  hologram_lease_free(e->lease);
  free(e);
}

static void end_plain(dl_managed *m) { end((exported *)m); }

static void end_versioned(dl_versioned *v) { end((exported *)v); }

void *hologram_support_export(const hologram_tensor *t, uint64_t lease, int is_versioned) {
  exported *e = calloc(1, sizeof *e);
  dl_tensor *dl;
  if (!e) return NULL;
  e->lease = lease;
  memcpy(e->shape, t->shape, sizeof e->shape);
  memcpy(e->strides, t->strides, sizeof e->strides);
  if (is_versioned) {
    e->as.versioned.version.major = DL_MAJOR;
    e->as.versioned.flags = t->read_only ? DL_READ_ONLY : 0;
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
  const dl_tensor *dl;
  out->read_only = 0;
  if (is_versioned) {
    dl_versioned *v = pointer;
    if (v->version.major != DL_MAJOR) return 0;
    out->read_only = (v->flags & DL_READ_ONLY) != 0;
    dl = &v->dl;
  } else {
    dl = &((dl_managed *)pointer)->dl;
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
    dl_versioned *v = pointer;
    if (v->deleter) v->deleter(v);
  } else {
    dl_managed *m = pointer;
    if (m->deleter) m->deleter(m);
  }
}
