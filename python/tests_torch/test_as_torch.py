"""Each function beside torch's own of that name, over all classes of operands: dtypes, shapes, layouts, dimensions."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import warnings
from collections.abc import Iterator
from typing import Any, Callable

import pytest
import torch
from moving import moved
from torch import Tensor

from hologram_torch import functional as F
from hologram_torch import optim

DTYPES = [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int8, torch.int64, torch.uint8, torch.bool]
HALVES = (torch.float16, torch.bfloat16)

REFUSED = {
    "softmax": lambda x, **_: not x.is_floating_point(),
    "log_softmax": lambda x, **_: not x.is_floating_point(),
    "l1_loss": lambda x, *_, **__: not x.is_floating_point(),
}
"""What torch answers and these functions refuse, as their docstrings say: integers where there is a root or a mean."""


def values(n: int, dtype: torch.dtype) -> Tensor:
    x = torch.rand(n, generator=torch.Generator().manual_seed(3)) * 4 - 1.5
    return x.to(dtype) if dtype.is_floating_point else (2 * x).round().to(dtype)


def operands(dtype: torch.dtype) -> dict[str, Tensor]:
    matrix = values(12, dtype).reshape(3, 4)
    return {
        "no dimensions": values(1, dtype).reshape(()),
        "one element": values(1, dtype),
        "no elements": values(0, dtype),
        "no elements in a stack": values(0, dtype).reshape(2, 0, 3),
        "matrix": matrix,
        "transposed": matrix.t(),
        "columns": values(24, dtype).reshape(3, 8)[:, ::2],
        "expanded": values(4, dtype).expand(3, 4),
        "stack": values(24, dtype).reshape(2, 3, 4),
    }


def answer(function: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of degrees of freedom
        try:
            return function(*arguments, **named)
        except Exception as error:
            return error


def compare(device: str, name: str, theirs: Callable[..., Any], *arguments: Any, **named: Any) -> None:
    """Where torch gives an answer this is the same one, also into out; where it raises, numbers may still be given."""
    function = getattr(F, name)
    arguments = tuple([moved(value, device) for value in arguments])
    expected, found = answer(theirs, *arguments, **named), answer(function, *arguments, **named)
    what = f"{name}{[(x.dtype, tuple(x.shape)) if isinstance(x, Tensor) else x for x in arguments]} {named}"
    if isinstance(expected, Exception):
        return
    if isinstance(found, Exception):
        assert name in REFUSED, f"{what}: {found!r}"
        assert REFUSED[name](*arguments, **named), f"{what}: {found!r}"
        return
    precision = 2e-2 if expected.dtype in HALVES else 1e-5
    torch.testing.assert_close(
        found, expected, rtol=precision, atol=precision, equal_nan=True, msg=lambda m: f"{what}: {m}"
    )
    if "out" in inspect.signature(function).parameters:
        out = torch.full_like(found, 1)
        assert function(*arguments, **named, out=out) is out
        assert torch.equal(torch.nan_to_num(out), torch.nan_to_num(found)), what


ELEMENTWISE = [
    name for name in F.__all__ if "out" in inspect.signature(getattr(F, name)).parameters and name != "clamp"
]


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_element_by_element(name: str, device: str) -> None:
    second = [p for p in inspect.signature(getattr(F, name)).parameters if p in ("other", "exponent")]
    theirs = getattr(torch, name)

    def others(x: Tensor) -> Iterator[tuple[Any, ...]]:
        yield x, x.flip(0) if x.ndim else x
        for number in (2, 3, 0, 0.5, -0.5, -1, -2, -300, True):
            yield x, number
            yield number, x
        for dtype in DTYPES:
            yield x, values(1, dtype)[0]
        for dtype in (torch.bfloat16, torch.float64, torch.int64):
            yield x, values(1, dtype)

    for dtype in DTYPES:
        for kind, x in operands(dtype).items():
            if not second:
                compare(device, name, theirs, x)
            elif kind in ("no dimensions", "no elements in a stack", "transposed"):
                for given in others(x):
                    compare(device, name, theirs, *given)


def test_the_default_dtype_is_the_one_of_the_call(device: str) -> None:
    """What integers and numbers give follows torch's default dtype, whatever it was at calls before."""
    before = torch.get_default_dtype()
    cases: list[tuple[str, tuple[Any, ...]]] = [
        (name, (x,))
        for name in ("exp", "sqrt", "reciprocal", "sigmoid")
        for x in (torch.arange(1, 4), torch.tensor(True))
    ]
    x = torch.arange(1, 4)
    cases += [("div", (x, x)), ("div", (x, 2)), ("add", (x, 0.1)), ("mul", (0.1, torch.tensor(3))), ("pow", (x, 0.3))]
    cases += [("where", (x > 1, 0.1, 2)), ("where", (x > 1, x, 0.1)), ("maximum", (x, torch.tensor(0.1)))]
    try:
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float32):
            torch.set_default_dtype(dtype)
            for name, given in cases:
                compare(device, name, getattr(torch, name), *given)
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("name", ["relu", "elu", "gelu", "leaky_relu", "selu", "silu", "softplus", "logsigmoid"])
def test_activations(name: str, device: str) -> None:
    for dtype in DTYPES:
        for x in operands(dtype).values():
            compare(device, name, getattr(torch.nn.functional, name), x)


