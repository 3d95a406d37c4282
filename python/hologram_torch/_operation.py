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

import functools
import sys
import types
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Optional

import torch
from torch import Tensor
from torch._functorch import autograd_function
from torch.autograd import forward_ad

from hologram._foreign import NO_VMAP

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "LIBRARY",
    "NAMESPACE",
    "OPERATIONS",
    "PLAIN",
    "Operation",
    "absent",
    "pullback",
    "titled",
    "unusual",
    "widened",
]

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

_NO_TANGENTS = "forward-mode derivatives are not there; torch.func.grad and autograd are"

BUILT_IN = isinstance(torch.autograd.Function.apply, types.BuiltinMethodType)
"""Whether torch records calls in C alone. Before, it was left to Python to see what transforms have left and do."""


def unusual() -> bool:
    """Whether modes, transforms or torch.jit.trace are active, which see what torch's dispatcher sees.

    So it is while forward-mode derivatives are computed, which are not there: calls then are looked at for them.
    """
    return bool(dispatch_modes() or function_modes() or transforms() or _tracing() or forward_ad._current_level >= 0)


def _called(title: str) -> str:
    """Return the name of the function that a caller has called, of which an operation may be a part; else its title."""
    names = sys.modules["hologram_torch.functional"].__all__
    found, frame = title, sys._getframe(1)
    while frame.f_back is not None:
        frame = frame.f_back
        module = frame.f_globals.get("__name__")
        if frame.f_code.co_name in names and isinstance(module, str) and module.startswith("hologram_torch."):
            found = frame.f_code.co_name
    return found


def _has_tangents(arguments: Sequence[Any]) -> bool:
    """Whether tensors have a forward-mode derivative, which would be lost."""
    return any(
        _has_tangents(value)
        if isinstance(value, (list, tuple))
        else isinstance(value, Tensor) and forward_ad.unpack_dual(value).tangent is not None
        for value in arguments
    )


