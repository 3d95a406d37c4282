"""Functions whose calls are recorded and repeated: the same bits as ever, and torch's rules about gradients."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Optional

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from hologram._ffi import native
from hologram_torch import functional as F
from hologram_torch import nn
from hologram_torch._functions import _SOFTMAX, relu
from hologram_torch._fused import Fused
from hologram_torch._losses import _BCE, _BCE_LOGITS, _CROSS_ENTROPY, _KL_DIV, _NLL_LOSS, _POINTWISE
from hologram_torch._matrix import MM
from hologram_torch._norms import _BATCH_NORM, _LAYER_NORM, _RMS_NORM, _STANDARDIZED
from hologram_torch._products import _BMM, _LINEAR, _MATMUL, _MM
from hologram_torch._table import OPERATIONS

F.add(torch.ones(1), 1.0)
pytestmark = pytest.mark.skipif(
    not native.torch_usual(True), reason="torch's libraries don't tell C about tensors here: nothing is recorded"
)

Inputs = tuple[Optional[Tensor], ...]


def linear(
    rows: tuple[int, ...] = (5,), bias: bool = True, dtype: torch.dtype = torch.float32, data: bool = True
) -> Callable[[], Inputs]:
    def inputs() -> Inputs:
        x, w, b = torch.randn(*rows, 6).to(dtype), torch.randn(4, 6).to(dtype), torch.randn(4).to(dtype)
        return x.requires_grad_(data), w.requires_grad_(), b.requires_grad_() if bias else None

    return inputs


def factors(*shapes: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Inputs:
    return tuple(torch.randn(shape).to(dtype).requires_grad_() for shape in shapes)


def turned() -> Inputs:
    return torch.randn(6, 5).t().requires_grad_(), torch.randn(6, 8).t()[::2].requires_grad_(), None


def classes(
    shape: tuple[int, ...] = (7, 5), weight: bool = False, dtype: torch.dtype = torch.float32
) -> Callable[[], Inputs]:
    def inputs() -> Inputs:
        target = torch.randint(shape[1], (shape[0], *shape[2:]))
        target.view(-1)[0] = 1
        w = torch.rand(shape[1]).to(dtype) if weight else None
        return torch.randn(shape).to(dtype).requires_grad_(), target, w

    return inputs


def likely() -> Inputs:
    return torch.randn(7, 5, requires_grad=True), torch.rand(7, 5).softmax(1), None


def pairs(dtype: torch.dtype = torch.float32, both: bool = False) -> Callable[[], Inputs]:
    def inputs() -> Inputs:
        return torch.randn(5, 6).to(dtype).requires_grad_(), torch.rand(5, 6).to(dtype).requires_grad_(both), None

    return inputs


def shares(dtype: torch.dtype = torch.float32, weight: bool = False) -> Callable[[], Inputs]:
    def inputs() -> Inputs:
        x, t, w = (torch.rand(5, 6).to(dtype) for _ in range(3))
        return x.requires_grad_(), t, w if weight else None

    return inputs


def normed(
    shape: tuple[int, ...] = (5, 6), affine: int = 2, dtype: torch.dtype = torch.float32
) -> Callable[[], Inputs]:
    def inputs() -> Inputs:
        parameters = [torch.rand(shape[-1]).to(dtype).requires_grad_() for _ in range(affine)]
        return (torch.randn(shape).to(dtype).requires_grad_(), *parameters)

    return inputs


MEAN = (-100, "mean", 0.0)
CASES: dict[str, tuple[Fused, tuple[Any, ...], Callable[[], Inputs]]] = {
    "linear": (_LINEAR, (None,), linear()),
    "data needs no gradient": (_LINEAR, ("relu",), linear(data=False)),
    "relu": (_LINEAR, ("relu",), linear()),
    "gelu, f16": (_LINEAR, ("gelu",), linear(dtype=torch.float16)),
    "tanh, of its result": (_LINEAR, ("tanh",), linear(dtype=torch.bfloat16)),
    "silu, f64, no bias": (_LINEAR, ("silu",), linear(bias=False, dtype=torch.float64)),
    "three dimensions": (_LINEAR, ("sigmoid",), linear((2, 3))),
    "one row": (_LINEAR, ("leaky_relu",), linear(())),
    "other strides": (_LINEAR, ("relu",), turned),
    "product": (_MM, (), lambda: factors((5, 6), (6, 4))),
    "product, of one's columns": (_MM, (), lambda: (torch.randn(6, 5).t().requires_grad_(), *factors((6, 4)))),
    "products, bf16": (_BMM, (), lambda: factors((3, 5, 6), (3, 6, 4), dtype=torch.bfloat16)),
    "of stacks": (_MATMUL, (), lambda: factors((2, 3, 5, 6), (2, 3, 6, 4))),
    "of a stack": (_MATMUL, (), lambda: factors((2, 3, 5, 6), (6, 4), dtype=torch.float64)),
    "of vectors": (_MATMUL, (), lambda: factors((6,), (6,))),
    "of a vector": (_MATMUL, (), lambda: factors((5, 6), (6,), dtype=torch.float16)),
    "cross entropy": (_CROSS_ENTROPY, MEAN, classes()),
    "of images": (_CROSS_ENTROPY, (1, "mean", 0.0), classes((2, 3, 4, 5))),
    "each": (_CROSS_ENTROPY, (1, "none", 0.0), classes(weight=True)),
    "smoothed": (_CROSS_ENTROPY, (1, "mean", 0.1), classes()),
    "smoothed images, bf16": (_CROSS_ENTROPY, (-100, "none", 0.5), classes((2, 3, 4, 5), dtype=torch.bfloat16)),
    "squares": (_POINTWISE, ("mse_loss", "mse", (), "mean"), pairs()),
    "of both, bf16": (_POINTWISE, ("huber_loss", "huber", (1.0,), "sum"), pairs(torch.bfloat16, both=True)),
    "binary, of numbers from 0 to 1": (_BCE, ("mean",), shares()),
    "binary, weighted, f16": (_BCE, ("sum",), shares(torch.float16, weight=True)),
    "binary": (_BCE_LOGITS, ("mean",), lambda: (*pairs(both=True)(), None)),
    "binary, weighted": (_BCE_LOGITS, ("mean",), lambda: (*shares(weight=True)(), torch.rand(6))),
    "divergence": (_KL_DIV, ("batchmean", False), lambda: pairs()()[:2]),
    "divergence, logarithms, bf16": (_KL_DIV, ("mean", True), lambda: pairs(torch.bfloat16, both=True)()[:2]),
    "likelihoods": (_NLL_LOSS, (-100, "mean"), classes(weight=True)),
    "likelihoods of images, bf16": (_NLL_LOSS, (1, "sum"), classes((2, 3, 4, 5), dtype=torch.bfloat16)),
    "layer norm": (_LAYER_NORM, ((6,), 1e-5), normed()),
    "layer norm, long, bf16": (_LAYER_NORM, ((300,), 1e-5), normed((2, 3, 300), dtype=torch.bfloat16)),
    "layer norm, none": (_LAYER_NORM, ((6,), 1e-5), lambda: (*normed(affine=0)(), None, None)),
    "rms norm": (_RMS_NORM, ((6,), None), normed((70, 6), 1)),
    "batch norm": (
        _STANDARDIZED,
        (1e-5,),
        lambda: (torch.randn(3, 6, 2).requires_grad_(), torch.randn(6), torch.rand(6), *normed((6,))()[1:]),
    ),
    "softmax": (_SOFTMAX, (0, None, "softmax"), normed((3, 4, 2), 0)),
    "log softmax, f16": (_SOFTMAX, (-1, None, "log_softmax"), normed((3, 400), 0, torch.float16)),
    "weights, f16": (_CROSS_ENTROPY, (-100, "sum", 0.0), classes(weight=True, dtype=torch.float16)),
}


def gradients(y: Tensor, inputs: Inputs) -> list[Optional[Tensor]]:
    of = [t for t in inputs if t is not None and t.requires_grad]
    g = torch.linspace(-1, 1, y.numel(), dtype=y.dtype, device=y.device).reshape(y.shape)
    return [y, *torch.autograd.grad(y, of, g)]


def is_node(y: Tensor) -> bool:
    return y.grad_fn is not None and y.grad_fn.name() == "Hologram_sequenceBackward"


@pytest.mark.parametrize("case", CASES)
def test_the_same_bits(case: str, device: str) -> None:
    """Of a call that is repeated as of the function itself, its gradients included, and as one node."""
    shared, options, inputs_of = CASES[case]

    def make() -> Inputs:
        with torch.device(device):
            return inputs_of()

    fused = Fused(shared.name, shared.function, shared.inputs, shared.written)  # whatever other tests called
    for _ in range(2):
        fused(make(), options)
    for _ in range(2):
        inputs = make()
        y = fused(inputs, options)
        assert is_node(y)
        expected = gradients(fused.function(*inputs, *options), inputs)
        for found, want in zip(gradients(y, inputs), expected):
            assert found is not None and want is not None
            assert (found.shape, found.dtype, found.stride()) == (want.shape, want.dtype, want.stride())
            assert torch.equal(found, want)
    with torch.no_grad():
        for _ in range(3):
            inputs = make()
            y = fused(inputs, options)
            assert torch.equal(y, fused.function(*inputs, *options)) and not y.requires_grad
        y.resize_(100)  # it owns its storage


def known(inputs: Inputs, fused: Fused = _LINEAR, options: tuple[Any, ...] = ("tanh",)) -> Tensor:
    for _ in range(10):  # more than two where other tests had it given up
        y = fused(inputs, options)
        if is_node(y):
            return y
    raise AssertionError("it is not recorded")


def test_gradients_of_gradients() -> None:
    x, w, b = linear(dtype=torch.float64)()
    known((x, w, b))
    assert torch.autograd.gradgradcheck(lambda *t: F.linear(*t, activation="tanh"), (x, w, b))
    x, t, _ = classes((3, 4), dtype=torch.float64)()
    known((x, t, None), _CROSS_ENTROPY, MEAN)
    assert torch.autograd.gradgradcheck(lambda x: F.cross_entropy(x, t), (x,))


def moving(dtype: torch.dtype = torch.float32, data: bool = True) -> Inputs:
    x, w, b = torch.randn(5, 3, 2).to(dtype).requires_grad_(data), torch.rand(3).to(dtype), torch.rand(3).to(dtype)
    return x, torch.zeros(3), torch.ones(3), w.requires_grad_(data), b.requires_grad_(data), None


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("data", [True, False])
def test_inputs_that_are_changed(dtype: torch.dtype, data: bool) -> None:
    """Each call changes them once, the one that is recorded too, and gradients of gradients do not."""
    fused = Fused("batch_norm", _BATCH_NORM.function, _BATCH_NORM.inputs, _BATCH_NORM.written)
    first = moving(dtype, data)
    mean, var = (t.clone() for t in first[1:3] if t is not None)
    x, running, spread, *rest = first
    assert x is not None and running is not None and spread is not None
    for i in range(5):
        x = torch.randn_like(x).requires_grad_(data)
        versions = running._version, spread._version
        y = fused((x, running, spread, *rest), (0.25, 1e-5))
        assert (is_node(y) if data else not y.requires_grad) or i < 2
        assert running._version > versions[0] and spread._version > versions[1]
        z = _BATCH_NORM.function(x, mean, var, *rest, 0.25, 1e-5)
        assert torch.equal(y, z) and torch.equal(running, mean) and torch.equal(spread, var)
        if data:
            for a, b in zip(gradients(y, (x, *rest)), gradients(z, (x, *rest))):
                assert a is not None and b is not None and torch.equal(a, b)
            y = fused((x, running, spread, *rest), (0.25, 1e-5))
            mean, var = running.clone(), spread.clone()
            (by_x,) = torch.autograd.grad(y.float().square().sum(), x, create_graph=True)
            torch.autograd.grad(by_x.float().square().sum(), x)
            assert torch.equal(running, mean) and torch.equal(spread, var)


@pytest.mark.parametrize("kept", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("data", [True, False])
def test_what_is_changed_may_have_another_type(dtype: torch.dtype, kept: torch.dtype, data: bool) -> None:
    """Then torch converts what it is changed to, which no recording sees: each call changes it all the same."""
    fused = Fused("batch_norm", _BATCH_NORM.function, _BATCH_NORM.inputs, _BATCH_NORM.written)
    x, running, spread, *rest = (None if t is None else t.detach() for t in moving(dtype))
    assert x is not None and running is not None and spread is not None
    running, spread = running.to(kept), spread.to(kept)
    mean, var = running.clone(), spread.clone()
    for _ in range(6):
        x = torch.randn_like(x) + 2
        fused((x.requires_grad_(data), running, spread, *rest), (0.25, 1e-5))
        _BATCH_NORM.function(x, mean, var, *rest, 0.25, 1e-5)
        assert torch.equal(running, mean) and torch.equal(spread, var)


def test_a_mean_over_all_batches_is_recorded_once() -> None:
    """Whatever share of it a batch has: steps are repeated, and none adds to what is remembered."""
    remembered, layer, theirs = 0, nn.BatchNorm1d(3, momentum=None), torch.nn.BatchNorm1d(3, momentum=None)
    for step in range(8):
        x = torch.randn(5, 3, requires_grad=True)
        y = layer(x)
        torch.testing.assert_close(y, theirs(x.detach()))
        if step > 1:
            assert is_node(y)
            assert remembered == len(_BATCH_NORM._forms)
        remembered = len(_BATCH_NORM._forms)
    for name, buffer in theirs.named_buffers():
        torch.testing.assert_close(layer.get_buffer(name), buffer)


def test_changed_inputs_that_others_see() -> None:
    """A tensor that is saved for a gradient and then changed is refused, as ever."""
    x, running, spread, *rest = moving()
    for _ in range(4):
        assert running is not None and spread is not None and x is not None
        y = F.mul(spread, x[0, :, 0])  # which keeps spread
        _BATCH_NORM((x, running, spread, *rest), (0.25, 1e-5))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().backward()


def test_signatures_differ() -> None:
    """What was learnt of some inputs is not used for others."""
    x, w, b = linear(dtype=torch.float64)()
    known((x, w, b))
    assert x is not None and w is not None and b is not None
    others: list[Inputs] = [
        (x[:3], w, b),
        (x.detach(), w, b),
        (x, w.detach(), None),
        (x.float(), w.float(), b.float()),
        (torch.randn(6, 5, dtype=torch.float64).t(), w, b),
        (x, torch.randn(1, 6, dtype=torch.float64).expand(4, 6), b),
        (x.reshape(1, 5, 6), w, b[:1]),
    ]
    for inputs in others:
        for _ in range(3):
            want = torch.tanh(torch.nn.functional.linear(inputs[0], inputs[1], None))  # type: ignore[arg-type]
            if inputs[2] is not None:
                want = torch.tanh(torch.nn.functional.linear(inputs[0], inputs[1]) + inputs[2])  # type: ignore[arg-type]
            y = _LINEAR(inputs, ("tanh",))
            torch.testing.assert_close(y, want)
            assert y.requires_grad == want.requires_grad
    with pytest.raises(RuntimeError, match="can't be multiplied"):
        _LINEAR((x, torch.randn(4, 5, dtype=torch.float64), b), ("tanh",))


def test_one_tensor_twice() -> None:
    """Inputs of one storage can't be told apart when they are recorded, but may be one when that is repeated."""
    x = torch.randn(4, 4, requires_grad=True)
    for _ in range(3):
        y = F.linear(x, x)
        assert not is_node(y)
        torch.testing.assert_close(y, x @ x.t())
    w = torch.randn(4, 4, requires_grad=True)
    known((x, w, None))
    y = _LINEAR((x, x, None), ("tanh",))
    (found,) = torch.autograd.grad(y.sum(), x)
    (want,) = torch.autograd.grad(torch.tanh(x @ x.t()).sum(), x)
    torch.testing.assert_close(found, want)


