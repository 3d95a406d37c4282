"""Layers: torch's answers, torch's parameters, three ways to make one; models that are converted."""

from __future__ import annotations

import copy
import inspect
import io
import pickle
from pathlib import Path
from typing import Any, Callable

import pytest
import torch
import torch.nn.utils.prune
from moving import devices
from torch import Tensor

import hologram as hg
import hologram_torch as ht
from hologram_torch import nn

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


# ---- conversion


class Own(torch.nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * 2


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        shared = torch.nn.ReLU()
        self.body = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 8), shared, torch.nn.Linear(8, 8), shared
        )
        self.norm = torch.nn.LayerNorm(8)
        self.drop = torch.nn.Identity()
        self.own = Own(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.own(self.drop(self.norm(self.body(x))))


def test_convert_and_revert(capsys: pytest.CaptureFixture[str]) -> None:
    net, x = Net(), torch.randn(5, 6)
    kinds = [type(m) for m in net.modules()]
    state = {name: value.clone() for name, value in net.state_dict().items()}
    parameters = list(net.parameters())
    net(x).sum().backward()
    gradients = [p.grad.clone() for p in parameters if p.grad is not None]
    expected = net(x)
    report = ht.convert(net)
    torch.testing.assert_close(net(x), expected)
    net.zero_grad()
    net(x).sum().backward()
    for p, g in zip(parameters, gradients):
        torch.testing.assert_close(p.grad, g)
    assert all(a is b for a, b in zip(parameters, net.parameters())), "the same parameters"
    assert net.state_dict().keys() == state.keys()
    assert type(net.body[0]) is nn.Linear
    assert type(net.own) is Own
    print(report)
    text = capsys.readouterr().out
    assert "body.0" in text
    assert "own" in text
    assert "left: a class of its own" in text
    assert "left: not there" in text
    assert text.rstrip().endswith("7 of 9 layers converted")
    again = ht.convert(net)
    assert all(c.before == c.after for c in again)
    torch.testing.assert_close(pickle.loads(pickle.dumps(net))(x), expected)
    assert str(ht.revert(net)).endswith("6 of 6 layers reverted")
    assert [type(m) for m in net.modules()] == kinds
    assert torch.equal(net(x), expected)


def test_the_report_is_no_model() -> None:
    """Who takes what convert returns for the model learns at the first call that it is not."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    for report, done in ((ht.convert(model), "converted"), (ht.revert(model), "reverted")):
        with pytest.raises(TypeError, match=f"report of the layers {done}, not a model: .* change the model"):
            report(torch.ones(1, 2))


def test_revert_leaves_what_torch_has_not() -> None:
    model, x = torch.nn.Sequential(nn.Linear(3, 2, activation="relu"), nn.Tanh()), torch.randn(4, 3)
    expected = model(x)
    assert "left: torch's has no activation" in str(ht.revert(model))
    torch.testing.assert_close(model(x), expected)


def test_convert_leaves_what_cannot_run() -> None:
    model = torch.nn.Sequential(
        torch.nn.Embedding(4, 3, sparse=True),
        torch.nn.Linear(3, 2, dtype=torch.complex64),
        torch.nn.LayerNorm(2, dtype=torch.complex128),
        torch.nn.Embedding(4, 3),
    )
    report = ht.convert(model)
    notes = ["sparse gradients are", "torch.complex64 is", "torch.complex128 is"]
    assert [row.note for row in report] == [*(f"left: {note} not there" for note in notes), ""]
    assert [type(m).__module__ == nn.__name__ for m in model] == [False, False, False, True]
    assert model[1](torch.ones(1, 3, dtype=torch.complex64)).shape == (1, 2)


def test_convert_alone() -> None:
    layer = torch.nn.Linear(3, 2)
    assert len(ht.convert(layer)) == 1
    assert type(layer) is nn.Linear
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    ht.convert(model, fuse=False)
    assert [type(m) for m in (model, *model)] == [torch.nn.Sequential, nn.Linear, nn.ReLU]
    ht.convert(model)
    assert type(model) is nn.Sequential
    placed = nn.Linear(3, 2, backend="cpu")
    ht.revert(placed)
    assert type(placed) is torch.nn.Linear and vars(placed).keys() == vars(layer).keys()
    with pytest.raises(TypeError, match=r"torch\.nn\.Module"):
        ht.convert(3)


def sequences() -> dict[str, Callable[[torch.nn.Sequential], torch.nn.Module]]:
    """What people do with a converted Linear, ReLU, Linear; each has torch's answer."""

    def changed(change: Callable[[torch.nn.Sequential], object]) -> Callable[[torch.nn.Sequential], torch.nn.Module]:
        def done(model: torch.nn.Sequential) -> torch.nn.Module:
            change(model)
            return model

        return done

    return {
        "whole": lambda m: m,
        "one": lambda m: m[0],
        "slice": lambda m: m[:1],
        "two": lambda m: m[:2],
        "children": lambda m: torch.nn.Sequential(*list(m.children())[:-2]),
        "activation": lambda m: torch.nn.Sequential(m[1]),
        "identity": changed(lambda m: m.__setitem__(1, torch.nn.Identity())),
        "other": changed(lambda m: m.__setitem__(1, torch.nn.Tanh())),
        "deleted": changed(lambda m: m.__delitem__(1)),
        "inserted": changed(lambda m: m.insert(1, torch.nn.Softmax(1))),
        "own forward": changed(lambda m: setattr(m[1], "forward", lambda x: x * 2)),
    }


@pytest.mark.parametrize("name", sequences())
def test_layers_stay_by_themselves(name: str) -> None:
    """A Linear does its activation within the Sequential alone, by the layers that there are at a call."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU(), torch.nn.Linear(3, 3))
    x = torch.randn(5, 3)
    results = []
    for converted in (False, True):
        m = copy.deepcopy(model)
        if converted:
            ht.convert(m)
        used = sequences()[name](m)
        given = x.clone().requires_grad_()
        found = used(given)
        found.sum().backward()
        results.append((found.detach(), given.grad))
    torch.testing.assert_close(results[1], results[0])


@pytest.mark.parametrize("late", [False, True])
def test_hooks_of_fused_layers(late: bool) -> None:
    """Forward and backward hooks, set before converting or after, see what torch's do."""
    seen: list[list[Tensor]] = []
    for converted in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
        if converted and late:
            ht.convert(model)
        told: list[Tensor] = []
        model[0].register_forward_hook(lambda m, inputs, output, told=told: told.append(output.detach()))
        model[1].register_full_backward_hook(lambda m, by_inputs, by_outputs, told=told: told.extend(by_inputs))
        if converted and not late:
            ht.convert(model)
        model(torch.randn(4, 3)).sum().backward()
        seen.append(told)
    torch.testing.assert_close(seen[1], seen[0])


def test_hooks_see_what_passes() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU())
    seen: list[Tensor] = []
    model[0].register_forward_hook(lambda module, inputs, output: seen.append(output))
    ht.convert(model)
    x = torch.randn(4, 3)
    model(x)
    torch.testing.assert_close(seen[0], torch.nn.functional.linear(x, model[0].weight, model[0].bias))


