/* Runs a call whose operands are taken: by the machine code itself, or by Go, and in either way without the GIL if others may
   wait for that; and what comes after it. */
#include "python_call.h"

#include <string.h>

/* Makes borrowed tensors owned, so that they last when the GIL goes; false with an exception. */
static bool own_all(request *r) {
  for (int i = 0; r->num_borrowed && i < r->args.num_operands; i++) {
    taken *t = &r->taken[i];
    if (!t->api || t->owned || request_own(r, i) == DONE) continue;
    if (!py.PyErr_Occurred()) py.PyErr_SetString(py.PyExc_BufferError, "a tensor can no longer be taken");
    return false;
  }
  return true;
}

static bool began(int32_t status) {
  return status == HOLOGRAM_OK || status == HOLOGRAM_PENDING || status == HOLOGRAM_FAULT || status == HOLOGRAM_CANCELLED;
}

/* Whether Python has one thread, so that nobody waits for the GIL: what holds it can start no other. */
static bool alone(void) { return !py.PyThreadState_Next(py.PyInterpreterState_ThreadHead(py.PyInterpreterState_Get())); }

/* Makes a call that takes long without Go and without the GIL, for which others may wait, if that goes, as direct says: not
   with buffers, which others may free meanwhile. False with an exception. */
static bool run_long(request *r, hologram_direct_outcome *direct) {
  hologram_gate *gate = hologram_gate_of((py_handle *)r->executor, r->args.stream, false);
  uint64_t handle = ((py_handle *)r->executor)->handle;
  work w = {.failure = NULL};
  for (int i = 0; i < r->args.num_operands; i++) {
    if (r->operands[i].buffer) return true;
  }
  if (!own_all(r)) return false;
  if (!work_begin(&w)) return false;
  *direct = hologram_direct_run(gate, handle, &r->args, NULL, NULL);
  r->changed = *direct == DIRECT_DONE;
  return work_end(&w, HOLOGRAM_OK);
}

/* Makes a call without Go, if that goes. unlent: it would with the memory of buffers that was not lent. */
static hologram_direct_outcome run_direct(const request *r, bool *unlent) {
  py_handle *executor = (py_handle *)r->executor;
  hologram_gate *gate = hologram_gate_of(executor, r->args.stream, false);
  const hologram_loan *loans[MAX_OPERANDS];
  bool all = true;
  *unlent = false;
  if (!gate) return DIRECT_NO;
  for (int i = 0; i < r->args.num_operands; i++) { /* freed since it was taken, by what Python ran meanwhile */
    py_array *b = (py_array *)r->taken[i].object;
    if (!r->operands[i].buffer) continue;
    if (executor->asynchronous && (b->executor != r->executor || hologram_buffer_gone(b))) return DIRECT_NO;
    loans[i] = &b->loan;
    if (executor->asynchronous && !hologram_direct_lent(&b->loan, gate)) {
      all = false;
    } else if (!hologram_buffer_seen(b)) {
      return DIRECT_NO;
    }
  }
  *unlent = !all;
  return all ? hologram_direct_run(gate, executor->handle, &r->args, loans, alone) : DIRECT_NO;
}

/* Has the memory of buffers lent that calls come with again and again: what comes once is not worth the asking, nor is what
   others take back each time. */
static void lend(const request *r) {
  enum { NEVER = UINT8_MAX };
  py_handle *executor = (py_handle *)r->executor;
  hologram_gate *gate = hologram_gate_of(executor, r->args.stream, true);
  for (int i = 0; gate && i < r->args.num_operands; i++) {
    py_array *b = (py_array *)r->taken[i].object;
    if (!r->operands[i].buffer || b->patience == NEVER || hologram_direct_lent(&b->loan, gate) || b->unlent++ <= b->patience) continue;
    b->unlent = 0;
    b->patience = b->patience < 64 ? 2 * b->patience + 1 : b->patience;
    if (!hologram_direct_lend(gate, executor->handle, b->handle, &b->loan)) b->patience = NEVER;
  }
}

