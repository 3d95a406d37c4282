"""Users' kernels on tensors: values, gradients of straight code, branches and loops, and what torch puts around."""

from __future__ import annotations

import contextlib
import gc
import inspect
import itertools
import operator
import os
import threading
import weakref
from typing import Any

import fresh
import numpy as np
import pytest
import torch
from kernel_cases import CASES, doubled, newton, numbers, polar, swish
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.utils._python_dispatch import TorchDispatchMode

import hologram as hg
import hologram_torch as ht
from hologram._kernel.functions import PUBLIC
from hologram_torch import _kernel


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, device: str) -> None:
    function, arguments = CASES[name]
    with torch.device(device):
        given = arguments()
    assert gradcheck(function, given)
    assert gradgradcheck(function, given)


def test_values() -> None:
    x, y = torch.rand(3, 4) + 0.1, torch.rand(4) + 0.1
    torch.testing.assert_close(swish(x, 1.0), torch.nn.functional.silu(x))
    radius, above, rest = polar(x, y)
    torch.testing.assert_close(radius, torch.hypot(x, y))
    assert torch.equal(above, y > x)
    torch.testing.assert_close(rest, torch.tanh(y) * x)
    torch.testing.assert_close(newton(x.double()), x.double().sqrt())
    pairs = [(0.1, 0.7), (0.2, 0.4), (6.0, 1.0), (0.05, 2.0)]
    one, other = (torch.tensor(each, dtype=torch.float64) for each in zip(*pairs))
    assert doubled(one, other).tolist() == [doubled._kernel._function(*pair) for pair in pairs]
    assert torch.equal(swish(x, beta=2.0), swish(x, 2.0))


def test_dtypes_are_numpys() -> None:
    i, h = torch.arange(1, 4), torch.ones(3, dtype=torch.float16)

    @ht.kernel
    def add(x, y):
        return x + y

    assert add(i, 2).dtype == torch.int64
    assert add(i, 2.5).dtype == torch.float64
    assert add(h, 2.5).dtype == torch.float16
    assert add(h, torch.ones(3)).dtype == torch.float32
    x = h.clone().requires_grad_()
    add(x, torch.ones(3)).sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == torch.float16


def test_without_tensors() -> None:
    assert swish(0.0, 1.0) == 0


def test_layouts_and_empty() -> None:
    x = torch.randn(4, 6)
    assert torch.equal(swish(x.t(), 1.0), swish(x, 1.0).t())
    assert swish(torch.ones(0, 3), 1.0).shape == (0, 3)
    assert swish(torch.ones(()), 1.0).shape == ()


def test_integers_are_passed_exactly_or_refused() -> None:
    """As everywhere in Python; torch's operators, which modes see, take doubles."""

    @ht.kernel
    def add(x, n):
        return x + n

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, call, types, args=(), kwargs=None):
            return call(*args, **(kwargs or {}))

    x = torch.zeros(1, dtype=torch.int64)
    for n in (2**53 - 1, -(2**53), 2**60, 2**53 + 1, -(2**60) - 1, 2**63 - 1):
        assert add(x, n).tolist() == [n]
        for call in (add, lambda *arguments: add._operator(arguments, {})):  # which torch.compile traces
            with Mode():
                if int(float(n)) == n:
                    assert call(x, n).tolist() == [n]
                    continue
                with pytest.raises(ValueError, match=f"{n} is not a number that a double holds"):
                    call(x, n)


def test_symbols_of_integers_are_passed_exactly_or_refused() -> None:
    """With dynamic=True numbers are symbols, for whose doubles torch's reasoning has every integer equal."""

    @ht.kernel
    def add(x, n):
        return x + n

    compiled = torch.compile(lambda x, n: add(x, n), dynamic=True, fullgraph=True, backend="eager")
    x = torch.zeros(1, dtype=torch.int64)
    for n in (5, 2**53 + 2, -(2**60)):
        assert compiled(x, n).tolist() == [n]
    for n in (2**53 + 1, -(2**60) - 1):
        with pytest.raises(torch._dynamo.exc.Unsupported):
            compiled(x, n)


def test_a_kernel_for_some_types_is_made_once_by_several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    second = threading.Event()

    class Slow(_kernel._Function):
        def __init__(self, *arguments: Any) -> None:
            made.append(arguments)
            if len(made) > 1:
                second.set()
            second.wait(0.1)
            super().__init__(*arguments)

    monkeypatch.setattr(_kernel, "_Function", Slow)
    double = ht.kernel(lambda x: x * 2)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(double(torch.ones(2)).tolist())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [[2, 2]] * 4
    assert len(made) == 1


