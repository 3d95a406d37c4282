"""torch.func's transforms: of every operator, of users' kernels and of functions; none goes unseen by one."""

from __future__ import annotations

from typing import Any, Callable

import pytest
import torch
from opinfo import CALLED, NAMES, samples
from test_operations import arguments, numbers, numbers_of_rows, several
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

import hologram as hg
import hologram_torch as ht
from hologram_torch import functional as F
from hologram_torch._operation import OPERATIONS

Function = Callable[..., Any]


@ht.kernel
def cubed(x):
    return x * x * x


@ht.kernel
def scaled(x, y, scale):
    return scale * x * x * y


@ht.kernel
def both(x, y):
    return x * y * y, x > y, x + hg.sin(y)


@ht.kernel
def cube_root(a):
    x = a
    while abs(x * x * x - a) > 1e-13:
        x = x - (x * x * x - a) / (3 * x * x)
    return x


@ht.kernel
def bent(x, y):
    if x > y:
        return hg.log(x) * y
    return hg.sqrt(y) + x * x * x


KERNELS: dict[str, tuple[ht.Kernel, Callable[[], list[Any]]]] = {
    "one": (cubed, lambda: [numbers(3, 4)]),
    "number": (scaled, lambda: [numbers(3, 4), numbers(4), 1.5]),
    "constant": (scaled, lambda: [numbers(3), numbers(3).detach(), torch.ones(3)]),
    "several": (both, lambda: [numbers(3, 4), numbers(3, 1)]),
    "loop": (cube_root, lambda: [numbers(5)]),
    "branches": (bent, lambda: [numbers(20), numbers(20)]),
}


def weighted(results: Any) -> Tensor:
    """A number that depends on each element of each result in its own way."""
    total = torch.zeros((), dtype=torch.float64)
    for at, result in enumerate(several(results)):
        if result.dtype.is_floating_point and result.requires_grad:
            weights = torch.arange(1, 1 + result.numel(), dtype=result.dtype).reshape(result.shape)
            total = total + ((0.3 + at) * weights.cos() * result).sum()
    return total


def bound(function: Function, given: list[Any]) -> tuple[Function, tuple[Tensor, ...]]:
    """Return a function of those arguments that need gradients alone, and these arguments."""
    places = [i for i, value in enumerate(given) if isinstance(value, Tensor) and value.requires_grad]
    rest = [value.detach() if isinstance(value, Tensor) else value for value in given]

    def called(*leaves: Tensor) -> Any:
        taken = list(rest)
        for place, leaf in zip(places, leaves):
            taken[place] = leaf
        return function(*taken)

    return called, tuple(given[i].detach() for i in places)


def of_operator(name: str) -> tuple[Function, tuple[Tensor, ...]]:
    given, operation = arguments(name, "cpu"), OPERATIONS[name]
    if name.startswith("elementwise"):
        what, inputs, scalars = given
        return bound(lambda *tensors: operation(what, list(tensors), scalars), inputs)
    if name.partition("_norm_")[2] in ("gradient", "gradients"):  # the numbers of rows are the input's
        dim, eps = given[-2:]
        return bound(lambda g, x, w: operation(g, x, w, *numbers_of_rows(name, x, dim), dim, eps), given[:3])
    return bound(operation, given)


def of_kernel(name: str) -> tuple[Function, tuple[Tensor, ...]]:
    function, make = KERNELS[name]
    return bound(function, make())


CASES: dict[str, Callable[[], tuple[Function, tuple[Tensor, ...]]]] = {
    **{f"operator {name}": lambda name=name: of_operator(name) for name in OPERATIONS},  # type: ignore[misc]
    **{f"kernel {name}": lambda name=name: of_kernel(name) for name in KERNELS},  # type: ignore[misc]
}


def recorded(function: Function, leaves: tuple[Tensor, ...]) -> tuple[list[Tensor], list[Tensor]]:
    """Return the gradients and theirs, as autograd has them."""
    leaves = tuple(leaf.clone().requires_grad_() for leaf in leaves)
    first = torch.autograd.grad(weighted(function(*leaves)), leaves, create_graph=True, materialize_grads=True)
    total = weighted(first)
    second = [torch.zeros_like(leaf) for leaf in leaves]
    if total.requires_grad:
        second = list(torch.autograd.grad(total, leaves, materialize_grads=True))
    return [g.detach() for g in first], second


