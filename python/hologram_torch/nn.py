"""torch.nn's layers, computed by Hologram.

Each is a subclass of torch's layer of the same name: parameters, initialisation, ``state_dict``, pickling, copies,
hooks and printing are torch's own, only ``forward`` is not.

Beside torch's, all take three forms: ``Linear(512, 256)`` runs where its input is, ``Linear(executor, 512, 256)`` on an
executor, and ``Linear(512, 256, backend="cuda")`` on an executor of its own, with its parameters on that backend's
device. An executor is not copied or pickled with a layer: a copy has another one on the same backend.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Callable, Optional, Union

import torch
from torch import Tensor

from hologram import Executor
from hologram.errors import InvalidArgumentError
from hologram_torch import functional as F
from hologram_torch._calls import here
from hologram_torch._executors import DEVICES, torch_device, using

__all__ = [
    "ELU",
    "GELU",
    "SELU",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "NLLLoss",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "Softmax",
    "Softplus",
    "Tanh",
]


if not TYPE_CHECKING:  # who checks types is told of wrong names

    def __getattr__(name: str) -> object:
        """Say what there is instead of what is not."""
        from hologram_torch._operation import absent

        return absent(__name__, name, __all__)


_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class _Signature:
    """The signature of a layer's class, by which torch.nn.utils.skip_init goes: torch's, and our keywords beside.

    Our own __init__ only pass torch's arguments on. An instance is called by another signature, and has none of these.
    """

    def __get__(self, layer: Optional[torch.nn.Module], kind: type[torch.nn.Module]) -> inspect.Signature:
        if layer is not None:
            raise AttributeError("__signature__")
        makers = [each for each in kind.__mro__ if "__init__" in each.__dict__]
        own = [each for each in makers if each.__module__ == __name__]
        last = makers.index(own[-1]) + 1 if makers[0] in own else 0  # that of torch's layer, or of a subclass of ours
        found: dict[str, inspect.Parameter] = {}
        for each in (makers[last], *reversed(own[:last])):
            for name, parameter in list(inspect.signature(each.__dict__["__init__"]).parameters.items())[1:]:
                if not last or parameter.kind not in _VARIABLE:
                    found[name] = parameter
        return inspect.Signature(sorted(found.values(), key=lambda parameter: parameter.kind), return_annotation=None)


class _Layer(torch.nn.Module):
    """What the layers share: the executor that they may be given.

    Attributes:
        backend: The backend that the layer was given or its executor is on, or None.
    """

    __signature__ = _Signature()
    backend: Optional[str] = None
    _executor: Optional[Executor] = None
    _placed = False  # whether there are parameters that go to the backend's device

    def __init__(
        self, *arguments: Any, backend: Optional[str] = None, executor: Optional[Executor] = None, **named: Any
    ) -> None:
        if arguments and isinstance(arguments[0], Executor):
            if executor is not None:
                raise InvalidArgumentError(f"{type(self).__name__}: two executors are given")
            executor, arguments = arguments[0], arguments[1:]
        if arguments and isinstance(arguments[0], str) and arguments[0].partition(":")[0] in DEVICES:
            raise TypeError(
                f"{type(self).__name__}: argument 1 is a str; expected an Executor first, or backend={arguments[0]!r}"
            )
        if backend is not None:
            if executor is not None:
                raise InvalidArgumentError(f"{type(self).__name__}: give an executor or a backend, not both")
            executor = Executor(backend)
            backend = executor.backend
            if self._placed:
                named.setdefault("device", torch_device(backend))
        elif executor is not None:
            executor._check()
            backend = executor.backend
        super().__init__(*arguments, **named)
        if backend is not None:
            self.backend, self._executor = backend, executor

    @property
    def executor(self) -> Optional[Executor]:
        """The executor that the layer runs on, or None if it runs where its input is."""
        if self._executor is None and self.backend is not None:  # a copy
            self._executor = Executor(self.backend)
        return self._executor

    def _run(self, function: Callable[..., Tensor], *arguments: Any, **named: Any) -> Tensor:
        if self.backend is None:
            return function(*arguments, **named)
        executor = self.executor
        assert executor is not None
        here(
            type(self).__name__,
            executor,
            *[value for value in arguments if isinstance(value, Tensor)],
            names=("input",),
        )
        with using(executor):
            return function(*arguments, **named)

    def __getstate__(self) -> dict[str, Any]:
        """Return what is copied and pickled: all but the executor."""
        state = dict(self.__dict__)
        state.pop("_executor", None)
        return state

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """Copy the layer; the copy gets an executor of its own."""
        import copy

        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        copied.__dict__.update(copy.deepcopy(self.__getstate__(), memo))
        return copied


# ---- activations


class ReLU(_Layer, torch.nn.ReLU):
    """max(x, 0); see torch.nn.ReLU."""

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.relu, input, self.inplace)


class LeakyReLU(_Layer, torch.nn.LeakyReLU):
    """X where it is positive, else negative_slope · x; see torch.nn.LeakyReLU."""

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.leaky_relu, input, self.negative_slope, self.inplace)


class ELU(_Layer, torch.nn.ELU):
    """X where it is positive, else alpha · (e^x − 1); see torch.nn.ELU."""

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.elu, input, self.alpha, self.inplace)


class SELU(_Layer, torch.nn.SELU):
    """Scaled ELU; see torch.nn.SELU."""

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.selu, input, self.inplace)


class SiLU(_Layer, torch.nn.SiLU):
    """X · sigmoid(x); see torch.nn.SiLU."""

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.silu, input, self.inplace)


class Sigmoid(_Layer, torch.nn.Sigmoid):
    """1 / (1 + e^−x); see torch.nn.Sigmoid."""

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.sigmoid, input)


class LogSigmoid(_Layer, torch.nn.LogSigmoid):
    """log(sigmoid(x)); see torch.nn.LogSigmoid."""

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.logsigmoid, input)


class Tanh(_Layer, torch.nn.Tanh):
    """The hyperbolic tangent; see torch.nn.Tanh."""

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.tanh, input)


class GELU(_Layer, torch.nn.GELU):
    """X · Φ(x), by erf or with approximate="tanh" by tanh, which an executor makes the default; see torch.nn.GELU."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        given = len(arguments) - bool(arguments and isinstance(arguments[0], Executor)) or "approximate" in named
        super().__init__(*arguments, **named)
        if self.backend is not None and not given:
            self.approximate = "tanh"

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.gelu, input, self.approximate)