def test_static_and_outside() -> None:
    factor = 2.0

    @ht.kernel(static="terms")
    def powers(x, terms):
        total = x * factor
        for _ in range(terms):
            total = total * x
        return total

    x = torch.tensor([2.0], requires_grad=True)
    assert powers(x, 2).item() == 16
    assert powers(x, 3).item() == 32
    (gradient,) = torch.autograd.grad(powers(x, 3), x)
    assert gradient.item() == 64
    factor = 1.0
    assert powers(x, 3).item() == 16

    @ht.kernel(static="by")
    def scaled(x, by):
        return x / by[0]

    ones = torch.ones(1, dtype=torch.int32)
    assert [torch.signbit(scaled(ones, (by,))).item() for by in (0.0, -0.0)] == [False, True]
    times = ht.kernel(lambda x, by: x * by[0], static="by")
    assert [times(ones, (by,)).dtype for by in (1, 1.0, True)] == [torch.int32, torch.float64, torch.int32]


def test_kernels_of_one_name_are_apart() -> None:
    """Also where torch's dispatcher calls them by their names, and for other statics or numbers outside."""

    def make(k: float) -> Any:
        return ht.kernel(lambda x: x * k)

    factor = 2.0
    static, outside = ht.kernel(lambda x, k: x * k, static="k"), ht.kernel(lambda x: x * factor)
    two, three = make(2.0), make(3.0)
    x = torch.ones(2, requires_grad=True)
    for mode in (contextlib.nullcontext, torch.overrides.BaseTorchFunctionMode):
        with mode():
            for _ in range(2):
                for factor, given in (
                    (2.0, (two, lambda x: static(x, 2.0), outside)),
                    (3.0, (three, lambda x: static(x, 3.0), outside)),
                ):
                    for f in given:
                        y = f(x)
                        (slope,) = torch.autograd.grad(y.sum(), x)
                        assert y.tolist() == slope.tolist() == [factor] * 2


def test_what_is_refused() -> None:
    x = torch.ones(3, requires_grad=True)
    with pytest.raises(TypeError, match=r"expected a torch\.Tensor or a number"):
        swish(x, "1")
    with pytest.raises(RuntimeError, match="don't broadcast"):
        swish(x, torch.ones(4))
    with pytest.raises(TypeError, match="complex64"):
        swish(torch.ones(3, dtype=torch.complex64), 1.0)

    @ht.kernel
    def bits(x):
        return hg.bitcast(hg.bitcast(x, "i32") & -2, "f32")

    assert bits(x.detach()).shape == (3,)
    with pytest.raises(NotImplementedError, match="no derivative"):
        bits(x).sum().backward()


FUNCTIONS = [
    f for name, f in sorted(PUBLIC.items()) if name not in ("bitcast", "cast", "where", "clz", "ctz", "popc", "mulhi")
]
FUNCTIONS += [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]
FUNCTIONS += [operator.neg, operator.abs, lambda x, y: hg.where(x > y, x * y, x - y), lambda x, y: x.astype("f32") * y]
FUNCTIONS += [lambda x: hg.bitcast(hg.bitcast(x, "i64") & -2, "f64"), lambda x: x.astype("i32").astype("f64")]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_gradients_behind_a_branch_are_those_without(function: Any) -> None:
    """Programs with branches are differentiated forward, the others backward: each function has one derivative."""
    count = sum(p.default is p.empty for p in inspect.signature(function).parameters.values())
    given = [numbers(20) for _ in range(count)]

    @ht.kernel
    def straight(*values):
        return function(*values) * 1.0

    @ht.kernel
    def branched(*values):
        y = values[0] * 0.0
        if values[0] > 0.0:
            y = function(*values) * 1.0
        return y

    plain = [value.detach() for value in given]
    torch.testing.assert_close(straight(*plain), branched(*plain), check_dtype=False)
    found: list[Any] = []
    for kernel in (straight, branched):
        try:
            y = kernel(*given)
            found.append(torch.autograd.grad(y.sum(), given, materialize_grads=True) if y.requires_grad else ())
        except NotImplementedError as error:
            found.append(str(error).split(": ")[-1])
    if isinstance(found[0], str):
        assert found[0] == found[1]
        assert "has no derivative" in found[0]
    else:
        torch.testing.assert_close(*found)


