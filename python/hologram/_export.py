"""Buffers as arrays of others, in place: by DLPack, and by CUDA's array interface."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Optional

from hologram import stream as streams
from hologram._ffi import native
from hologram.errors import BackendError, HologramError

if TYPE_CHECKING:
    from hologram.buffer import Buffer

__all__ = ["capsule", "device", "interface"]


def interface(buffer: Buffer) -> dict[str, Any]:
    """Return what __cuda_array_interface__ is, version 3: the memory is ready on the executor's stream.

    The stream waits on the device for work that others have queued on the buffer. Who uses the memory keeps the buffer
    alive, until what he has queued is done.
    """
    executor = buffer.executor
    info = buffer._describe()
    native.buffer_ready(buffer, 0)
    number = executor.stream.handle
    return {
        "version": 3,
        "shape": buffer.shape,
        "typestr": buffer.dtype.str,
        "data": (int(info.data or 0) if buffer.size else 0, bool(info.read_only)),
        "strides": None if info.contiguous else buffer.strides,
        "stream": number or None,
    }


def device(buffer: Buffer) -> tuple[int, int]:
    """Return DLPack's (device type, device number)."""
    executor = buffer.executor
    if executor.host_visible:
        return (1, 0)
    if not executor._device_type:
        raise BackendError(f"{buffer!r}: its memory can't be shared; use to_numpy() for a copy")
    return executor._device_type, executor._device_id


def capsule(
    buffer: Buffer,
    stream: Optional[int],
    max_version: Optional[tuple[int, int]],
    dl_device: Optional[tuple[int, int]],
    copy: Optional[bool],
) -> object:
    """Return a DLPack capsule of a buffer; see Buffer.__dlpack__."""
    own = device(buffer)
    wanted = own if dl_device is None else tuple(dl_device)
    if wanted == (1, 0) != own and copy is not False:
        return _on_host(buffer, max_version)
    if wanted != own:
        raise BufferError(f"__dlpack__: dl_device is {dl_device}; the memory is on {own}")
    if own == (1, 0):
        if stream is not None:
            raise BufferError(f"__dlpack__: stream is {stream!r}; memory of the CPU has no streams, expected None")
    elif stream is not None and (not isinstance(stream, int) or isinstance(stream, bool) or stream < -1 or not stream):
        raise BufferError(
            f"__dlpack__: stream is {stream!r}; expected None, -1, 1, 2 or a stream's address: 0 may mean two of them"
        )
    versioned = max_version is not None and max_version[0] >= 1
    if copy:
        fresh = buffer.executor.allocate(buffer.size, buffer.dtype, zero=False) if buffer.size else buffer
        fresh.copy_from(buffer)
        shaped = fresh.view(buffer.shape)
        made: object = native.to_capsule(shaped, versioned, True, _order(shaped, stream))
        return made
    buffer._check()
    if buffer.read_only and not versioned:
        raise BufferError("__dlpack__: the memory is read-only, which DLPack before version 1.0 can't say; copy it")
    made = native.to_capsule(buffer, versioned, False, _order(buffer, stream))
    return made


def _on_host(buffer: Buffer, max_version: Optional[tuple[int, int]]) -> object:
    """Return a capsule of a copy in the host's memory."""
    from hologram._results import default_executor

    host = default_executor(1)
    if not buffer.size:
        with host.allocate(1, buffer.dtype) as one:
            return capsule(one.view(buffer.shape), None, max_version, None, None)
    with host.allocate(buffer.shape, buffer.dtype, zero=False) as copied:
        copied.copy_from(buffer)
        versioned = max_version is not None and max_version[0] >= 1
        made: object = native.to_capsule(copied, versioned, True, 0)
        return made


def _order(buffer: Buffer, stream: Optional[int]) -> int:
    """Have the consumer's stream wait for the work on a buffer; return the stream in whose order it lets go, or 0."""
    executor = buffer.executor
    if executor.host_visible or stream == 2:
        buffer._synchronize()
        return 0
    if stream == -1:
        return 0
    number = streams.LEGACY if stream is None else stream
    try:
        native.buffer_ready(buffer, number)
    except HologramError as error:
        raise BufferError(f"__dlpack__: stream is {stream!r}: {error}") from error
    # Who has the memory lets go of it while his work is queued. A default stream is always there to wait for that, and
    # so are torch's; of others nobody knows whether they still are by then.
    lasts = number == streams.LEGACY
    torch = sys.modules.get("torch")
    if not lasts and executor._device_type == 2 and torch is not None and torch.cuda.is_initialized():
        lasts = number == streams.of_torch(executor._device_id)
    return number if lasts else 0
