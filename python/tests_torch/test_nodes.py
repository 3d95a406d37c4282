"""What autograd records of repeated calls, in C, and what that leaves to Python: torch's answers and errors."""

from __future__ import annotations

import gc
import threading
from typing import Any, Callable

import pytest
import torch
from torch import Tensor

from hologram._ffi import native
from hologram_torch import functional as F

F.add(torch.ones(1), 1.0)
pytestmark = pytest.mark.skipif(
    not native.torch_usual(True), reason="torch's libraries don't tell C about tensors here: nothing is recorded"
)

Function = Callable[..., Tensor]


def ours(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return F.linear(x, w, b, activation="tanh")


def torchs(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
    return torch.tanh(torch.nn.functional.linear(x, w, b))


def leaves() -> list[Tensor]:
    torch.manual_seed(3)
    return [torch.randn(size, requires_grad=True) for size in ((5, 6), (5, 6), (5,))]


def repeated() -> None:
    for _ in range(10):
        y = ours(*leaves())  # which former torchs' nodes need
        node = y.grad_fn
        if node is not None and node.name() == "Hologram_sequenceBackward":
            return
    raise AssertionError("it is not recorded")


def packed(f: Function) -> Any:
    x, w, b = leaves()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
        y = f(x, w, b)
    return torch.autograd.grad(y.sum(), [x, w, b])


def packed_later(f: Function) -> Any:
    """Hooks while the gradient is asked for are nobody's."""
    x, w, b = leaves()
    y = f(x, w, b)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 0, lambda t: t * 0):
        return torch.autograd.grad(y.sum(), [x, w, b])


def strided(g: Callable[[], Tensor]) -> Callable[[Function], Any]:
    def given(f: Function) -> Any:
        x, w, b = leaves()
        return torch.autograd.grad(f(x, w, b), [x, w, b], g())

    return given


def twice(f: Function) -> Any:
    x, w, b = leaves()
    y = f(x, w, b)
    found = [torch.autograd.grad(y.sum(), [x, w, b], retain_graph=True) for _ in range(2)]
    return [*found[0], *found[1], *torch.autograd.grad(y.sum(), w)]


def gradient_of_gradient(f: Function) -> Any:
    x, w, b = leaves()
    (by_x,) = torch.autograd.grad(f(x, w, b).square().sum(), x, create_graph=True)
    return [by_x, *torch.autograd.grad(by_x.square().sum(), [x, w, b])]


def hooked(f: Function) -> Any:
    x, w, b = leaves()
    y, seen = f(x, w, b), []
    assert y.grad_fn is not None
    y.grad_fn.register_prehook(lambda grads: (grads[0] * 2,))
    y.register_hook(lambda g: seen.append(g) or g + 1)
    w.register_hook(lambda g: g * 3)
    return [*torch.autograd.grad(y.sum(), [x, w, b]), *seen]


def accumulated(f: Function) -> Any:
    x, w, b = leaves()
    y = f(x, w, b)
    (y.sum() + (y * y).sum() + f(x * 2, w, b).sum()).backward()
    return [x.grad, w.grad, b.grad]


def one_of_them(f: Function) -> Any:
    x, w, b = leaves()
    return [*torch.autograd.grad(f(x, w, b).sum(), b), *torch.autograd.grad(f(x, w, b).sum(), x)]


def changed_apart(f: Function) -> Any:
    """What the gradient does not read may change."""
    x, w, b = leaves()
    y = f(x, w, b)
    with torch.no_grad():
        b.mul_(2)
    return torch.autograd.grad(y.sum(), [x, w, b])


def changed(which: int) -> Callable[[Function], Any]:
    def given(f: Function) -> Any:
        inputs = leaves()
        y = f(*[t * 1 for t in inputs] if which == 3 else inputs)
        with torch.no_grad():
            (y if which == 3 else inputs[which]).mul_(2)
        return torch.autograd.grad(y.sum(), inputs)

    return given


def freed(f: Function) -> Any:
    x, w, b = leaves()
    y = f(x, w, b)
    y.sum().backward()
    return y.sum().backward()


WAYS: dict[str, tuple[Callable[[Function], Any], str]] = {
    "hooks of saved tensors": (packed, ""),
    "hooks set later": (packed_later, ""),
    "turned": (strided(lambda: torch.randn(5, 5).t()), ""),
    "expanded": (strided(lambda: torch.randn(5, 1).expand(5, 5)), ""),
    "every other": (strided(lambda: torch.randn(5, 10)[:, ::2]), ""),
    "offset": (strided(lambda: torch.randn(6, 5)[1:]), ""),
    "twice": (twice, ""),
    "gradient of the gradient": (gradient_of_gradient, ""),
    "hooks of nodes": (hooked, ""),
    "accumulated": (accumulated, ""),
    "one of them": (one_of_them, ""),
    "changed apart": (changed_apart, ""),
    "input changed": (changed(0), "modified by an inplace operation"),
    "weight changed": (changed(1), "modified by an inplace operation"),
    "result changed": (changed(3), "modified by an inplace operation"),
    "freed": (freed, "Trying to backward through the graph a second time"),
}


@pytest.mark.parametrize("way", WAYS)
def test_ways_to_ask_for_gradients(way: str) -> None:
    repeated()
    do, refused = WAYS[way]
    results = []
    for f in (ours, torchs):
        torch.manual_seed(5)
        if refused:
            with pytest.raises(RuntimeError, match=refused):
                do(f)
        else:
            results.append(list(do(f)))
    if results:
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


def test_threads_ask_for_gradients_at_once() -> None:
    """Of one graph and of their own, while nodes come and go."""
    repeated()
    inputs = leaves()
    shared = ours(*inputs)
    expected = torch.autograd.grad(shared.sum(), inputs, retain_graph=True)
    wrong: list[Any] = []

    def work() -> None:
        try:
            for i in range(30):
                y = shared if i % 2 else ours(*inputs)
                found = torch.autograd.grad(y.sum(), inputs, retain_graph=True)
                if not all(torch.equal(a, b) for a, b in zip(found, expected)):
                    wrong.append(found)
        except Exception as e:
            wrong.append(e)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_leave_no_objects() -> None:
    """Neither those whose gradient was asked for nor those that were dropped, nor ones that failed."""
    repeated()

    def some() -> None:
        x, w, b = leaves()
        for _ in range(20):
            ours(x, w, b).sum().backward()
            ours(x, w, b)
            y = ours(x, w, b)
            with torch.no_grad():
                x.add_(1)
            with pytest.raises(RuntimeError, match="modified"):
                y.sum().backward()

    counts = []
    for _ in range(3):
        some()
        gc.collect()
        counts.append(len(gc.get_objects()))
    assert counts[2] - counts[1] < 20


def node() -> Any:
    """A node of the function: its gradient reads two inputs and the result."""
    repeated()
    recorded: Any = ours(*leaves()).grad_fn
    return recorded.node


@pytest.mark.parametrize(
    "wrong",
    [
        {"kept": (3,)},
        {"kept": (-1,)},
        {"held": (0, 3)},
        {"kept": (0,) * 17},
        {"wanted": (True, True)},
        {"wanted": (True, False, False)},
        {"saved": 0, "shared": -1},
        {"saved": 2},
        {"saved": 16},
        {"shared": 1},
        {"shared": -2},
        {"shared": -1},
        {"kept": ()},
    ],
    ids=str,
)
def test_nodes_are_held_against_their_tables(wrong: dict[str, Any]) -> None:
    """Calls read inputs and results by these numbers."""
    of = node()
    right = {"wanted": of.wanted, "kept": (*of.kept,), "held": (*of.held,)}
    right |= {"shared": of.shared, "saved": of.saved}
    assert (right["shared"], right["saved"], len(right["kept"])) == (0, 1, 2)

    class New(native.NodeBase):  # type: ignore[misc]
        pass

    tables = of.forward.__self__, of.backward.__self__
    with pytest.raises(ValueError, match="torch_node: "):
        native.torch_node(New(), *tables, *(right | wrong).values())
    native.torch_node(New(), *tables, *right.values())


def test_a_node_s_tables_keep_their_numbers_of_results() -> None:
    of = node()
    x, w, b = leaves()
    no = (False,) * 3
    with pytest.raises(ValueError, match="as many results as before"):
        native.torch_sequence_add(of.forward.__self__, (x, w, b), no, no, None, 0, 0, (x, w, b))


@pytest.mark.parametrize("name", ["linear", "mm", "addmm"])
def test_what_no_gradient_reads_is_not_kept(name: str) -> None:
    """As the input of a layer whose weight is frozen: it may be changed in place."""
    x = torch.rand(3, 3, requires_grad=True) * 1
    weight = torch.rand(3, 3)
    given = {"linear": (x, weight, torch.rand(3)), "mm": (x, weight), "addmm": (torch.rand(3), x, weight)}[name]
    y = getattr(F, name)(*given)
    with torch.no_grad():
        x.add_(1)
    y.sum().backward()