/* Has Go publish a call that it made and that is new to C or, of one that C is not to make, that it need not ask again. */
static void offer(const request *r, hologram_direct_outcome direct) {
  py_handle *executor = (py_handle *)r->executor;
  hologram_gate *gate = hologram_gate_of(executor, r->args.stream, true); /* of a stream that is new too */
  if (direct == DIRECT_NEW && gate) hologram_direct_offer(gate, executor->handle, &r->args);
}

/* Notes the call where calls are recorded: on a stream of the caller's choice it can't be. */
static void note(const request *r) {
  if (r->stream) {
    sequence_spoil();
  } else {
    sequence_note(r);
  }
}

bool request_run(request *r) {
  uint64_t handle = ((py_handle *)r->executor)->handle;
  hologram_event event = 0;
  work w = {.failure = NULL};
  int32_t status = HOLOGRAM_OK;
  hologram_direct_outcome direct;
  bool unlent;
  r->args.flags = HOLOGRAM_TRY | r->ordered;
  direct = run_direct(r, &unlent);
  if (direct == DIRECT_LONG && !run_long(r, &direct)) return false;
  if (direct != DIRECT_DONE) status = hologram_call(handle, &r->args, &event);
  r->changed = began(status);
  if (status == HOLOGRAM_OK) {
    if (unlent) {
      lend(r);
    } else if (direct != DIRECT_DONE) {
      offer(r, direct);
    }
    note(r);
    return true;
  }
  if (status != HOLOGRAM_BUSY && status != HOLOGRAM_PENDING) return work_check(status);
  if (!own_all(r)) {
    if (status == HOLOGRAM_PENDING) work_stop(event);
    return false;
  }
  r->args.flags = r->ordered;
  if (status == HOLOGRAM_PENDING) {
    work_continue(&w);
  } else {
    if (!work_begin(&w)) return false;
    status = hologram_call(handle, &r->args, &event);
    r->changed = began(status);
  }
  atomic_store(&w.event, event);
  if (!work_end(&w, status)) return false;
  /* It took long; on a device that works by itself it had to wait for something, as it may not when it comes again. */
  if (!((py_handle *)r->executor)->asynchronous) offer(r, direct);
  note(r);
  return true;
}

bool tensors_written(const torch_way *torch, py_object *const *tensors, int all) {
  py_object *list[MAX_OPERANDS], *left, *arguments, *done;
  int n = 0;
  for (int i = 0; i < all; i++) {
    if (torch->wrote(tensors[i]) != DONE) list[n++] = tensors[i];
  }
  if (!n) return true;
  if (!(left = py.PyTuple_New(n)) || !(arguments = py.PyTuple_New(1))) {
    if (left) py.Py_DecRef(left);
    return false;
  }
  for (int i = 0; i < n; i++) {
    py.Py_IncRef(list[i]);
    py.PyTuple_SetItem(left, i, list[i]);
  }
  py.PyTuple_SetItem(arguments, 0, left);
  done = hologram_hook(HOOK_written, arguments);
  if (done) py.Py_DecRef(done);
  return done;
}

static bool raise_versions(request *r) {
  py_object *list[MAX_OPERANDS];
  int n = 0;
  for (int i = 0; i < r->args.num_operands; i++) {
    if (r->taken[i].version) list[n++] = r->taken[i].version;
  }
  return tensors_written(r->torch ? r->torch : torch_asked(), list, n); /* of Buffers' tensors none was asked */
}

bool request_end(request *r, bool fine) {
  py_object *type, *value, *traceback;
  if (!fine) py.PyErr_Fetch(&type, &value, &traceback);
  for (int i = 0; i < r->args.num_operands; i++) {
    taken *t = &r->taken[i];
    if (t->exported) py.PyBuffer_Release(&r->views[i]);
    if (t->held) py.Py_DecRef(t->object);
    if (t->owned && t->owned->deleter) t->owned->deleter(t->owned);
  }
  if (r->changed && r->num_versions && !raise_versions(r)) {
    if (fine) {
      py.PyErr_Fetch(&type, &value, &traceback);
      fine = false;
    } else {
      py.PyErr_Clear();
    }
  }
  for (int i = 0; r->num_versions && i < r->args.num_operands; i++) {
    if (r->taken[i].version) py.Py_DecRef(r->taken[i].version);
  }
  if (!fine) py.PyErr_Restore(type, value, traceback);
  return fine;
}