def test_kinds_of_gradients() -> None:
    """Ones that are expanded, turned, and needed twice."""
    inputs = x, w, b = linear()()
    y = known(inputs)
    want = torch.autograd.grad(_LINEAR.function(*inputs, "tanh").sum(), [x, w, b])  # type: ignore[arg-type]
    for _ in range(2):
        found = torch.autograd.grad(y.sum(), [x, w, b], retain_graph=True)  # type: ignore[arg-type]
        assert all(torch.equal(a, b) for a, b in zip(found, want))
    g = torch.randn(4, 5).t()
    (found,) = torch.autograd.grad(y, [w], g)  # type: ignore[arg-type]
    (want,) = torch.autograd.grad(_LINEAR.function(*inputs, "tanh"), [w], g)  # type: ignore[arg-type]
    assert torch.equal(found, want)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(y, [w], g)  # type: ignore[arg-type]


def _tied(w: torch.Tensor) -> torch.Tensor:
    return F.linear(F.linear(torch.linspace(-1, 1, 20, dtype=w.dtype).reshape(4, 5), w), w)


@pytest.mark.parametrize(
    "function, torchs",
    [
        (lambda w: F.mm(w, w), lambda w: torch.mm(w, w)),
        (lambda w: F.mm(w, torch.relu(w)), lambda w: torch.mm(w, torch.relu(w))),
        (lambda w: F.mse_loss(w, torch.sin(w)), lambda w: torch.nn.functional.mse_loss(w, torch.sin(w))),
        (lambda w: F.layer_norm(w, (5,), w[0], w[1]), lambda w: torch.nn.functional.layer_norm(w, (5,), w[0], w[1])),
        (_tied, lambda w: torch.linspace(-1, 1, 20, dtype=w.dtype).reshape(4, 5) @ w.T @ w.T),
    ],
    ids=["itself", "depends", "loss", "parts", "tied"],
)
def test_inputs_that_depend_on_one_another(function: Any, torchs: Any) -> None:
    """A gradient that is differentiable counts each path once, however often the call was made before."""
    w = torch.linspace(-1, 2, 25, dtype=torch.float64).reshape(5, 5).requires_grad_()
    (want,) = torch.autograd.grad(torchs(w).square().sum(), w, create_graph=True)
    (second,) = torch.autograd.grad(want.square().sum(), w)
    for _ in range(6):
        (found,) = torch.autograd.grad(function(w).square().sum(), w, create_graph=True)
        torch.testing.assert_close(found, want)
        torch.testing.assert_close(torch.autograd.grad(found.square().sum(), w)[0], second)


