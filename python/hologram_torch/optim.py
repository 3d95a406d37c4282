"""Optimisers whose steps Hologram computes, one pass over each parameter and its state.

They are torch.optim's own, with its parameter groups, ``state_dict``, hooks, learning-rate schedulers and GradScaler;
only ``step`` is not. What torch computes in several passes one program does in one, in place, in f32 for the 16-bit
floats.
"""

from __future__ import annotations

import functools
import math
from abc import abstractmethod
from collections import defaultdict
from operator import is_
from typing import TYPE_CHECKING, Any, Callable, Optional

import torch
import torch.optim.optimizer as torch_optimizer
from torch import Tensor
from torch.autograd import profiler

import hologram as h
from hologram._ffi import native
from hologram.errors import InvalidArgumentError
from hologram_torch._clip import clip_grad_norm_
from hologram_torch._kernel import kernel
from hologram_torch._operands import opmath
from hologram_torch._operation import absent, is_dynamo_compiling, is_grad_enabled
from hologram_torch._update import Ready, Update

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["SGD", "Adam", "AdamW", "clip_grad_norm_"]


if not TYPE_CHECKING:  # who checks types is told of wrong names

    def __getattr__(name: str) -> object:
        """Say what there is instead of what is not."""
        return absent(__name__, name, __all__)


_V = Any  # an element, or a number

_set_grad_enabled = torch._C._set_grad_enabled
_compiles: Callable[[], Any] = torch._C._dynamo.eval_frame.get_eval_frame_callback  # None outside torch.compile


# What an option of 0 leaves out is no part of a program: 0 times an infinite parameter or gradient would be NaN.


def _downhill(p: _V, g: _V, decay: _V, decays: bool, maximizes: bool) -> _V:
    g = -g if maximizes else g
    return g + decay * p if decays else g


def _sgd(p: _V, g: _V, lr: _V, decay: _V, decays: bool, maximizes: bool) -> _V:
    return p - lr * _downhill(p, g, decay, decays, maximizes)


def _sgd_momentum(
    p: _V, g: _V, b: _V, lr: _V, decay: _V, momentum: _V, keep: _V, decays: bool, maximizes: bool, nesterov: bool
) -> tuple[_V, _V]:
    g = _downhill(p, g, decay, decays, maximizes)
    b = momentum * b + keep * g
    return p - lr * (g + momentum * b if nesterov else b), b


def _moments(g: _V, m: _V, v: _V, n1: _V, b2: _V, n2: _V) -> tuple[_V, _V]:
    return m + (g - m) * n1, v * b2 + n2 * g * g


def _adam(
    p: _V,
    g: _V,
    m: _V,
    v: _V,
    shrink: _V,
    decay: _V,
    n1: _V,
    b2: _V,
    n2: _V,
    rate: _V,
    root: _V,
    eps: _V,
    decays: bool,
    maximizes: bool,
) -> _V:
    p = p * shrink
    m, v = _moments(_downhill(p, g, decay, decays, maximizes), m, v, n1, b2, n2)
    return p - rate * (m / (h.sqrt(v) / root + eps)), m, v


def _amsgrad(
    p: _V,
    g: _V,
    m: _V,
    v: _V,
    most: _V,
    shrink: _V,
    decay: _V,
    n1: _V,
    b2: _V,
    n2: _V,
    rate: _V,
    root: _V,
    eps: _V,
    decays: bool,
    maximizes: bool,
) -> _V:
    p = p * shrink
    m, v = _moments(_downhill(p, g, decay, decays, maximizes), m, v, n1, b2, n2)
    most = h.maximum(most, v)
    return p - rate * (m / (h.sqrt(most) / root + eps)), m, v, most


def _adam_captured(
    p: _V,
    g: _V,
    m: _V,
    v: _V,
    shrink: _V,
    rate: _V,
    root: _V,
    decay: _V,
    n1: _V,
    b2: _V,
    n2: _V,
    eps: _V,
    decays: bool,
    maximizes: bool,
) -> _V:
    return _adam(p, g, m, v, shrink, decay, n1, b2, n2, rate, root, eps, decays, maximizes)