UNARY = "relu abs exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sigmoid erf sqrt rsqrt floor ceil trunc".split()
CORNERS: dict[str, tuple[Any, Any]] = {
    **{name: (getattr(hg, name), getattr(torch, name)) for name in (*UNARY, "maximum", "minimum", "pow")},
    **{f.__name__: (f, f) for f in (operator.add, operator.sub, operator.mul, operator.truediv, operator.neg)},
    "rem": (hg.rem, torch.fmod),
    "where": (hg.where, None),
    "both": (lambda x: hg.maximum(x, x), lambda x: torch.maximum(x, x)),
    **{f"** {p}": (lambda x, p=p: x**p, lambda x, p=p: x**p) for p in (-1, 0, 0.5, 1, 2, 3, 4, 2.5, -2)},
    **{f"{b} **": (lambda x, b=b: b**x, lambda x, b=b: b**x) for b in (2.0, 0.0, 1.0)},
    "max 0": (lambda x: hg.maximum(x, 0.0), torch.relu),
    "max 1": (lambda x: hg.maximum(x, 1.0), lambda x: torch.maximum(x, torch.ones(()).double())),
    "min 1": (lambda x: hg.minimum(1.0, x), lambda x: torch.minimum(torch.ones(()).double(), x)),
    "* number": (lambda x: -1.0 * x * 3.0, lambda x: -3.0 * x),
    "number -": (lambda x: 2.0 - x, lambda x: 2.0 - x),
    "number /": (lambda x: 2.0 / x, lambda x: 2.0 / x),
}


