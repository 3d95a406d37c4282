"""Executors: where programs and operations run, and where buffers come from."""

from __future__ import annotations

import collections.abc
import math
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Optional, Union

import numpy as np

from hologram import _log
from hologram._arguments import INT64_MAX, integer, integers
from hologram._dtypes import code_of, dtype_of, refuse_mask
from hologram._ffi import (
    MAX_RANK,
    UNINITIALIZED,
    ExecutorBase,
    ExecutorInfo,
    KernelStats,
    MemoryStats,
    described,
    in_c,
    native,
    numbers,
)
from hologram.backend import backends, say_why_not
from hologram.buffer import Buffer
from hologram.errors import (
    DTypeError,
    ExecutorFreedError,
    ForkError,
    HologramError,
    InvalidArgumentError,
    InvalidBackendError,
)
from hologram.program import Program
from hologram.stream import Event, Stream, number_of, own_stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from hologram._ffi import Owner
    from hologram.future import Future

__all__ = ["Executor"]


class Executor(ExecutorBase):
    """A user of a device: makes buffers on it and runs work on them, in order.

    Executors on one backend share the device with its memory pool, worker threads and compiled kernels; a second one
    costs little. An executor may be used from several threads, whose work then runs one after the other; give each
    thread its own to have them run side by side.

    Args:
        backend: "cpu", "interp" (the slow reference interpreter), "cuda", "metal", or "auto" for the first of metal,
            cuda and cpu that is there; why one before was not taken is logged once. "cuda:1" is the second of several
            devices.
        memory_limit: The bytes that this executor's buffers may take together; no limit without it, or if it is 0.

    Attributes:
        backend: The name of the backend, never "auto".

    Raises:
        ValueError: No backend has that name.
        RuntimeError: The backend is not available; the message says why.
    """

    backend: str = ""  # of one that was not made

    def __init__(self, backend: str = "auto", *, memory_limit: Optional[int] = None) -> None:
        self.cleanup()  # where it is made again
        memory_limit = None if memory_limit is None else _limit("Executor: memory_limit", memory_limit)
        name = str(backend).lower()
        try:
            if "\0" in name:  # where the library would take it to end
                raise InvalidArgumentError(f"Invalid backend {name!r}")
            native.adopt(self, native.executor_new(name.encode(errors="replace")))
        except InvalidArgumentError as error:
            if name == "auto" or name in [b["name"] for b in backends()]:
                raise  # not the name is wrong, but HOLOGRAM_NUM_THREADS, as the message says
            raise InvalidBackendError(str(error)) from None
        info = self._describe()
        self.backend = info.backend.decode()
        self._host_visible = bool(info.host_visible)
        self._asynchronous = bool(info.asynchronous)
        self._device_type, self._device_id = int(info.dlpack_type), int(info.dlpack_id)
        if memory_limit:
            native.executor_set_quota(self, memory_limit)
        _log.debug("executor 0x%x on %s (asked for %s)", self.handle, self.backend, backend)
        if name == "auto":
            say_why_not(self.backend)

    # ---- what it is

    @property
    def device(self) -> str:
        """The device's name."""
        name: bytes = self._describe().device
        return name.decode("utf-8", "replace")

    @property
    def properties(self) -> dict[str, Any]:
        """What is known of the device: name, memory_bytes, multiprocessors and compute_capability; None of what is not.

        compute_capability is CUDA's, a pair: (9, 0) for an H100.
        """
        info = self._describe()
        return {
            "name": self.device,
            "memory_bytes": int(info.memory_bytes) or None,
            "multiprocessors": int(info.processors) or None,
            "compute_capability": divmod(int(info.capability), 10) if info.capability else None,
        }

    @property
    def host_visible(self) -> bool:
        """Whether buffers lie in the host's memory, so that numpy sees them in place."""
        return self._host_visible

    @property
    def asynchronous(self) -> bool:
        """Whether launches may return before they are done; ``synchronize`` then tells what became of them."""
        return self._asynchronous

    @property
    def phase(self) -> int:
        """The phase of the executor's stream, 0 … 767, which PHASE_ADV advances."""
        self._check()
        return int(native.executor_phase(self))

    def __repr__(self) -> str:
        """Describe the executor in one line."""
        if self._freed:
            return f"<Executor on {self.backend}, freed>"
        return f"<Executor on {self.backend}>"

    def _describe(self) -> ExecutorInfo:
        self._check()
        return described(ExecutorInfo, native.executor_describe, self)

    def _check(self) -> None:
        if self._freed:
            raise ExecutorFreedError(f"{self!r}: the executor was freed")

    # ---- memory

    @in_c("($self, size, dtype=numpy.float32, *, zero=True)")
    def allocate(self, size: Union[int, Sequence[int]], dtype: Any = np.float32, *, zero: bool = True) -> Buffer:
        """Make a buffer.

        Args:
            size: The number of elements, or a shape of up to eight dimensions, row-major.
            dtype: A numpy dtype, or a name such as "f32" or "bf16"; None is f32.
            zero: Whether its elements are zero; otherwise they are whatever the memory held, which is faster.

        Raises:
            ValueError: size or a dimension is not positive, or the dtype is not supported.
            MemoryError: The device, its limit or the executor's has no room.
            RuntimeError: The executor was freed.
        """
        self._check()
        if isinstance(size, (tuple, list, np.ndarray)):
            return self._allocate(integers("allocate: size", size), dtype, zero)
        size = integer("allocate: size", size)
        if size <= 0:
            raise InvalidArgumentError(f"allocate: size is {size}; expected a positive number of elements")
        found = dtype_of(np.float32 if dtype is None else dtype)
        owner = native.buffer_allocate(self, size, code_of(found), 0 if zero else UNINITIALIZED)
        return self._buffer(owner, found, (size,))

    def _allocate(self, shape: tuple[int, ...], dtype: Any, zero: bool) -> Buffer:
        elements = math.prod(shape)
        if len(shape) > MAX_RANK or not 0 < elements <= INT64_MAX or min(shape, default=1) <= 0:
            raise InvalidArgumentError(
                f"allocate: size is {shape}; expected a number, or up to {MAX_RANK} dimensions, each positive"
            )
        flat = self.allocate(elements, dtype, zero=zero)
        if flat.shape == shape:
            return flat
        with flat:
            return flat.view(shape)

    def allocate_boundary(self, class_index: int, width: int, height: int, dtype: Any = np.float32) -> Buffer:
        """Make a buffer of width · height elements on the executor's boundary pool of 96 classes × 12,288 bytes.

        It starts at Φ(class_index, 0, 0). Buffers of one class share its memory, as Φ-addresses in programs do, and
        none reaches beyond its class.

        Raises:
            ValueError: class_index is not in 0 … 95, width not in 1 … 48, height not in 1 … 256, or the elements
                take more than 12,288 bytes.
        """
        self._check()
        found = dtype_of(dtype)
        width, height = integer("allocate_boundary: width", width), integer("allocate_boundary: height", height)
        class_index = integer("allocate_boundary: class_index", class_index)
        owner = native.buffer_allocate_boundary(self, class_index, width, height, code_of(found))
        return self._buffer(owner, found, (width * height,))

    def _buffer(self, owner: Owner, dtype: np.dtype[Any], shape: tuple[int, ...], tensor: Any = None) -> Buffer:
        made: Buffer = native.buffer(self, owner, dtype, shape, code_of(dtype), dtype.name == "bool", tensor)
        return made

    def wrap(self, array: Any) -> Buffer:
        """Make a buffer of an array's own memory: what is written to one is seen in the other.

        Args:
            array: A numpy array, an object with the buffer protocol, or one with DLPack or CUDA's array interface, such
                as a torch tensor or CuPy's array; of any shape and strides. On a GPU the executor's stream waits for
                what the owner has queued on his current one; that the owner's waits for ours is the caller's business.
                The buffer keeps it alive, but can't keep others from giving its memory away, as torch's ``resize_``
                does. A read-only one is refused as an output. The version of a torch tensor, by which autograd notices
                changes, is raised by all that hologram writes to the buffer or its views; not by what is written to
                arrays and tensors made of these.

        Raises:
            TypeError: It is none of these, or its dtype is not supported.
            ValueError: Its strides are not multiples of its item size, or it is not aligned to it.
            RuntimeError: The executor's device can't see the array's memory.
        """
        self._check()
        from hologram import _wrapped

        return _wrapped.wrap(self, array)

    def from_numpy(self, array: Any, *, stream: Any = None) -> Buffer:
        """Make a buffer with a copy of an array, of the array's shape, copied on a stream if one is given.

        Raises:
            ValueError: The array is empty, its dtype is not supported, or it has more than eight dimensions.
            BackendError: It is an array in a device's memory, not the host's.
        """
        refuse_mask("from_numpy", array)
        from hologram import _wrapped

        if _wrapped.in_device_memory(array):
            raise _wrapped.elsewhere(self, "from_numpy", f"{type(array).__name__} in a GPU's memory")
        array = np.asarray(array)
        if not array.size:
            raise InvalidArgumentError(f"from_numpy: array has shape {array.shape}; expected an element or more")
        buffer = self.allocate(array.shape, array.dtype, zero=False)
        buffer.from_numpy(array, stream=stream)
        return buffer

    # ---- running

    @in_c(
        "($self, program, bindings=None, *, grid=None, block=None, n=None, shape=None, fuel=None, stream=None, "
        "**slots_and_parameters)"
    )
    def launch(
        self,
        program: Program,
        bindings: Optional[Mapping[str, Any]] = None,
        *,
        grid: Union[int, Sequence[int], None] = None,
        block: Union[int, Sequence[int], None] = None,
        n: Optional[int] = None,
        shape: Union[int, Sequence[int], None] = None,
        fuel: Optional[int] = None,
        stream: Any = None,
        **slots_and_parameters: Any,
    ) -> Optional[np.ndarray[Any, np.dtype[np.uint64]]]:
        """Run a program on arrays.

        ``executor.launch(program, a=x, b=y, c=out, alpha=0.5)`` binds the slots a, b and c and the parameter alpha.
        Slots take buffers, numpy arrays and whatever has DLPack, in place and of any strides; arrays read as
        ``slot[index]`` are broadcast to the index space.

        Args:
            program: The program.
            bindings: More slots and parameters, for names that aren't keywords of this method or of Python.
            grid: Blocks in x, y and z; as many as the index space needs without it.
            block: Lanes of a block in x, y and z; without it the program's own, or 256.
            n: The number of elements to run on: the first n of contiguous arrays.
            shape: The index space, where n will not do: the shape of the arrays accessed as ``slot[index]``, or one to
                which they broadcast; one number may count the elements of an array of more dimensions. Without both it
                is the shape that these broadcast to, or, if there are none, the lanes of the grid.
            fuel: The rounds of loops, as docs/isa.md counts them, that a lane may take; no limit without it.
            stream: The stream on which it runs, see ``Stream``; without it the current one of torch or CuPy, if slots
                take arrays of theirs on a GPU, else the executor's own.
            slots_and_parameters: A value for each slot and parameter.

        Returns:
            The 96 residues if the program has RES_ACCUM, else None.

        Raises:
            ValueError, TypeError: A slot or parameter is missing or doesn't fit; nothing has run.
            ProgramFault: A lane did what it must not. On an asynchronous device this, like all that goes wrong while
                running, is raised by the next call that waits, such as ``synchronize``.
        """
        self._check()
        from hologram import _launch

        given = _given(program, bindings, slots_and_parameters) if bindings is not None else slots_and_parameters
        return _launch.launch(self, program, given, grid, block, n, shape, fuel, stream)

    def trace(
        self,
        program: Program,
        bindings: Optional[Mapping[str, Any]] = None,
        *,
        lane: int = 0,
        grid: Union[int, Sequence[int], None] = None,
        block: Union[int, Sequence[int], None] = None,
        n: Optional[int] = None,
        shape: Union[int, Sequence[int], None] = None,
        fuel: Optional[int] = None,
        receive: Optional[Callable[[str], object]] = None,
        **slots_and_parameters: Any,
    ) -> list[str]:
        """Run a program as ``launch`` does, but on the interpreter, and record one lane.

        Args:
            program: The program.
            bindings: See ``launch``, as for all others but these two.
            lane: The global number of the lane.
            grid: See ``launch``.
            block: See ``launch``.
            n: See ``launch``.
            shape: See ``launch``.
            fuel: See ``launch``.
            receive: Called with each line as it comes, so that lines before a fault are seen; in another thread, and
                it may use the executor. What it raises ends the launch, and is raised here.
            slots_and_parameters: See ``launch``.

        Returns:
            A line for each instruction that the lane ran: its index, its text, and its operands' values.

        Raises:
            RuntimeError: The executor's memory is not the host's.
        """
        self._check()
        from hologram import _launch

        lines: list[str] = []

        def keep(line: str) -> None:
            lines.append(line)
            if receive is not None:
                receive(line)

        given = _given(program, bindings, slots_and_parameters) if bindings is not None else slots_and_parameters
        _launch.launch(self, program, given, grid, block, n, shape, fuel, None, (lane, keep))
        return lines

    # ---- streams and time

    @property
    def stream(self) -> Stream:
        """The executor's own stream, on which its work goes where nothing says another."""
        self._check()
        return own_stream(self)

    def record(self, stream: Any = None) -> Event:
        """Return an event behind what was queued so far, on the executor's stream or another."""
        return Event().record(self, stream)

    def wait(self, event: Event, *, stream: Any = None) -> None:
        """Have what is queued from now on, on the executor's stream or another, wait for an event; the caller doesn't.

        Raises:
            ValueError: The event is on another device.
        """
        self._check()
        if not isinstance(event, Event):
            raise DTypeError(f"wait: event: expected an Event, got {type(event).__name__}")
        if event._mark:
            native.mark_await(self, event._mark, number_of(stream, self, "wait: "))

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Call a function now, and return a future of its result: the caller waits for nothing that the device does.

        ``submit(ops.reduce_sum, x)`` is a future of the number, ``submit(buffer.to_numpy, out)`` of the array, and so
        it is with all operations, ``buffer.from_numpy``, ``item`` and ``launch``. Other functions are called as they
        are; their future is done when the executor's work so far is. Operations run on this executor.

        A future is one of ``concurrent.futures``, and can be awaited. On a device that works while it is called, as the
        CPU, it is done at once; so is that of what copies much to or from an array that is not pinned.
        """
        from hologram import future

        return future.submit(self, function, args, kwargs)

    def synchronize(self) -> None:
        """Wait for all work. An exception meanwhile, such as KeyboardInterrupt, cancels it.

        Raises:
            HologramError: What went wrong in a launch whose outcome nobody has seen yet; it names the launch.
        """
        self._check()
        self._await(native.executor_synchronize, self)

    def cancel(self) -> None:
        """Ask all work of the executor to end soon; who waits for a launch learns that it was cancelled."""
        self._check()
        native.executor_cancel(self)

    def _await(self, function: Callable[..., None], *arguments: Any) -> None:
        """Call a function that waits for work; an exception meanwhile, such as KeyboardInterrupt, ends that work."""
        try:
            function(*arguments)
        except HologramError:
            raise
        except BaseException:
            while True:
                try:
                    native.executor_cancel(self)
                    break
                except HologramError:
                    break  # closed by a signal handler
                except BaseException:
                    continue  # another signal's
            raise

    # ---- statistics

    def memory_stats(self) -> dict[str, int]:
        """Return what the device's memory pool holds.

        All are bytes but the last two: ``in_use`` by buffers, ``cached`` for reuse, ``reserved`` from the system,
        ``peak`` of in_use, ``limit`` of reserved (0: none); ``executor`` by this executor's buffers and
        ``executor_limit`` (0: none); ``allocations`` so far, of which ``reused`` blocks used before.
        """
        self._check()
        found = numbers(described(MemoryStats, native.executor_memory_stats, self))
        info = self._describe()
        counts = {name: found.pop(name) for name in ("allocations", "reused")}
        return {**found, "executor": int(info.used), "executor_limit": int(info.quota), **counts}

    def set_memory_limit(self, limit: Optional[int], *, device: bool = False) -> None:
        """Bound the bytes that this executor's buffers may take, or with ``device`` the whole device's pool."""
        limit = 0 if limit is None else _limit("set_memory_limit: limit", limit)
        function = native.executor_set_memory_limit if device else native.executor_set_quota
        function(self, limit)

    def trim(self) -> int:
        """Give memory that the device caches, or keeps between calls, back to the system; return how many bytes."""
        self._check()
        return int(native.executor_trim(self))

    def empty_cache(self) -> int:
        """Give the device's cached memory back to the system; return how many bytes. The same as ``trim``."""
        return self.trim()

    def kernel_stats(self) -> dict[str, int]:
        """Return what the device's cache of compiled kernels holds: entries, limit, hits, misses, evictions."""
        self._check()
        return numbers(described(KernelStats, native.executor_kernel_stats, self))

    # ---- the end

    def cleanup(self) -> None:
        """Free the executor's buffers and the executor. Doing so again does nothing.

        Calls that other threads wait for are cancelled. What a device that works by itself has queued may end as it
        would, and is cancelled too after five seconds.

        Raises:
            HologramError: What went wrong in a launch whose outcome nobody has seen, as ``synchronize`` does.
        """
        error = self._close()
        if error is not None:
            raise error

    def _close(self, end: Any = native.end, debug: Any = _log.debug) -> Optional[HologramError]:
        # Modules may be empty already when this is called for the last executor: hence what the arguments hold. There
        # is no lock, which a fork could leave locked: one of those that close at a time is told that it is the first.
        failed = None
        try:
            if not end(self):
                return None
        except ForkError:
            pass
        except HologramError as error:
            failed = error
        debug("executor 0x%x on %s: freed", self.handle, self.backend)
        return failed

    def __enter__(self) -> Executor:
        """Return the executor."""
        return self

    def __exit__(self, kind: object, *exc: object) -> None:
        """Clean up; an exception on its way is not replaced by another."""
        if kind is None:
            self.cleanup()
        else:
            self._close()

    def __reduce__(self) -> NoReturn:
        """Refuse to be copied or pickled: two objects would own one handle."""
        raise TypeError("cannot copy or pickle a hologram.Executor; make another one")

    def __del__(self) -> None:
        """Clean up, and tell of it; what a signal handler's exception keeps from this frees its base."""
        error = self._close()
        if error is not None:
            _log.debug("executor dropped without synchronize: %s", error)