def _amsgrad_captured(
    p: _V,
    g: _V,
    m: _V,
    v: _V,
    most: _V,
    shrink: _V,
    rate: _V,
    root: _V,
    decay: _V,
    n1: _V,
    b2: _V,
    n2: _V,
    eps: _V,
    decays: bool,
    maximizes: bool,
) -> _V:
    return _amsgrad(p, g, m, v, most, shrink, decay, n1, b2, n2, rate, root, eps, decays, maximizes)


@kernel
def _corrections(n: _V, lr: _V, b1: _V, b2: _V, apart: _V) -> _V:
    """What differs from step to step, of the count of the steps before: the factor of decay, the rate, the root."""
    return h.where(apart != 0, 1 - lr * apart, 1.0), lr / (1 - h.pow(b1, n + 1)), h.sqrt(1 - h.pow(b2, n + 1))


@functools.cache
def _update(name: str, function: Callable[..., Any], inputs: int, *chosen: bool, alone: tuple[int, ...] = ()) -> Update:
    """Return the update that a function is by its last arguments, the first of which is whether weights decay."""
    return Update(name, function, inputs, alone, **dict(zip(("decays", "maximizes", "nesterov"), chosen)))


def _refuse(what: str, group: dict[str, Any]) -> None:
    if group.get("differentiable"):
        raise InvalidArgumentError(
            f"{what}: differentiable is {group['differentiable']!r}; a step here has no gradient: set "
            "group['differentiable'] = False in optimizer.param_groups, or use torch's"
        )


def _number(value: Any) -> float:
    """Return an option as a float, unless it is text, which float() would read and torch doesn't."""
    if isinstance(value, (str, bytes, bytearray)):
        raise ValueError
    return float(value)


def _odd(what: str, group: dict[str, Any], names: Sequence[str]) -> Exception:
    """Return what is wrong with the first of some options that is no number, or no pair of them for betas."""
    for name in names:
        value = group[name]
        try:
            if name == "betas":
                b1, b2 = (_number(beta) for beta in value)
                if not (0 <= b1 < 1 and 0 <= b2 < 1):
                    raise ValueError
            else:
                _number(value)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            expected = "two numbers from 0 on and below 1" if name == "betas" else "a number"
            return InvalidArgumentError(f"{what}: {name} is {value!r}; expected {expected}")
    raise AssertionError("all are numbers")


def _held(
    what: str, update: Update, ready: Ready, numbers: Sequence[float], options: Sequence[str], group: Any
) -> None:
    """Refuse numbers that the dtype of a step does not hold, before anything is changed."""
    at = update.beyond(ready, numbers)
    if at is not None:
        name = options[at]
        raise InvalidArgumentError(
            f"{what}: {name} is {group[name]!r}; f32, in which the step is computed, does not hold "
            f"{'it' if numbers[at] == group[name] else f'{numbers[at]}, which is made of it'}"
        )


def _parted(
    arrays: tuple[Tensor, ...], each: int, numbers: Sequence[float], usual: float
) -> Iterable[tuple[tuple[Tensor, ...], float]]:
    """Return lists of so many tensors each by a number that each has, in their order; the usual, if none is given."""
    distinct = dict.fromkeys(numbers) if numbers else {usual: None}
    if len(distinct) == 1:
        return [(arrays, *distinct)]
    parts: dict[float, list[Tensor]] = {number: [] for number in distinct}
    for at, number in enumerate(numbers):
        parts[number] += arrays[at * each : (at + 1) * each]
    return [(tuple(part), number) for number, part in parts.items()]


def _watched(optimizer: Any) -> bool:
    """Whether somebody is told of an optimiser's steps."""
    if is_dynamo_compiling() or profiler._is_profiler_enabled:
        return True
    return bool(
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or torch_optimizer._global_optimizer_pre_hooks
        or torch_optimizer._global_optimizer_post_hooks
    )


