"""Operations: what one computes, its gradient, and the three ways to it.

A call goes the shortest way that does what torch promises:

- tensors that need no gradient: the work itself, on torch's memory; of plain tensors that lie in order by one call into
  the library, which looks at them, makes the result and runs the program (capi/python_map.c);
- eager calls that are recorded: an ``autograd.Function`` around it;
- everything else (torch.compile, export, modes, transforms, subclasses): the operator registered with
  ``torch.library``, which torch's dispatcher knows.

All three run the same ``forward``, ``save`` and ``backward``. Functions of several operations have a shorter way still
(_fused.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

import torch
from torch import Tensor
from torch.autograd import forward_ad

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["LIBRARY", "NAMESPACE", "OPERATIONS", "PLAIN", "Operation", "unusual"]

NAMESPACE = "hologram"
LIBRARY = torch.library.Library(NAMESPACE, "DEF")
OPERATIONS: dict[str, Operation] = {}
"""The operators that are registered, by name."""

PLAIN = frozenset([Tensor, torch.nn.Parameter])
"""The types of tensors that are what their memory holds."""

is_dynamo_compiling = torch.compiler.is_dynamo_compiling
is_grad_enabled = torch.is_grad_enabled
dispatch_modes = torch._C._len_torch_dispatch_stack
function_modes = torch._C._len_torch_function_stack
transforms = torch._C._are_functorch_transforms_active
_autocasts = torch._C._is_any_autocast_enabled
_tracing = torch._C._get_tracing_state

AUTOCAST_DEVICES = ("cpu", "cuda")


def unusual() -> bool:
    """Whether modes, transforms or torch.jit.trace are active, which see what torch's dispatcher sees.

    So it is while forward-mode derivatives are computed, which are not there: calls then are looked at for them.
    """
    return bool(dispatch_modes() or function_modes() or transforms() or _tracing() or forward_ad._current_level >= 0)


def _refuse_tangents(name: str, arguments: Sequence[Any]) -> None:
    """Refuse tensors with a forward-mode derivative, which would be lost."""
    for value in arguments:
        if isinstance(value, (list, tuple)):
            _refuse_tangents(name, value)
        elif isinstance(value, Tensor) and forward_ad.unpack_dual(value).tangent is not None:
            raise NotImplementedError(
                f"{name}: forward-mode derivatives are not there; torch.func.grad and autograd are"
            )


def _cast(rule: str, device: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments as autocast wants them on a device, as torch's own lists have it.

    "lower" narrows to autocast's type; "loss" widens the 16-bit floats to f32, and "wide" does so on GPUs alone.
    """
    if rule == "wide" and device == "cpu":
        return arguments
    dtype = torch.get_autocast_dtype(device) if rule == "lower" else torch.float32

    def cast(value: Any) -> Any:
        if isinstance(value, Tensor) and value.dtype.is_floating_point and value.dtype != torch.float64:
            return value.to(dtype)
        return value

    return tuple(cast(value) for value in arguments)


class Operation:
    """An operation on tensors, registered as ``torch.ops.hologram.NAME``.

    Attributes:
        name: Its name.
        schema: Its arguments and result, as torch.library writes them.
        autocast: What autocast does with its arguments: "lower", "loss", "wide" (see _cast), or nothing.
        operator: What the dispatcher calls.
        apply: What records a call for autograd.
    """

    def __init__(self, name: str, schema: str, autocast: Optional[str] = None) -> None:
        self.name = name
        self.schema = schema
        self.autocast = autocast
        OPERATIONS[name] = self
        LIBRARY.define(f"{name}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
        packet = getattr(torch.ops, NAMESPACE)
        self.operator = getattr(packet, name).default
        self._register()
        # autograd.Function's own apply looks again for what __call__ has looked for.
        recorded: Any = self._function()
        self.apply = super(torch.autograd.Function, recorded).apply  # type: ignore[misc]
        self._transformed: Any = None

    # ---- what an operation is

    def forward(self, *arguments: Any) -> Any:
        """Compute the result of tensors with memory, unrecorded."""
        raise NotImplementedError

    def fake(self, *arguments: Any) -> Any:
        """Make a tensor such as the result, of whatever it holds."""
        raise NotImplementedError

    def save(self, ctx: Any, arguments: tuple[Any, ...], result: Any) -> None:
        """Keep in ctx what backward needs."""
        raise NotImplementedError

    def backward(self, ctx: Any, *gradients: Any) -> Any:
        """Return the gradients by each argument, None for those that have or need none."""
        raise NotImplementedError

    # ---- ways to it

    def __call__(self, *arguments: Any) -> Any:
        """Compute the result, recorded where autograd records."""
        if is_dynamo_compiling() or unusual():
            if not is_dynamo_compiling() and forward_ad._current_level >= 0:
                _refuse_tangents(self.name, arguments)
            if transforms() and not is_dynamo_compiling():
                return self._transform(arguments)
            return self.operator(*arguments)
        recorded = False
        for value in arguments:
            if type(value) in PLAIN:
                if value.requires_grad:
                    recorded = True
            elif isinstance(value, Tensor):
                return self.operator(*arguments)
        if self.autocast is not None and _autocasts():
            device = next(value.device.type for value in arguments if isinstance(value, Tensor))
            if torch.is_autocast_enabled(device):
                arguments = _cast(self.autocast, device, arguments)
        if recorded and is_grad_enabled():
            return self.apply(*arguments)
        return self.forward(*arguments)

    def _function(self) -> Any:
        operation = self

        class Recorded(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *arguments: Any) -> Any:
                result = operation.forward(*arguments)
                operation.save(ctx, arguments, result)
                return result

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                return operation.backward(ctx, *gradients)

        Recorded.__name__ = Recorded.__qualname__ = f"Hologram_{self.name}"
        return Recorded

    def _transform(self, arguments: tuple[Any, ...]) -> Any:
        """Go one level down through torch.func's transforms, of which vmap is not there."""
        if self._transformed is None:
            operation = self

            class Transformed(torch.autograd.Function):
                @staticmethod
                def forward(*arguments: Any) -> Any:
                    return operation(*arguments)

                @staticmethod
                def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
                    operation.save(ctx, inputs, output)

                @staticmethod
                def backward(ctx: Any, *gradients: Any) -> Any:
                    return operation.backward(ctx, *gradients)

            self._transformed = Transformed
        return self._transformed.apply(*arguments)

    def _register(self) -> None:
        qualified = f"{NAMESPACE}::{self.name}"

        def compute(*arguments: Any) -> Any:
            with torch.no_grad():  # what stands above has recorded the call
                return self.forward(*arguments)

        for key in ("CPU", "CUDA"):
            LIBRARY.impl(self.name, compute, key)
        torch.library.register_fake(qualified, self.fake, lib=LIBRARY)

        def setup(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            self.save(ctx, inputs, output)

        torch.library.register_autograd(qualified, self.backward, setup_context=setup, lib=LIBRARY)
        if self.autocast is None:
            return
        for device in AUTOCAST_DEVICES:
            key = f"Autocast{device.upper()}"

            def cast(*arguments: Any, rule: str = self.autocast, device: str = device, key: str = key) -> Any:
                with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))):
                    return self.operator(*_cast(rule, device, arguments))

            LIBRARY.impl(self.name, cast, key)