def test_tensors_that_change() -> None:
    """Saved ones must not, others may: but for the gradient of the gradient."""
    x, w, b = linear()()
    assert x is not None and w is not None
    y = known((x, w, b))
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    z, classes = torch.randn(7, 5, requires_grad=True), torch.zeros(7, dtype=torch.int64)
    for again in (False, True):
        logs = z * 1
        loss = known((logs, classes, None), _NLL_LOSS, (-100, "mean"))
        logs.mul_(2)
        if again:
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                torch.autograd.grad(loss, z, create_graph=True)
        else:
            (found,) = torch.autograd.grad(loss, z)
            (want,) = torch.autograd.grad(torch.nn.functional.nll_loss(z, classes), z)
            torch.testing.assert_close(found, want)
    scores = z * 1
    loss = known((scores, classes, None), _CROSS_ENTROPY, MEAN)
    scores.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.grad(loss, z)


def test_classes_that_are_none() -> None:
    x, t, _ = classes()()
    assert t is not None
    known((x, t, None), _CROSS_ENTROPY, MEAN)
    t[3] = 5
    with pytest.raises(IndexError, match="Target 5 is out of bounds"):
        F.cross_entropy(x, t)


def test_where_torch_looks_on() -> None:
    """With hooks for saved tensors, autocast or modes the operations are called one by one."""
    x, w, b = linear()()
    known((x, w, b))
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        assert not is_node(_LINEAR((x, w, b), ("tanh",)))
    assert packed
    with torch.autocast("cpu", torch.bfloat16):
        assert _LINEAR((x, w, b), ("tanh",)).dtype == torch.bfloat16
    assert x is not None and w is not None
    found = torch.func.grad(lambda w: F.linear(x, w, b, activation="tanh").sum())(w)
    (want,) = torch.autograd.grad(_LINEAR((x, w, b), ("tanh",)).sum(), w)
    assert torch.equal(found, want)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_of_equal_layers(reentrant: bool) -> None:
    """Recomputing saves what was saved, whatever was learnt between."""
    layers = [nn.Linear(6, 6, activation="relu") for _ in range(3)]
    for _ in range(4):
        x = torch.randn(5, 6, requires_grad=True)
        y = x
        for layer in layers:
            y = checkpoint(layer, y, use_reentrant=reentrant)
        (found,) = torch.autograd.grad(y.sum(), [layers[0].weight], retain_graph=True) if not reentrant else (None,)
        y = x
        for layer in layers:
            y = layer(y)
        (want,) = torch.autograd.grad(y.sum(), [layers[0].weight])
        assert found is None or torch.equal(found, want)