def transformed(function: Function, leaves: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The same by torch.func."""
    places = tuple(range(len(leaves)))
    gradient = torch.func.grad(lambda *given: weighted(function(*given)), argnums=places)
    return gradient(*leaves), torch.func.grad(lambda *given: weighted(gradient(*given)), argnums=places)(*leaves)


@pytest.mark.parametrize("name", CASES)
def test_gradients_and_theirs(name: str) -> None:
    """No operation gives a transform a tensor that it does not see: what it would take for a constant."""
    function, leaves = CASES[name]()
    for found, expected in zip(transformed(function, leaves), recorded(function, leaves)):
        torch.testing.assert_close(list(found), expected)


def torchs_cube_root(a: Tensor) -> Tensor:
    return a.pow(1 / 3)


@pytest.mark.filterwarnings("ignore:reduction")  # of torch's kl_div
@pytest.mark.parametrize("name", NAMES)
def test_functions(name: str) -> None:
    """Functions are seen too, whatever they do with their arguments: torch's samples."""
    for _, sample in samples(name, torch.float64)[:8]:
        if name == "batch_norm" and sample.args[0] is not None:
            continue  # its running numbers are changed, which grad allows of its own arguments alone
        given, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        called = CALLED.get(name, getattr(F, name))

        def function(*flat: Any, spec: Any = spec, called: Function = called) -> Any:
            first, rest, named = tree_unflatten(flat, spec)
            return called(first, *rest, **named)

        function_of, leaves = bound(function, given)
        if not leaves:
            continue
        expected = [leaf.clone().requires_grad_() for leaf in leaves]
        total = weighted(function_of(*expected))
        if not total.requires_grad:
            continue
        wanted = torch.autograd.grad(total, expected, materialize_grads=True)
        found = torch.func.grad(lambda *x, f=function_of: weighted(f(*x)), argnums=tuple(range(len(leaves))))(*leaves)
        torch.testing.assert_close(found, wanted, equal_nan=True)


LAYER = torch.nn.Linear(4, 4, dtype=torch.float64)
TRANSFORMS: dict[str, Callable[[Function, Tensor], Any]] = {
    "grad": lambda f, x: torch.func.grad(lambda x: f(x).sum())(x),
    "value beside it": lambda f, x: torch.func.grad_and_value(lambda x: f(x).sum())(x),
    "vjp": lambda f, x: torch.func.vjp(f, x)[1](x + 1),
    "jacrev, a row at a time": lambda f, x: torch.func.jacrev(f, chunk_size=1)(x),
    "grad of grad": lambda f, x: torch.func.grad(lambda x: torch.func.grad(lambda x: f(x).sum())(x).sum())(x),
    "third": lambda f, x: torch.func.grad(
        lambda x: torch.func.grad(lambda x: torch.func.grad(lambda x: f(x).sum())(x).sum())(x).sum()
    )(x),
    "by an outer argument": lambda f, x: torch.func.grad(
        lambda x: torch.func.grad(lambda y: (f(x * y) * y).sum())(x + 1).sum()
    )(x),
    "vjp of what autograd records": lambda f, x: torch.autograd.grad(
        torch.func.vjp(f, leaf := x.clone().requires_grad_())[1](leaf * 2)[0].sum(), leaf
    ),
    "vjp, called twice": lambda f, x: (lambda y, back: back(back(y)[0])[0])(*torch.func.vjp(f, x)),
    "vjp in grad": lambda f, x: torch.func.grad(lambda x: torch.func.vjp(f, x)[1](x * 2)[0].sum())(x),
    "vjp of vjp": lambda f, x: torch.func.vjp(lambda x: torch.func.vjp(f, x)[1](x + 1)[0], x)[1](x),
    "jacrev of grad": lambda f, x: torch.func.jacrev(torch.func.grad(lambda x: f(x).pow(3).sum()), chunk_size=1)(x),
    "grad of jacrev": lambda f, x: torch.func.grad(lambda x: torch.func.jacrev(f, chunk_size=1)(x).pow(2).sum())(x),
    "functional_call": lambda f, x: torch.func.grad(lambda p: f(torch.func.functional_call(LAYER, p, (x,))).sum())(
        {"weight": torch.eye(4, dtype=x.dtype), "bias": x.new_full((4,), 0.5)}
    ),
}
ROW = torch.tensor([0.5, 1.5, -1.0, 2.0], dtype=torch.float64)
MATRIX = torch.linspace(-1, 1, 16, dtype=torch.float64).reshape(4, 4).cos()
FUNCTIONS: dict[str, tuple[Function, Function]] = {
    "kernel": (cubed, lambda x: x**3),
    "loop": (cube_root, torchs_cube_root),
    "one of two results": (lambda x: both(x, x)[2], lambda x: x + x.sin()),
    "function": (F.exp, torch.exp),
    "of rows": (lambda x: F.softmax(F.layer_norm(x, (4,)), -1), lambda x: torch.layer_norm(x, (4,)).softmax(-1)),
    "product": (lambda x: F.linear(F.linear(x, x, activation="tanh"), x.T), lambda x: torch.tanh(x @ x.T) @ x),
    "loss": (
        lambda x: F.cross_entropy(x, torch.arange(3)) * x,
        lambda x: torch.nn.functional.cross_entropy(x, torch.arange(3)) * x,
    ),
    "kernel of a constant": (lambda x: scaled(x, ROW, 1.5), lambda x: 1.5 * x * x * ROW),
    "of constants": (
        lambda x: F.linear(F.mul(F.addmm(ROW, x, MATRIX), ROW), MATRIX, ROW),
        lambda x: torch.nn.functional.linear(torch.addmm(ROW, x, MATRIX) * ROW, MATRIX, ROW),
    ),
    "norms": (
        lambda x: F.batch_norm(F.rms_norm(F.layer_norm(x, (4,), ROW, ROW), (4,), ROW), None, None, ROW, ROW, True),
        lambda x: torch.batch_norm(
            torch.rms_norm(torch.layer_norm(x, (4,), ROW, ROW), (4,), ROW), ROW, ROW, None, None, True, 0.1, 1e-5, False
        ),
    ),
    "of each row": (
        lambda x: F.cross_entropy(x, torch.arange(3), reduction="none")[:, None] + F.amax(x, 1, True) * F.prod(x) + x,
        lambda x: (
            torch.nn.functional.cross_entropy(x, torch.arange(3), reduction="none")[:, None]
            + torch.amax(x, 1, True) * torch.prod(x)
            + x
        ),
    ),
}
"""Functions and torch's; their results have the argument's shape."""


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms(transform: str, function: str) -> None:
    ours, theirs = FUNCTIONS[function]
    call, x = TRANSFORMS[transform], numbers(3, 4).detach()
    torch.testing.assert_close(call(ours, x), call(theirs, x))


@pytest.mark.parametrize("function", ["kernel", "one of two results", "function"])
def test_transforms_compiled(function: str) -> None:
    ours, theirs = FUNCTIONS[function]
    torch._dynamo.reset()
    x = numbers(3, 4).detach()
    compiled = torch.compile(lambda x: torch.func.grad(lambda x: ours(x).sum())(x), backend="aot_eager")
    torch.testing.assert_close(compiled(x), torch.func.grad(lambda x: theirs(x).sum())(x))


REFUSED: dict[str, Callable[[Function, Tensor], Any]] = {
    "jvp": lambda f, x: torch.func.jvp(f, (x,), (x,)),
    "linearize": lambda f, x: torch.func.linearize(f, x),
    "jacfwd": lambda f, x: torch.func.jacfwd(f)(x),
    "vmap": lambda f, x: torch.func.vmap(f)(x),
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "hessian": lambda f, x: torch.func.hessian(lambda x: f(x).sum())(x),
}


@pytest.mark.parametrize("function", ["kernel", "one of two results", "function", "product"])
@pytest.mark.parametrize("transform", REFUSED)
def test_what_is_not_there_is_refused(transform: str, function: str) -> None:
    with pytest.raises((NotImplementedError, RuntimeError), match=r"forward-mode|vmap"):
        REFUSED[transform](FUNCTIONS[function][0], numbers(3, 4).detach())


BATCHED: dict[str, Callable[[Function, Tensor], Any]] = {
    "vmap": lambda f, x: torch.func.vmap(f)(x),
    "jacrev": lambda f, x: torch.func.jacrev(f)(x),
    "is_grads_batched": lambda f, x: torch.autograd.grad(
        f(leaf := x.clone().requires_grad_()), leaf, torch.ones(2, 3, 4, dtype=x.dtype), is_grads_batched=True
    ),
    "vectorize": lambda f, x: torch.autograd.functional.jacobian(f, x, vectorize=True),
}


@pytest.mark.parametrize("function", ["kernel", "function", "of rows", "layer"])
@pytest.mark.parametrize("way", BATCHED)
def test_vmap_is_refused_by_its_name(way: str, function: str) -> None:
    """Whatever asks for it, it is said that there is none and what to do instead."""
    called = ht.nn.Linear(4, 4, dtype=torch.float64) if function == "layer" else FUNCTIONS[function][0]
    for _ in range(4):  # the first calls of some functions go another way than later ones
        with pytest.raises((NotImplementedError, ValueError), match=r"vmap is not there: .* vectorize=False"):
            BATCHED[way](called, numbers(3, 4).detach())


class Derived(Tensor):
    pass


@pytest.mark.parametrize("function", ["kernel", "loop", "one of two results", "function"])
def test_subclasses_that_need_gradients(function: str) -> None:
    ours, theirs = FUNCTIONS[function]
    x = numbers(3, 4).detach()
    found, expected = x.clone().as_subclass(Derived).requires_grad_(), x.clone().requires_grad_()
    results = ours(found), theirs(expected)
    for result in results:
        result.sum().backward()
    assert found.grad is not None
    torch.testing.assert_close(results[0].as_subclass(Tensor), results[1])
    torch.testing.assert_close(found.grad.as_subclass(Tensor), expected.grad)