@pytest.mark.parametrize(
    "name", ["sum", "mean", "amax", "amin", "prod", "std", "var", "cumsum", "softmax", "log_softmax"]
)
def test_over_dimensions(name: str, device: str) -> None:
    ways: list[dict[str, Any]] = [{}, *({"dim": dim} for dim in (None, 0, -1, 1, -3, (0, 1), (), (-1, 0)))]
    if "keepdim" in inspect.signature(getattr(F, name)).parameters:
        ways += [{**way, "keepdim": True} for way in ways if way]
    for dtype in DTYPES:
        for x in operands(dtype).values():
            for way in ways:
                compare(device, name, getattr(torch, name), x, **way)


@pytest.mark.parametrize("name", ["var", "std"])
def test_degrees_of_freedom(name: str, device: str) -> None:
    """By either name, by position too; where torch takes none of a call neither need these."""
    x = values(24, torch.float64).reshape(2, 3, 4)
    function, theirs = getattr(F, name), getattr(torch, name)
    for dim in (None, 0, -1, (0, 2)):
        for keepdim in (False, True):
            for correction in (0, 1, 2, 0.5, 3, 30):
                compare(device, name, theirs, x, dim, correction=correction, keepdim=keepdim)
            for unbiased in (False, True):
                if dim is not None:
                    compare(device, name, theirs, x, dim, unbiased, keepdim)
                    torch.testing.assert_close(function(x, dim, unbiased=unbiased), theirs(x, dim, unbiased=unbiased))
    for unbiased in (False, True):
        torch.testing.assert_close(function(x, unbiased), theirs(x, unbiased))
        torch.testing.assert_close(function(x, unbiased=unbiased), theirs(x, unbiased=unbiased))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_deviations_are_rounded_once(dtype: torch.dtype, device: str) -> None:
    """A variance that were rounded before its root is taken would be off in the last bit here and there."""
    x = values(4000, torch.float64).reshape(1000, 4).to(device, dtype)
    for name in ("std", "var"):
        expected = getattr(torch, name)(x.double(), 1).to(dtype)
        assert torch.equal(getattr(F, name)(x, 1), expected)


@pytest.mark.parametrize("alpha", [0, 1])
@pytest.mark.parametrize("beta", [0, 1, 0.5])
def test_what_a_factor_of_0_leaves_out_is_not_read(beta: float, alpha: float, device: str) -> None:
    """As by torch on the CPU; on GPUs it reads what it then multiplies by 0, for some shapes."""
    for dtype in (torch.float32, torch.float64):  # torch does read what has 16 bits, on some processors
        for n in (2, 200):
            good = torch.full((n, n), 0.5, dtype=dtype)
            for bad in (torch.inf, torch.nan):
                odd = torch.full((n, n), bad, dtype=dtype)
                for given in ((odd, good, good), (good, odd, good), (good, good, odd), (good[0], odd, odd)):
                    expected = torch.addmm(*given, beta=beta, alpha=alpha)
                    found = F.addmm(*(t.to(device) for t in given), beta=beta, alpha=alpha)
                    torch.testing.assert_close(found.cpu(), expected, equal_nan=True)


KEPT: dict[str, tuple[Any, ...]] = {
    name: (getattr(F, name), getattr(torch, name))
    for name in ("relu", "reciprocal", "exp", "exp2", "expm1", "sigmoid", "tanh", "tan", "sqrt", "rsqrt")
}


@pytest.mark.parametrize("name", [*KEPT, "softmax", "log_softmax"])
def test_what_is_changed_in_place_afterwards(name: str, device: str) -> None:
    """The argument may be, where torch keeps the result; the result may not."""
    ways = KEPT.get(name) or [functools.partial(getattr(of, name), dim=0) for of in (F, torch)]
    corners = torch.tensor([-torch.inf, -2.0, -0.0, 0.0, 0.5, 2.0, torch.inf, torch.nan], dtype=torch.float64)
    found = []
    for function in ways:
        leaf = corners.to(device).requires_grad_()
        x = leaf * 1
        y = function(x)
        x.add_(1)
        found.append(torch.autograd.grad(y, leaf, torch.ones_like(y), retain_graph=True)[0])
        with torch.no_grad():
            y.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            torch.autograd.grad(y, leaf, torch.ones_like(y))
    torch.testing.assert_close(*found, equal_nan=True)


def test_relu_of_integers_is_exact(device: str) -> None:
    x = torch.tensor([2**60 + 1, -(2**60) - 1, 0, 2**63 - 1], device=device)
    assert F.relu(x).tolist() == [2**60 + 1, 0, 0, 2**63 - 1]


def test_products_of_all_sizes_add_once(device: str) -> None:
    """What is added before a product, and what after one that is large, by any factors."""
    for n in (3, 181, 182):  # below, and from 2^15 elements on
        a, b = values(n * 2, torch.float32).reshape(n, 2), values(2 * n, torch.float32).reshape(2, n)
        for x in (values(n, torch.float32), values(n * n, torch.float32).reshape(n, n), values(1, torch.float32)):
            for beta, alpha in ((1, 1), (0.5, 1), (1, 2), (0, 1), (2, -1)):
                compare(device, "addmm", torch.addmm, x, a, b, beta=beta, alpha=alpha)
        for shape in ((n,), (1,), ()):
            ways = []
            for function in (F.linear, torch.nn.functional.linear):
                leaf = values(n, torch.float32)[: 1 if shape != (n,) else n].reshape(shape).requires_grad_()
                y = function(a, b.t(), leaf)
                ways.append((y, *torch.autograd.grad(y.square().sum(), leaf)))
            torch.testing.assert_close(*ways, rtol=1e-4, atol=1e-4)
        with pytest.raises((RuntimeError, ValueError), match="bias"):
            F.linear(a, b.t(), torch.zeros(n + 1))


def test_sums_up_to_each_are_rounded_once() -> None:
    x = torch.rand(5000, generator=torch.Generator().manual_seed(1)) - 0.25
    assert torch.equal(F.cumsum(x, 0), x.double().cumsum(0).float())


def test_the_least_that_a_norm_adds_is_its_dtype_s(device: str) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        x = values(12, dtype).reshape(3, 4) * (1e-4 if dtype != torch.float64 else 1e-9)
        compare(device, "rms_norm", torch.nn.functional.rms_norm, x, (4,))


LOSSES = ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "binary_cross_entropy"]


@pytest.mark.parametrize("name", [*LOSSES, "binary_cross_entropy_with_logits"])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum", "batchmean"])
def test_losses(name: str, reduction: str, device: str) -> None:
    for dtype in DTYPES:
        for x in operands(dtype).values():
            x = (x.double() / 4 + 0.4).clamp(0, 1).to(dtype) if name == "binary_cross_entropy" else x  # else GPUs stop
            y = x.flip(0) if x.ndim else x
            compare(device, name, getattr(torch.nn.functional, name), x, y, reduction=reduction)


@pytest.mark.parametrize("dtype", [*HALVES, torch.float32])
@pytest.mark.parametrize("given", [None, torch.float32, "same"])
def test_norms_with_parameters_of_another_dtype(dtype: torch.dtype, given: Any) -> None:
    """The result has the input's dtype, rounded once from what is computed in f32."""
    x = values(24, dtype).reshape(2, 3, 4)
    kind = dtype if given == "same" else torch.float32
    scale, shift = (None, None) if given is None else (values(4, kind), values(4, kind).flip(0))
    wide = [None if p is None else p.float() for p in (scale, shift)]
    for name, arguments in (("layer_norm", (scale, shift)), ("rms_norm", (scale,))):
        theirs = getattr(torch.nn.functional, name)(x.float(), (4,), *wide[: len(arguments)]).to(dtype)
        found = getattr(F, name)(x, (4,), *arguments)
        torch.testing.assert_close(found, theirs, rtol=1e-2 if dtype in HALVES else 1e-5, atol=1e-3)


def test_defaults_are_torchs() -> None:
    """Where torch's function says in its signature, or the first line of its documentation, what is left out."""
    compared = 0
    pairs = [
        (name, getattr(F, name), getattr(torch.nn.functional, name, None) or getattr(torch, name)) for name in F.__all__
    ]
    pairs.append(("clip_grad_norm_", optim.clip_grad_norm_, torch.nn.utils.clip_grad_norm_))
    for name, ours, theirs in pairs:
        try:
            known = {p.name: p.default for p in inspect.signature(theirs).parameters.values()}
        except ValueError:  # a builtin
            lines = [line for line in (theirs.__doc__ or "").splitlines() if line.strip().startswith(f"{name}(")]
            texts = [re.findall(r"(\w+)=([\w.+-]+|'\w+'|\(\))", line) for line in lines]
            known = {key: ast.literal_eval(value) for each in texts for key, value in each}
        for p in inspect.signature(ours).parameters.values():
            if p.name in known and p.name not in ("out", "dim") and known[p.name] is not inspect.Parameter.empty:
                default = p.default
                assert default == known[p.name] or (default, known[p.name]) in DIFFERENT, (name, p)
                compared += 1
    assert compared > 50


DIFFERENT = [(None, 1), (None, True)]  # of a variance, whose correction may be given by two names
"""Defaults that mean the same."""


def test_what_has_no_root_or_mean_is_refused() -> None:
    for name in ("std", "var", "mean", "softmax", "log_softmax"):
        for dtype in (torch.int64, torch.bool):
            with pytest.raises((TypeError, RuntimeError), match=f"{name}.*{dtype}"):
                getattr(F, name)(torch.ones(3, dtype=dtype), dim=0)
