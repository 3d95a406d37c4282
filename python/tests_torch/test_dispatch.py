"""What torch puts around functions: compile, export, checkpointing, autocast, modes, transforms, subclasses, hooks."""

from __future__ import annotations

import copy
import gc
import re
import threading
import weakref
from pathlib import Path
from typing import Any, Callable

import fresh
import pytest
import torch
from opinfo import CALLED, NAMES, samples
from test_nn import LAYERS
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend
from torch.export import Dim
from torch.utils.checkpoint import checkpoint

import hologram_torch as ht
from hologram import Executor
from hologram_torch import functional as F
from hologram_torch import nn
from hologram_torch._executors import executor_for, using

FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "arithmetic": lambda x: F.mul(F.add(x, 1.5), F.div(x, F.exp(x))),
    "activations": lambda x: F.gelu(F.silu(F.relu(x))) + F.softplus(F.leaky_relu(F.elu(x))),
    "reductions": lambda x: F.softmax(x, -1) * F.mean(x, 0, keepdim=True) + F.amax(x),
    "norms": lambda x: F.layer_norm(x, (x.shape[-1],)) + F.rms_norm(x, (x.shape[-1],)),
    "products": lambda x: F.matmul(F.linear(x, x), x),
    "losses": lambda x: F.mse_loss(x, x * 2) + F.cross_entropy(x, torch.arange(x.shape[0], device=x.device)),
    "in place": lambda x: F.relu(x * 2, inplace=True),
    "out": lambda x: F.add(x.detach(), 1.0, out=torch.empty_like(x)) + x,
    "clamp": lambda x: F.clamp(F.where(x > 0, x, 0.5), -1, 1),
}


