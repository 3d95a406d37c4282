"""Optimisers whose steps Hologram computes, one pass over each parameter and its state.

They are torch.optim's own, with its parameter groups, ``state_dict``, hooks, learning-rate schedulers and GradScaler;
only ``step`` is not. What torch computes in several passes one program does in one, in place, in f32 for the 16-bit
floats.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import torch
from torch import Tensor

import hologram as h
from hologram.errors import DTypeError, InvalidArgumentError
from hologram_torch import functional as F
from hologram_torch._elementwise import opmath
from hologram_torch._update import Update

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["SGD", "Adam", "AdamW", "clip_grad_norm_"]


_V = Any  # an element, or a number


def _sgd(p: Any, g: Any, lr: Any, decay: Any) -> Any:
    return p - lr * (g + decay * p)


def _sgd_momentum(p: Any, g: Any, b: Any, lr: Any, decay: Any, momentum: Any, keep: Any, nesterov: Any) -> Any:
    g = g + decay * p
    b = momentum * b + keep * g
    return p - lr * (g * nesterov + b * (1 - nesterov + nesterov * momentum)), b


def _moments(g: Any, m: Any, v: Any, n1: Any, b2: Any, n2: Any) -> tuple[Any, Any]:
    return m + (g - m) * n1, v * b2 + n2 * g * g


def _adam(p: _V, g: _V, m: _V, v: _V, shrink: _V, decay: _V, n1: _V, b2: _V, n2: _V, rate: _V, root: _V, eps: _V) -> _V:
    p = p * shrink
    m, v = _moments(g + decay * p, m, v, n1, b2, n2)
    return p - rate * (m / (h.sqrt(v) / root + eps)), m, v


def _amsgrad(
    p: _V, g: _V, m: _V, v: _V, most: _V, shrink: _V, decay: _V, n1: _V, b2: _V, n2: _V, rate: _V, root: _V, eps: _V
) -> _V:
    p = p * shrink
    m, v = _moments(g + decay * p, m, v, n1, b2, n2)
    most = h.maximum(most, v)
    return p - rate * (m / (h.sqrt(most) / root + eps)), m, v, most


_SGD, _SGD_MOMENTUM = Update("sgd", _sgd, 2), Update("sgd_momentum", _sgd_momentum, 3)
_ADAM, _AMSGRAD = Update("adam", _adam, 4), Update("amsgrad", _amsgrad, 5)


def _closed(closure: Optional[Callable[[], Any]]) -> Any:
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


def _refuse(what: str, group: dict[str, Any]) -> None:
    for name in ("fused", "capturable", "differentiable"):
        if group.get(name):
            raise InvalidArgumentError(f"{what}: {name} is {group[name]!r}; this optimiser has it not")


def _checked(
    optimizer: torch.optim.Optimizer, update: Callable[[dict[str, Any]], tuple[Update, int, tuple[str, ...]]]
) -> list[tuple[dict[str, Any], list[tuple[Tensor, Tensor]]]]:
    """Return each group with its parameters that have a gradient, and that; nothing is changed if one is refused.

    Args:
        optimizer: The optimiser.
        update: What a group is changed by, how many numbers that takes, and the names of the states that it reads.
    """
    groups = [(group, _gradients(type(optimizer).__name__, group)) for group in optimizer.param_groups]
    seen: list[Any] = []  # what is checked, but what torch holds gradients to: their parameters' shapes and devices
    for group, found in groups:
        program, _, kept = update(group)
        for p, g in found:
            state = optimizer.state.get(p)
            seen += (program, p, p.dtype, p.is_contiguous(), g.dtype, *(map(state.get, kept) if state else ()))
    before = vars(optimizer).get("_hologram_checked", ())
    if len(before) == len(seen) and all(map(operator.is_, before, seen)):
        return groups
    for group, found in groups:
        program, numbers, kept = update(group)
        lists = []
        for p, g in found:
            states = map(optimizer.state.get(p, {}).get, kept)  # get makes none
            lists.append((p, g, *[state for state in states if state is not None]))
        program.check(lists, numbers)
    vars(optimizer)["_hologram_checked"] = seen
    return groups


def _gradients(what: str, group: dict[str, Any]) -> list[tuple[Tensor, Tensor]]:
    """Return the parameters that have a gradient, and that; negated if the group maximises."""
    _refuse(what, group)
    found = []
    for p in group["params"]:
        if p.grad is not None:
            if p.grad.layout != torch.strided:
                raise DTypeError(f"{what}: a gradient has layout {p.grad.layout}; expected dense ones")
            found.append((p, F.neg(p.grad) if group.get("maximize") else p.grad))
    return found


class SGD(torch.optim.SGD):
    """Gradient descent with momentum, Nesterov's or not, and weight decay; see torch.optim.SGD.

    A step that is refused changes no parameter and no state.

    Raises:
        TypeError: At a step: a parameter or gradient has no float dtype, or is sparse.
        ValueError: At a step: fused, capturable or differentiable is asked for, or a parameter's elements share memory.
    """

    @staticmethod
    def _update(group: dict[str, Any]) -> tuple[Update, int, tuple[str, ...]]:
        return (_SGD_MOMENTUM, 5, ("momentum_buffer",)) if group["momentum"] else (_SGD, 2, ())

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Do a step; closure computes the loss anew."""
        loss = _closed(closure)
        for group, found in _checked(self, self._update):
            lr, decay, momentum = (float(group[name]) for name in ("lr", "weight_decay", "momentum"))
            if not momentum:
                _SGD([(p, g, p) for p, g in found], [lr, decay])
                continue
            first: list[tuple[Tensor, ...]] = []
            later: list[tuple[Tensor, ...]] = []
            for p, g in found:
                state = self.state[p]
                b = state.get("momentum_buffer")
                fresh = b is None
                if b is None:
                    b = state["momentum_buffer"] = torch.zeros_like(p)
                (first if fresh else later).append((p, g, b, p, b))
            nesterov = float(group["nesterov"])
            _SGD_MOMENTUM(first, [lr, decay, momentum, 1.0, nesterov])
            _SGD_MOMENTUM(later, [lr, decay, momentum, 1.0 - group["dampening"], nesterov])
        return loss