@pytest.mark.parametrize("branched", [False, True])
@pytest.mark.parametrize("name", CORNERS)
def test_corners_are_torchs(name: str, branched: bool) -> None:
    """Slopes where functions bend, jump or end, by both ways to differentiate."""
    ours, theirs = CORNERS[name]
    values = torch.tensor([-2.0, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.0, 3.0, torch.nan], dtype=torch.float64)
    count = 1 if name not in ("maximum", "minimum", "pow", "add", "sub", "mul", "truediv", "rem") else 2
    given = [t.flatten() for t in torch.meshgrid(*[values] * count, indexing="ij")]
    if name == "where":
        ours, theirs = lambda x: hg.where(x > 0.5, x * 2.0, 3.0 - x), lambda x: torch.where(x > 0.5, x * 2.0, 3.0 - x)

    def straight(*x):
        return ours(*x) * 1.0

    def with_branch(*x):
        y = x[0] * 0.0
        if x[0] == x[0]:
            y = ours(*x) * 1.0
        else:
            y = ours(*x) * 1.0
        return y

    found = []
    for function in (ht.kernel(with_branch if branched else straight), theirs):
        leaves = [t.clone().requires_grad_() for t in given]
        y = function(*leaves)
        weights = torch.linspace(0.5, 2, y.numel(), dtype=torch.float64)
        found.append([y.detach(), *torch.autograd.grad((y * weights).sum(), leaves, materialize_grads=True)])
    # Behind branches a tangent of 0 of one operand may meet an infinite slope of the other.
    finite = torch.stack([*given, found[1][0]]).isfinite().all(0) & ~torch.stack(found[1]).isinf().any(0)
    of = finite if branched else slice(None)
    for one, other in zip(*found):
        torch.testing.assert_close(one[of], other[of], rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("name", ["swish", "loop", "branches", "several"])
def test_compile(name: str, device: str) -> None:
    torch._dynamo.reset()
    function, arguments = CASES[name]
    with torch.device(device):
        given = arguments()
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    tensors = [value for value in given if isinstance(value, Tensor)]
    results = []
    for call in (compiled, function):
        found = call(*given)
        found = found if isinstance(found, tuple) else (found,)
        results.append([*found, *torch.autograd.grad(sum(f.sum() for f in found), tensors)])
    for found, expected in zip(*results):
        assert torch.equal(found, expected)


def test_in_a_module() -> None:
    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.beta = torch.nn.Parameter(torch.ones(4))
            self.activation = swish

        def forward(self, x: Tensor) -> Tensor:
            return self.activation(x, self.beta)

    net = Net()
    net(torch.randn(8, 4)).sum().backward()
    assert net.beta.grad is not None
    assert net.beta.grad.shape == (4,)


def test_executor(ex: hg.Executor) -> None:
    x = torch.randn(3, requires_grad=True)
    with hg.Executor("interp") as interp:
        assert torch.equal(swish(x, 1.0, executor=interp), swish(x, 1.0, executor=ex))


def test_of_a_hologram_kernel() -> None:
    made = ht.kernel(hg.kernel(lambda x: x * x))
    x = torch.randn(3, requires_grad=True)
    (gradient,) = torch.autograd.grad(made(x).sum(), x)
    torch.testing.assert_close(gradient, 2 * x.detach())


class Net(torch.nn.Module):
    def __init__(self, f: Any) -> None:
        super().__init__()
        self.f = f

    def forward(self, x: Tensor) -> Any:
        return self.f(x)


def made_anew(k: float) -> Any:
    @ht.kernel
    def scaled(x):
        z = x * k
        return z * z

    return scaled


def test_kernels_that_compute_other_numbers_share_nothing() -> None:
    """What is computed of numbers alone is no instruction: the programs of these are the same."""

    def made(power: int) -> Any:
        @ht.kernel
        def scaled(x: Any, n: Any) -> Any:
            return x * n**power

        return scaled

    x = torch.ones(3, dtype=torch.float64)
    for power in (2, 3, 2, 5):
        assert made(power)(x, 10)[0] == 10**power


def test_kernels_made_anew_are_freed_and_share() -> None:
    """What autograd holds works on; and so does what a graph names, which stays."""
    x = torch.tensor([3.0], requires_grad=True)
    kept = made_anew(2.0)
    first = kept(x)
    alive = []
    for _ in range(3):
        anew = made_anew(2.0)
        y = anew(x)
        (function,) = anew._functions.values()
        assert function is next(iter(kept._functions.values()))
        other = made_anew(5.0)
        (slope,) = torch.autograd.grad(other(x).sum(), x, create_graph=True)
        alive += [weakref.ref(anew), weakref.ref(other), *map(weakref.ref, other._functions.values())]
        del anew, other, function
        gc.collect()
        assert torch.autograd.grad(y, x)[0].item() == 24
        assert torch.autograd.grad(slope, x)[0].item() == 50
        del slope
    gc.collect()
    assert not any(each() for each in alive)
    torch._dynamo.reset()
    graph = torch.export.export(Net(made_anew(7.0)), (torch.ones(1),)).module()
    gc.collect()
    assert graph(x).item() == 441
    assert first.item() == 36


@ht.kernel
def a_tenth(x):
    return x * 0.1


@ht.kernel
def a_tenth_in_f32(x):
    return x.astype("float32") * 0.1


def test_types_follow_numpy() -> None:
    """A number meets an integer as in numpy, where torch's functions give torch's type; a cast gives it in a kernel."""
    x = torch.arange(3)
    assert a_tenth(x).dtype == torch.float64
    torch.testing.assert_close(a_tenth(x), torch.from_numpy(x.numpy() * 0.1))
    torch.testing.assert_close(a_tenth_in_f32(x), x * 0.1)
    torch.testing.assert_close(ht.functional.mul(x, 0.1), x * 0.1)


def test_numbers_of_numpy_have_dtypes() -> None:
    """As in hologram.kernel, which says what comes out; where an annotation says the type of a number it is that."""

    @ht.kernel
    def f(x, y):
        return x * y, y

    @ht.kernel
    def annotated(x, y: float):
        return x * y

    kernel = f._kernel
    numbers = [kind(2) for kind in (np.bool_, np.int8, np.uint8, np.int64, np.float16, np.float32, np.float64)]
    for dtype, number in itertools.product((torch.int16, torch.float16, torch.float32), numbers):
        x = torch.arange(3).to(dtype)
        for arguments in ((x, number), (number, x)):
            expected = kernel(*(a.numpy() if a is x else a for a in arguments))
            for found, wanted in zip(f(*arguments), expected):
                assert torch.equal(found, torch.from_numpy(wanted))
                assert found.dtype == torch.from_numpy(wanted).dtype
        if dtype.is_floating_point:
            assert torch.equal(annotated(x, number), x * number.item())
            assert annotated(x, number).dtype == dtype
    x = torch.ones(3, requires_grad=True)
    (slope,) = torch.autograd.grad(f(x, np.float32(2))[0].sum(), x)
    assert slope.tolist() == [2.0] * 3
    with pytest.raises(TypeError, match="complex"):
        f(x, np.complex64(1))


def test_ints_of_pythons_are_never_cut() -> None:
    """Computed in Python where arguments alone decide them, as several types, recorded or not; else checked."""

    def function(p: Any, x: Any, level: Any, margin: Any) -> Any:
        return p > level + margin, x * level**3, p + margin, x + margin

    kernel = ht.kernel(function)
    p = torch.tensor([0, 100, 245], dtype=torch.uint8)
    x = torch.ones(3, requires_grad=True)
    above, cubed, sums, moved = kernel(p, x, 10**7, 10)
    assert above.tolist() == [False] * 3
    assert sums.tolist() == [10, 110, 255]
    assert moved.tolist() == [11] * 3
    np.testing.assert_allclose(cubed.tolist(), [1e21] * 3, rtol=1e-7)
    cubed.sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.tolist(), [1e21] * 3, rtol=1e-7)
    with torch.no_grad():
        assert kernel(p, x, -1, 0)[0].tolist() == [True] * 3
        with pytest.raises(ValueError, match="function: margin: -1 is out of range of u8"):
            kernel(p, x, 3, -1)
    with pytest.raises(ValueError, match="level \\+ margin is 300, and meets u8 here, which goes from 0 to 255"):
        ht.kernel(lambda p, level, margin: p + (level + margin))(p, 200, 100)

    @ht.kernel
    def counted(p: Any, x: Any, n: Any) -> Any:
        c = 0
        for _ in hg.range(n):
            c += 100
        return x * (p + c)

    y = torch.ones(3, requires_grad=True)
    counted(p, y, 0).sum().backward()
    assert y.grad is not None
    assert y.grad.tolist() == [0, 100, 245]
    with pytest.raises(hg.ProgramFault, match=r"counted: an int of Python's leaves .* u8 .*\[0\](?s:.)*x \* \(p"):
        counted(p, y, 3)


