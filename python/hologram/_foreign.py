"""Arrays of other libraries: which kinds C takes as they are, and what torch's tensors need beside their memory."""

from __future__ import annotations

import importlib
import operator
import sys
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from hologram import _log
from hologram._arguments import shown
from hologram._dtypes import NAMES, NUMPY_NAMES, code_of, dtype_of_code
from hologram._ffi import READ_ONLY, hooks, native
from hologram.errors import DTypeError, InvalidArgumentError

if TYPE_CHECKING:
    from collections.abc import Iterable

# The enumeration of capi/python_operand.c.
EXPORTER, EXCHANGER, TORCH, OTHER, NUMPY, SCALAR, INTERFACE = 1, 2, 3, 4, 5, 6, 7

_BOOLEAN = 4  # HOLOGRAM_BOOL

NO_VMAP = (
    "vmap is not there: go through the elements in a loop; jacrev takes chunk_size=1, torch.autograd.functional "
    "vectorize=False, and torch.autograd.grad one gradient at a time for is_grads_batched=True"
)
"""What is said of torch.vmap's tensors, by its name and by those of what asks for it."""

_PINNED = (3, 11)  # DLPack's kDLCUDAHost and kDLROCMHost

_EXCHANGE = "__dlpack_c_exchange_api__"


def probe(kind: type) -> tuple[object, ...]:
    """Tell C how it may take instances of a type, and the capsule of its DLPack C exchange API or None.

    Only exact types are taken: what derives from them may mean something else by its memory, as a masked array or a
    fake tensor does, and goes the way of ``Executor.wrap``, which looks closer.
    """
    if kind is np.ndarray:
        return (NUMPY if verify_numpy() else EXPORTER), None
    if kind in (memoryview, bytearray) or (kind.__module__, kind.__name__) == ("array", "array"):
        return EXPORTER, None
    if kind.__module__ == "numpy" and issubclass(kind, (np.number, np.bool_)):
        return SCALAR, None  # its memory lasts as long as it does
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if torch is not None and tensor is not None and kind in (tensor, torch.nn.Parameter):
        capsule = getattr(tensor, _EXCHANGE, None)
        # What torch.autograd.graph.increment_version does with a tuple, at half the cost.
        hooks["written"] = getattr(torch._C, "_increment_version", written)
        way = (tensor.requires_grad, tensor.is_neg, tensor.storage_offset, tensor._cdata)
        return (OTHER if capsule is None else TORCH), capsule, *way
    if kind is getattr(sys.modules.get("cupy"), "ndarray", None):
        return INTERFACE, None  # whose memory stays where it is as long as an array lives
    capsule = vars(kind).get(_EXCHANGE)
    return (OTHER if capsule is None else EXCHANGER), capsule


def recording() -> bool:
    """Whether torch records gradients."""
    torch = sys.modules.get("torch")
    return torch is None or bool(torch.is_grad_enabled())


def written(arrays: Iterable[Any]) -> None:
    """Raise the versions of those arrays that are torch's tensors, so that autograd knows that they were written."""
    for array in arrays:
        if is_tensor(array):
            sys.modules["torch"].autograd.graph.increment_version(array)


def empty(like: Any, shape: tuple[int, ...], code: int) -> Any:
    """Return a new array of torch's or CuPy's on another's device.

    Its dtype is that of the other, or that of a code, 0 for bools, if this is not negative.
    """
    if is_cupy(like):
        return empty_cupy(like, shape, like.dtype if code < 0 else bool if code == 0 else dtype_of_code(code))
    torch = sys.modules["torch"]
    dtype = like.dtype if code < 0 else torch.bool if code == 0 else getattr(torch, NUMPY_NAMES[code - 1])
    return torch.empty(shape, dtype=dtype, device=like.device)


def is_cupy(array: Any) -> bool:
    """Whether an array is CuPy's."""
    kind = getattr(sys.modules.get("cupy"), "ndarray", None)
    return kind is not None and isinstance(array, kind)


