"""Layers: torch's answers, torch's parameters, three ways to make one."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from typing import Any

import pytest
import torch
from moving import devices
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import hologram as hg
import hologram_torch as ht
from hologram_torch import nn
from hologram_torch._calls import here
from hologram_torch._executors import torch_device

LAYERS: dict[str, tuple[tuple[Any, ...], dict[str, Any], tuple[int, ...]]] = {
    "ReLU": ((), {}, (4, 6)),
    "LeakyReLU": ((0.2,), {}, (4, 6)),
    "ELU": ((), {"alpha": 1.5}, (4, 6)),
    "SELU": ((), {}, (4, 6)),
    "SiLU": ((), {}, (4, 6)),
    "Sigmoid": ((), {}, (4, 6)),
    "LogSigmoid": ((), {}, (4, 6)),
    "Tanh": ((), {}, (4, 6)),
    "GELU": ((), {}, (4, 6)),
    "Softplus": ((2.0, 10.0), {}, (4, 6)),
    "Softmax": ((-1,), {}, (4, 6)),
    "LogSoftmax": ((), {"dim": 1}, (4, 6)),
    "Dropout": ((0.0,), {}, (4, 6)),
    "Linear": ((6, 5), {}, (4, 6)),
    "Embedding": ((9, 5), {"padding_idx": 1}, (4, 6)),
    "LayerNorm": ((6,), {}, (4, 6)),
    "RMSNorm": ((6,), {}, (4, 6)),
    "BatchNorm1d": ((6,), {}, (4, 6)),
    "BatchNorm2d": ((3,), {"momentum": None}, (2, 3, 4, 5)),
    **{
        name: ((), {}, (4, 6))
        for name in ("MSELoss", "L1Loss", "HuberLoss", "SmoothL1Loss", "BCEWithLogitsLoss", "BCELoss", "KLDivLoss")
    },
    "NLLLoss": ((), {"reduction": "sum"}, (4, 6)),
    "CrossEntropyLoss": ((), {"label_smoothing": 0.1}, (4, 6)),
}


def pair(name: str, device: str = "cpu") -> tuple[torch.nn.Module, torch.nn.Module, list[Tensor]]:
    arguments, named, shape = LAYERS[name]
    torch.manual_seed(0)
    ours = getattr(nn, name)(*arguments, **named)
    torch.manual_seed(0)
    theirs = getattr(torch.nn, name)(*arguments, **named)
    inputs = [torch.rand(shape)] if name != "Embedding" else [torch.randint(9, shape)]
    if name in ("NLLLoss", "CrossEntropyLoss"):
        inputs.append(torch.tensor([0, 5, 3, 1]))
    elif name.endswith("Loss"):
        inputs.append(torch.rand(shape))
    return ours.to(device), theirs.to(device), [t.to(device) for t in inputs]


def test_all_are_here() -> None:
    assert sorted([*LAYERS, "Sequential"]) == sorted(nn.__all__)


@pytest.mark.filterwarnings("ignore:reduction")  # of torch's KLDivLoss
@pytest.mark.parametrize("name", LAYERS)
def test_answers(name: str, device: str) -> None:
    ours, theirs, inputs = pair(name, device)
    assert isinstance(ours, type(theirs))
    assert repr(ours) == repr(theirs)
    for _ in range(2):  # a second time with other running statistics
        results = []
        for layer in (ours, theirs):
            x = inputs[0].clone().requires_grad_(inputs[0].is_floating_point())
            result = layer(x, *inputs[1:])
            # Else gradients of a norm are what rounding has left of them.
            weights = torch.linspace(0.5, 2, result.numel(), device=device)
            (result * weights.view(result.shape)).sum().backward()
            results.append([result, *([x.grad] if x.requires_grad else []), *(p.grad for p in layer.parameters())])
        for found, expected in zip(*results):
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for found, expected in zip(ours.state_dict().values(), theirs.state_dict().values()):
        torch.testing.assert_close(found, expected)
    torch.testing.assert_close(ours.eval()(*inputs), theirs.eval()(*inputs), rtol=1e-4, atol=1e-5)


VARIED: dict[str, list[dict[str, Any]]] = {
    **{name: [{name: True}] for name in ("inplace", "scale_grad_by_freq", "log_target")},
    **{name: [{name: False}] for name in ("bias", "elementwise_affine", "affine", "track_running_stats")},
    **{name: [{name: value}] for name, value in (("eps", 0.3), ("delta", 0.3), ("alpha", 1.75), ("beta", 0.25))},
    "negative_slope": [{"negative_slope": 0.375}],
    "threshold": [{"threshold": 0.5}],
    "approximate": [{"approximate": "tanh"}, {"approximate": "none"}],
    "dim": [{"dim": 0}, {"dim": -1}],
    "p": [{"p": 1.0}],
    "padding_idx": [{"padding_idx": 0}, {"padding_idx": -9}, {"padding_idx": -2}, {"padding_idx": None}],
    "max_norm": [{"max_norm": 0.5}],
    "norm_type": [{"max_norm": 0.5, "norm_type": 1.0}],
    "momentum": [{"momentum": 0.375}, {"momentum": None}],
    "normalized_shape": [{"normalized_shape": (4, 6)}],
    "ignore_index": [{"ignore_index": 3}],
    "label_smoothing": [{"label_smoothing": 0.25}],
    "weight": [{"weight": torch.linspace(0.5, 2, 6)}],
    "pos_weight": [{"pos_weight": torch.linspace(0.5, 2, 6)}],
    "reduction": [{"reduction": "none"}, {"reduction": "mean"}, {"reduction": "sum"}],
}
"""What layers are made with, each beside the others' defaults."""