def _step(compute: Callable[[Any], None]) -> Callable[..., Any]:
    """Make the method step, of what computes one.

    What torch has around a step, hooks and a mark for profilers, takes longer than a small one: it is there if somebody
    is told of them.
    """

    def whole(self: Any, closure: Optional[Callable[[], Any]] = None) -> Any:
        loss, recorded = None, is_grad_enabled()
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        try:
            _set_grad_enabled(False)
            compute(self)
        finally:
            _set_grad_enabled(recorded)
        return loss

    named = ("__module__", "__name__", "__qualname__", "__doc__")
    functools.update_wrapper(whole, compute, named, ())
    del whole.__wrapped__  # type: ignore[attr-defined]  # which takes no closure
    around: Any = torch.optim.Optimizer.profile_hook_step(whole)
    alone: Any = torch._disable_dynamo(around)  # type: ignore[attr-defined]

    @functools.wraps(whole)
    def step(self: Any, *arguments: Any, **named: Any) -> Any:  # as they came, which hooks are told
        # torch.compile must not follow the making of a program, which would become another. A call that it leaves to
        # Python isn't compiling, but what is called within may be.
        if is_dynamo_compiling() or _compiles() is not None:
            return alone(self, *arguments, **named)
        # A class that has a step of its own, which calls this one, has them around that.
        if _watched(self) and getattr(type(self).step, "computed", None) is compute:
            return around(self, *arguments, **named)
        return whole(self, *arguments, **named)

    step.computed = compute  # type: ignore[attr-defined]
    step.hooked = True  # type: ignore[attr-defined]  # so torch leaves it as it is
    return step