def test_no_out_with_tensors() -> None:
    """It is an argument of numpy arrays', which a kernel takes too."""

    @ht.kernel
    def twice(x):
        return x * 2

    out = np.empty(3)
    assert twice(np.ones(3), out=out) is out and out.tolist() == [2.0] * 3
    with pytest.raises(TypeError, match="twice: it takes no out= with tensors"):
        twice(torch.ones(3), out=torch.ones(3))


def test_plain_kernels_make_tensors_in_c_as_in_python() -> None:
    """What a kernel of hologram's returns of tensors, the first time and, made in C, from then on."""
    x = torch.arange(12.0).reshape(3, 4)
    for first, second in (
        (x, x),
        (x > 2, x > 5),
        (x.half(), x.half()),
        (x.int(), x),
        (x, x.numpy()),
        (x.T, x.T),
        (x[:0], x[:0]),
    ):
        f = hg.kernel(operator.and_ if first.dtype == torch.bool else operator.add)
        expected = f(first, second)
        made_in_c = first.is_contiguous() and isinstance(second, Tensor) and first.numel() > 0
        if made_in_c:
            f._call_any = None
        found = f(first, second)
        assert type(found) is type(expected) is Tensor
        assert (found.dtype, found.stride()) == (expected.dtype, expected.stride())
        assert torch.equal(found, expected)
    f = hg.kernel(lambda x: x + 1)
    for _ in range(3):
        assert torch.equal(f(x), x + 1)
        with pytest.raises(ValueError, match="slot x: the tensor requires grad"):
            f(x.clone().requires_grad_())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_fork_s_child_does_not_wait_for_a_kernel_that_the_parent_s_threads_trace() -> None:
    code = """
import os, signal, threading, torch
import hologram_torch as ht
tracing, traced = threading.Event(), threading.Event()
@ht.kernel
def f(x):
    tracing.set()
    traced.wait()
    return x + 1
x = torch.ones(3)
thread = threading.Thread(target=f, args=(x,))
thread.start()
tracing.wait()
if os.fork() == 0:
    signal.alarm(20)
    try:
        f(x)
    except RuntimeError as error:
        os._exit(0 if type(error).__name__ == "ForkError" else 1)
    os._exit(2)
status = os.wait()[1]
traced.set()
thread.join()
assert status == 0, status
"""
    done = fresh.run(code)
    assert done.returncode == 0, done.stderr
