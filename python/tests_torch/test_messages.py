"""What messages say: names are the function's own, lines the caller's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import hologram_torch
from hologram_torch import functional as F
from hologram_torch import nn


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x, d: nn.Linear(4, 3)(d), "linear: expected input and weight to have the same dtype"),
        (lambda x, d: F.linear(x, x, d[0, :2]), "linear: expected weight and bias to have the same dtype"),
        (lambda x, d: F.matmul(x, d.T), "matmul: expected input and other to have the same dtype"),
        (lambda x, d: F.mm(x, d.T), "mm: expected input and mat2 to have the same dtype"),
        (lambda x, d: F.bmm(x[None], d.T[None]), "bmm: expected input and mat2 to have the same dtype"),
        (lambda x, d: F.addmm(d[:, :2], x, x.T), "addmm: expected input and mat1 to have the same dtype"),
        (lambda x, d: F.matmul(x > 0, x.T > 0), "matmul: input has dtype torch.bool; products of bools are not there"),
        (lambda x, d: F.exp(3.0), "exp: input is a float; expected a torch.Tensor"),
        (lambda x, d: F.sub(x > 0, x > 0), r"a difference of bools is not there, .*\n  at .*test_messages\.py:\d+: "),
        (lambda x, d: F.tahn(x), r"hologram_torch\.functional' has no attribute 'tahn'; did you mean tan or tanh\?"),
        (lambda x, d: hologram_torch.conver, r"'hologram_torch' has no attribute 'conver'; did you mean convert\?"),
    ],
)
def test_refusals_say_what_the_function_calls_it(call: Any, text: str) -> None:
    x = torch.ones(2, 4)
    with pytest.raises((RuntimeError, TypeError, AttributeError), match=text):
        call(x, x.double())


def test_products_of_two_dtypes_are_autocasts_business() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert F.matmul(torch.ones(2, 4), torch.ones(4, 3, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_a_warning_shows_the_line_that_calls() -> None:
    with pytest.warns(UserWarning, match="Implicit dimension choice") as caught:
        F.softmax(torch.ones(3))
    assert caught[0].filename == __file__


def test_a_lazy_layer_is_converted_after_its_first_call() -> None:
    model = torch.nn.Sequential(torch.nn.LazyLinear(3))
    assert "call the model once" in str(hologram_torch.convert(model))
    model(torch.ones(2, 4))
    assert "1 of 1 layers converted" in str(hologram_torch.convert(model))