def _cast(rule: str, device: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments as autocast wants them on a device, as torch's own lists have it.

    "lower" narrows to autocast's type; "loss" widens the 16-bit floats to f32, as for losses, and "wide" does so on
    GPUs alone.
    """
    if rule == "wide" and device == "cpu":
        return arguments
    dtype = torch.get_autocast_dtype(device) if rule == "lower" else torch.float32

    def cast(value: Any) -> Any:
        if isinstance(value, Tensor) and value.dtype.is_floating_point and value.dtype != torch.float64:
            return value.to(dtype)
        return value

    return tuple(cast(value) for value in arguments)


def widened(x: Tensor) -> Tensor:
    """Return a tensor as autocast on GPUs gives it to functions that it computes in f32."""
    device = x.device.type
    return _cast("wide", device, (x,))[0] if device in AUTOCAST_DEVICES and torch.is_autocast_enabled(device) else x


def _unwrapped_if_dead(value: Any) -> Any:
    """Return what is in a tensor that a transform which has ended has left; all else as it is."""
    return torch._C._functorch.unwrap_if_dead(value) if isinstance(value, Tensor) else value


def _unwrapped(apply: Callable[..., Any]) -> Callable[..., Any]:
    """Make a function that gives another one what is in the tensors that a transform which has ended has left."""

    def unwrapped(*arguments: Any) -> Any:
        return apply(*[_unwrapped_if_dead(value) for value in arguments])

    return unwrapped


class _Outlived:
    """A ctx as backward reads it, which may be after the end of the transform that saved: as vjp's function is called.

    Then saved tensors are still wrapped, as torch's own functions know and look through.
    """

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return tuple([_unwrapped_if_dead(value) for value in self._ctx.saved_tensors])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ctx, name)


def applied(function: Any) -> Callable[..., Any]:
    """Return what records a call of an autograd.Function; transforms aren't looked for, which callers have done."""
    apply: Callable[..., Any] = super(torch.autograd.Function, function).apply
    return apply if BUILT_IN else _unwrapped(apply)


def titled(function: Any, name: str) -> Any:
    """Name an autograd.Function after an operation, and the nodes of its calls, which autograd's messages name."""
    for kind, of in ((function, ""), (function._backward_cls, "Backward")):
        kind.__name__ = kind.__qualname__ = f"Hologram_{name}{of}"
    return function


def pullback(
    function: Callable[..., Sequence[Tensor]], values: Sequence[Tensor], gradients: Sequence[Optional[Tensor]]
) -> Sequence[Optional[Tensor]]:
    """Return the gradients by values of a function's results, of those by its results; None are not asked for.

    Of what backward computes by other operations than the one it is the gradient of.
    """
    asked = [i for i, g in enumerate(gradients) if g is not None]
    given = tuple([gradients[i] for i in asked])
    recorded = is_grad_enabled()
    if transforms() and not is_dynamo_compiling():  # which let nobody ask for gradients but by themselves

        def chosen(*taken: Tensor) -> tuple[Tensor, ...]:
            results = function(*taken)
            return tuple([results[i] for i in asked])

        found: Sequence[Optional[Tensor]] = torch.func.vjp(chosen, *values)[1](given)
        return found
    with torch.enable_grad():
        # Others than the tensors themselves, which may depend on each other.
        leaves = [(t if t.requires_grad else t.detach().requires_grad_()).view_as(t) for t in values]
        results = function(*leaves)
        of = [results[i] for i in asked]
        return torch.autograd.grad(of, leaves, given, create_graph=recorded, allow_unused=True)


# Where torch has what a module of ours may be asked for.
_PLACES: dict[str, tuple[str, ...]] = {
    "hologram_torch": ("hologram_torch.functional", "hologram_torch.nn", "hologram_torch.optim"),
    "hologram_torch.functional": ("torch", "torch.nn.functional"),
    "hologram_torch.nn": ("torch.nn",),
    "hologram_torch.optim": ("torch.optim",),
}


def absent(module: str, name: str, known: Sequence[str]) -> NoReturn:
    """Say of a name that a module has not where it is, or which one may be meant.

    A function or layer of torch's is not taken for one of ours with a similar name: it works on the same tensors.

    Raises:
        AttributeError: Always.
    """
    import difflib
    import sys

    hint = ""
    if not name.startswith("_"):
        # Those alone that are loaded: Python asks a package for each of its modules' names before it imports that.
        for place in [sys.modules[each] for each in _PLACES.get(module, ()) if each in sys.modules]:
            torch_s = place.__name__.startswith("torch")
            if callable(getattr(place, name, None)) if torch_s else name in getattr(place, "__all__", ()):
                what = "Hologram has none of its own, and torch's works beside these: " if torch_s else "there is "
                hint = f"; {what}{place.__name__}.{name}"
                break
        else:
            near = difflib.get_close_matches(name, known, 2)
            hint = f"; did you mean {' or '.join(near)}?" if near else ""
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


class Operation:
    """An operation on tensors, registered as ``torch.ops.hologram.NAME``.

    Attributes:
        name: Its name.
        title: What messages call it.
        schema: Its arguments and result, as torch.library writes them.
        autocast: What autocast does with its arguments: "lower", "loss", "wide" (see _cast), or nothing.
        operator: What the dispatcher calls.
        apply: What records a call for autograd.
    """

    def __init__(self, name: str, schema: str, autocast: Optional[str] = None) -> None:
        self.name = self.title = name
        self.schema = schema
        self.autocast = autocast
        OPERATIONS[name] = self
        LIBRARY.define(f"{name}{schema}", tags=(torch.Tag.pt2_compliant_tag,))
        packet = getattr(torch.ops, NAMESPACE)
        self.operator = getattr(packet, name).default
        self._lists = [str(argument.type) == "List[Tensor]" for argument in self.operator._schema.arguments]
        self._register()
        self.apply = applied(self._function())
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

    def shown(self, arguments: Sequence[Any]) -> str:
        """Return the name of the function that was called, of which a call of this operation may be a part."""
        return _called(self.title)

    # ---- ways to it

    def __call__(self, *arguments: Any) -> Any:
        """Compute the result, recorded where autograd records."""
        if is_dynamo_compiling() or unusual():
            if not is_dynamo_compiling() and forward_ad._current_level >= 0 and _has_tangents(arguments):
                raise NotImplementedError(f"{self.shown(arguments)}: {_NO_TANGENTS}")
            if transforms() and not is_dynamo_compiling():
                return self._transform(arguments)
            return self.operator(*arguments)
        recorded = False
        for value in self._flat(arguments):
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
            return self.apply(*self._flat(arguments))
        return self.forward(*arguments)

    def _flat(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return what autograd.Function takes: tensors, none of them in a list, where it would not see them.

        The lengths of the lists stand before all others.
        """
        if True not in self._lists:
            return arguments
        lengths = tuple([len(value) for value, listed in zip(arguments, self._lists) if listed])
        return (lengths, *self._unlisted(arguments))

    def _unlisted(self, values: Sequence[Any]) -> list[Any]:
        """Return a value for each tensor and other argument, of values for each argument."""
        found: list[Any] = []
        for value, listed in zip(values, self._lists):
            found += value if listed else [value]
        return found

    def _listed(self, lengths: Sequence[int], values: Iterable[Any]) -> tuple[Any, ...]:
        """Undo _unlisted."""
        rest, counts = iter(values), iter(lengths)
        return tuple([[next(rest) for _ in range(next(counts))] if listed else next(rest) for listed in self._lists])

    def _computed(self, work: Callable[..., Any], given: tuple[Any, ...]) -> Any:
        """Call work with what _flat made of arguments."""
        if True not in self._lists:
            return work(*given)
        result = work(*self._listed(given[0], given[1:]))
        return tuple(result) if isinstance(result, list) else result

    def _saved(self, ctx: Any, given: tuple[Any, ...], result: Any) -> None:
        """Keep in ctx what _pulled needs, of what _flat made of arguments."""
        if True in self._lists:  # needs_input_grad too is as the dispatcher has it: for a list a list
            ctx.needs_input_grad = self._listed(given[0], ctx.needs_input_grad[1:])
            given = self._listed(given[0], given[1:])
        self.save(ctx, given, result)

    def _pulled(self, ctx: Any, gradients: tuple[Any, ...]) -> Any:
        """Return the gradients by what _flat made of arguments."""
        found = self.backward(ctx, *gradients)
        if True not in self._lists:
            return found
        # What the dispatcher takes for a list of no numbers is an empty one.
        return (None, *[None if isinstance(g, list) else g for g in self._unlisted(found)])

    def _function(self) -> Any:
        operation = self

        class Recorded(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *given: Any) -> Any:
                result = operation._computed(operation.forward, given)
                operation._saved(ctx, given, result)
                return result

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                return operation._pulled(ctx, gradients)

        return titled(Recorded, self.name)

    def _transform(self, arguments: tuple[Any, ...]) -> Any:
        """Go one level down through torch.func's transforms, of which vmap is not there."""
        if self._transformed is None:
            operation = self

            class Transformed(torch.autograd.Function):
                @staticmethod
                def forward(*given: Any) -> Any:
                    return operation._computed(operation, given)

                @staticmethod
                def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
                    operation._saved(ctx, inputs, output)

                @staticmethod
                def backward(ctx: Any, *gradients: Any) -> Any:
                    return operation._pulled(_Outlived(ctx), tuple([_unwrapped_if_dead(g) for g in gradients]))

                @staticmethod
                def vmap(info: Any, dims: Any, *given: Any) -> Any:
                    shown = operation._computed(lambda *arguments: operation.shown(arguments), given)
                    raise NotImplementedError(f"{shown}: {NO_VMAP}")

                @staticmethod
                def jvp(*_: Any) -> Any:
                    raise NotImplementedError(f"{_called(operation.title)}: {_NO_TANGENTS}")

            self._transformed = titled(Transformed, self.name)
        return self._transformed.apply(*self._flat(arguments))

    def _recording(self) -> Callable[..., Any]:
        """Return what torch.library.register_autograd makes, of which that of former torchs refuses transforms."""
        operation = self

        def below(keys: Any, *arguments: Any) -> Any:
            with torch._C._AutoDispatchBelowAutograd():
                return operation.operator.redispatch(keys & torch._C._after_autograd_keyset, *arguments)

        class Dispatched(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, keys: Any, *given: Any) -> Any:
                result = operation._computed(functools.partial(below, keys), given)
                ctx.needs_input_grad = ctx.needs_input_grad[1:]
                operation._saved(ctx, given, result)
                return result

            @staticmethod
            def backward(ctx: Any, *gradients: Any) -> Any:
                found = operation._pulled(ctx, gradients)
                return (None, *found) if isinstance(found, tuple) else (None, found)

        apply = applied(titled(Dispatched, self.name))

        def record(keys: Any, *arguments: Any) -> Any:
            if is_grad_enabled() and torch._C._any_requires_grad(*arguments):
                allowed: Any = autograd_function
                with allowed.enable_single_level_autograd_function():  # a transform has this one call recorded
                    return apply(keys, *operation._flat(arguments))
            return below(keys, *arguments)

        return record

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

        if BUILT_IN:
            torch.library.register_autograd(qualified, self.backward, setup_context=setup, lib=LIBRARY)
        else:
            LIBRARY.impl(self.name, self._recording(), "Autograd", with_keyset=True)
        if self.autocast is None:
            return
        for device in AUTOCAST_DEVICES:
            key = f"Autocast{device.upper()}"

            def cast(*arguments: Any, rule: str = self.autocast, device: str = device, key: str = key) -> Any:
                with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))):
                    return self.operator(*_cast(rule, device, arguments))

            LIBRARY.impl(self.name, cast, key)