OF_SIZES = {"in_features", "out_features", "num_embeddings", "embedding_dim", "num_features"}
OTHER = {"self", "args", "kwargs", "device", "dtype", "size_average", "reduce", "sparse", "_weight", "_freeze"}
ALWAYS = {"Softmax": {"dim": 1}, "LogSoftmax": {"dim": 1}, "Dropout": {"p": 1.0}}


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("name", LAYERS)
def test_what_layers_are_made_with(name: str, device: str) -> None:
    """Each argument of torch's constructor does what it does there: results, gradients, what is left in the layer."""
    taken = inspect.signature(getattr(torch.nn, name).__init__).parameters.keys() - OF_SIZES - OTHER
    assert taken <= VARIED.keys()
    of_sizes = inspect.signature(getattr(torch.nn, name).__init__).parameters.keys() & OF_SIZES
    for given in [{}] + [option for argument in sorted(taken) for option in VARIED[argument]]:
        positional = LAYERS[name][0][: max(len(of_sizes), "Norm" in name and "normalized_shape" not in given)]
        for training in (True, False):
            results = []
            for kind in (nn, torch.nn):
                torch.manual_seed(0)
                layer = getattr(kind, name)(*positional, **{**ALWAYS.get(name, {}), **given}).train(training).to(device)
                x, *others = pair(name, device)[2]
                made = []
                for _ in range(2):
                    leaf = x.clone().requires_grad_(x.is_floating_point())
                    result = layer(leaf * 2 - 1 if not others and leaf.requires_grad else leaf, *others)
                    result.square().sum().backward()
                    made += [result, leaf.grad, *(p.grad.clone() for p in layer.parameters())]
                results.append([*made, *layer.state_dict().values()])
            for found, expected in zip(*results):
                assert (found is None) == (expected is None)
                if found is not None:
                    torch.testing.assert_close(
                        found, expected, rtol=1e-4, atol=1e-5, msg=lambda m, g=given: f"{g}: {m}"
                    )


@pytest.mark.filterwarnings("ignore:reduction")
@pytest.mark.parametrize("name", LAYERS)
def test_states_copies_and_files(name: str, device: str) -> None:
    ours, theirs, inputs = pair(name, device)
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    ours.load_state_dict(theirs.state_dict())
    theirs.load_state_dict(ours.state_dict())
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    expected = ours.eval()(*inputs)
    for copied in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), torch.load(file, weights_only=False)):
        assert type(copied) is type(ours)
        assert torch.equal(copied.eval()(*inputs), expected)