class Softplus(_Layer, torch.nn.Softplus):
    """log(1 + e^(beta·x)) / beta; see torch.nn.Softplus."""

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.softplus, input, self.beta, self.threshold)


class Softmax(_Layer, torch.nn.Softmax):
    """Softmax along dim; see torch.nn.Softmax. With an executor and no dim it is over all elements."""

    def forward(self, input: Tensor) -> Tensor:
        if self.dim is None and self.executor is not None:
            return F.softmax(self.executor, input)
        return self._run(F.softmax, input, self.dim)


class LogSoftmax(_Layer, torch.nn.LogSoftmax):
    """The logarithm of softmax; see torch.nn.LogSoftmax."""

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.log_softmax, input, self.dim)


class Dropout(_Layer, torch.nn.Dropout):
    """X / (1 − p) with probability 1 − p, else 0; see torch.nn.Dropout."""

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.dropout, input, self.p, self.training, self.inplace)


# ---- layers with parameters


class Linear(_Layer, torch.nn.Linear):
    """X · weightᵀ + bias, then an activation if ``activation`` names one; see torch.nn.Linear."""

    _placed = True
    activation: Optional[str] = None

    def __init__(self, *arguments: Any, activation: Optional[str] = None, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if activation is not None:
            self.activation = activation

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.linear, input, self.weight, self.bias, activation=self.activation)

    def extra_repr(self) -> str:
        return super().extra_repr() + (f", activation={self.activation}" if self.activation else "")


_FUSED: dict[type, str] = {ReLU: "relu", SiLU: "silu", Tanh: "tanh", Sigmoid: "sigmoid", GELU: "gelu"}
_LINEAR_PARAMETERS = {"weight", "bias"}
_CALL = torch.nn.Module.__call__  # which torch.fx replaces while it traces
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _plain(layer: torch.nn.Module) -> bool:
    """Whether a call of a layer is one of its class's forward, where its input is, and nothing beside."""
    state = layer.__dict__
    if state.get("backend") is not None or "forward" in state or state.get("_compiled_call_impl") is not None:
        return False
    forward, before, backward, after = _HOOKS
    return not (state[forward] or state[before] or state[backward] or state[after])


class Sequential(torch.nn.Sequential):
    """Layers one after the other; see torch.nn.Sequential.

    A Linear does the activation after it, by what there is at a call: not where a hook sees what goes between.
    """

    def forward(self, input: Any) -> Any:
        layers = list(self._modules.values())
        hooked = torch.nn.modules.module._has_any_global_hook() or torch.nn.Module.__call__ is not _CALL
        i = 0
        while i < len(layers):
            layer: Any = layers[i]
            i += 1
            if (
                type(layer) is not Linear
                or hooked
                or not _plain(layer)
                or layer.activation is not None
                or not (parameters := layer.__dict__["_parameters"]).keys() >= _LINEAR_PARAMETERS
            ):
                input = layer(input)
                continue
            after: Any = layers[i] if i < len(layers) else None
            name = _FUSED.get(type(after))
            if name is not None and (not _plain(after) or (name == "gelu" and after.approximate != "none")):
                name = None
            i += name is not None
            input = F.linear(input, parameters["weight"], parameters["bias"], activation=name)
        return input