def empty_cupy(like: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return a new array of CuPy's on another's device."""
    with like.device:
        return sys.modules["cupy"].empty(shape, dtype)


def is_tensor(array: Any) -> bool:
    """Whether an array is a tensor of torch's, and not something that says so, as proxies do: C looks into it."""
    tensor = getattr(sys.modules.get("torch"), "Tensor", None)
    return tensor is not None and issubclass(type(array), tensor)


def device_of(array: Any) -> tuple[int, int]:
    """Return the DLPack device of an array that has one: its type and its number.

    Memory of the host that is pinned for a device, as torch says of such tensors, is the host's.

    Raises:
        DTypeError: It says something else.
    """
    given = array.__dlpack_device__()
    try:
        kind, number = given
        device = operator.index(kind), operator.index(number)
    except (TypeError, ValueError):
        name = type(array).__name__
        raise DTypeError(f"{name}.__dlpack_device__() is {shown(given)}; expected two integers") from None
    return (1, 0) if device[0] in _PINNED else device


def plain_tensor(array: Any) -> Any:
    """Return an array, a torch tensor without its gradient; refuse tensors that are not what their memory holds.

    Raises:
        InvalidArgumentError: It requires grad while gradients are recorded, is a negative view, or has no memory.
    """
    if not is_tensor(array):
        return array
    torch: Any = sys.modules["torch"]
    if array.is_neg():
        raise InvalidArgumentError(
            "the tensor is a negative view, whose memory has the other signs: give tensor.resolve_neg()"
        )
    if array.requires_grad:
        if torch.is_grad_enabled():
            raise InvalidArgumentError(
                "the tensor requires grad, and nothing done here is recorded: use hologram_torch, torch.no_grad() or "
                "tensor.detach()"
            )
        array = array.detach()
    if array.layout == torch.strided and array.numel() and not _has_memory(array):
        raise InvalidArgumentError(_why_none(array))
    return array


def _why_none(tensor: Any) -> str:
    """Return why a tensor has no memory of its own."""
    torch: Any = sys.modules["torch"]
    # The former vmap is what batched gradients still come from.
    if "Batched" in str(torch._C._dispatch_keys(tensor)):
        return NO_VMAP
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        return "the tensor is one that a transform of torch.func has made, which sees nothing of what is done here"
    return "the tensor has no memory: it is fake, functional or a zero tensor"


def _has_memory(tensor: Any) -> bool:
    try:
        # What has no storage begins as many bytes after 0 as its offset says.
        begins: int = tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()
        return tensor.device.type == "meta" or begins != 0
    except RuntimeError:
        return False


def verify_numpy() -> bool:
    """Whether an array's fields tell C the same as numpy tells Python; see capi/python_numpy.c."""
    plain = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    locked = plain.copy()
    locked.flags.writeable = False
    samples = [
        plain,
        plain.T[1:, :, ::-2],
        plain.transpose(1, 2, 0),
        plain[1, 2, 3, ...],
        plain[:, :0],
        np.broadcast_to(plain, (2, 2, 3, 4)),
        locked,
    ]
    samples += [np.zeros(3, dtype)[1:] for dtype in _arrays if dtype is not None]
    samples.append(np.frombuffer(bytearray(8), np.int16))
    for x in samples:
        code = code_of(x.dtype)
        flags = (0 if x.flags.writeable else READ_ONLY) | (_BOOLEAN if x.dtype == bool else 0)
        strides = tuple(s // x.itemsize for s in x.strides)
        if native.numpy_seen(x) != (x.__array_interface__["data"][0], x.shape, strides, code, flags):
            _log.debug("the fields of numpy's arrays are not used: they differ for %r", x.dtype)
            return False
        made = native.numpy_empty(x)
        if made is not None:
            kept = x.size > 0 and np.empty_like(x).strides == x.strides
            sizes = (made.shape, made.strides, made.dtype, made.flags.writeable, made.flags.owndata, made.base)
            if type(made) is not np.ndarray or sizes != (
                x.shape,
                x.strides if kept else np.empty_like(x, order="C").strides,
                x.dtype,
                True,
                True,
                None,
            ):
                native.numpy_makes_none()
    others = [np.zeros(3, ">f8"), np.zeros(3, "c8"), np.zeros((1,) * 9), np.frombuffer(bytearray(9), np.int16, 4, 1)]
    return all(native.numpy_seen(x) is None for x in others)


def _table() -> Any:
    """Return the capsule of numpy's functions for extensions, or None."""
    for name in ("numpy._core._multiarray_umath", "numpy.core._multiarray_umath"):
        module = sys.modules.get(name)
        if module is not None:
            return getattr(module, "_ARRAY_API", None)
    return None


def verify_torch() -> bool:
    """Whether torch's libraries tell C the same about tensors as torch tells Python; see capi/python_torch.c.

    It is found out in a thread of its own, which has none of the modes that the caller may have set: of gradients and
    inference, default devices, transforms.
    """
    answers: list[bool] = []

    def compare() -> None:
        try:
            answers.append(_torch_agrees(sys.modules["torch"]))
        except Exception as error:
            _log.debug("torch's libraries are not used: %r", error)

    thread = threading.Thread(target=compare, name="hologram: torch's libraries")
    try:
        thread.start()
    except RuntimeError:  # the interpreter ends, or there is no room for a thread
        return False
    thread.join()
    _log.debug("torch's libraries are asked directly: %s", answers == [True])
    return answers == [True]


def _torch_agrees(torch: Any) -> bool:
    plain = torch.arange(24, dtype=torch.float32, device="cpu").reshape(2, 3, 4)
    # That a tensor of C++ is one pointer comes first: all else calls functions with such a tensor.
    handle = torch._C._aoti.unsafe_alloc_void_ptr_from_tensor(plain)
    pointed = native.torch_points(handle, plain)
    torch._C._aoti.alloc_tensor_by_stealing_from_void_ptr(handle)
    if not pointed:
        return False
    leaf = torch.ones(3, dtype=torch.float64, device="cpu", requires_grad=True)
    with torch.inference_mode():
        inference = torch.zeros(5, dtype=torch.float32, device="cpu")
        view = plain[1]
    changed = torch.zeros(5, dtype=torch.float32, device="cpu")
    changed.data = inference
    samples = [
        plain,
        plain.permute(2, 0, 1)[1:, :, ::2],
        plain[1, 2, 3],
        plain[:, :0],
        plain.expand(5, 2, 3, 4),
        leaf,
        leaf * 2,
        leaf.detach(),
        torch.nn.Parameter(plain.clone()),
        torch._neg_view(plain),
        torch.ones(3, dtype=torch.complex64, device="cpu").conj().imag,
        inference,
        inference[1:],
        view,
        changed,
    ]
    native.torch_place(plain, plain._cdata, torch.Tensor.__basicsize__)
    if any(native.torch_at(x) != x._cdata for x in samples):
        native.torch_place(None, 0, 0)
    codes = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "complex": 5, "bool": 6}
    for dtype in (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool):
        samples.append(torch.zeros(3, dtype=dtype, device="cpu")[1:])
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128):
        samples.append(torch.zeros((3, 1), dtype=dtype, device="cpu")[1:].t())
    for _ in range(2):  # C learns the types from the first round
        for x in samples:
            name = str(x.dtype).replace("torch.", "")
            kind = name.rstrip("0123456789")
            expected = (
                x.requires_grad,
                x.is_neg(),
                _version(x) is not None,
                x.data_ptr(),
                tuple(x.shape),
                x.stride(),
                codes[kind],
                8 * x.element_size(),
            )
            if native.torch_seen(x) != expected:
                return False
    if native.torch_seen(plain.to_sparse()) is not None:
        return False
    for x in samples:
        before = _version(x)
        if native.torch_wrote(x) is not (before is not None) or _version(x) != (None if before is None else before + 1):
            return False
    for x in samples:
        made = native.torch_empty(x, (2, 0, 3)), native.torch_empty(x, (2, 1, 3)), native.torch_empty(x, ())
        for empty, shape in zip(made, ((2, 0, 3), (2, 1, 3), ())):
            if empty is None:
                break  # there is another way
            strides = torch.empty(shape).stride()
            seen = (type(empty), empty.dtype, tuple(empty.shape), empty.stride(), empty.requires_grad, _version(empty))
            if seen != (torch.Tensor, x.dtype, shape, strides, False, 0) or sys.getrefcount(empty) > 4:
                return False
    with torch.no_grad(), torch.overrides.TorchFunctionMode():
        on = native.torch_modes()
    if (on, native.torch_modes()) != ((False, True), (True, False)):
        return False
    try:
        if not _states_agree(torch):
            native.torch_keys(())  # Python asks then
    except Exception as error:
        native.torch_keys(())
        _log.debug("torch's libraries are not asked for what redirects its functions: %r", error)
    return True


