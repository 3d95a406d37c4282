"""torch's own samples (OpInfo, ModuleInfo) through every function and layer that torch has samples for.

Results and gradients: how far they may be from torch's is said in accuracy.py.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
import torch
from accuracy import DTYPES, Case, check, compared
from moving import moved
from opinfo import CALLED, DOUBLES, NAMES, SAMPLES, info_name, samples
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from hologram_torch import functional as F
from hologram_torch import nn

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_modules import module_db

counted: dict[str, int] = {}
"""How many samples a function or layer was tried with; conftest.py prints their number."""


def count(name: str, more: int) -> None:
    counted[name] = counted.get(name, 0) + more


def cases_of_function(name: str, dtype: torch.dtype) -> list[Case]:
    ours = CALLED.get(name, getattr(F, name))
    return [Case(ours, op, (s.input, *s.args), s.kwargs) for op, s in samples(name, dtype)]


def test_torch_has_samples_for_all() -> None:
    """But for what is by chance, which test_dropout.py has, and for what only holds layers."""
    assert sorted({*F.__all__} - {*NAMES}) == ["dropout"]
    assert sorted({*nn.__all__} - {*LAYERS}) == ["Dropout", "Sequential"]


@pytest.mark.filterwarnings("ignore:reduction")  # of torch's kl_div
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_errors(name: str, dtype: torch.dtype, device: str) -> None:
    count(name, check(name, cases_of_function(name, dtype), device))


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("name", NAMES)
def test_doubles(name: str, device: str) -> None:
    """There is nothing wider: the two may differ by both errors, if torch's is as many last places as in float32.

    Those of the largest number of a call, or of 1: of what cancels torch's own has no exact digits to hold others to.
    """
    cases = cases_of_function(name, torch.float64)
    if name in DOUBLES:
        cases = [case._replace(theirs=DOUBLES[name]) for case in cases]
    found, _, worst, number = compared("", cases, 1.0, device)
    _, theirs, _, _ = compared("", cases_of_function(name, torch.float32), 1.0, device)
    assert found <= 3 * theirs + 1, worst
    count(name, number)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool], ids=str)
def test_integers(dtype: torch.dtype, device: str) -> None:
    """The same numbers, but those of floats that integers are made to first, which may be rounded otherwise."""
    tried = 0
    for name in NAMES:
        ours = CALLED.get(name, getattr(F, name))
        for op, sample in samples(name, dtype):
            first, rest, named = tree_map(partial(moved, device=device), (sample.input, sample.args, sample.kwargs))
            # By torch on the CPU, which has all that it has on GPUs, and products of integers besides.
            expected, found = op(sample.input, *sample.args, **sample.kwargs), ours(first, *rest, **named)
            torch.testing.assert_close(found.cpu(), expected, rtol=1e-6, atol=1e-6, equal_nan=True)
            count(name, 1)
            tried += 1
    assert tried > 100


# ---- layers

LAYERS = {
    name: info
    for name in nn.__all__
    for info in module_db
    if info.module_cls is getattr(torch.nn, name, None) and name not in ("Dropout", "Sequential")
}


def cases_of(name: str, dtype: torch.dtype, training: bool, device: str) -> Iterator[Case]:
    """A layer's calls: each of fresh running statistics, its parameters among the arguments."""
    info = LAYERS[name]
    torch.manual_seed(1)
    for given in info.module_inputs_func(info, "cpu", dtype, True, training):
        made, taken = given.constructor_input, given.forward_input
        if made.kwargs.get("weight") is not None:  # sums of weights of both signs cancel
            made.kwargs["weight"] = made.kwargs["weight"].abs()
        theirs = getattr(torch.nn, name)(*made.args, **made.kwargs).to(device, dtype).train(training)
        ours = getattr(nn, name)(*made.args, **made.kwargs).to(device, dtype).train(training)
        ours.load_state_dict(theirs.state_dict())
        parameters = {key: p.detach().clone().requires_grad_() for key, p in theirs.named_parameters()}

        def call(layer: torch.nn.Module, state: dict[str, Tensor], *arguments: Any, **named: Any) -> Any:
            wide = [t for t in (*arguments, *named.values()) if isinstance(t, Tensor) and t.dtype == torch.float64]
            fresh = copy.deepcopy(layer).double() if wide else copy.deepcopy(layer)
            return torch.func.functional_call(fresh, state, arguments, named)

        yield Case(
            lambda *a, layer=ours, **k: call(layer, *a, **k),
            lambda *a, layer=theirs, **k: call(layer, *a, **k),
            (parameters, *taken.args),
            taken.kwargs,
        )


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("name", LAYERS)
def test_errors_of_layers(name: str, training: bool, dtype: torch.dtype, device: str) -> None:
    count(name, check(name, cases_of(name, dtype, training, device), device))


# ---- gradients


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("name", NAMES)
def test_gradients_and_theirs(name: str, device: str) -> None:
    """They are those of the function, and so are gradients of gradients, in float64."""
    info, tried = SAMPLES[info_name(name)][0], 0
    for _, sample in samples(name, torch.float64):
        flat, spec = tree_flatten((sample.input, sample.args, sample.kwargs))
        flat = [moved(value, device) for value in flat]
        places = [i for i, value in enumerate(flat) if isinstance(value, Tensor) and value.requires_grad]
        if not places or not all(flat[i].numel() for i in places):
            continue

        def function(*leaves: Tensor, flat: Any = flat, spec: Any = spec, places: Any = places) -> Any:
            taken = [v.clone() if isinstance(v, Tensor) else v for v in flat]  # what is changed is so once
            for place, leaf in zip(places, leaves):
                taken[place] = leaf
            first, rest, named = tree_unflatten(taken, spec)
            return CALLED.get(name, getattr(F, name))(first, *rest, **named)

        leaves = [flat[i] for i in places]
        assert torch.autograd.gradcheck(function, leaves, fast_mode=True)
        if info.supports_gradgrad:
            assert torch.autograd.gradgradcheck(function, leaves, fast_mode=True)
        tried += 1
    assert tried


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_of_layers_and_theirs(name: str, training: bool, device: str) -> None:
    """By the parameters too, in float64; the results are torch's."""
    tried = 0
    for case in cases_of(name, torch.float64, training, device):
        given = tree_map(partial(moved, device=device), (case.arguments, case.keywords))
        flat, spec = tree_flatten(given)
        places = [i for i, value in enumerate(flat) if isinstance(value, Tensor) and value.requires_grad]

        def function(*leaves: Tensor, flat: Any = flat, spec: Any = spec, places: Any = places, of: Any = case) -> Any:
            taken = [v.clone() if isinstance(v, Tensor) else v for v in flat]  # what is changed is so once
            for place, leaf in zip(places, leaves):
                taken[place] = leaf
            arguments, keywords = tree_unflatten(taken, spec)
            return of.ours(*arguments, **keywords)

        leaves = [flat[i] for i in places]
        arguments, keywords = given
        expected = case.theirs(*arguments, **keywords)
        torch.testing.assert_close(function(*leaves), expected, equal_nan=True)
        if places and all(leaf.numel() for leaf in leaves) and expected.isfinite().all():  # no logarithms of negatives
            assert torch.autograd.gradcheck(function, leaves, fast_mode=True)
            assert torch.autograd.gradgradcheck(function, leaves, fast_mode=True)
            tried += 1
    assert tried