def outcome(function: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    x = x.detach().clone().requires_grad_()
    result = function(x)
    result.sum().backward()
    assert x.grad is not None
    return result.detach(), x.grad


@pytest.mark.parametrize("name", FUNCTIONS)
def test_compile(name: str, device: str) -> None:
    """One graph, and the bits of the eager call; static and dynamic shapes."""
    torch._dynamo.reset()
    function = FUNCTIONS[name]
    for dynamic in (False, True):
        compiled = torch.compile(function, fullgraph=True, backend="aot_eager", dynamic=dynamic)
        for shape in ((3, 5), (4, 5)):
            x = torch.randn(shape, device=device)
            for found, expected in zip(outcome(compiled, x), outcome(function, x)):
                torch.testing.assert_close(found, expected)


@pytest.mark.filterwarnings("ignore")  # torch's, of what it meets
@pytest.mark.parametrize("name", [*NAMES, "dropout"])
def test_every_function_is_one_graph(name: str) -> None:
    """With what its operators become in it torch.library.opcheck has to do (test_operations.py)."""
    function = CALLED.get(name, getattr(F, name))
    given: list[Any] = [torch.ones(3, 4)]
    found = [s for _, s in samples(name, torch.float32)] if name != "dropout" else []
    calls = [(given, {"p": 0.0})] if not found else [([s.input, *s.args], s.kwargs) for s in (found[0], found[-1])]
    for arguments, named in calls:
        torch._dynamo.reset()
        expected = function(*arguments, **named)
        compiled = torch.compile(function, fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(*arguments, **named), expected, equal_nan=True)


@pytest.mark.parametrize("name", [name for name in nn.__all__ if name != "Sequential"])
@pytest.mark.parametrize("training", [True, False])
def test_every_layer_is_one_graph(name: str, training: bool) -> None:
    arguments, named, shape = LAYERS[name]
    torch._dynamo.reset()
    layer = getattr(nn, name)(*arguments, **named).train(training)
    inputs = [torch.rand(shape) if name != "Embedding" else torch.randint(9, shape)]
    if name.endswith("Loss"):
        inputs.append(torch.arange(4) if name in ("NLLLoss", "CrossEntropyLoss") else torch.rand(shape))
    eager = copy.deepcopy(layer)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    for _ in range(2):
        torch.testing.assert_close(compiled(*inputs), eager(*inputs))
    for found, expected in zip(layer.buffers(), eager.buffers()):
        torch.testing.assert_close(found, expected)


def test_inductor(device: str) -> None:
    """Operators alone, for which torch's inductor writes no C++ and needs no compiler."""
    torch._dynamo.reset()

    def function(x: Tensor) -> Tensor:
        return F.mul(F.exp(x), F.sigmoid(x))

    x = torch.randn(3, 5, device=device)
    with torch._inductor.config.patch(compile_threads=1):
        found = torch.compile(function, fullgraph=True)(x)
    torch.testing.assert_close(found, function(x))


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Linear(8, 16), torch.nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.log_softmax(self.second(F.gelu(F.linear(x, self.first.weight, self.first.bias))), -1)


def _normed(x: Tensor) -> Tensor:
    mean, variance = torch.zeros(x.shape[1], device=x.device), torch.ones(x.shape[1], device=x.device)
    found = F.batch_norm(x, mean, variance, training=True)
    return found + mean + variance


OF_A_SIZE: dict[str, Callable[[Tensor], Tensor]] = {
    "batch_norm": _normed,
    "mean": F.mean,
    "mse_loss": lambda x: F.mse_loss(x, x.detach() * 2),
    "kl_div": lambda x: F.kl_div(x, x.exp().detach(), reduction="batchmean"),
    "KLDivLoss": lambda x: nn.KLDivLoss(reduction="batchmean")(x, x.exp().detach()),
    "var": F.var,
    "var along": lambda x: F.var(x, 0, correction=0.5),
    "std": lambda x: F.std(x, 0),
    "cross_entropy": lambda x: F.cross_entropy(x, x.softmax(1).detach()),
    "cross_entropy smoothed": lambda x: F.cross_entropy(x, x.softmax(1).detach(), label_smoothing=0.25),
    "cross_entropy of classes": lambda x: F.cross_entropy(x, x.argmax(1), label_smoothing=0.25),
    "nll_loss": lambda x: F.nll_loss(x, x.argmax(1)),
    "embedding": lambda x: F.embedding(x.detach().argsort(0)[:, 0], x),
    "a product by it": lambda x: F.mul(x, x.shape[0]),
    "a sum with it": lambda x: F.add(x, x, alpha=x.shape[0] + 1),
    "a quotient by it": lambda x: F.div(x, x.shape[0]),
    "bounded by it": lambda x: F.clamp(x, max=x.shape[0]),
    "it instead": lambda x: F.where(x > 0, x, x.shape[0]),
    "a slope by it": lambda x: F.leaky_relu(x, 1 / (x.shape[0] + 1)),
    "softplus by it": lambda x: F.softplus(x, beta=x.shape[0]),
}
"""What divides by how many elements there are, or has as many: a symbol where compile and export leave it open."""


@pytest.mark.parametrize("name", OF_A_SIZE)
def test_a_size_left_open_stays_so(name: str, tmp_path: Path, device: str) -> None:
    """Two graphs, of the first size and of any, for gradients too; the exported one, also saved, has the eager bits."""
    function = OF_A_SIZE[name]
    for outcome_of in (lambda f, x: (f(x.detach()),), outcome):
        torch._dynamo.reset()
        counted = CompileCounterWithBackend("aot_eager")
        compiled = torch.compile(function, fullgraph=True, backend=counted)
        for rows in range(3, 20):
            x = torch.randn(rows, 8, device=device)
            for found, expected in zip(outcome_of(compiled, x), outcome_of(function, x)):
                assert torch.equal(found, expected), rows
        assert counted.frame_count == 2

    class Net(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return function(x)

    for strict in (False, True):
        given = (torch.randn(5, 8, device=device),)
        program = torch.export.export(Net(), given, dynamic_shapes=({0: Dim("rows")},), strict=strict)
        torch.export.save(program, tmp_path / "net.pt2")
        for each in (program, torch.export.load(tmp_path / "net.pt2")):
            for rows in (2, 7):
                x = torch.randn(rows, 8, device=device)
                assert torch.equal(each.module()(x), function(x))


@pytest.mark.parametrize("strict", [True, False])
def test_export(strict: bool, device: str) -> None:
    net, x = Net().eval().to(device), torch.randn(4, 8, device=device)
    program = torch.export.export(net, (x,), strict=strict)
    assert "torch.ops.hologram.gelu" in program.graph_module.code
    torch.testing.assert_close(program.module()(x), net(x))


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint(reentrant: bool, device: str) -> None:
    net, x = Net().to(device), torch.randn(4, 8, requires_grad=True, device=device)
    net(x).sum().backward()
    expected = [p.grad.clone() for p in net.parameters() if p.grad is not None]
    net.zero_grad()
    checkpoint(net, x, use_reentrant=reentrant).sum().backward()
    assert all(torch.equal(p.grad, e) for p, e in zip(net.parameters(), expected) if p.grad is not None)


def test_backward_twice_and_freed() -> None:
    x = torch.randn(4, requires_grad=True)
    y = F.exp(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    torch.testing.assert_close(x.grad, 2 * x.detach().exp())
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_saved_tensors_must_not_change() -> None:
    x, y = torch.randn(4, requires_grad=True), torch.randn(4)
    z = F.mul(x, y).sum()
    F.relu(y, inplace=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()


# ---- autocast


LOWER = torch.bfloat16
CALLS: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "linear": lambda f, x, y: f.linear(x, y),
    "relu": lambda f, x, y: f.relu(x),
    "softmax": lambda f, x, y: f.softmax(x, -1),
    "log_softmax": lambda f, x, y: f.log_softmax(x, -1),
    "gelu": lambda f, x, y: f.gelu(x),
    "layer_norm": lambda f, x, y: f.layer_norm(x, (8,)),
    "batch_norm": lambda f, x, y: f.batch_norm(x, None, None, training=True),
    "mse_loss": lambda f, x, y: f.mse_loss(x, y),
    "l1_loss": lambda f, x, y: f.l1_loss(x, y),
    "huber_loss": lambda f, x, y: f.huber_loss(x, y),
    "smooth_l1_loss": lambda f, x, y: f.smooth_l1_loss(x, y),
    "kl_div": lambda f, x, y: f.kl_div(x, y, reduction="sum"),
    "nll_loss": lambda f, x, y: f.nll_loss(x, torch.arange(4, device=x.device)),
    "cross_entropy": lambda f, x, y: f.cross_entropy(x, torch.arange(4, device=x.device)),
    "logits": lambda f, x, y: f.binary_cross_entropy_with_logits(x, y),
}
PLAIN_CALLS: dict[str, Callable[[Any, Tensor, Tensor], Tensor]] = {
    "add": lambda f, x, y: f.add(x.to(LOWER), y),
    "exp": lambda f, x, y: f.exp(x),
    "matmul": lambda f, x, y: f.matmul(x, y.t()),
    "bmm": lambda f, x, y: f.bmm(x[None], y.t()[None]),
    "addmm": lambda f, x, y: f.addmm(x[:, :4], x, y.t()),
    "sum": lambda f, x, y: f.sum(x),
    "mean": lambda f, x, y: f.mean(x),
}


@pytest.mark.parametrize("way", ["eager", "compiled", "recorded"])
@pytest.mark.parametrize("name", [*CALLS, *PLAIN_CALLS])
def test_autocast(name: str, way: str, device: str) -> None:
    """What torch computes in which dtype under autocast, this does too."""
    torch._dynamo.reset()
    call = {**CALLS, **PLAIN_CALLS}[name]
    ours: Any = lambda x, y: call(F, x, y)  # noqa: E731
    if way == "compiled":
        ours = torch.compile(ours, fullgraph=True, backend="aot_eager")
    dtypes = [torch.float32, torch.float64, torch.float16, LOWER]
    if way == "compiled":  # what is narrowed, or else what may be widened
        dtypes = [torch.float32 if name in ("linear", "relu", "add", "matmul", "bmm", "addmm") else LOWER]
    for dtype in dtypes:
        x, y = (torch.rand(4, 8).to(device, dtype).requires_grad_(way == "recorded") for _ in range(2))
        with torch.autocast(device, dtype=LOWER):
            found, expected = ours(x, y), call(torch.nn.functional if name in CALLS else torch, x, y)
        assert found.dtype == expected.dtype, dtype
        torch.testing.assert_close(found, expected, rtol=2e-2, atol=2e-2)
        if way == "recorded":
            for gradient in torch.autograd.grad(found.float().sum(), (x, y), materialize_grads=True):
                assert gradient.dtype == dtype


# ---- modes, transforms, subclasses


def test_modes_see_operators() -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    with Watch():
        F.relu(torch.ones(3))
    assert "hologram.relu.default" in seen


def test_fake_and_meta_tensors() -> None:
    from torch._subclasses import FakeTensorMode

    with FakeTensorMode():
        x = torch.ones(3, 4)
        assert F.linear(x, torch.ones(5, 4)).shape == (3, 5)
        assert F.softmax(x.half(), 0).dtype == torch.float16


class Derived(Tensor):
    pass


def test_subclasses() -> None:
    x = torch.randn(3).as_subclass(Derived)
    assert torch.equal(F.relu(x).as_subclass(Tensor), torch.relu(x).as_subclass(Tensor))
    parameter = torch.nn.Parameter(torch.randn(3))
    assert F.relu(parameter).requires_grad


def test_functional_gradients() -> None:
    x = torch.randn(3)
    found = torch.func.grad(lambda x: F.sum(F.sigmoid(x)))(x)
    expected = torch.func.grad(lambda x: torch.sigmoid(x).sum())(x)
    torch.testing.assert_close(found, expected)


def test_deepcopy_of_results() -> None:
    assert torch.equal(copy.deepcopy(F.relu(torch.ones(3))), torch.ones(3))


def test_threads(device: str) -> None:
    """Each thread has its executor; backward runs in whichever."""
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                x = torch.randn(64, requires_grad=True, device=device)
                F.mul(F.exp(x), x).sum().backward()
                torch.testing.assert_close(x.grad, (1 + x.detach()) * x.detach().exp())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.parametrize("quick", [False, True])
def test_forward_derivatives_are_refused(quick: bool) -> None:
    x = torch.ones(3, 3)
    if quick:  # by one call into the library
        F.exp(x), F.exp(x)
    calls = {
        "exp": lambda d: F.exp(d),
        "second": lambda d: F.add(x, d),
        "out": lambda d: F.add(d, 1, out=torch.ones(3, 3)),
        "in place": lambda d: F.relu(d, inplace=True),
        "recorded": lambda d: F.mul(d, torch.ones(3, 3, requires_grad=True)),
        "linear": lambda d: F.linear(x, d),
        "sum": lambda d: F.sum(d),
        "loss": lambda d: F.cross_entropy(d, torch.arange(3)),
        "kernel": ht.kernel(lambda v: v * 2),
    }
    with torch.autograd.forward_ad.dual_level():
        for name, call in calls.items():
            dual = torch.autograd.forward_ad.make_dual(x.clone(), torch.full((3, 3), 2.0))
            with pytest.raises(NotImplementedError):
                call(dual)
                pytest.fail(name)
            call(x.clone())
    assert torch.equal(F.exp(x), F.exp(x.clone()))


def test_an_import_starts_no_engine() -> None:
    """Autograd's engine has threads, of which a forked child has none: after it no child can use autograd on a GPU."""
    code = """
import torch
def ran(*arguments, **named):
    raise SystemExit("autograd ran")
torch.autograd.grad = torch.autograd.backward = torch.autograd.graph._engine_run_backward = ran
import hologram_torch.nn, hologram_torch.optim, hologram_torch.training
"""
    done = fresh.run(code)
    assert done.returncode == 0, done.stderr


GRAPHS: dict[str, Callable[[torch.nn.Module, torch.Tensor], Callable[[torch.Tensor], torch.Tensor]]] = {
    "export": lambda model, x: torch.export.export(model, (x,)).module(),
    "compile": lambda model, x: torch.compile(model, fullgraph=True, backend="aot_eager"),
    "trace": torch.jit.trace,
    "fx, converted after it": lambda model, x: traced_first(model),
}


def traced_first(model: torch.nn.Module) -> torch.nn.Module:
    ht.revert(model)
    graph = torch.fx.symbolic_trace(model)
    ht.convert(graph)
    assert any(type(layer) is ht.nn.Linear for layer in graph.modules())
    return graph


@pytest.mark.filterwarnings("ignore:.*torch.jit", "ignore:Converting a tensor to a Python:torch.jit.TracerWarning")
@pytest.mark.parametrize("way", GRAPHS)
def test_graphs_of_converted_models(way: str, device: str) -> None:
    """What docs/TORCH.md says of them."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.LayerNorm(4), torch.nn.Flatten())
    model, x = model.to(device), torch.randn(3, 4, device=device)
    expected = model(x)
    ht.convert(model)
    torch.testing.assert_close(GRAPHS[way](model, x)(x), expected)


@ht.kernel
def halved(x):
    return x / 2


NODES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "exp": F.exp,
    "mul": lambda x: F.mul(x, 2.0),
    "leaky_relu": F.leaky_relu,
    "cumsum": lambda x: F.cumsum(x, 0),
    "mm": lambda x: F.mm(x, x),
    "halved": halved,
    "sequence": lambda x: F.linear(x, torch.eye(3), activation="relu"),
}


@pytest.mark.parametrize("name", NODES)
def test_nodes_have_their_operations_names(name: str) -> None:
    """What autograd's messages speak of: anomaly mode's, and those of tensors changed in place."""
    x = torch.ones(3, 3, requires_grad=True)
    for _ in range(4):
        y = NODES[name](x)  # which former torchs' nodes need
        node = y.grad_fn
    assert node is not None
    assert re.fullmatch(rf"Hologram_(.*\.)?{name}(\(.*\))?Backward", node.name())


def test_messages_of_autograd_name_the_operation() -> None:
    x = torch.zeros(2, requires_grad=True)
    y = F.exp(x)
    before = y._version  # an operation's first result was made before it was written
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match=rf"is output 0 of Hologram_exp(Backward)?, is at version {before + 1};"):
        y.sum().backward()
    with pytest.warns(UserWarning, match="Anomaly"), torch.autograd.detect_anomaly(check_nan=True):
        loss = F.mul(F.sqrt(x), 0.0).sum()
        with (
            pytest.warns(UserWarning),
            pytest.raises(RuntimeError, match="Function 'Hologram_sqrtBackward' returned nan"),
        ):
            loss.backward()


def test_an_executor_that_was_named_is_let_go() -> None:
    """It is that of one call, and of its thread alone."""
    F.add(torch.ones(3), torch.ones(3))
    ex = Executor("cpu")
    found: list[Any] = []
    with using(ex):
        other = threading.Thread(target=lambda: found.append(executor_for(torch.device("cpu"))))
        other.start()
        other.join()
    assert found[0] is not ex
    held = weakref.ref(ex)
    F.linear(ex, torch.ones(3, 3), torch.ones(3, 3))
    del ex
    gc.collect()
    assert held() is None


def test_a_first_product_of_matrices_does_not_import_sympy() -> None:
    """torch.broadcast_shapes does when it is first called, which takes a second and a half."""
    code = """
import torch
from hologram_torch import functional as F
def called(*shapes):
    raise SystemExit("torch.broadcast_shapes was called")
torch.broadcast_shapes = called
F.matmul(torch.ones(2, 3), torch.ones(3, 4))
F.matmul(torch.ones(5, 2, 3), torch.ones(3))
F.matmul(torch.ones(3), torch.ones(5, 3, 2))
"""
    done = fresh.run(code)
    assert done.returncode == 0, done.stderr