class Adam(torch.optim.Adam):
    """Adam of Kingma and Ba, with weight decay in the gradient and AMSGrad; see torch.optim.Adam.

    A step that is refused changes no parameter and no state.

    Raises:
        TypeError: At a step: a parameter or gradient has no float dtype, or is sparse.
        ValueError: At a step: fused, capturable or differentiable is asked for, or a parameter's elements share memory.
    """

    _decoupled = False

    @staticmethod
    def _update(group: dict[str, Any]) -> tuple[Update, int, tuple[str, ...]]:
        kept = ("exp_avg", "exp_avg_sq")
        return (_AMSGRAD, 8, (*kept, "max_exp_avg_sq")) if group["amsgrad"] else (_ADAM, 8, kept)

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Do a step; closure computes the loss anew."""
        loss = _closed(closure)
        for group, found in _checked(self, self._update):
            lr, decay, eps = (float(group[name]) for name in ("lr", "weight_decay", "eps"))
            b1, b2 = (float(beta) for beta in group["betas"])
            decoupled = group.get("decoupled_weight_decay", self._decoupled)
            update, _, kept = self._update(group)
            for p, _ in found:
                state = self.state[p]
                if not state:
                    state["step"] = torch.zeros((), dtype=torch.float32)
                    state.update((name, torch.zeros_like(p)) for name in kept)
            if not found:
                continue
            torch._foreach_add_([self.state[p]["step"] for p, _ in found], 1.0)
            steps: dict[float, list[tuple[Tensor, ...]]] = {}  # which differ where parameters had no gradient
            for p, g in found:
                state = self.state[p]
                states = [state[name] for name in kept]
                steps.setdefault(state["step"].item(), []).append((p, g, *states, p, *states))
            for count, lists in steps.items():
                # Each is rounded to f32 once: 1 − b2 of a rounded b2 has few digits.
                numbers = [1 - lr * decay if decoupled else 1.0, 0.0 if decoupled else decay, 1 - b1, b2, 1 - b2]
                numbers += [lr / (1 - b1**count), math.sqrt(1 - b2**count), eps]
                update(lists, numbers)
        return loss


class AdamW(Adam, torch.optim.AdamW):
    """Adam with the weight decay of Loshchilov and Hutter, apart from the gradient; see torch.optim.AdamW."""

    _decoupled = True


@torch.no_grad()
def clip_grad_norm_(
    parameters: Union[Tensor, Iterable[Tensor]],
    max_norm: float,
    norm_type: Union[float, str] = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale the gradients in place so that their norm, all of them taken as one vector, is at most max_norm.

    Args:
        parameters: The parameters whose gradients are meant; those without are left out.
        max_norm: The largest norm.
        norm_type: 2 for the Euclidean norm, inf for the largest absolute value, -inf for the smallest, p for
            (Σ|g|^p)^(1/p), and 0 for the number of gradients that are not 0 everywhere; "inf" is taken too.
        error_if_nonfinite: Whether a norm that is infinite or NaN is refused.

    Returns:
        The norm before, as torch.nn.utils.clip_grad_norm_ does.

    Raises:
        RuntimeError: The norm is not finite, and error_if_nonfinite is given.
    """
    parameters = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [p.grad for p in parameters if p.grad is not None]
    if not grads:
        return torch.tensor(0.0)
    device, dtype = grads[0].device, functools.reduce(torch.promote_types, [g.dtype for g in grads])

    def together(numbers: Iterable[Tensor]) -> Tensor:
        return torch.stack([number.to(device, opmath(dtype)) for number in numbers])

    wide = [g.to(opmath(g.dtype)) for g in grads]
    norm_type = float(norm_type)  # torch takes "inf"
    if math.isinf(norm_type):
        most = F.amax if norm_type > 0 else F.amin
        norm = most(together(most(F.abs(g)) for g in wide))
    elif norm_type == 0:
        norm = torch.count_nonzero(together(torch.count_nonzero(g) for g in wide))
    elif norm_type == 2:
        norm = F.sqrt(F.sum(together(F.sum(F.square(g)) for g in wide)))
    else:
        norm = F.pow(F.sum(together(F.sum(F.pow(F.abs(g), norm_type)) for g in wide)), 1.0 / norm_type)
    norm = norm.to(dtype)
    if error_if_nonfinite and not bool(torch.isfinite(norm)):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    factor = F.clamp(F.div(float(max_norm), F.add(norm, 1e-6)), max=1.0)
    for g in grads:
        F.mul(g, factor.to(g.device), out=g)
    return norm