def test_compile_and_export_of_a_converted_model(tmp_path: Path, device: str) -> None:
    torch._dynamo.reset()
    net, x = Net().to(device), torch.randn(5, 6, device=device)
    expected = net(x)
    ht.convert(net)
    torch.testing.assert_close(torch.compile(net, fullgraph=True, backend="aot_eager")(x), expected)
    program = torch.export.export(net.eval(), (x,))
    torch.export.save(program, tmp_path / "net.pt2")
    torch.testing.assert_close(torch.export.load(tmp_path / "net.pt2").module()(x), expected)


def test_sequences_are_their_layers() -> None:
    """A Sequential of any two layers, activations of their own included, makes what one after the other does."""
    x = torch.randn(4, 3)
    after = [nn.ReLU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.GELU, nn.LeakyReLU, nn.Softplus]
    followers = [make() for make in after] + [
        nn.GELU(approximate="tanh"),
        nn.Softmax(1),
        nn.Linear(3, 2),
        nn.LayerNorm(3),
    ]
    for activation in (None, "relu", "silu", "gelu", "tanh"):
        for bias in (True, False):
            for follower in followers:
                model = nn.Sequential(nn.Linear(3, 3, bias=bias, activation=activation), follower, nn.ReLU())
                expected = x
                for layer in model:
                    expected = layer(expected)
                torch.testing.assert_close(
                    model(x), expected, rtol=0, atol=0, msg=lambda m, model=model: f"{model}: {m}"
                )