def test_linear_forms(ex: hg.Executor) -> None:
    """The forms that the documents show."""
    x = torch.randn(3, 8)
    for layer in (nn.Linear(ex, 8, 4), nn.Linear(8, 4, backend="cpu"), nn.Linear(8, 4), nn.Linear(8, 4, executor=ex)):
        assert layer(x).shape == (3, 4)
        torch.testing.assert_close(layer(x), torch.nn.functional.linear(x, layer.weight, layer.bias))
        assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]
    assert nn.Linear(ex, 8, 4).executor is ex
    assert nn.Linear(8, 4, bias=False, dtype=torch.float64).weight.dtype == torch.float64
    assert nn.Linear(8, 4).executor is None
    for name, (arguments, named, _) in LAYERS.items():
        assert getattr(nn, name)(ex, *arguments, **named).backend == "cpu"
        assert getattr(nn, name)(*arguments, **named, backend="interp").backend == "interp"


def test_executors_of_layers(ex: hg.Executor) -> None:
    layer = nn.Linear(ex, 8, 4)
    copied = copy.deepcopy(layer)
    assert copied.executor is not ex
    assert copied.backend == "cpu"
    x = torch.randn(2, 8)
    assert torch.equal(copied(x), layer(x))
    torch.testing.assert_close(nn.GELU(ex)(x), torch.nn.functional.gelu(x, approximate="tanh"))
    torch.testing.assert_close(nn.GELU(ex, "none")(x), torch.nn.functional.gelu(x))
    torch.testing.assert_close(nn.Softmax(ex)(x), x.flatten().softmax(0).view_as(x))
    with pytest.raises(ValueError, match="takes those on the CPU"):
        layer(torch.ones(2, 8, device="meta"))
    with pytest.raises(ValueError, match="not both"):
        nn.ReLU(ex, backend="cpu")
    with pytest.raises(ValueError, match="two executors"):
        nn.ReLU(ex, executor=ex)
    with pytest.raises(ValueError, match="abacus"):
        nn.ReLU(backend="abacus")


@pytest.mark.parametrize("name", [name for name in LAYERS if name.endswith("Loss")])
def test_reductions(name: str) -> None:
    with pytest.raises(ValueError, match="median"):
        getattr(nn, name)(reduction="median")


def test_dtypes_and_moves(device: str) -> None:
    layer = nn.Linear(4, 3).half().to(device)
    x = torch.ones(2, 4, device=device)
    assert layer(x.half()).dtype == torch.float16
    assert layer.to(torch.float64)(x.double()).dtype == torch.float64
    assert nn.Linear(4, 3).to(device).bfloat16()(x.bfloat16()).dtype == torch.bfloat16
    torch.testing.assert_close(layer.cpu()(x.cpu().double()), layer.to(device)(x.double()).cpu(), rtol=0, atol=0)
    assert nn.Linear(4, 3).to("meta").weight.is_meta


@pytest.mark.skipif("cuda" not in devices(), reason="needs a CUDA device")
def test_layers_of_gpus() -> None:
    """The forms that name one: parameters go there, and what lies elsewhere is refused."""
    x = torch.randn(3, 8)
    layer = nn.Linear(8, 4, backend="cuda")
    assert layer.weight.is_cuda and layer.backend == "cuda"
    expected = torch.nn.functional.linear(x.cuda(), layer.weight, layer.bias)
    torch.testing.assert_close(layer(x.cuda()), expected, rtol=1e-5, atol=1e-5)
    with hg.Executor("cuda") as ex:
        again = nn.Linear(ex, 8, 4, device="cuda")
        again.load_state_dict(layer.state_dict())
        assert again.executor is ex and torch.equal(again(x.cuda()), layer(x.cuda()))
        assert torch.equal(ht.functional.add(ex, x.cuda(), x.cuda()), x.cuda() * 2)
        with pytest.raises(ValueError, match="takes those"):
            again(x)
    with pytest.raises(ValueError, match="takes those on the CPU"), hg.Executor("cpu") as host:
        ht.functional.add(host, x.cuda(), x.cuda())
    for name, (arguments, named, _) in LAYERS.items():
        ours, _, inputs = pair(name, "cuda")
        made = getattr(nn, name)(*arguments, **named, backend="cuda").eval()
        made.load_state_dict(ours.state_dict())
        if name != "GELU":  # by tanh, with an executor
            torch.testing.assert_close(made(*inputs), ours.eval()(*inputs), rtol=0, atol=0)
        assert copy.deepcopy(made).backend == "cuda"