class _Optimizer:
    """What the optimisers share."""

    param_groups: list[dict[str, Any]]
    state: defaultdict[Tensor, Any]

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """Whether GradScaler leaves it to a step to unscale, which torch sets where fused is asked for."""
        return False

    @_step_supports_amp_scaling.setter
    def _step_supports_amp_scaling(self, value: bool) -> None:
        pass

    @abstractmethod
    def _first(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> dict[str, Tensor]:
        """Return what a parameter's state lacks before its first step."""

    def _lists(
        self, group: dict[str, Any], kept: tuple[str, ...], count: Optional[str], made: dict[Tensor, dict[str, Tensor]]
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...], list[bool]]:
        """Return what a step takes of a group's parameters that have a gradient; C knows what most steps take.

        Args:
            group: The group.
            kept: The names of the states that a step changes.
            count: The name of what counts steps, if something does.
            made: The states that the step's parameters lack, to which those of the group's are added.

        Returns:
            Of each parameter it, its gradient, its states, and again what is written, it and these, all in one; the
            counts; and of each whether this is its first step, or nothing if it is nobody's.
        """
        _refuse(type(self).__name__, group)
        params: list[Tensor] = group["params"]
        if type(self.state) is defaultdict:
            usual = native.torch_lists(params, self.state, kept, count)
            if usual is not None:
                return (*usual, [])
        arrays: list[Tensor] = []
        counts: list[Tensor] = []
        first: list[bool] = []
        for p in params:
            g = p.grad
            if g is None:
                continue
            state = {**(self.state[p] if p in self.state else {}), **made.get(p, {})}
            lacks = self._first(group, p, state) if count or kept else {}
            if lacks:
                made[p] = lacks
                state.update(lacks)
            first.append(bool(lacks))
            try:
                states = [state[name] for name in kept]
                if count:
                    counts.append(state[count])
            except KeyError as missing:
                raise InvalidArgumentError(
                    f"{type(self).__name__}: the state of a parameter of shape {tuple(p.shape)} has no {missing}"
                ) from None
            for name in (*kept, count) if count else kept:
                if not isinstance(state[name], Tensor):
                    raise InvalidArgumentError(
                        f"{type(self).__name__}: {name} in the state of a parameter of shape {tuple(p.shape)} is "
                        f"{state[name]!r:.60}; expected a tensor"
                    )
            arrays += [p, g, *states, p, *states]
        return tuple(arrays), tuple(counts), first

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Let gradients go or, if asked, set them to zero; see torch.optim.Optimizer.zero_grad."""
        params = [p for group in self.param_groups for p in group["params"]]
        grads = [] if set_to_none else [p.grad for p in params if p.grad is not None]
        if _watched(self) or any(type(g) is not Tensor or g.requires_grad or g.layout != torch.strided for g in grads):
            super().zero_grad(set_to_none)  # type: ignore[misc]
        elif grads:
            torch._foreach_zero_(grads)
        elif set_to_none:
            for p in params:
                p.grad = None


class SGD(_Optimizer, torch.optim.SGD):
    """Gradient descent with momentum, Nesterov's or not, and weight decay; see torch.optim.SGD.

    A step that is refused changes no parameter and no state.

    Raises:
        TypeError: At a step: a parameter or gradient has no float dtype, or is sparse.
        ValueError: At a step: differentiable is asked for, a parameter has more than 8 dimensions, its
            elements share memory, or it lies in one piece of memory with its own state; or an option is no number, or
            one that f32, in which all but f64 is computed, does not hold.
    """

    _options = ("lr", "weight_decay", "momentum", "dampening")

    def _first(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> dict[str, Tensor]:
        if state.get("momentum_buffer") is not None:
            return {}
        # Of the dtype that what it begins with has in torch: the gradient, with what decays.
        dtype = p.dtype if p.grad is None else p.grad.dtype
        if dtype != p.dtype and group["weight_decay"]:
            dtype = torch.promote_types(dtype, p.dtype)
        return {"momentum_buffer": torch.zeros_like(p, dtype=dtype)}

    @_step
    def step(self) -> None:
        """Do a step; a closure that is given computes the loss anew, which is returned."""
        made: dict[Tensor, dict[str, Tensor]] = {}  # first momenta
        work: list[tuple[dict[str, Any], Update, Ready, list[float]]] = []
        for group in self.param_groups:
            try:
                lr, decay, momentum = _number(group["lr"]), _number(group["weight_decay"]), _number(group["momentum"])
                keep = 1.0 - _number(group["dampening"]) if momentum else 1.0
            except (TypeError, ValueError, RuntimeError, OverflowError):
                raise _odd(type(self).__name__, group, self._options) from None
            decays, maximizes = decay != 0, bool(group.get("maximize"))
            if not momentum:
                arrays, _, _ = self._lists(group, (), None, made)
                update = _update("sgd", _sgd, 2, decays, maximizes)
                work.append((group, update, update.ready(arrays, 3, 2), [lr, decay]))
                continue
            arrays, _, first = self._lists(group, ("momentum_buffer",), None, made)
            update = _update("sgd_momentum", _sgd_momentum, 3, decays, maximizes, bool(group["nesterov"]))
            for given, kept in _parted(arrays, 5, [1.0 if new else keep for new in first], keep):
                work.append((group, update, update.ready(given, 5, 4), [lr, decay, momentum, kept]))
        for group, update, ready, numbers in work:
            _held(type(self).__name__, update, ready, numbers, self._options, group)
        for p, states in made.items():
            self.state[p].update(states)
        for _, update, ready, numbers in work:
            update(ready, numbers)


class Adam(_Optimizer, torch.optim.Adam):
    """Adam of Kingma and Ba, with weight decay in the gradient and AMSGrad; see torch.optim.Adam.

    With ``capturable`` steps are counted on the device, so that each replay of a captured one is the next, at the rate
    that a tensor ``lr`` then has. A step that is refused changes no parameter and no state.

    Raises:
        TypeError: At a step: a parameter or gradient has no float dtype, or is sparse.
        ValueError: At a step: differentiable is asked for, a parameter has more than 8 dimensions, its
            elements share memory, or it lies in one piece of memory with its own state; an option is no number, or it
            or the rate that Adam makes of it is one that f32, in which all but f64 is computed, does not hold; betas
            are not from 0 on and below 1; a state lacks something, or its count of steps is negative; or with
            capturable a parameter is given twice.
        RuntimeError: At a step: a graph captures it, and it is not capturable.
    """

    _decoupled = False
    _different: Sequence[Tensor] = ()  # counts that a step found to be as many tensors
    _options = ("lr", "weight_decay", "betas", "betas", "betas", "lr", "betas", "eps")  # that _numbers come of

    @_step
    def step(self) -> None:
        """Do a step; a closure that is given computes the loss anew, which is returned."""
        made: dict[Tensor, dict[str, Tensor]] = {}  # first states
        work: list[tuple[dict[str, Any], Update, tuple[Tensor, ...], int, Ready]] = []
        steps: list[Tensor] = []
        captured: list[tuple[Update, Ready, list[float]]] = []
        on_devices: list[Tensor] = []  # counts of steps there
        for group in self.param_groups:
            on_device, amsgrad = bool(group.get("capturable")), bool(group["amsgrad"])
            kept = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if amsgrad else ("exp_avg", "exp_avg_sq")
            arrays, counted, _ = self._lists(group, kept, "step", made)
            if not on_device and arrays and arrays[0].is_cuda and torch.cuda.is_current_stream_capturing():
                raise RuntimeError(
                    f"{type(self).__name__}: a graph captures the step, whose replays would all have its number; "
                    "give capturable=True, which counts them on the device"
                )
            each = 2 * len(kept) + 3
            if on_device:
                on_devices += counted
                captured += self._captured(group, arrays, each, counted)
                continue
            steps += counted
            name, function, inputs = ("amsgrad", _amsgrad, 5) if amsgrad else ("adam", _adam, 4)
            update = _update(name, function, inputs, self._decays(group), bool(group.get("maximize")))
            work.append((group, update, arrays, each, update.ready(arrays, each, 8)))
        if len(set(map(id, on_devices))) < len(on_devices):
            raise InvalidArgumentError(
                f"{type(self).__name__}: a parameter is there twice, or two share a count of steps; with capturable "
                "each has its own"
            )
        # From here on nothing is refused but what numbers there are, and nothing changed before these are looked at.
        before = native.torch_counts(tuple(steps), False)
        if before is None:
            counts = [(step + 1).item() for step in steps]  # integers too
        else:
            counts = [before + 1] if type(before) is float else [count + 1 for count in before]
        again = self._again(steps)
        if again:
            counts = [count + n for count, n in zip(counts * len(steps) if len(counts) == 1 else counts, again)]
        at = 0
        planned: list[tuple[Update, Ready, list[float]]] = []
        for group, update, arrays, each, ready in work:
            own = counts
            if len(counts) > 1:  # where parameters had no gradient
                own = counts[at : at + len(arrays) // each]
                at += len(own)
            if again:  # in their order, in which the later sees what the earlier has done
                parts: Any = [(arrays[i * each : (i + 1) * each], count) for i, count in enumerate(own)]
            else:
                parts = _parted(arrays, each, own, 1.0)
            for given, count in parts if arrays else ():
                if given is not arrays:
                    ready = update.ready(given, each, 8)
                numbers = self._numbers(group, count)
                _held(type(self).__name__, update, ready, numbers, self._options, group)
                planned.append((update, ready, numbers))
        for p, state in made.items():
            self.state[p].update(state)
        if on_devices:
            torch._foreach_add_(on_devices, 1)
        if before is not None:
            native.torch_counts(tuple(steps), True)
        elif steps:
            torch._foreach_add_(steps, 1)
        for update, ready, numbers in (*captured, *planned):
            update(ready, numbers)

    def _again(self, steps: list[Tensor]) -> list[int]:
        """Return how often each count is there before, as that of a parameter given twice; nothing if none is."""
        known = self._different
        if len(known) == len(steps) and all(map(is_, known, steps)):  # sooner than their identities are gathered
            return []
        if len(set(map(id, steps))) == len(steps):
            self._different = steps
            return []
        seen: dict[int, int] = {}
        found = []
        for step in steps:
            found.append(seen.get(id(step), 0))
            seen[id(step)] = found[-1] + 1
        return found

    def _first(self, group: dict[str, Any], p: Tensor, state: dict[str, Any]) -> dict[str, Tensor]:
        if state:
            return {}
        device = p.device if group.get("capturable") else "cpu"
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq") if group["amsgrad"] else ("exp_avg", "exp_avg_sq")
        count = torch.zeros((), dtype=torch.float32, device=device)
        return {"step": count, **{name: torch.zeros_like(p) for name in names}}

    def _decays(self, group: dict[str, Any]) -> bool:
        """Whether weights decay in the gradient, not apart from it."""
        return bool(group["weight_decay"]) and not group.get("decoupled_weight_decay", self._decoupled)

    def _captured(
        self, group: dict[str, Any], arrays: tuple[Tensor, ...], each: int, steps: Sequence[Tensor]
    ) -> list[tuple[Update, Ready, list[float]]]:
        """Return a group's work where what differs from step to step is read on the device."""
        lr = group["lr"]
        _, decay, eps, b1, b2 = self._given(group)
        decays = self._decays(group)
        apart = 0.0 if decays else decay
        name, function, inputs = ("amsgrad", _amsgrad_captured, 5) if group["amsgrad"] else ("adam", _adam_captured, 4)
        alone = inputs, inputs + 1, inputs + 2
        update = _update(name, function, inputs + 3, decays, bool(group.get("maximize")), alone=alone)
        by_kind: dict[tuple[torch.device, torch.dtype], list[int]] = {}
        for at, p in enumerate(arrays[::each]):
            by_kind.setdefault((p.device, opmath(p.dtype)), []).append(at)
        given: list[Tensor] = []
        for (device, dtype), places in by_kind.items():
            rate = lr.to(device, torch.float64) if isinstance(lr, Tensor) and not lr.is_cpu else float(lr)
            counts = torch.stack([steps[at].to(device) for at in places]).to(torch.float64)
            found = _corrections(counts, rate, b1, b2, apart)
            rows = [number.to(dtype).expand(len(places)).unbind() for number in found]
            for at, *own in zip(places, *rows):
                read, written = arrays[at * each :][:inputs], arrays[at * each + inputs : (at + 1) * each]
                given += [*read, *own, *written]
        ready, numbers = update.ready(tuple(given), each + 3, 5), [decay, 1 - b1, b2, 1 - b2, eps]
        _held(type(self).__name__, update, ready, numbers, ("weight_decay", "betas", "betas", "betas", "eps"), group)
        return [(update, ready, numbers)]

    def _given(self, group: dict[str, Any]) -> tuple[float, float, float, float, float]:
        """Return lr, weight_decay, eps and betas; a tensor that is lr on a GPU is not waited for, and 0 here."""
        try:
            lr = group["lr"]
            lr = 0.0 if isinstance(lr, Tensor) and group.get("capturable") else _number(lr)
            decay, eps = _number(group["weight_decay"]), _number(group["eps"])
            b1, b2 = (_number(beta) for beta in group["betas"])
            if 0 <= b1 < 1 and 0 <= b2 < 1:
                return lr, decay, eps, b1, b2
        except (TypeError, ValueError, RuntimeError, OverflowError):
            pass
        raise _odd(type(self).__name__, group, self._options)

    def _numbers(self, group: dict[str, Any], count: float) -> list[float]:
        lr, decay, eps, b1, b2 = self._given(group)
        if not count >= 1:
            raise InvalidArgumentError(
                f"{type(self).__name__}: a parameter's step is {count - 1}; expected how many there were, 0 or more"
            )
        apart = decay and not self._decays(group)
        # Each is rounded to f32 once: 1 − b2 of a rounded b2 has few digits.
        numbers = [1 - lr * decay if apart else 1.0, decay, 1 - b1, b2, 1 - b2]
        return [*numbers, lr / (1 - b1**count), math.sqrt(1 - b2**count), eps]


class AdamW(Adam, torch.optim.AdamW):
    """Adam with the weight decay of Loshchilov and Hutter, apart from the gradient; see torch.optim.AdamW."""

    _decoupled = True
