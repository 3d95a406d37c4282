"""What messages say: names are the function's own, lines the caller's."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import hologram as hg
import hologram_torch
from hologram_torch import functional as F
from hologram_torch import nn


@hologram_torch.kernel
def cube(a: Any) -> Any:
    return a * a * a


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
        *(
            (
                lambda x, d, f=f, dim=dim: f(x, dim),
                rf"^{f.__name__}: dim is {dim}, and input .* \(2, 4\); expected -2 to 1$",
            )
            for f in (F.softmax, F.log_softmax, F.cumsum, F.sum, F.mean, F.prod, F.amax, F.amin, F.var, F.std)
            for dim in (2, -3)
        ),
        *(
            (lambda x, d, f=f: f(x, "1"), rf"^{f.__name__}: dim is '1'; expected an integer$")
            for f in (F.softmax, F.log_softmax, F.cumsum, F.sum, F.amin, F.std)
        ),
        (lambda x, d: F.softmax(hg.Executor("cpu"), x, 2), r"^softmax: dim is 2, and input .*; expected -2 to 1$"),
        (lambda x, d: nn.Softmax(-3)(x), r"^softmax: dim is -3, and input .*; expected -2 to 1$"),
        (lambda x, d: F.sum(x, (0, -2)), "^sum: dim 0 appears multiple times"),
        *(
            (
                lambda x, d, f=f, a=a, b=b: f(torch.ones(a), torch.ones(b)),
                rf"^{f.__name__}: input of shape {re.escape(f'{a} and {second} of shape {b}')} can't be multiplied; "
                rf"expected {re.escape(expected)}$",
            )
            for f, a, b, second, expected in (
                (F.mm, (2, 3), (2, 5), "mat2", "(m, k) and (k, n)"),
                (F.mm, (2, 3, 1), (3, 5), "mat2", "(m, k) and (k, n)"),
                (F.bmm, (2, 3, 4), (3, 4, 5), "mat2", "(b, m, k) and (b, k, n)"),
                (F.bmm, (2, 3, 4), (2, 5, 5), "mat2", "(b, m, k) and (b, k, n)"),
                (F.matmul, (2, 3, 4), (2, 5, 5), "other", "(…, k) and (…, k, n)"),
                (F.matmul, (2, 3, 4), (5,), "other", "(…, k) and (k,)"),
                (F.matmul, (4,), (5, 3), "other", "(k,) and (…, k, n)"),
                (F.matmul, (2, 3, 4), (3, 4, 5), "other", "dimensions before the last two that broadcast together"),
                (F.matmul, (), (3,), "other", "at least one dimension of each"),
                (F.linear, (2, 3), (2, 5), "weight", "(…, in) and (out, in)"),
                (F.linear, (2, 3), (5,), "weight", "(…, in) and (in,), or (out, in)"),
                (F.linear, (), (5,), "weight", "(…, in) and (in,), or (out, in)"),
                (F.linear, (2, 3), (5, 3, 1), "weight", "(…, in) and (out, in)"),
            )
        ),
        (
            lambda x, d: F.addmm(x, x, x),
            r"^addmm: mat1 of shape \(2, 4\) and mat2 of shape \(2, 4\) can't be multiplied; expected \(m, k\) and ",
        ),
        *(
            (
                lambda x, d, shape=shape: F.addmm(torch.ones(shape), x, x.T),
                rf"^addmm: input has the shape {re.escape(str(shape))}; expected .* of mat1 · mat2, \(2, 2\)$",
            )
            for shape in ((3,), (4, 2), (1, 2, 2))
        ),
        (
            lambda x, d: F.addmm(x.long()[:, :2], x.long(), x.long().T, alpha=0.5),
            r"^addmm: alpha is 0\.5; expected an integer beside torch\.int64$",
        ),
        (
            lambda x, d: F.linear(x, x, x[0]),
            r"^linear: bias has the shape \(4,\); expected \(2,\), as weight has the shape \(2, 4\)$",
        ),
        *(
            (
                lambda x, d, f=f, name=name, shape=shape: f(x, x, **{name: torch.ones(shape)}),
                rf"^{f.__name__}: {name} has the shape {re.escape(str(shape))}; expected one that broadcasts to",
            )
            for f, name in (
                (F.binary_cross_entropy, "weight"),
                (F.binary_cross_entropy_with_logits, "weight"),
                (F.binary_cross_entropy_with_logits, "pos_weight"),
            )
            for shape in ((3,), (2, 3), (3, 2, 4), (2,))
        ),
        *(
            (
                lambda x, d, dtype=dtype: F.nll_loss(x, x[:, 0].to(dtype)),
                f"^nll_loss: target has dtype {dtype}; expected torch.int64 or torch.uint8$",
            )
            for dtype in (torch.int32, torch.bool, torch.float32)
        ),
        *(
            (
                lambda x, d, dtype=dtype: F.cross_entropy(x, x[:, 0].to(dtype)),
                rf"^cross_entropy: target has dtype {dtype}; expected torch.int64 or torch.uint8, or probabilities of ",
            )
            for dtype in (torch.int16, torch.float32)
        ),
        (
            lambda x, d: F.cross_entropy(x, x[:, :3]),
            r"target has the shape \(2, 3\); expected \(2,\), of classes, or probabilities .* \(2, 4\)$",
        ),
        (lambda x, d: F.nll_loss(x, x), r"^nll_loss: target has the shape \(2, 4\); expected \(2,\), of classes$"),
        *(
            (lambda x, d, f=f: f(x.long(), x.long()), rf"^{f.__name__}: input has dtype torch.int64; expected a float")
            for f in (
                *(F.mse_loss, F.l1_loss, F.huber_loss, F.smooth_l1_loss, F.kl_div, F.binary_cross_entropy),
                F.binary_cross_entropy_with_logits,
            )
        ),
        (lambda x, d: F.clamp(x, "a", 1), "^clamp: min is a str; expected a torch.Tensor$"),
        (lambda x, d: F.clamp(x, 0, 1, out=x[0]), r"^clamp: out has the shape \(4,\); the result has \(2, 4\)$"),
        (lambda x, d: F.gelu(x.long(), "tanh"), "^gelu: input has dtype torch.int64; expected a float"),
        (
            lambda x, d: F.exp(x.to("meta")),
            "^hologram has no backend for tensors on meta; here it works on those on cpu",
        ),
        (lambda x, d: hg.exp(x.to("meta")), "^exp: .*meta"),
        *(
            (lambda x, d, call=call: torch.func.vmap(call)(x), f"^{name}: vmap is not there: ")
            for name, call in {
                "exp": F.exp,
                "matmul": lambda t: F.matmul(t, torch.ones(4)),
                "var": F.var,
                "std": F.std,
                "mse_loss": lambda t: F.mse_loss(t, t),
                "clamp": lambda t: F.clamp(t, 0, 1),
                "add": lambda t: F.add(t, t),
                "linear": nn.Linear(4, 3),
                "softmax": nn.Softmax(0),
                "cross_entropy": lambda t: F.cross_entropy(t, torch.tensor(0)),
            }.items()
        ),
        (lambda x, d: torch.func.vmap(cube)(x), r"^\S*cube\(f32\): vmap is not there: "),
        (lambda x, d: torch.func.jvp(cube, (x,), (x,)), r"^\S*cube\(f32\): forward-mode derivatives are not there"),
        (lambda x, d: F.sub(x, x[0, :3], alpha=0.5), r"^sub: the shapes \(2, 4\), \(3,\) don't broadcast together$"),
        (lambda x, d: F.add(hg.Executor("cpu"), x, 3), "^add: input2 is a int; expected a torch.Tensor$"),
        (lambda x, d: F.linear(hg.Executor("cpu"), x, x, 3), "^linear: bias is a int; expected a torch.Tensor$"),
        (lambda x, d: F.mse_loss(hg.Executor("cpu"), x, 3), "^mse_loss: target is a int; expected a torch.Tensor$"),
        (
            lambda x, d: F.addmm(x.long()[:, :2], x.long(), x.long().T, alpha=2**53 + 1),
            f"^addmm: alpha is {2**53 + 1}; beside torch.int64 expected a number that a double holds$",
        ),
        (lambda x, d: torch.func.jvp(F.std, (x,), (x,)), "^std: forward-mode derivatives are not there"),
        (lambda x, d: F.where(x > 0, x, "a"), "where: other is a str; expected a torch.Tensor"),
        (lambda x, d: F.exp(3.0), "exp: input is a float; expected a torch.Tensor"),
        (
            lambda x, d: F.sub(x > 0, x),
            r"sub: the dtypes are torch.bool and torch.float32; expected no bools, .* \(~\) ",
        ),
        (lambda x, d: F.tahn(x), r"hologram_torch\.functional' has no attribute 'tahn'; did you mean tan or tanh\?"),
        (lambda x, d: hologram_torch.conver, r"'hologram_torch' has no attribute 'conver'; did you mean convert\?"),
        (lambda x, d: F.atan, r"functional' has no attribute 'atan'; Hologram has none .* beside these: torch\.atan$"),
        (lambda x, d: F.conv2d, r"'conv2d'; Hologram has none .* beside these: torch\.conv2d$"),
        (lambda x, d: F.pad, r"'pad'; Hologram has none .* beside these: torch\.nn\.functional\.pad$"),
        (lambda x, d: hologram_torch.nn.Conv2d, r"nn' has no attribute 'Conv2d'; .* beside these: torch\.nn\.Conv2d$"),
        (lambda x, d: hologram_torch.nn.Liner, r"'Liner'; did you mean Linear"),
        (lambda x, d: hologram_torch.optim.RMSprop, r"'RMSprop'; .* beside these: torch\.optim\.RMSprop$"),
        (lambda x, d: hologram_torch.matmul, r"'matmul'; there is hologram_torch\.functional\.matmul$"),
        (lambda x, d: hologram_torch.Linear, r"'Linear'; there is hologram_torch\.nn\.Linear$"),
    ],
)
def test_refusals_say_what_the_function_calls_it(call: Any, text: str) -> None:
    x = torch.ones(2, 4)
    with pytest.raises((RuntimeError, TypeError, AttributeError, IndexError, ValueError), match=text):
        call(x, x.double())


def test_products_of_two_dtypes_are_autocasts_business() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        assert F.matmul(torch.ones(2, 4), torch.ones(4, 3, dtype=torch.bfloat16)).dtype == torch.bfloat16


def test_a_warning_shows_the_line_that_calls() -> None:
    with pytest.warns(UserWarning, match="Implicit dimension choice") as caught:
        F.softmax(torch.ones(3))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "huber_loss", "smooth_l1_loss"])
def test_losses_of_two_shapes_are_warned_of_as_torch_does(name: str) -> None:
    x, y = torch.ones(2, 4), torch.zeros(4)
    for _ in range(2):  # the first call and those that C repeats
        for input, target in ((x, y), (y, x), (x, x[:, :1])):
            with pytest.warns(UserWarning) as theirs:
                expected = getattr(torch.nn.functional, name)(input, target)
            with pytest.warns(UserWarning) as ours:
                assert getattr(F, name)(input, target) == expected
            assert [(w.category, str(w.message)) for w in ours] == [(w.category, str(w.message)) for w in theirs]
            assert ours[0].filename == __file__
    assert getattr(F, name)(x, x) == 0
    layer = {
        "mse_loss": nn.MSELoss,
        "l1_loss": nn.L1Loss,
        "huber_loss": nn.HuberLoss,
        "smooth_l1_loss": nn.SmoothL1Loss,
    }
    with pytest.warns(UserWarning, match="Using a target size") as caught:
        layer[name]()(x, y)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("call", "text"),
    [
        *(
            (lambda x, f=f: f(x, axis=0), rf"{f.__name__}\(\) got an unexpected .* 'axis'; here it is dim=$")
            for f in (F.softmax, F.log_softmax, F.sum, F.mean, F.prod, F.amax, F.amin, F.var, F.std)
        ),
        *(
            (lambda x, f=f: f(x, 0, keepdims=True), rf"{f.__name__}\(\) got .* 'keepdims'; here it is keepdim=$")
            for f in (F.sum, F.mean, F.prod, F.amax, F.amin, F.var, F.std)
        ),
        (lambda x: F.cumsum(x, 0, axis=1), "cumsum.. got .* 'axis'; here it is dim=$"),
        (lambda x: F.clamp(x, a_min=0), "clamp.. got .* 'a_min'; here it is min=$"),
        (lambda x: F.clamp(x, a_max=0), "clamp.. got .* 'a_max'; here it is max=$"),
        (lambda x: F.matmul(x, x, dtype=torch.int32), r"matmul.. got .* 'dtype'; .* hologram.ops.gemm\(x, y, out="),
        (lambda x: F.matmul(x, x, nonsense=1), "matmul.. got an unexpected keyword argument 'nonsense'$"),
        (lambda x: F.sum(x, nonsense=1), "sum.. got an unexpected keyword argument 'nonsense'$"),
        (lambda x: F.add(x, x, executor=1), "add.. got .* 'executor'; the executor is the first argument$"),
        (lambda x: F.add(x, x, ex=1), "add.. got .* 'ex'; the executor is the first argument$"),
        (lambda x: F.gelu(x, approximat="tanh"), "gelu.. got .* 'approximat'; here it is approximate=$"),
    ],
)
def test_keywords_of_others_are_told_by_what_they_are_here(call: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call(torch.ones(2, 2))


def test_a_lazy_layer_is_converted_after_its_first_call() -> None:
    model = torch.nn.Sequential(torch.nn.LazyLinear(3))
    assert "call the model once" in str(hologram_torch.convert(model))
    model(torch.ones(2, 4))
    assert "1 of 1 layers converted" in str(hologram_torch.convert(model))