def _states_agree(torch: Any) -> bool:
    """Whether torch's libraries, and its module for forward-mode derivatives, tell of what redirects functions."""
    dispatch: Any = importlib.import_module("torch.utils._python_dispatch")
    mode = type("Mode", (dispatch.TorchDispatchMode,), {})
    names = ("Python", "FuncTorchDynamicLayerFrontMode", "Tracer")
    native.torch_keys(tuple(int(torch._C._dispatch_key_parse(name)) for name in names))
    native.torch_levels(vars(torch.autograd.forward_ad), "_current_level", -1)
    seen = [native.torch_usual(True)]
    with mode():
        seen.append(native.torch_usual(False))
    torch._C._functorch._grad_increment_nesting()
    seen.append(native.torch_usual(False))
    torch._C._functorch._grad_decrement_nesting()
    with torch.overrides.TorchFunctionMode():
        seen.append(native.torch_usual(False))
    with torch.autograd.forward_ad.dual_level():
        seen.append(native.torch_usual(False))
    with torch.autocast("cpu"):
        seen += [native.torch_usual(True), not native.torch_usual(False)]
    return seen == [True, False, False, False, False, False, False]


def _version(tensor: Any) -> Any:
    """Return a tensor's version, None of one that has none."""
    try:
        return tensor._version
    except RuntimeError:
        return None


# The dtypes of the arrays that C reads and makes, by code, at 0 that of bools; numpy has no bfloat16 of its own.
_arrays = (np.dtype(bool), *(None if name == "bf16" else dtype_of_code(i + 1) for i, name in enumerate(NAMES)))

hooks["numpy"] = (np.ndarray, _table(), *_arrays)
hooks["probe"] = probe
hooks["empty"] = empty
hooks["recording"] = recording
hooks["written"] = written
hooks["verify_torch"] = verify_torch