def test_layers_with_executors_are_asked_themselves() -> None:
    """What a Sequential would do with one of them runs on its executor: one that is closed says so."""
    with hg.Executor("cpu") as gone:
        models = [
            nn.Sequential(nn.Linear(gone, 3, 3), nn.ReLU()),
            nn.Sequential(nn.Linear(3, 3), nn.ReLU(gone)),
            nn.Sequential(nn.Linear(3, 3), nn.GELU(gone, "none")),
        ]
        for model in models:
            model(torch.ones(2, 3))
    for model in models:
        with pytest.raises(RuntimeError, match="freed"):
            model(torch.ones(2, 3))


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


def test_sequences_of_what_is_no_module_in_full() -> None:
    """As torch's: a traced layer, which keeps its parameters elsewhere, and what is merely called."""
    x = torch.randn(4, 3)
    traced = torch.jit.trace(torch.nn.Linear(3, 3), x)
    for layer in (traced, torch.jit.script(torch.nn.Linear(3, 3)), torch.neg):
        model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.ReLU())
        model._modules["1"] = layer
        torch.testing.assert_close(model(x), layer(model[0](x)).relu())


def linears() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3), nn.ReLU())


def in_turn(model: torch.nn.Sequential, x: Tensor) -> Tensor:
    for layer in model:
        x = layer(x)
    return x


class Doubled(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input) * 2


class Called(nn.Linear):
    def __call__(self, input: Tensor) -> Any:
        return super().__call__(input) * 3


def renewed(layer: torch.nn.Module, weight: Any) -> None:
    del layer.weight
    layer.weight = weight


