"""batch_norm: what moves its running statistics, and by how much; and what it has in common with other norms."""

from __future__ import annotations

import itertools

import pytest
import torch

from hologram_torch import functional as F
from hologram_torch import nn


@pytest.mark.parametrize("shape", [(0, 3), (0, 3, 2), (2, 3, 0)], ids=str)
def test_a_batch_of_nothing_moves_no_statistics(shape: tuple[int, ...]) -> None:
    for f in (F, torch.nn.functional):
        mean, variance = torch.full((3,), 0.5), torch.full((3,), 2.0)
        for _ in range(3):
            found = f.batch_norm(torch.zeros(shape), mean, variance, training=True)
        assert found.shape == shape
        assert torch.equal(mean, torch.full((3,), 0.5)) and torch.equal(variance, torch.full((3,), 2.0))


@pytest.mark.parametrize("recorded", [False, True])
def test_calls_of_a_batch_whose_channels_lie_last(recorded: bool) -> None:
    """Each has the numbers of the first: what is repeated without Python too."""
    x = torch.randn(2, 5, 3, 4).contiguous(memory_format=torch.channels_last).requires_grad_(recorded)
    expected = torch.nn.functional.batch_norm(x, None, None, training=True).detach()
    for _ in range(6):
        torch.testing.assert_close(F.batch_norm(x, None, None, training=True).detach(), expected)


BATCH = ("input", "running_mean", "running_var", "weight", "bias")


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("pair", [p for p in itertools.combinations(BATCH, 2) if p != BATCH[1:3]], ids="-".join)
def test_arguments_of_batch_norm_that_share_memory(pair: tuple[str, str], recorded: bool) -> None:
    """They are read as they were: result and gradients are those of arguments apart, and statistics move once."""
    for _ in range(4):
        given = {name: torch.rand(3) + 0.5 for name in BATCH[1:]}
        given["input"] = torch.randn(4, 3)
        given[pair[1]] = given[pair[0]] if pair[0] != "input" else given["input"][1]
        apart = {name: t.clone() for name, t in given.items()}
        ways = []
        for tensors in (given, apart):
            taken = {name: t.detach().requires_grad_(recorded and "running" not in name) for name, t in tensors.items()}
            y = F.batch_norm(**taken, training=True)
            of = [t for t in taken.values() if t.requires_grad]
            ways.append([y, *(torch.autograd.grad(y.square().sum(), of) if of else ())])
        for found, expected in zip(*ways):
            assert torch.equal(found, expected)
        for name in BATCH[1:3]:
            assert torch.equal(given[name], apart[name])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_momentum_may_be_a_tensor(dtype: torch.dtype) -> None:
    x, kinds = torch.randn(5, 3).to(dtype), [torch.float32, torch.float64]
    for rate, kept in itertools.product((0.1, 0.25, 1.0), kinds):
        ways = []
        for momentum in (rate, torch.tensor(rate, dtype=kept)):
            mean, variance = torch.full((3,), 0.5, dtype=kept), torch.full((3,), 2.0, dtype=kept)
            ways.append([F.batch_norm(x, mean, variance, training=True, momentum=momentum), mean, variance])
        for found, expected in zip(*ways):
            assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64], ids=str)
def test_norms_are_of_floats(dtype: torch.dtype) -> None:
    """Also in evaluation, where numbers were cut to integers; a refused call moves nothing."""
    x, mean = torch.ones(3, 4).to(dtype), torch.zeros(4)
    for said, call in (
        ("layer_norm: input has", lambda: F.layer_norm(x, (4,))),
        ("rms_norm: input has", lambda: F.rms_norm(x, (4,), torch.ones(4))),
        ("batch_norm: .*", lambda: F.batch_norm(x, mean, torch.ones(4), training=True)),
        ("batch_norm: .*", lambda: F.batch_norm(x, mean, torch.ones(4))),
        ("batch_norm: .*", lambda: F.batch_norm(x, mean, torch.ones(4), torch.ones(4))),
    ):
        with pytest.raises(TypeError, match=f"^{said} dtype {dtype}"):
            call()
    assert not mean.any()


@pytest.mark.parametrize("norm", ["layer_norm", "batch_norm", "batch_norm in training"])
def test_a_norm_without_a_bias_adds_none(norm: str, device: str) -> None:
    """Nor does it change a zero's sign, as adding 0 would."""
    x, weight = torch.zeros(4, 4, device=device), torch.tensor([-1.0, 1, -2, 2], device=device)
    if norm == "layer_norm":
        found = F.layer_norm(x, (4,), weight)
    else:
        found = F.batch_norm(x, torch.zeros_like(weight), torch.ones_like(weight), weight, training="training" in norm)
    assert torch.equal(torch.signbit(found), torch.signbit(weight).expand(4, 4)) and not found.any()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("which", ["running_mean", "running_var"])
def test_statistics_get_no_gradients(which: str, training: bool) -> None:
    """Statistics that want some are refused, as by torch; where none are recorded, they are taken."""
    x, given = torch.randn(4, 3), {"running_mean": torch.zeros(3), "running_var": torch.ones(3)}
    given[which].requires_grad_()
    for f in (F, torch.nn.functional):
        for _ in range(4):  # also when calls of these shapes are recorded
            with pytest.raises(RuntimeError, match=rf"{which}.*"):
                f.batch_norm(x, **given, training=training)
            f.batch_norm(x, *(t.detach() for t in given.values()), training=training)
    if not training:
        with torch.no_grad():
            torch.testing.assert_close(F.batch_norm(x, **given), torch.nn.functional.batch_norm(x, **given))


def test_the_mean_of_all_batches_is_as_exact_as_its_dtype() -> None:
    ours, theirs = (m.BatchNorm1d(3, momentum=None).double() for m in (nn, torch.nn))
    for _ in range(3):
        x = torch.rand(4, 3, dtype=torch.float64)
        ours(x), theirs(x)
    torch.testing.assert_close(ours.running_mean, theirs.running_mean, rtol=1e-14, atol=0)
