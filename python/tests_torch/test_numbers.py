"""Numbers as arguments beside tensors: numpy's as well as Python's, alpha, dimensions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from kinds import DTYPES

import hologram as hg
from hologram_torch import functional as F


def test_numbers_of_numpy_are_numbers() -> None:
    for x in (torch.ones(3), torch.ones(3, dtype=torch.float16), torch.arange(3), torch.tensor([True, False])):
        for number in (np.float32(2.5), np.float64(2.5), np.int64(-2), np.uint8(3), np.bool_(True)):
            for ours, theirs in ((F.add, torch.add), (F.mul, torch.mul)):
                expected = theirs(x, number.item())
                assert (ours(x, number).dtype, ours(x, number).tolist()) == (expected.dtype, expected.tolist())
    with pytest.raises(TypeError, match="other is a complex; expected"):
        F.add(torch.ones(3), np.complex64(1))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int64, torch.float16, torch.float32], ids=str)
def test_numbers_of_numpy_are_used_as_those_of_python(dtype: torch.dtype) -> None:
    """Also one that the tensor's dtype has not, which beside a tensor would wrap."""
    x = torch.tensor([1, 100]).to(dtype)
    for name, given in (
        ("clamp", {"min": np.int64(-300)}),
        ("clamp", {"max": np.int64(300)}),
        ("clamp", {"min": np.int64(-300), "max": np.uint8(7)}),
        ("div", {"other": np.int64(300)}),
        ("pow", {"exponent": np.int64(2)}),
        ("add", {"other": x, "alpha": np.int64(3)}),
        ("sub", {"other": x, "alpha": np.int64(-3)}),
    ):
        plain = {key: value.item() if isinstance(value, np.generic) else value for key, value in given.items()}
        if name == "clamp" and not dtype.is_floating_point:  # former torchs refused bounds that the dtype has not
            theirs = torch.clamp(x.to(torch.int64), **plain).to(dtype)
        else:
            theirs = getattr(torch, name)(x, **plain)
        for expected in (theirs, getattr(F, name)(x, **plain)):
            torch.testing.assert_close(getattr(F, name)(x, **given), expected)
    torch.testing.assert_close(F.div(np.int64(300), x), torch.div(300, x))


def test_alpha() -> None:
    x, y = torch.randn(5, requires_grad=True), torch.randn(5, requires_grad=True)
    torch.testing.assert_close(F.add(x, y, alpha=-2.5), torch.add(x, y, alpha=-2.5))
    torch.testing.assert_close(F.sub(x, y, alpha=3), torch.sub(x, y, alpha=3))
    i = torch.arange(4)
    assert torch.equal(F.sub(i, i, alpha=3), torch.sub(i, i, alpha=3))


@pytest.mark.parametrize("alpha", [1, 2, -3, 1.0, 0.5], ids=str)
@pytest.mark.parametrize(("a", "b"), list(itertools.product(DTYPES, DTYPES)), ids=str)
def test_alpha_of_dtypes(a: torch.dtype, b: torch.dtype, alpha: float) -> None:
    """Results have torch's dtypes, and what torch refuses is refused."""
    x, y = torch.tensor([1, 0, 1, 1]).to(a), torch.tensor([1, 1, 0, 1]).to(b)
    for name in ("add", "sub"):
        ours, theirs = getattr(F, name), getattr(torch, name)
        if name == "sub" and torch.bool in (a, b):
            for function in (ours, theirs):
                with pytest.raises((TypeError, RuntimeError), match=r"bool|alpha"):
                    function(x, y, alpha=alpha)
            continue
        try:
            expected = theirs(x, y, alpha=alpha)
        except RuntimeError:
            with pytest.raises(RuntimeError, match=f"{name}: alpha is {alpha}; beside integers"):
                ours(x, y, alpha=alpha)
            continue
        torch.testing.assert_close(ours(x, y, alpha=alpha), expected)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_alpha_that_a_dtype_has_not(dtype: torch.dtype) -> None:
    x, info = torch.tensor([1, 0, 7]).to(dtype), torch.iinfo(dtype)
    for name in ("add", "sub"):
        for limit in (info.max, info.min, -info.max):
            for alpha in (limit - 1, limit, limit + 1, 2 * limit):
                if name == "sub" and abs(alpha) >= 2**63:
                    continue  # whose negatives torch takes as they wrap
                outcomes = []
                for library in (torch, F):
                    try:
                        outcomes.append(getattr(library, name)(x, x, alpha=alpha).tolist())
                    except (RuntimeError, OverflowError):
                        outcomes.append(None)
                assert outcomes[0] == outcomes[1], (name, alpha)
    with pytest.raises(RuntimeError, match=f"add: alpha is {info.max + 1}; beside {dtype} expected "):
        F.add(x, x, alpha=info.max + 1)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float32], ids=str)