CHANGES: dict[str, Callable[[torch.nn.Sequential], Any]] = {
    "hook": lambda m: m[0].register_forward_hook(lambda layer, inputs, y: y + 1),
    "hook before": lambda m: m[0].register_forward_pre_hook(lambda layer, inputs: (inputs[0] + 1,)),
    "hook of the activation": lambda m: m[2].register_forward_pre_hook(lambda layer, inputs: (inputs[0] + 1,)),
    "backward": lambda m: m[0].register_full_backward_hook(lambda layer, by_inputs, by: (by_inputs[0] * 2,)),
    "before backward": lambda m: m[1].register_full_backward_pre_hook(lambda layer, by: (by[0] * 2,)),
    "hook in the middle": lambda m: m[0].register_forward_hook(
        lambda layer, inputs, y: m[1].register_forward_hook(lambda layer, inputs, y: y + 1) and None
    ),
    "weight, no parameter": lambda m: renewed(m[0], torch.full((3, 3), 2.0)),
    "another parameter": lambda m: setattr(m[0], "weight", torch.nn.Parameter(torch.full((3, 3), 2.0))),
    "no bias": lambda m: setattr(m[0], "bias", None),
    "parametrized": lambda m: torch.nn.utils.parametrizations.weight_norm(m[0]),
    "pruned": lambda m: torch.nn.utils.prune.l1_unstructured(m[0], "weight", 4),
    "forward": lambda m: setattr(m[0], "forward", lambda x: x * 3),
    "activation": lambda m: setattr(m[0], "activation", "tanh"),
    "subclass": lambda m: m.__setitem__(0, Doubled(3, 3)),
    "subclass that is called": lambda m: m.__setitem__(1, Called(3, 3)),
    "frozen": lambda m: m[0].requires_grad_(False),
    "compiled": lambda m: setattr(m[0], "_compiled_call_impl", lambda x: x * 5),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_hangs_on_layers_of_a_sequence(change: str) -> None:
    """Whatever is set on a layer, after calls that were short, is met by the next."""
    ours, theirs = linears(), linears()
    x = torch.randn(4, 3)
    for _ in range(3):
        ours(x.clone().requires_grad_()).sum().backward()
    results = []
    for model, call in ((ours, ours.__call__), (theirs, lambda x: in_turn(theirs, x))):
        torch.manual_seed(1)
        model.zero_grad()
        CHANGES[change](model)
        given = x.clone().requires_grad_()
        y = [call(given) for _ in range(2)][change == "hook in the middle"]
        y.square().sum().backward()
        results.append([y, given.grad, *[p.grad for p in model.parameters()]])
    torch.testing.assert_close(results[0], results[1])


def test_hooks_of_all_modules() -> None:
    model, x = linears(), torch.randn(4, 3, requires_grad=True)
    for _ in range(3):
        model(x)
    every = torch.nn.modules.module
    for register in (
        every.register_module_forward_hook,
        every.register_module_forward_pre_hook,
        every.register_module_full_backward_hook,
        every.register_module_full_backward_pre_hook,
    ):
        told: list[torch.nn.Module] = []
        handle = register(lambda layer, *_, told=told: told.append(layer))
        try:
            model(x).sum().backward()
        finally:
            handle.remove()
        assert len(told) == 4 and set(told) == {model, *model}
        model(x).sum().backward()
        assert len(told) == 4


def test_other_parameters_for_a_call() -> None:
    """By functional_call, also under transforms; of layers that torch.fx traces."""
    model, x = linears(), torch.randn(4, 3)
    for _ in range(3):
        model(x)
    others = {name: torch.randn_like(p, requires_grad=True) for name, p in model.named_parameters()}
    expected = x @ others["0.weight"].t() + others["0.bias"]
    expected = (expected @ others["1.weight"].t() + others["1.bias"]).relu()
    torch.testing.assert_close(torch.func.functional_call(model, others, x), expected)
    want = torch.autograd.grad(expected.sum(), list(others.values()))
    found = torch.func.grad(lambda given: torch.func.functional_call(model, given, x).sum())(others)
    torch.testing.assert_close(list(found.values()), list(want))
    torch.testing.assert_close(model(x), in_turn(model, x))

    class Leaves(torch.fx.Tracer):
        def is_leaf_module(self, m: torch.nn.Module, name: str) -> bool:
            return not isinstance(m, torch.nn.Sequential)

    names = [node.target for node in Leaves().trace(model).nodes if node.op == "call_module"]
    assert names == ["0", "1", "2"]


def test_trained_models_are_copied() -> None:
    """After steps, as torch's are: the copy goes on like the model."""
    model, x = linears(), torch.randn(4, 3)
    optimizer = ht.optim.Adam(model.parameters(), lr=0.1)

    def step(model: torch.nn.Module, optimizer: Any) -> Tensor:
        optimizer.zero_grad()
        loss = ht.functional.mse_loss(model(x), x)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(4):
        step(model, optimizer)
    copies = [copy.deepcopy((model, optimizer)), pickle.loads(pickle.dumps((model, optimizer)))]
    expected = [step(model, optimizer) for _ in range(3)]
    for again in copies:
        assert torch.equal(torch.stack([step(*again) for _ in range(3)]), torch.stack(expected))
