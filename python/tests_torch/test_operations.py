"""Every operator that is registered: its gradients, theirs, and what torch demands of an operator."""

from __future__ import annotations

from typing import Any, Callable, Optional

import pytest
import torch
from moving import moved
from torch import Tensor

import hologram_torch  # noqa: F401 (registers the operators)
from hologram_torch._operation import OPERATIONS
from hologram_torch._table import ROWS, Named


def numbers(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """Numbers from 0.1 to 0.9: in the domain of all functions, and away from corners."""
    return (torch.rand(shape, dtype=torch.float64) * 0.8 + 0.1).to(dtype).requires_grad_()


def of_table(operation: Named) -> list[Any]:
    made = {
        "number": lambda at: numbers(*((3, 4) if at != 1 else (4,))),
        "mask": lambda at: torch.rand(3, 4) > 0.5,
        "index": lambda at: torch.randint(0, 2, (3, 4)),
    }
    function = operation.function
    return [*(made[kind](at) for at, kind in enumerate(function.kinds)), *([0.3] * len(function.scalars))]


def numbers_of_rows(name: str, x: Tensor, dim: list[int]) -> list[Tensor]:
    with torch.no_grad():
        if name == "rms_norm_gradient":
            return [x.square().mean(dim, True)]
        return [x.mean(dim, True), x.var(dim, correction=0, keepdim=True)]


def of_rows(name: str, g: Tensor, x: Tensor, weight: Optional[Tensor], dim: list[int]) -> list[Any]:
    return [g, x, weight, *numbers_of_rows(name, x, dim), dim, 0.1]


def of_scores(g: Tensor, x: Tensor) -> list[Any]:
    return [g, CLASSES, None, None, x, *numbers_of_scores(x), 1]


def numbers_of_scores(x: Tensor) -> list[Tensor]:
    with torch.no_grad():
        return [x.amax(1), (x.logsumexp(1) - x.amax(1))]


CLASSES = torch.tensor([[0, 3], [1, 1], [2, 0]])
ARGUMENTS: dict[str, Callable[[], list[Any]]] = {
    "sum": lambda: [numbers(3, 4, 5), [0, 2], False],
    "mean": lambda: [numbers(3, 4, 5), [1], True],
    "prod": lambda: [numbers(3, 4, 5), [0, 2], False],
    "cumsum": lambda: [numbers(3, 4, 2), 1],
    "embedding": lambda: [numbers(5, 3), torch.tensor([[0, 4, 4], [2, 2, 2]]), -1, False],
    "embedding_gradient": lambda: [numbers(2, 3, 4), torch.tensor([[0, 4, 4], [2, 2, 2]]), 5, 2, True],
    "nll": lambda: [numbers(3, 4, 2), CLASSES, numbers(4).detach(), 1, 1],
    "nll_gradient": lambda: [
        numbers().reshape(()),
        CLASSES,
        None,
        torch.tensor(2.5, dtype=torch.float64),
        1,
        [3, 4, 2],
    ],
    "cross_entropy": lambda: [numbers(3, 4, 2), CLASSES, numbers(4).detach(), 1, 1],
    "cross_entropy_gradient": lambda: of_scores(numbers(3, 2), numbers(3, 4, 2)),
    "amax": lambda: [numbers(3, 4), [1], False],
    "amin": lambda: [numbers(3, 4), [0, 1], False],
    "softmax": lambda: [numbers(3, 4, 2), 1],
    "log_softmax": lambda: [numbers(3, 4, 2), 0],
    "smoothed": lambda: [numbers(3, 4, 2), 1, 0.25],
    "softmax_gradient": lambda: [numbers(3, 4, 2), numbers(3, 4, 2), 1],
    "log_softmax_gradient": lambda: [numbers(3, 4, 2), numbers(3, 4, 2), 0],
    "layer_norm": lambda: [numbers(3, 4, 2), numbers(4, 2), numbers(4, 2), [1, 2], 0.1],
    "layer_norm_gradient": lambda: of_rows(
        "layer_norm_gradient", numbers(3, 4, 2), numbers(3, 4, 2), numbers(4, 1), [0, 2]
    ),
    "layer_norm_gradients": lambda: of_rows(
        "layer_norm_gradients", numbers(3, 4, 2), numbers(3, 4, 2), numbers(4, 2), [1, 2]
    ),
    "batch_norm_gradients": lambda: of_rows(
        "batch_norm_gradients", numbers(3, 4, 2), numbers(3, 4, 2), numbers(1, 4, 1), [0, 2]
    ),
    "rms_norm": lambda: [numbers(3, 4, 2), numbers(3, 1, 1), [1, 2], 0.1],
    "rms_norm_gradient": lambda: of_rows("rms_norm_gradient", numbers(3, 4), numbers(3, 4), None, [1]),
    "mm": lambda: [numbers(3, 4), numbers(5, 4).mT],
    "bmm": lambda: [numbers(2, 3, 4), numbers(2, 4, 5)],
    "matmul": lambda: [numbers(2, 1, 3, 4), numbers(3, 4, 5)],
    "addmm": lambda: [numbers(5), numbers(3, 4), numbers(4, 5), 0.5, 2.0],
    "linear": lambda: [numbers(2, 3, 4), numbers(5, 4), numbers(5)],
    "elementwise": lambda: ["mul'11", [numbers(3, 4), numbers(3, 4), numbers(3, 4)], []],
    "elementwise_of_sizes": lambda: ["quotient'1", [numbers(3, 4)], [3]],
}


def arguments(name: str, device: str) -> list[Any]:
    operation = OPERATIONS[name]
    made = of_table(operation) if isinstance(operation, Named) else ARGUMENTS[name]()
    return [[moved(t, device) for t in a] if isinstance(a, list) else moved(a, device) for a in made]


def several(results: Any) -> tuple[Any, ...]:
    return tuple(results) if isinstance(results, (list, tuple)) else (results,)


def leaves(given: list[Any]) -> list[Any]:
    return [g.detach().requires_grad_(g.requires_grad) if isinstance(g, Tensor) else g for g in given]


@pytest.mark.parametrize("name", OPERATIONS)
def test_gradients(name: str, device: str) -> None:
    given = arguments(name, device)
    if name.startswith("elementwise"):
        what, inputs, scalars = given
        called: Callable[..., Any] = lambda *tensors: tuple(OPERATIONS[name].operator(what, list(tensors), scalars))  # noqa: E731
        given = inputs
    elif name.partition("_norm_")[2] in ("gradient", "gradients"):  # the numbers of rows are the input's
        dim, eps = given[-2:]
        called = lambda g, x, w: OPERATIONS[name](g, x, w, *numbers_of_rows(name, x, dim), dim, eps)  # noqa: E731
        given = given[:3]
    elif name == "cross_entropy_gradient":
        named = moved(CLASSES, device)
        called = lambda g, x: OPERATIONS[name](g, named, None, None, x, *numbers_of_scores(x), 1)  # noqa: E731
        given = [given[0], given[4]]
    else:
        called = OPERATIONS[name]
    assert torch.autograd.gradcheck(called, given)
    assert torch.autograd.gradgradcheck(called, given)


@pytest.mark.parametrize("name", OPERATIONS)
def test_operator(name: str, device: str) -> None:
    given = leaves(arguments(name, device))
    if name.startswith("elementwise"):
        given[1] = leaves(given[1])
    found = torch.library.opcheck(OPERATIONS[name].operator, tuple(given))
    assert set(found.values()) == {"SUCCESS"}


@pytest.mark.parametrize("name", [name for name in OPERATIONS if not name.startswith("elementwise")])
def test_operators_of_any_layout(name: str, device: str) -> None:
    """What torch.compile is told of results holds however each tensor lies in memory."""
    given = arguments(name, device)
    layouts = {
        "transposed": lambda t: t.transpose(-1, -2).contiguous().transpose(-1, -2),
        "stepped": lambda t: t.new_zeros((*t.shape, 2))[..., 0].copy_(t),
    }
    for at, t in enumerate(given):
        for layout, of in layouts.items():
            if isinstance(t, Tensor) and t.ndim > 1:
                other = [of(t) if i == at else g for i, g in enumerate(given)]
                found = torch.library.opcheck(
                    OPERATIONS[name].operator, tuple(other), test_utils="test_faketensor", raise_exception=False
                )
                assert found == {"test_faketensor": "SUCCESS"}, (at, layout)


@pytest.mark.parametrize("name", [name for name, o in OPERATIONS.items() if not name.startswith("elementwise")])
def test_ways_agree(name: str, device: str) -> None:
    """The short path, the recorded one and the dispatcher's give the same bits, and the same gradients."""
    given = leaves(arguments(name, device))
    operation = OPERATIONS[name]
    with torch.no_grad():
        short = several(operation(*given))
    tensors = [g for g in given if isinstance(g, Tensor) and g.requires_grad]
    found = []
    for way in (operation, operation.operator):
        results = several(way(*given))
        for result, expected in zip(results, short):
            assert torch.equal(result, expected)
            assert result.stride() == expected.stride()
        total = sum(result.sum() for result in results if result.requires_grad)
        found.append(torch.autograd.grad(total, tensors, materialize_grads=True))
    for eager, dispatched in zip(*found):
        assert torch.equal(eager, dispatched)
    for tensor, gradient in zip(tensors, found[0]):
        assert gradient.shape == tensor.shape
        assert gradient.dtype == tensor.dtype


def test_every_row_has_a_formula() -> None:
    assert len({row.name for row in ROWS}) == len(ROWS)
    assert all(row.formula for row in ROWS)


OF_ALL = ("add", "exp", "gelu", "sum", "softmax", "log_softmax")  # those that take a tensor of no dimension too
LAYOUTS = ["empty", "transposed", "expanded", "strided", "offset"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in ("mm", "linear") for kind in LAYOUTS]
    + [
        (name, kind)
        for name in ("add", "exp", "gelu", "sum", "softmax", "log_softmax")
        for kind in (*LAYOUTS, "scalar")
    ],
)
def test_layouts(name: str, kind: str, device: str) -> None:
    """Any layout gives what the same numbers in order give."""
    layouts: dict[str, Callable[[], Tensor]] = {
        "empty": lambda: torch.randn(0, 4),
        "scalar": lambda: torch.randn(()),
        "transposed": lambda: torch.randn(4, 3).t(),
        "expanded": lambda: torch.randn(1, 4).expand(3, 4),
        "strided": lambda: torch.randn(6, 8)[::2, ::2],
        "offset": lambda: torch.randn(17)[5:].view(3, 4),
    }
    with torch.device(device):
        x = layouts[kind]().requires_grad_()
        rest = {"add": [torch.randn(4)], "sum": [[0] if x.ndim else [], False], "softmax": [0], "log_softmax": [0]}
        rest |= {"mm": [torch.randn(4, 2)], "linear": [torch.randn(2, 4), torch.randn(2)]}
    same = x.detach().clone(memory_format=torch.contiguous_format).requires_grad_()
    results = []
    for value in (x, same):
        result = OPERATIONS[name](value, *rest.get(name, []))
        (gradient,) = torch.autograd.grad(result.sum(), value)
        results.append((result, gradient))
    assert torch.equal(results[0][0], results[1][0])
    assert torch.equal(results[0][1], results[1][1])