def test_numbers_of_numpy_that_int64_has_not(dtype: torch.dtype) -> None:
    """What torch takes for no integer is refused, and does not wrap; up to there it is a number."""
    x = torch.tensor([1, 0, 1]).to(dtype)
    calls = {
        "add: other": lambda library, n: library.add(x, n),
        "sub: other": lambda library, n: library.sub(x.float(), n),
        "mul: other": lambda library, n: library.mul(x, n),
        "add: input": lambda _, n: F.add(n, x),
        "add: alpha": lambda library, n: library.add(x, x, alpha=n),
        "div: other": lambda library, n: library.div(x, n),
        "pow: exponent": lambda library, n: library.pow(x.float(), n),
        "clamp: max": lambda library, n: library.clamp(x.long(), max=n),
        "where: other": lambda library, n: library.where(x > 0, x, n),
        "where: input": lambda library, n: library.where(x > 0, n, n),
    }
    for what, call in calls.items():
        for n in (np.uint64(2**63), np.uint64(2**64 - 1)):
            for library in (torch, F):
                with pytest.raises(TypeError, match="integer" if library is torch else f"{what} is .*{n}.*expected an"):
                    call(library, n)
        if dtype in (torch.int64, torch.float32):
            torch.testing.assert_close(call(F, np.uint64(2**63 - 1)), call(torch, np.uint64(2**63 - 1)))


def test_a_product_has_no_alpha() -> None:
    with pytest.raises(TypeError, match="alpha"):
        F.mul(torch.ones(2), torch.ones(2), alpha=2)


def test_bools_are_added() -> None:
    x, y = torch.tensor([True, False, False]), torch.tensor([False, True, False])
    for alpha in (2, 0, -1, True, False):
        found, expected = F.add(x, y, alpha=alpha), torch.add(x, y, alpha=alpha)
        assert found.dtype == expected.dtype and torch.equal(found, expected), alpha


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32], ids=str)
def test_differences_of_bools_are_refused(dtype: torch.dtype) -> None:
    """As torch does, on every way to it; a number True is 1."""
    x, mask = torch.tensor([3, 4]).to(dtype), torch.tensor([True, False])
    compiled = torch.compile(F.sub, backend="eager")
    with hg.Executor("cpu") as ex:
        for a, b in ((x, mask), (mask, x), (mask, True), (1, mask), (mask, 0.5), (mask, mask)):
            calls = [
                lambda a=a, b=b: F.sub(a, b),
                lambda a=a, b=b: F.sub(a, b, alpha=0.5),
                lambda a=a, b=b: F.sub(a, b, alpha=2),
            ]
            if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
                calls += [lambda a=a, b=b: F.sub(ex, a, b), lambda a=a, b=b: torch.ops.hologram.sub(a, b)]
                calls += [lambda a=a, b=b: compiled(a, b), lambda a=a, b=b: F.sub(a, b, out=torch.empty(2))]
            for call in [*calls, *calls]:
                with pytest.raises((TypeError, RuntimeError), match=r"sub: the dtypes are .*bool.*; expected no bools"):
                    call()
    if dtype != torch.bool:
        torch.testing.assert_close(F.sub(x, True), x - 1)


def test_dimensions_of_numpy() -> None:
    x = torch.randn(3, 4)
    for kind in (np.int64, np.int32, np.uint8):
        for found, expected in (
            (F.softmax(x, kind(1)), x.softmax(1)),
            (F.log_softmax(x, dim=kind(0)), x.log_softmax(0)),
            (F.cumsum(x, kind(0)), x.cumsum(0)),
            (F.sum(x, dim=kind(0)), x.sum(0)),
            (F.sum(x, dim=(kind(0), 1)), x.sum()),
            (F.mean(x, kind(1), True), x.mean(1, True)),
            (F.amax(x, [kind(1)]), x.amax(1)),
            (F.std(x, kind(0)), x.std(0)),
        ):
            torch.testing.assert_close(found, expected)
    torch.testing.assert_close(F.sum(x, np.int64(-1)), x.sum(-1))
    with pytest.raises(IndexError, match="sum: dim is 2, and input has"):
        F.sum(x, np.int64(2))


