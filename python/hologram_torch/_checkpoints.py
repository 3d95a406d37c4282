"""States in files: collections of tensors, numbers and texts, as safetensors holds them."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import stat
from collections import Counter
from pathlib import Path
from typing import Any, Optional, Union

import torch
from torch import Tensor

from hologram.errors import InvalidArgumentError
from hologram_torch._taken import a

__all__ = ["check_state", "load", "safetensors", "save"]

_FORMAT = "hologram_torch.training 1"


def _flat(value: Any, tensors: Optional[dict[str, Tensor]], where: str) -> Any:
    """Return a state as JSON can hold it; its tensors go to a dictionary, under their places, if there is one."""
    if isinstance(value, Tensor):
        if tensors is None and torch.nn.parameter.is_lazy(value):  # nobody knows yet
            return None
        dense = value.layout == torch.strided and not (value.is_meta or value.is_quantized or value.is_nested)
        if not dense or value.dtype in (torch.complex32, torch.complex128):
            raise TypeError(
                f"save: {where} is a {value.layout} tensor of {value.dtype} on {value.device}; expected a dense one of "
                "a dtype that safetensors has"
            )
        if tensors is None:
            return None
        name = where
        while name in tensors:  # other keys have the same text
            name += "'"
        tensors[name] = value.detach().to("cpu", copy=True).contiguous()
        return {"tensor": name, "device": str(value.device)}
    if isinstance(value, dict):
        for k in value:
            if isinstance(k, Tensor):
                raise TypeError(f"save: a key of {where} is a tensor; expected numbers, texts, and tuples of such")
        items = [[_flat(k, None, where), _flat(v, tensors, f"{where}.{k}")] for k, v in value.items()]
        return {"counts" if isinstance(value, Counter) else "items": items}
    if isinstance(value, (list, tuple)):
        found = [_flat(v, tensors, f"{where}.{i}") for i, v in enumerate(value)]
        return found if isinstance(value, list) else {"tuple": found}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(
        f"save: {where} is {a(type(value).__name__)}; expected tensors, numbers, texts, and collections of such"
    )


def _deep(value: Any, tensors: dict[str, Tensor]) -> Any:
    """Return what _flat got."""
    if isinstance(value, list):
        return [_deep(v, tensors) for v in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        return tensors[value["tensor"]].to(value["device"])
    if "tuple" in value:
        return tuple(_deep(v, tensors) for v in value["tuple"])
    counts = "counts" in value  # of a Counter, as schedulers have milestones in
    found = {_deep(k, tensors): _deep(v, tensors) for k, v in value["counts" if counts else "items"]}
    return Counter(found) if counts else found


def safetensors() -> Any:
    """Return the package.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import safetensors.torch
    except ImportError:
        raise ImportError("checkpoints are safetensors files: pip install safetensors") from None
    return safetensors


def check_state(state: dict[str, Any]) -> None:
    """Raise the TypeError that save would, of a state that no file can hold."""
    _flat(state, None, "state")


def save(path: Union[str, os.PathLike[str]], state: dict[str, Any]) -> None:
    """Write a state, such as state_dicts by name, as a safetensors file: whole, or not at all.

    Of a symbolic link it is the target that is written. The file may be read and written by whom open would let.

    Raises:
        ImportError: safetensors is not installed.
        TypeError: It holds what is neither a dense tensor, a number, a text, None, nor a dict, list or tuple of
            such, or a tensor of complex32 or complex128.
        OSError: It can't be written there.
    """
    write = safetensors().torch.save_file
    tensors: dict[str, Tensor] = {}
    tree = _flat(state, tensors, "state")
    target = Path(os.path.realpath(path))
    part = target.with_name(f"{target.name[:200]}{secrets.token_hex(8)}.part")
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))  # less the umask, as of open
    try:
        mode = stat.S_IMODE((target if target.exists() else part).stat().st_mode)
        write(tensors, part, metadata={"format": _FORMAT, "state": json.dumps(tree)})
        os.chmod(part, mode)
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):  # interrupted as it had just taken its place
            os.unlink(part)
        raise


def load(path: Union[str, os.PathLike[str]]) -> dict[str, Any]:
    """Return the state that save wrote, tensors on the devices that they were on.

    Nothing in a file is run.

    Raises:
        ImportError: safetensors is not installed.
        ValueError: It is no such file, or damaged, or names a device that is not there.
        FileNotFoundError: There is none.
    """
    package = safetensors()
    try:
        with package.safe_open(path, "pt") as file:
            described = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except package.SafetensorError as error:
        raise InvalidArgumentError(f"load: {os.fspath(path)} is no safetensors file, or not whole: {error}") from None
    if described.get("format") != _FORMAT:
        raise InvalidArgumentError(f"load: {os.fspath(path)} was not written by hologram_torch.training.save")
    try:
        found = _deep(json.loads(described["state"]), tensors)
    # A tree that save did not write may lack anything, be too deep, or name devices that are not there.
    # AssertionError is what torch raises for devices that it was built without.
    except (KeyError, TypeError, ValueError, RuntimeError, AssertionError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise InvalidArgumentError(f"load: {os.fspath(path)} is damaged, or not for this machine: {reason}") from None
    if not isinstance(found, dict):
        raise InvalidArgumentError(f"load: {os.fspath(path)} is damaged: it holds {a(type(found).__name__)}")
    return found