@pytest.mark.parametrize("name", LAYERS)
def test_signatures_are_torchs_and_the_keywords_beside(name: str) -> None:
    """Which tools and editors read."""
    (arguments, named, _), kind = LAYERS[name], getattr(nn, name)
    found = inspect.signature(kind).parameters
    beside = ["backend", "executor", *(["activation"] if name == "Linear" else [])]
    theirs = inspect.signature(getattr(torch.nn, name)).parameters.values()
    expected = [(p.name, p.kind, p.default) for p in theirs if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    assert [(p.name, p.kind, p.default) for p in found.values() if p.name not in beside] == expected
    assert all(found[each].kind is inspect.Parameter.KEYWORD_ONLY and found[each].default is None for each in beside)
    inspect.signature(kind).bind(*arguments, **named)


def test_signatures_of_subclasses_are_their_own() -> None:
    class Narrow(nn.Linear):
        def __init__(self, width: int) -> None:
            super().__init__(width, 1)

    class Same(nn.Linear):
        pass

    class Passing(nn.Linear):
        def __init__(self, *arguments: Any, scale: float = 1.0, **named: Any) -> None:
            super().__init__(*arguments, **named)

    assert list(inspect.signature(Narrow).parameters) == ["width"]
    assert list(inspect.signature(Passing).parameters) == ["arguments", "scale", "named"]
    assert inspect.signature(Narrow(3)) == inspect.signature(torch.nn.Linear(3, 1))  # as it is called
    assert inspect.signature(Same) == inspect.signature(nn.Linear)
    assert isinstance(Narrow(3)(torch.ones(2, 3)), Tensor)


@pytest.mark.parametrize("name", ["Linear", "Embedding", "LayerNorm", "RMSNorm", "BatchNorm1d", "BatchNorm2d"])
def test_initialisation_may_be_skipped(name: str) -> None:
    arguments, named, _ = LAYERS[name]
    torch.manual_seed(0)
    before = torch.get_rng_state()
    layer = torch.nn.utils.skip_init(getattr(nn, name), *arguments, **named)
    assert torch.equal(torch.get_rng_state(), before) and type(layer) is getattr(nn, name)
    made = getattr(torch.nn, name)(*arguments, **named)
    assert {key: (t.shape, t.dtype, t.device) for key, t in layer.state_dict().items()} == {
        key: (t.shape, t.dtype, t.device) for key, t in made.state_dict().items()
    }


def test_statistics_that_are_no_longer_tracked() -> None:
    """By an attribute, as torch's layers take it, in training and in evaluation."""
    for training in (True, False):
        kept = []
        for kind in (nn, torch.nn):
            layer = kind.BatchNorm1d(3).train(training)
            layer.running_mean.fill_(0.5)
            layer.track_running_stats = False
            torch.manual_seed(0)
            kept.append([layer(torch.randn(4, 3)), *layer.buffers()])
        for found, expected in zip(*kept):
            torch.testing.assert_close(found, expected)


@pytest.mark.parametrize(
    ("backend", "device"),
    [("cuda:1", "cuda:1"), ("cuda", "cuda:0"), ("cpu", "cpu"), ("interp", "cpu"), ("metal", "mps:0")],
)
def test_parameters_lie_on_the_device_of_the_backend(backend: str, device: str) -> None:
    """Of the second GPU's too, and of the first though it is not torch's current one.

    Most machines have none, so the layer's own way to its name is asked.
    """
    assert torch_device(backend) == device


def test_tensors_on_another_device_of_the_backend_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its number; torch's fake tensors and an executor that says so stand for GPUs that most machines have not."""
    with hg.Executor("cpu") as ex, FakeTensorMode():
        first, second = (torch.empty(3, device=f"cuda:{i}") for i in range(2))
        with pytest.raises(ValueError, match=r"^add: input is on cuda:0; the executor takes those on the CPU$"):
            here("add", ex, first)
        with monkeypatch.context() as told:
            for name, value in (("_device_type", 2), ("_device_id", 1), ("backend", "cuda:1")):
                told.setattr(ex, name, value)
            here("add", ex, second, second)
            with pytest.raises(ValueError, match=r"^add: other is on cuda:0; the executor takes those on cuda:1$"):
                here("add", ex, second, first)
            with pytest.raises(ValueError, match=r"^add: input is on cpu; the executor takes those on cuda:1$"):
                here("add", ex, torch.empty(3))