def test_what_torch_computes_is_not_recorded() -> None:
    x = torch.randn(3, 4)

    def fresh(x: Tensor) -> Tensor:
        return relu(x.sin())

    def in_place(x: Tensor) -> Tensor:
        return relu(relu(x).sub_(1))

    def result(x: Tensor) -> Tensor:
        return OPERATIONS["exp"](x).cos()

    def copied(x: Tensor) -> Tensor:
        return relu(torch.zeros_like(x).copy_(x))

    def itself(x: Tensor) -> Tensor:
        relu(x)
        return x

    for function in (fresh, in_place, result, copied, itself):
        fused = Fused(function.__name__, function, 1)
        for requires in (False, True):
            for i in range(4):
                given = (x * i).requires_grad_(requires)
                y = fused((given,))
                assert not is_node(y) and torch.equal(y, function(given)), function.__name__
                assert fused._forms[()].known(None, given) is None
    chain = Fused("chain", lambda x: relu(OPERATIONS["exp"](x.t()).t()), 1)
    for i in range(4):
        y = chain(((x * i).requires_grad_(),))
        torch.testing.assert_close(y, (x * i).exp())
    assert is_node(y)


def test_nothing_is_kept() -> None:
    """Neither inputs nor gradients, by what was recorded or by nodes that are gone."""
    inputs = x, w, b = linear()()
    known(inputs).sum().backward()
    assert x is not None and x.grad is not None
    gone = [weakref.ref(x), weakref.ref(x.grad)]
    del x, w, b, inputs
    assert [ref() for ref in gone] == [None, None]