class Embedding(_Layer, torch.nn.Embedding):
    """The rows of weight that the input numbers; see torch.nn.Embedding. Gradients are dense."""

    _placed = True

    def forward(self, input: Tensor) -> Tensor:
        return self._run(
            F.embedding,
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )


class LayerNorm(_Layer, torch.nn.LayerNorm):
    """(x − mean) / √(var + eps) over the last dimensions; see torch.nn.LayerNorm."""

    _placed = True

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.layer_norm, input, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(_Layer, torch.nn.RMSNorm):
    """X / √(mean(x²) + eps) over the last dimensions; see torch.nn.RMSNorm."""

    _placed = True

    def forward(self, input: Tensor) -> Tensor:
        return self._run(F.rms_norm, input, self.normalized_shape, self.weight, self.eps)


class _BatchNorm(_Layer, torch.nn.modules.batchnorm._BatchNorm):
    _placed = True

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum: Union[float, Tensor] = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean of all batches
                kept = self.running_mean is not None and self.running_mean.dtype == torch.float64
                momentum = self.num_batches_tracked.to(torch.float64 if kept else torch.float32).reciprocal()
        used = not self.training or self.track_running_stats
        batch = self.training or (self.running_mean is None and self.running_var is None)
        return self._run(
            F.batch_norm,
            input,
            self.running_mean if used else None,
            self.running_var if used else None,
            self.weight,
            self.bias,
            training=batch,
            momentum=momentum,
            eps=self.eps,
        )


class BatchNorm1d(_BatchNorm, torch.nn.BatchNorm1d):
    """(x − mean) / √(var + eps) of each channel of (N, C) or (N, C, L); see torch.nn.BatchNorm1d."""


class BatchNorm2d(_BatchNorm, torch.nn.BatchNorm2d):
    """(x − mean) / √(var + eps) of each channel of (N, C, H, W); see torch.nn.BatchNorm2d."""


# ---- losses


class _Loss(_Layer):
    reduction: str
    _reductions: tuple[str, ...] = ("none", "mean", "sum")

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        if self.reduction not in self._reductions:
            raise InvalidArgumentError(
                f"{type(self).__name__}: reduction is {self.reduction!r}; expected one of {', '.join(self._reductions)}"
            )


class MSELoss(_Loss, torch.nn.MSELoss):
    """(input − target)²; see torch.nn.MSELoss."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._run(F.mse_loss, input, target, reduction=self.reduction)


class L1Loss(_Loss, torch.nn.L1Loss):
    """|input − target|; see torch.nn.L1Loss."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._run(F.l1_loss, input, target, reduction=self.reduction)


class HuberLoss(_Loss, torch.nn.HuberLoss):
    """Quadratic up to delta, then linear; see torch.nn.HuberLoss."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._run(F.huber_loss, input, target, reduction=self.reduction, delta=self.delta)


class SmoothL1Loss(_Loss, torch.nn.SmoothL1Loss):
    """Quadratic up to beta, then linear; see torch.nn.SmoothL1Loss."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._run(F.smooth_l1_loss, input, target, reduction=self.reduction, beta=self.beta)


class BCELoss(_Loss, torch.nn.BCELoss):
    """Binary cross entropy; see torch.nn.BCELoss."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._run(F.binary_cross_entropy, input, target, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss, torch.nn.BCEWithLogitsLoss):
    """Binary cross entropy of sigmoid(input); see torch.nn.BCEWithLogitsLoss."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._run(
            F.binary_cross_entropy_with_logits,
            input,
            target,
            self.weight,
            reduction=self.reduction,
            pos_weight=self.pos_weight,
        )


class KLDivLoss(_Loss, torch.nn.KLDivLoss):
    """Kullback-Leibler divergence; see torch.nn.KLDivLoss."""

    _reductions = (*_Loss._reductions, "batchmean")

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._run(F.kl_div, input, target, reduction=self.reduction, log_target=self.log_target)


class NLLLoss(_Loss, torch.nn.NLLLoss):
    """−input[target]; see torch.nn.NLLLoss."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._run(
            F.nll_loss, input, target, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class CrossEntropyLoss(_Loss, torch.nn.CrossEntropyLoss):
    """Cross entropy of softmax(input); see torch.nn.CrossEntropyLoss."""

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._run(
            F.cross_entropy,
            input,
            target,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )
