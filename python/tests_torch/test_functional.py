"""hologram_torch.functional beside torch: what its functions take, refuse, promote and write."""

from __future__ import annotations

import inspect
import itertools
import math
import re
from typing import Any, Callable

import pytest
import torch
from kinds import DTYPES
from torch import Tensor

import hologram as hg
import hologram_torch as ht
from hologram_torch import functional as F

SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (7,), (3, 1, 5), (2, 0, 3), (13, 17)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape: tuple[int, ...]) -> None:
    x, y = torch.randn(shape, requires_grad=True), torch.randn(shape[-1:], requires_grad=True)
    for ours, theirs in ((F.add, torch.add), (F.mul, torch.mul), (F.maximum, torch.maximum)):
        found, expected = ours(x, y), theirs(x, y)
        assert torch.equal(found, expected)
        for a, b in zip(torch.autograd.grad(found.sum(), (x, y)), torch.autograd.grad(expected.sum(), (x, y))):
            torch.testing.assert_close(a, b)
    assert torch.equal(F.relu(x), torch.relu(x))
    torch.testing.assert_close(F.sum(x), x.sum())
    for dim in range(-x.ndim, x.ndim):
        torch.testing.assert_close(F.sum(x, dim, True), x.sum(dim, True))
        torch.testing.assert_close(F.softmax(x, dim), x.softmax(dim))
        torch.testing.assert_close(F.log_softmax(x, dim), x.log_softmax(dim))


@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)), ids=str)
def test_promotion(a: torch.dtype, b: torch.dtype) -> None:
    x, y = torch.tensor([1, 0, 1]).to(a), torch.tensor([1, 1, 0]).to(b)
    for left, right in ((x, y), (x, y[0]), (x[0], y), (x[0], y[1])):
        for ours, theirs in ((F.add, torch.add), (F.mul, torch.mul), (F.div, torch.div)):
            expected = theirs(left, right)
            found = ours(left, right)
            assert (found.dtype, found.tolist()) == (expected.dtype, expected.tolist())
    for ours_, theirs_ in ((F.exp, torch.exp), (F.sqrt, torch.sqrt)):
        assert ours_(x).dtype == theirs_(x).dtype
        torch.testing.assert_close(ours_(x), theirs_(x))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("number", [2, 0.5, -1.25, True])
def test_numbers(dtype: torch.dtype, number: Any) -> None:
    x = torch.tensor([1, 0, 1]).to(dtype)
    for value in (x, x[0]):
        for ours, theirs in ((F.add, torch.add), (F.mul, torch.mul)):
            expected = theirs(value, number)
            assert (ours(value, number).dtype, ours(value, number).tolist()) == (expected.dtype, expected.tolist())
            expected = theirs(number, value) if ours is not F.add else number + value
            assert torch.equal(ours(number, value), expected)


def test_complex_tensors_are_refused_beside_numbers_and_others() -> None:
    z, x = torch.tensor([[1 + 2j, 3j], [1, 2]]), torch.zeros(2, 2)
    for call in (
        lambda: F.sum(z, dim=0, dtype=torch.float32),
        lambda: F.add(z, 1),
        lambda: F.add(x, z),
        lambda: F.sub(1, z),
        lambda: F.pow(2, z),
        lambda: F.where(x > 0, z, 0),
    ):
        with pytest.raises(TypeError, match="complex64"):
            call()


def test_an_extremum_of_nothing_names_the_dimension() -> None:
    x = torch.ones(3, 0, 2)
    assert F.amax(x, dim=2).shape == (3, 0)
    for call in (lambda: F.amax(x, dim=(0, 1)), lambda: F.amin(x)):
        with pytest.raises(IndexError, match=r"dimension 1 of \(3, 0, 2\) has none"):
            call()


@pytest.mark.parametrize("training", [False, True])
def test_parameters_of_channels_have_one_for_each(training: bool) -> None:
    names = ("running_mean", "running_var", "weight", "bias")
    for wrong in names:
        given = {name: torch.ones(2 if name == wrong else 3) for name in names}
        with pytest.raises(RuntimeError, match=rf"{wrong} has the shape \(2,\); expected \(3,\)"):
            F.batch_norm(torch.ones(4, 3, 5), **given, training=training)


UNWRITABLE: dict[str, Callable[[], Tensor]] = {
    r"has dtype torch\.int64": lambda: torch.ones(7, dtype=torch.int64),
    r"has dtype torch\.bool": lambda: torch.ones(7, dtype=torch.bool),
    r"has dtype torch\.float8_e5m2": lambda: torch.ones(7).to(torch.float8_e5m2),
    "elements of .* share memory": lambda: torch.ones(1).expand(7),
}


@pytest.mark.parametrize("said", UNWRITABLE)
@pytest.mark.parametrize("which", ["running_mean", "running_var"])
def test_statistics_that_are_refused_move_none(which: str, said: str) -> None:
    """Also after a call that took others of these shapes."""
    x = torch.randn(4, 7)
    for _ in range(2):
        given = {"running_mean": torch.zeros(7), "running_var": torch.ones(7), which: UNWRITABLE[said]()}
        before = {name: running.clone() for name, running in given.items()}
        with pytest.raises(RuntimeError, match=f"batch_norm: .*{which}") as refused:
            F.batch_norm(x, **given, training=True)
        assert re.search(said, str(refused.value))
        for name, running in given.items():
            assert torch.equal(running.double(), before[name].double()), name
        F.batch_norm(x, torch.zeros(7), torch.ones(7), training=True)


NO_TENSORS = {
    "cross_entropy: input is a Linear": lambda x: F.cross_entropy(torch.nn.Linear(2, 2), (x,)),
    "cross_entropy: target is a int": lambda x: F.cross_entropy(x, 3),
    "cross_entropy: target is a NoneType": lambda x: F.cross_entropy(x, None),
    "mse_loss: target is a float": lambda x: F.mse_loss(x, 0.0),
    "l1_loss: target is a float": lambda x: F.l1_loss(x, 0.0),
    "kl_div: target is a float": lambda x: F.kl_div(x, 0.0),
    "kl_div: input is a int": lambda x: F.kl_div(3, x),
    "binary_cross_entropy: target is a float": lambda x: F.binary_cross_entropy(x, 0.0),
    "binary_cross_entropy: weight is a float": lambda x: F.binary_cross_entropy(x, x, 2.0),
    "binary_cross_entropy_with_logits: input is a float": lambda x: F.binary_cross_entropy_with_logits(0.5, x),
    "binary_cross_entropy_with_logits: pos_weight is a float": lambda x: F.binary_cross_entropy_with_logits(
        x, x, pos_weight=2.0
    ),
    "nll_loss: target is a int": lambda x: F.nll_loss(x, 3),
    "nll_loss: input is a float": lambda x: F.nll_loss(0.5, x),
    "layer_norm: weight is a float": lambda x: F.layer_norm(x, (4,), 1.0),
    "layer_norm: input is a int": lambda x: F.layer_norm(3, (4,)),
    "rms_norm: weight is a float": lambda x: F.rms_norm(x, (4,), 1.0),
    "linear: bias is a float": lambda x: F.linear(x, x, 1.0),
    "dropout: input is a int": lambda x: F.dropout(3),
    "relu: input is a str": lambda x: F.relu("cpu", x),
    "gelu: input is a str": lambda x: F.gelu("cpu", x),
    "softmax: input is a int": lambda x: F.softmax(3, 0),
    "log_softmax: input is a int": lambda x: F.log_softmax(3, 0),
}


@pytest.mark.parametrize("said", NO_TENSORS)
def test_arguments_that_are_no_tensors_are_named(said: str) -> None:
    with pytest.raises(TypeError, match=f"^{said}; expected a torch.Tensor"):
        NO_TENSORS[said](torch.randn(2, 4))


def test_executors_in_the_wrong_place() -> None:
    x = torch.ones(3)
    with hg.Executor("cpu") as ex, pytest.raises(TypeError, match=r"^match_device: .*Executor"):
        ht.match_device(ex, x)
    with pytest.raises(TypeError, match=r"^Linear: argument 1 is a str; expected an Executor"):
        ht.nn.Linear("cpu", 5, 3)


def test_what_is_no_tensor() -> None:
    for call in (lambda: F.add([1], [2]), lambda: F.add(1, 2), lambda: F.relu(3.0), lambda: F.sum([1])):
        with pytest.raises(TypeError, match=r"expected a torch.Tensor"):
            call()
    with pytest.raises(TypeError, match="complex64"):
        F.add(torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.complex64))
    with pytest.raises(TypeError, match="floating-point"):
        F.gelu(torch.ones(2, dtype=torch.int64))
    sparse = torch.eye(4).to_sparse()
    for call in (F.relu, F.sum, lambda x: F.add(torch.eye(4), x), lambda x: F.softmax(x, 0), lambda x: F.matmul(x, x)):
        with pytest.raises(TypeError, match=r"torch\.sparse_coo; expected a dense tensor: to_dense"):
            call(sparse)
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for call in (F.relu, lambda x: F.add(x, 1)):
        with pytest.raises(TypeError, match="nested; expected a dense tensor"):
            call(nested)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "maximum", "minimum"])
def test_gradients_at_corners(name: str) -> None:
    """Where numbers tie, and at zeros, infinities and NaN, derivatives are torch's."""
    ends = [0.0, 0.5, 1.0, 2.0, 3.0, math.inf]
    values = [math.nan, *ends, *(-x for x in ends)]
    grid = torch.tensor(list(itertools.product(values, values)), dtype=torch.float64)
    found, expected = [], []
    for module, made in ((F, found), (torch, expected)):
        x, y = (column.clone().requires_grad_() for column in grid.unbind(1))
        made += torch.autograd.grad(getattr(module, name)(x, y).sum(), (x, y))
    for ours, theirs in zip(found, expected):
        torch.testing.assert_close(ours, theirs, equal_nan=True, msg=lambda text: f"{name}: {text}")


def test_powers_of_integers() -> None:
    x = torch.tensor([-3, 0, 1, 7, 100])
    for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool):
        for n in (0, 1, 2, 3, 10, 63, True):
            found, expected = F.pow(x.to(dtype), n), torch.pow(x.to(dtype), n)
            assert found.dtype == expected.dtype
            assert torch.equal(found, expected), (dtype, n)
    out = torch.empty(5, dtype=torch.int64)
    assert F.pow(x, 3, out=out) is out
    assert torch.equal(out, x**3)
    with pytest.raises(RuntimeError, match="negative integer powers"):
        F.pow(x, -1)
    for f in (F, torch):
        assert torch.equal(f.pow(x.to(torch.uint8), 255), x.to(torch.uint8) ** 255)
        with pytest.raises(RuntimeError, match=r"256|uint8_t"):
            f.pow(x.to(torch.uint8), 256)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_powers_of_integers_by_tensors(dtype: torch.dtype) -> None:
    """They wrap; a negative exponent gives 1 over the power, cut to an integer, and of 0 torch's 0."""
    ends = torch.iinfo(dtype)
    x = torch.tensor([ends.min, ends.max, *range(max(ends.min, -20), 20)], dtype=dtype)[:, None]
    y = torch.tensor([ends.min, ends.max, ends.max - 1, *range(max(ends.min, -20), 70)], dtype=dtype)
    calls: list[Any] = [lambda f: f.pow(x, y), lambda f: f.pow(x, y[5]), lambda f: f.pow(x.t(), y[:, None])]
    calls += [lambda f, n=n: f.pow(n, y) for n in (-2, -1, 0, 1, 2, 300)]
    calls += [lambda f, d=d: f.pow(x, y.to(d)) for d in (torch.bool, torch.int64, torch.float64)]
    calls += [lambda f, d=d: f.pow(x.to(d), y) for d in (torch.bool, torch.int32)]
    calls += [lambda f: f.pow(x, y, out=torch.empty(len(x), len(y), dtype=torch.int32))]
    for call in calls:
        found, expected = call(F), call(torch)
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected, equal_nan=True)
    compiled = torch.compile(F.pow, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(x, y), torch.pow(x, y))


def test_powers_of_bools_by_tensors_are_refused() -> None:
    x = torch.tensor([True, False])
    with pytest.raises(TypeError, match=r"^pow: input has dtype torch.bool; expected a dtype of numbers"):
        F.pow(x, x)
    with pytest.raises(NotImplementedError, match="Bool"):  # a TypeError of ours all the same: it is the dtype's fault
        torch.pow(x, x)
    assert torch.equal(F.pow(x, False), torch.pow(x, False))


@pytest.mark.parametrize("name", ["elu", "selu", "silu", "gelu", "relu", "leaky_relu", "softplus", "logsigmoid"])
def test_slopes_at_the_ends(name: str) -> None:
    slopes = []
    for f in (F, torch.nn.functional):
        x = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0], requires_grad=True)
        (slope,) = torch.autograd.grad(getattr(f, name)(x).sum(), x)
        slopes.append(slope)
    torch.testing.assert_close(slopes[0], slopes[1], equal_nan=True)


@pytest.mark.parametrize("name", ["leaky_relu", "elu"])
@pytest.mark.parametrize("number", [0.0, -0.5, 2.0, math.inf, math.nan])
def test_odd_numbers_of_activations(name: str, number: float) -> None:
    """Values and slopes on either side of 0, at it and at the ends are torch's, whatever the other side's slope is."""
    found = []
    for f in (F, torch.nn.functional):
        x = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 3.0, -3.0, 1e-40, -1e-40], requires_grad=True)
        y = getattr(f, name)(x, number)
        found.append((y, *torch.autograd.grad(y.sum(), x)))
    torch.testing.assert_close(found[0], found[1], equal_nan=True)


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss", "kl_div"])
def test_slopes_of_losses_at_the_ends(name: str) -> None:
    ends = [math.nan, math.inf, -math.inf, 0.0, -1.0, 1.0, 0.3, 1e30]
    slopes = []
    for f in (F, torch.nn.functional):
        x = torch.tensor(ends, requires_grad=True)
        t = torch.tensor([*ends[1:], 0.3], requires_grad=True)
        slopes.append(torch.autograd.grad(getattr(f, name)(x, t, reduction="none").sum(), (x, t)))
    torch.testing.assert_close(slopes[0], slopes[1], equal_nan=True)


@pytest.mark.parametrize("name", ["running_mean", "running_var"])
def test_running_statistics_that_require_gradients_are_not_changed(name: str) -> None:
    x, given = torch.rand(4, 3), {"running_mean": torch.zeros(3), "running_var": torch.ones(3)}
    given[name].requires_grad_()
    for f in (F, torch.nn.functional):
        for _ in range(4):
            with pytest.raises(RuntimeError, match=name):
                f.batch_norm(x, **given, training=True)
    assert torch.equal(given["running_mean"], torch.zeros(3))
    assert torch.equal(given["running_var"], torch.ones(3))
    with torch.no_grad():
        F.batch_norm(x, **given, training=True)
    assert given["running_mean"].sum() > 0


@pytest.mark.parametrize("end", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("weighted", [False, True])
def test_ignored_scores_may_be_anything(end: float, weighted: bool) -> None:
    """The loss is that of the other rows, however it is made."""
    weight = torch.tensor([0.2, 0.9, 0.4, 0.5]) if weighted else None
    x = torch.tensor([[1.0, 2.0, 3.0, 4.0], [end, 0.0, 1.0, 2.0], [end] * 4])
    for reduction, smoothing in itertools.product(("sum", "mean", "none"), (0.0, 0.1)):
        options = {"weight": weight, "reduction": reduction, "label_smoothing": smoothing}
        found, expected = (
            f.cross_entropy(x, torch.tensor([1, -100, -100]), **options) for f in (F, torch.nn.functional)
        )
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_bounds_of_clamp_that_the_dtype_has_not(dtype: torch.dtype) -> None:
    info = torch.iinfo(dtype)
    x = torch.tensor([info.min, 0, 1, info.max], dtype=dtype)
    for bounds in (
        {"min": info.min - 1},
        {"max": info.max + 1},
        {"min": info.min - 300, "max": 1},
        {"min": 1, "max": 2**40},
    ):
        wide = torch.clamp(x.to(torch.int64), **bounds).to(dtype)
        assert torch.equal(F.clamp(x, **bounds), wide)
        assert torch.equal(F.clamp(x, **bounds, out=x.clone()), wide)
    for name, bound in (("min", info.max + 1), ("max", info.min - 1)):
        with pytest.raises(ValueError, match=rf"clamp: {name} is {bound}; {dtype} has {info.min} to {info.max}"):
            F.clamp(x, **{name: bound})


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match=r"\(3,\), \(4,\) don't broadcast"):
        F.add(torch.ones(3), torch.ones(4))
    with pytest.raises(RuntimeError, match="can't be multiplied"):
        F.matmul(torch.ones(2, 3), torch.ones(2, 3))
    with pytest.raises(RuntimeError, match="can't be multiplied"):
        F.linear(torch.ones(2, 3), torch.ones(5, 4))
    with pytest.raises(IndexError, match="dim is 1"):
        F.sum(torch.ones(3), 1)


# ---- where results go


def test_out() -> None:
    x, y, out = torch.randn(8), torch.randn(8), torch.empty(8)
    at = out.data_ptr()
    assert F.add(x, y, out=out) is out
    assert out.data_ptr() == at and torch.equal(out, x + y)
    assert F.mul(x, 2.0, out=x) is x  # element by element
    whole = torch.arange(9.0)
    F.add(whole[:-1], 1.0, out=whole[1:])  # overlaps otherwise
    assert whole.tolist() == [0, *range(1, 9)]
    wide = torch.empty(8, dtype=torch.float64)
    F.add(x, y, out=wide)
    assert torch.equal(wide, (x + y).double())
    with pytest.raises(RuntimeError, match="can't be cast"):
        F.add(x, y, out=torch.empty(8, dtype=torch.int32))
    with pytest.raises(ValueError, match=r"\(7,\); the result has \(8,\)"):
        F.add(x, y, out=torch.empty(7))
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        F.add(x.clone().requires_grad_(), y, out=out)


@pytest.mark.parametrize("call", [F.relu, F.leaky_relu, F.elu, F.silu, F.selu], ids=lambda f: f.__name__)
def test_in_place(call: Callable[..., Tensor]) -> None:
    theirs = getattr(torch.nn.functional, call.__name__)
    x = torch.randn(8)
    y, at = x.clone(), x.data_ptr()
    assert call(x, inplace=True) is x
    assert x.data_ptr() == at
    torch.testing.assert_close(x, theirs(y))
    a, b = (torch.linspace(-2, 2, 8).requires_grad_() for _ in range(2))
    for leaf, function in ((a, call), (b, theirs)):
        middle = leaf * 3
        found = function(middle, inplace=True)
        assert found is middle
        (found * found).sum().backward()
    torch.testing.assert_close(a.grad, b.grad)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        call(a, inplace=True)


@pytest.mark.parametrize("call", [F.relu, F.leaky_relu, F.elu, F.silu, F.selu, F.dropout], ids=lambda f: f.__name__)
def test_what_inference_mode_made_is_changed_there_alone(call: Callable[..., Tensor]) -> None:
    with torch.inference_mode():
        x = torch.linspace(-2, 2, 8)
        assert call(x, inplace=True) is x
    before = x.clone()
    for change in (lambda: call(x, inplace=True), lambda: F.add(before, 1.0, out=x), lambda: F.exp(before, out=x)):
        for recorded in (False, True):
            with torch.set_grad_enabled(recorded), pytest.raises(RuntimeError, match="outside InferenceMode"):
                change()
    assert torch.equal(x, before)


def test_in_place_raises_the_version() -> None:
    x = torch.randn(8)
    before = x._version
    F.relu(x, inplace=True)
    assert x._version > before


# ---- with an executor


def test_executor_forms(ex: hg.Executor) -> None:
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    assert torch.equal(F.add(ex, x, y), x + y)
    assert torch.equal(F.sub(ex, x, y), x - y)
    assert torch.equal(F.mul(ex, input1=x, input2=y), x * y)
    assert torch.equal(F.relu(ex, x), torch.relu(x))
    for ours, theirs in ((F.sigmoid, torch.sigmoid), (F.tanh, torch.tanh)):
        torch.testing.assert_close(ours(ex, x), theirs(x))
    torch.testing.assert_close(F.gelu(ex, x), torch.nn.functional.gelu(x, approximate="tanh"))
    torch.testing.assert_close(F.softmax(ex, x, dim=-1), x.softmax(-1))
    torch.testing.assert_close(F.softmax(ex, x), x.flatten().softmax(0).view(3, 4))
    w, b = torch.randn(5, 4), torch.randn(5)
    torch.testing.assert_close(F.linear(ex, x, w, b), torch.nn.functional.linear(x, w, b))
    torch.testing.assert_close(F.linear(ex, x[0], w), torch.nn.functional.linear(x[0], w))
    for reduction in ("mean", "sum", "none"):
        expected = torch.nn.functional.mse_loss(x, y, reduction=reduction)
        torch.testing.assert_close(F.mse_loss(ex, x, y, reduction), expected)
    out = torch.empty(3, 4)
    assert F.add(ex, x, y, out) is out
    assert torch.equal(out, x + y)
    z = x.clone()
    assert F.relu(ex, z, inplace=True) is z


def test_executor_forms_refuse(ex: hg.Executor) -> None:
    x = torch.ones(3, 4)
    for call in (
        lambda: F.add(ex, x, torch.ones(4)),
        lambda: F.mul(ex, x, x, out=torch.ones(3)),
        lambda: F.mse_loss(ex, x, torch.ones(3)),
        lambda: F.linear(ex, x, torch.ones(2, 5)),
        lambda: F.linear(ex, x, torch.ones(2, 4), torch.ones(3)),
    ):
        with pytest.raises(ValueError, match="shape"):
            call()
    with pytest.raises(TypeError, match=r"torch.Tensor"):
        F.add(ex, x, [1])
    with pytest.raises(TypeError, match=r"input1 is a NoneType; expected a torch\.Tensor"):
        F.add(ex, None, x)
    with pytest.raises(TypeError, match=r"^relu\(\) missing 1 required positional argument: 'input'"):
        F.relu(ex)
    with pytest.raises(TypeError, match=r"^gelu\(\) takes 2 positional arguments but 3 were given"):
        F.gelu(ex, x, "tanh")
    with pytest.raises(ValueError, match="takes those on the CPU"):
        F.relu(ex, torch.ones(3, device="meta"))
    with pytest.raises(ValueError, match="reduction"):
        F.mse_loss(ex, x, x, "median")
    freed = hg.Executor("cpu")
    freed.cleanup()
    with pytest.raises(RuntimeError, match="freed"):
        F.add(freed, x, x)


def test_executor_forms_train(ex: hg.Executor) -> None:
    x, w = torch.randn(3, 4), torch.randn(2, 4, requires_grad=True)
    loss = F.mse_loss(ex, F.relu(ex, F.linear(ex, x, w)), torch.ones(3, 2))
    expected = torch.nn.functional.mse_loss(torch.relu(x @ w.t()), torch.ones(3, 2))
    torch.testing.assert_close(torch.autograd.grad(loss, w), torch.autograd.grad(expected, w))


def test_interpreter_has_the_same_bits() -> None:
    x, y = torch.randn(64), torch.randn(64)
    with hg.Executor("interp") as interp, hg.Executor("cpu") as cpu:
        for call in (F.gelu, F.sigmoid, F.softmax, lambda e, t: F.mse_loss(e, t, y)):
            assert torch.equal(call(interp, x), call(cpu, x))


# ---- what is not torch's by name


def test_fused_linear() -> None:
    x, w, b = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5)
    torch.testing.assert_close(F.linear(x, w, b, activation="relu"), torch.relu(torch.nn.functional.linear(x, w, b)))
    with pytest.raises(ValueError, match="activation is 'swish'"):
        F.linear(x, w, activation="swish")


def test_mean_of_many_halves() -> None:
    x = torch.full((1000,), 60000.0, dtype=torch.float16)
    assert F.mean(x) == 60000


# ---- products


def test_stacks_without_elements(device: str) -> None:
    for shapes in (
        ((2, 1, 3, 0), (5, 0, 4)),
        ((2, 1, 0, 3), (5, 3, 4)),
        ((2, 0, 3, 2), (1, 2, 4)),
        ((2, 0, 3, 2), (2, 1, 2, 4)),
    ):
        a, b = (torch.rand(shape, device=device, requires_grad=True) for shape in shapes)
        found, expected = F.matmul(a, b), torch.matmul(a, b)
        torch.testing.assert_close(found, expected)
        gradients = [torch.autograd.grad(y.sum(), (a, b)) for y in (found, expected)]
        torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("zeros", [0, 1, 2, 3])
def test_prod_with_zeros(zeros: int) -> None:
    """The gradient's gradient too, in which one of two zeros counts."""
    x = torch.rand(3, 5, dtype=torch.float64) + 0.5
    x[1, :zeros] = 0
    x.requires_grad_()
    for function in (lambda x: F.prod(x, 1), lambda x: F.prod(x)):
        assert torch.autograd.gradcheck(function, (x,))
    ours, theirs = ((f.prod(x, 1) * torch.tensor([1.0, 2.0, 3.0])).sum() for f in (F, torch))
    second = []
    for loss in (ours, theirs):
        (first,) = torch.autograd.grad(loss, x, create_graph=True)
        second.append(torch.autograd.grad((first * first.detach().cos()).sum() + first.sum(), x)[0])
    torch.testing.assert_close(*second)


def test_sums_and_products_of_integers() -> None:
    x = torch.randint(-9, 9, (4, 300), dtype=torch.int8)
    for dim in (0, 1, -1):
        assert torch.equal(F.cumsum(x, dim), torch.cumsum(x, dim))
        assert torch.equal(F.prod(x, dim), torch.prod(x, dim))
    assert torch.equal(F.cumsum(x > 0, 1), torch.cumsum(x > 0, 1))
    assert torch.equal(F.prod(x > 0), torch.prod(x > 0))
    assert torch.equal(F.prod(torch.empty(0, 3), 0), torch.ones(3))
    assert torch.equal(F.cumsum(torch.tensor(2.5), 0), torch.tensor(2.5))


def test_the_gradient_of_a_deviation_of_0_is_0(device: str) -> None:
    x = torch.tensor([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]], device=device, requires_grad=True)
    for power in (1, 2):
        found, expected = (torch.autograd.grad((std(x, dim=1) ** power).sum(), x)[0] for std in (F.std, torch.std))
        assert torch.allclose(found, expected) and not expected[0].any()
    (first,) = torch.autograd.grad(F.std(x, 1).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first[:, 0].sum(), x)
    assert not second[0].any() and second[1].any()


def test_gradients_at_the_bounds_of_clamp(device: str) -> None:
    """They are those of the torch that is installed: its rule is another since 2.15 or before."""
    numbers = [-0.5, 0.5, 0.75, -0.0, 0.0, math.nan]
    x, low, high = torch.tensor(list(itertools.product(*[numbers] * 3)), device=device).T.contiguous()
    for t in (x, low, high):
        t.requires_grad_()
    for bounds in ((low, high), (low, None), (None, high)):
        of = [t for t in (x, *bounds) if t is not None]
        found, expected = (torch.autograd.grad(f(x, *bounds).sum(), of) for f in (F.clamp, torch.clamp))
        assert [t.tolist() for t in found] == [t.tolist() for t in expected]
    for bounds in itertools.product([*numbers, None], repeat=2):
        if bounds != (None, None):
            found, expected = (torch.autograd.grad(f(x, *bounds).sum(), x) for f in (F.clamp, torch.clamp))
            assert found[0].tolist() == expected[0].tolist(), bounds


@pytest.mark.parametrize("name", F.__all__)
def test_complex_numbers_are_refused_by_name(name: str) -> None:
    """None is taken for a number of another kind: sums of them once were integers."""
    function, z = getattr(F, name), torch.ones(3, 3, dtype=torch.complex64)
    first = {"where": (torch.ones(3, 3, dtype=torch.bool),), "embedding": (torch.zeros(2, dtype=torch.int64),)}
    given = {"clamp": (z, 0, 1), "cumsum": (z, 0), "layer_norm": (z, (3,)), "rms_norm": (z, (3,))}
    parameters = inspect.signature(function).parameters.values()
    count = sum(p.default is p.empty and p.kind is not p.VAR_KEYWORD for p in parameters) if name != "batch_norm" else 3
    arguments = given.get(name, (*first.get(name, ()), *[z] * (count - len(first.get(name, ())))))
    keywords = {"training": True} if name == "batch_norm" else {"p": 1.0} if name == "dropout" else {}
    with pytest.raises(TypeError, match="complex64"):
        function(*arguments, **keywords)


@pytest.mark.parametrize("dim", [None, (), (0,), [0], (0, 1), True, 0.0])
def test_one_dimension_is_an_integer(dim: Any) -> None:
    x = torch.rand(3, 4)
    with pytest.raises(TypeError):
        F.cumsum(x, dim)
    if isinstance(dim, (tuple, list)):
        for function in (F.softmax, F.log_softmax):
            with pytest.raises(TypeError):
                function(x, dim)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32])
@pytest.mark.parametrize("rows", [1, 40, 300])
def test_a_bias_is_added_once(dtype: torch.dtype, rows: int, device: str) -> None:
    """To the product as it was rounded, whichever comes first; that of 16-bit floats is in f32 until then."""
    x, w, b = (torch.randint(-9, 9, shape, device=device) / 7 for shape in ((rows, 130), (130, 130), (130,)))
    x, w, b = (t.to(dtype) for t in (x, w, b))
    found, summed = F.addmm(b, x, w.t(), beta=1, alpha=1), F.addmm(b[None], x, w.t(), beta=2, alpha=1)
    exact = F.mm(x.float(), w.t().float()) if dtype == torch.bfloat16 else F.mm(x, w.t())
    assert torch.equal(found, (exact + b).to(dtype)) and torch.equal(found, F.linear(x, w, b))
    assert torch.equal(summed, (exact + 2 * b).to(dtype))


def test_gradients_of_bounds_of_integers() -> None:
    """They have the bounds' dtype, whatever the other operands'."""
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.float16):
        x = torch.tensor([0, 1, 1]).to(dtype)
        low, high = torch.tensor([0.5, 0.25, -1], requires_grad=True), torch.tensor([2, 0.75, 1.0], requires_grad=True)
        found, expected = (torch.autograd.grad(f(x, low, high).sum(), [low, high]) for f in (F.clamp, torch.clamp))
        torch.testing.assert_close(found, expected)