def test_threads_learn_at_once() -> None:
    fused = Fused("threads", lambda x, w: F.mm(F.exp(x), w), 2)
    wrong = []

    def work() -> None:
        for i in range(1, 40):
            x, w = torch.rand(3, i % 5 + 1, requires_grad=True), torch.rand(i % 5 + 1, 2)
            found, want = fused((x, w)), torch.exp(x) @ w
            for a, b in ((found, want), *zip(torch.autograd.grad(found.sum(), x), torch.autograd.grad(want.sum(), x))):
                if not torch.allclose(a, b, rtol=1e-4):
                    wrong.append((i, a, b))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_many_signatures() -> None:
    """A full table gives up what was not used for longest; an old signature is recorded again after two calls."""
    fused = Fused("many", lambda x, w: MM(F.exp(x), w), 2)
    w = torch.randn(2, 3, requires_grad=True)

    def calls(n: int) -> list[bool]:
        x, found = torch.randn(n, 2), []
        for _ in range(3):
            y = fused((x, w))
            torch.testing.assert_close(y, x.exp() @ w)
            found.append(is_node(y))
        return found

    for n in range(1, 41):
        assert calls(n) == [False, False, True]
        if n > 1:  # used all the time
            kept = fused((torch.randn(1, 2), w))
            assert is_node(kept)
    assert calls(40) == [True] * 3
    for times in (2, 4):  # and then ever more seldom
        for i in range(40 * times):
            fused((torch.randn(100 + i // times, 2), w))
        missed = 0
        while not is_node(fused((torch.randn(2, 2), w))):
            missed += 1
        assert missed == times
    (found,) = torch.autograd.grad(kept.sum(), w)  # of an entry that was given up
    assert found.shape == w.shape


def test_more_signatures_than_are_remembered() -> None:
    fused = Fused("more", lambda x: relu(OPERATIONS["exp"](x)), 1)
    for n in range(1, 600):
        fused((torch.ones(n),))
    for i in range(3):
        y = fused((torch.ones(5, requires_grad=True),))
        assert is_node(y) == (i == 2)
    scaled = Fused("options", lambda x, k: OPERATIONS["scaled"](x, k), 1)
    for i in range(200):
        for k in (float(i), 0.5):
            assert torch.equal(scaled((torch.ones(5),), (k,)), torch.full((5,), k))
    assert len(scaled._forms) <= 64


def test_options_that_are_given_up_leave_nothing() -> None:
    """Neither their nodes, which autograd may still have, nor what was known of them."""
    scaled = Fused("given up", lambda x, k: OPERATIONS["scaled"](x, k), 1)
    x, kept, gone = torch.ones(5, requires_grad=True), [], []
    for i in range(130):
        y = known((x,), scaled, (float(i),))
        gone.append(weakref.ref(y.grad_fn.node))  # type: ignore[union-attr]
        kept += [y] if i % 10 == 0 else []
    del y
    gc.collect()
    assert sum(node() is not None for node in gone) == 64 + 7
    for i, y in enumerate(kept):  # whose options' forms are gone
        (found,) = torch.autograd.grad(y, x, torch.ones(5))
        assert torch.equal(found, torch.full((5,), 10.0 * i))


def test_large_inputs_are_let_go() -> None:
    """Of a large result of other functions no node keeps what only the gradient of the gradient reads."""
    (x,) = factors((300, 1000))
    assert x is not None
    known((x,), _SOFTMAX, (1, None, "softmax"))
    logits = x * 1
    y = F.softmax(logits, 1)
    assert not is_node(y)
    gone = weakref.ref(logits)
    del logits
    assert gone() is None


def test_a_first_call_with_one_tensor_twice_spoils_no_others() -> None:
    """Inputs in one storage can't be told apart when a call is recorded: later calls are, then."""
    x, y = (t.requires_grad_() for t in factors((11, 9), (9, 5)))
    square, other = (t.requires_grad_() for t in factors((7, 7), (7, 7)))
    for _ in range(4):
        torch.testing.assert_close(F.mm(square, square), square @ square)
    assert torch.equal(known((square, other), _MM, ()), _MM.function(square, other))
    assert torch.equal(F.mm(square, square), _MM.function(square, square))
    both = torch.cat([x.detach().flatten(), y.detach().flatten()])
    views = [t.requires_grad_() for t in (both[:99].view(11, 9), both[99:].view(9, 5))]
    for _ in range(4):
        assert torch.equal(F.mm(*views), _MM.function(x, y))
    assert torch.equal(known((x, y), _MM, ()), _MM.function(x, y))


def test_the_second_call_imports_nothing_large() -> None:
    """It is recorded with its gradient, and torch.autograd.grad, given one, compares shapes with sympy: 0.4 s."""
    code = """if True:
        import sys, torch
        before = "sympy" in sys.modules
        from hologram_torch import functional as F
        x, w = torch.ones(3, 4), torch.ones(5, 4, requires_grad=True)
        for _ in range(4):
            F.cross_entropy(F.layer_norm(F.linear(x, w), (5,)), torch.tensor([0, 1, 2])).backward()
        assert ("sympy" in sys.modules) == before
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