def check_executor(what: str, executor: object, name: str = "executor") -> None:
    """Refuse what is no executor, or is freed.

    Raises:
        DTypeError: It is no Executor.
        ExecutorFreedError: It was freed.
    """
    if not isinstance(executor, Executor):
        raise DTypeError(f"{what}: {name}: expected an Executor, got {type(executor).__name__}")
    executor._check()


def _limit(what: str, value: Any) -> int:
    return integer(what, value, 0)


def _given(program: Program, bindings: Mapping[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    """Return the slots and parameters of a launch, each of which is given once."""
    wrong = None
    if not isinstance(bindings, collections.abc.Mapping):
        wrong = f"is a {type(bindings).__name__}"
    elif not all(isinstance(name, str) for name in bindings):
        wrong = f"names {next(name for name in bindings if not isinstance(name, str))!r}"
    if wrong:
        raise DTypeError(
            f'launch "{getattr(program, "name", program)}": bindings {wrong}; expected a dict from names of slots and '
            "parameters to arrays and numbers"
        )
    twice = [name for name in bindings if name in more]
    if twice:
        name = getattr(program, "name", program)
        raise InvalidArgumentError(f'launch "{name}": {twice[0]} is given twice, in bindings and by its name')
    return {**bindings, **more}


native.classes(Executor, Program, Buffer)