@pytest.mark.parametrize("dim", [True, np.bool_(True), 1.0, np.float32(1), "1"], ids=repr)
def test_dimensions_are_integers(dim: object) -> None:
    """Also where the integer that equals it was given before."""
    for call in (F.cumsum, F.softmax, F.log_softmax, F.sum, lambda x, d: F.sum(x, (d,))):
        call(torch.ones(2, 2), 1)
        with pytest.raises(TypeError):
            call(torch.ones(2, 2), dim)


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "amax", "amin"])
def test_what_equals_true_is_not_true(name: str) -> None:
    """A call with 1.0 for keepdim, which is refused, leaves calls with True as they are, and the other way round."""
    ours, theirs = getattr(F, name), getattr(torch, name)
    for first, then in ((1.0, True), (True, 1.0), (0.0, False), (False, 0.0)):
        x = torch.randn(2, 3 + int(first))
        for keepdim in (first, then) * 3:
            if isinstance(keepdim, bool):
                torch.testing.assert_close(ours(x, 1, keepdim), theirs(x, 1, keepdim))
            else:
                with pytest.raises(TypeError):
                    ours(x, 1, keepdim)


def test_clamp_names_itself() -> None:
    for bounds in ((1, 2), (1,), (None, 2)):
        with pytest.raises(TypeError, match="clamp: input is a int"):
            F.clamp(3, *bounds)


def test_numbers_alone_are_compiled() -> None:
    """torch.result_type can't be traced."""
    x = torch.arange(4)
    for a, b in ((1.0, 2), (1, 2), (True, False), (2, 0.5), (True, 3)):
        expected = torch.where(x > 1, a, b)
        for made in (F.where(x > 1, a, b), torch.compile(F.where, backend="eager", fullgraph=True)(x > 1, a, b)):
            torch.testing.assert_close(made, expected)
    torch.testing.assert_close(F.where(x > 1, np.float32(0.5), 2), torch.where(x > 1, 0.5, 2))
    torch.testing.assert_close(torch.compile(F.pow, backend="eager", fullgraph=True)(x, 5), x**5)


@pytest.mark.parametrize("alpha", [2, 1.0, -0.5], ids=str)
def test_alpha_is_compiled(alpha: float) -> None:
    x, i = torch.randn(3, 4), torch.arange(4)
    compiled = torch.compile(lambda x, y: F.sub(x, y, alpha=alpha), backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(x, i), torch.sub(x, i, alpha=alpha))
    if isinstance(alpha, int):
        torch.testing.assert_close(compiled(i, i), torch.sub(i, i, alpha=alpha))


@pytest.mark.parametrize("number", [1e300, -1e300, 3.4028235e38, 3.40282351e38, 3.5e38, float("inf"), -1e39], ids=str)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64], ids=str)
def test_numbers_too_large_for_the_dtype_are_infinite(dtype: torch.dtype, number: float) -> None:
    x = torch.tensor([1, 2, 0]).to(dtype)
    for name in ("add", "sub", "mul", "div", "pow"):
        if name == "pow" and dtype in (torch.float16, torch.bfloat16):
            continue  # torch refuses these numbers there
        for _ in range(3):
            found, expected = getattr(F, name)(x, number), getattr(torch, name)(x, number)
            torch.testing.assert_close(found, expected, equal_nan=True, msg=name)
    for refused in (F.clamp, torch.clamp):
        if dtype == torch.float32 and abs(number) == 1e300:
            with pytest.raises(RuntimeError, match="overflow"):
                refused(x, number)


def test_integers_of_more_than_64_bits_are_no_infinities() -> None:
    for dtype in (torch.float16, torch.float32, torch.float64):
        for name in ("add", "sub", "mul", "pow"):
            for functions in (F, torch):
                with pytest.raises(OverflowError, match="too big"):
                    getattr(functions, name)(torch.ones(2, dtype=dtype), 2**200)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "where"])
def test_integers_that_a_dtype_has_not(name: str, dtype: torch.dtype) -> None:
    """Numbers wrap beside integers where they do in torch, and are refused where torch refuses them."""
    x = torch.arange(3).to(dtype)
    front = (torch.tensor([True, False, True]),) if name == "where" else ()
    for n in (127, 128, 255, 1000, -129, 2**31, 2**40 + 3, 2**63 - 1, -(2**63), 2**64, -(2**63) - 1, 2**70):
        outcomes = []
        for library in (torch, F):
            try:
                outcomes.append(getattr(library, name)(*front, x, n))
            except (OverflowError, RuntimeError) as e:
                outcomes.append(type(e))
        want, found = outcomes
        if isinstance(want, torch.Tensor):
            assert isinstance(found, torch.Tensor) and torch.equal(found, want), n
        else:
            assert found is want, n
