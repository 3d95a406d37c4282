"""What a run's checkpoint must be like, so that the run can go on from it: looked at before anything is loaded."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from hologram.errors import InvalidArgumentError
from hologram_torch._taken import a

__all__ = ["FIELDS", "check", "generators", "own_generators", "set_generators"]

FIELDS: dict[str, type] = {
    "epoch": int, "step": int, "done": int, "total": float, "losses": list, "validation": list, "stopped": bool,
    "before": dict,
}  # fmt: skip
"""What a run keeps of itself, and of what types."""

_OF_PARAMETERS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer")
"""What optimisers keep that has a parameter's shape."""
_WAYS = ("foreach", "fused", "capturable", "differentiable")
"""Options that say how an optimiser computes, which a checkpoint does not choose."""


def own_generators(batches: Any) -> list[torch.Generator]:
    """Return the generators that batches, such as a DataLoader, their samplers and these's samplers were given."""
    found: list[torch.Generator] = []
    parts = [batches]
    for part in parts:
        own = getattr(part, "generator", None)
        if isinstance(own, torch.Generator) and not any(own is each for each in found):
            found.append(own)
        within = [getattr(part, name, None) for name in ("sampler", "batch_sampler")]
        parts += [each for each in within if each is not None and not any(each is one for one in parts)]
    return found


def generators(own: Sequence[torch.Generator]) -> dict[str, Any]:
    """Return the state of torch's generators, and of the batches' own."""
    cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() and torch.cuda.is_initialized() else []
    return {"cpu": torch.get_rng_state(), "cuda": cuda, "batches": [each.get_state() for each in own]}


def set_generators(state: Mapping[str, Any], own: Sequence[torch.Generator]) -> None:
    """Set what generators got."""
    torch.set_rng_state(state["cpu"])
    for i, one in enumerate(state["cuda"]):
        torch.cuda.set_rng_state(one, i)
    for generator, one in zip(own, state.get("batches", ())):
        generator.set_state(one)


def check(path: str, parts: Mapping[str, Any], state: Mapping[str, Any], own: Sequence[torch.Generator]) -> None:
    """Raise a ValueError, which names what is wrong, if a state is not one of such a run.

    Args:
        path: Where it is from.
        parts: The run's parts, by name: model, optimizer, and perhaps others.
        state: What save wrote.
        own: The batches' own generators.
    """
    missing = sorted({*parts, "run", "random"} - state.keys())
    if missing:
        raise InvalidArgumentError(f"fit: the checkpoint {path} has no {', '.join(missing)}")
    for name in sorted(state.keys() - {*parts, "run", "random"}, key=str):  # which the next one would not have
        raise InvalidArgumentError(f"fit: the checkpoint {path} has a {name}, and none is given: give {name}=")
    try:
        for name in (*parts, "run", "random"):
            _expect(isinstance(state[name], Mapping), f"{name} is {a(type(state[name]).__name__)}; expected a dict")
        for name, part in parts.items():
            if name == "model":
                _check_model(part, state[name])
            elif name == "optimizer":
                _check_optimizer(part, state[name])
            else:
                _check_like(name, part.state_dict(), state[name], _known(type(part)))
        _check_run(state["run"], own)
        _check_generators("random", state["random"], own)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"fit: the checkpoint {path} is of another run, or damaged: {error}") from None


def _expect(right: bool, otherwise: str) -> None:
    if not right:
        raise InvalidArgumentError(otherwise)


def _known(kind: type) -> bool:
    """Whether a class is torch's or ours, so that its states are."""
    return kind.__module__.partition(".")[0] in ("torch", "hologram_torch")


def _number(value: Any) -> bool:
    return isinstance(value, numbers.Real) or (isinstance(value, Tensor) and value.numel() == 1)


def _shown(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a {'complex ' * value.is_complex()}tensor of shape {tuple(value.shape)}"
    return f"{value!r:.60}"


def _check_like(where: str, own: Any, given: Any, fixed: bool) -> None:
    """Check that a value is of the kind of another: a number, a collection with the same keys; fixed lists are as long.

    None says nothing.
    """
    if own is None or given is None or given is own:
        return
    if isinstance(own, Mapping):
        _expect(isinstance(given, Mapping), f"{where} is {_shown(given)}; expected a dict")
        missing = [str(key) for key in own if key not in given]
        _expect(not missing, f"{where} has no {', '.join(missing)}")
        for part, what in (("_schedulers", "schedulers within"), ("_milestones", "milestones")):
            _expect(part in own or part not in given, f"{where} has {what}; expected none")
        for key, value in own.items():
            _check_like(f"{where}.{key}", value, given[key], fixed)
    elif isinstance(own, (bool, str)):
        _expect(isinstance(given, type(own)), f"{where} is {_shown(given)}; expected {a(type(own).__name__)}")
    elif _number(own):
        _expect(_number(given), f"{where} is {_shown(given)}; expected a number")
    elif isinstance(own, tuple):
        fits = isinstance(given, (tuple, list)) and len(given) == len(own)
        _expect(fits, f"{where} is {_shown(given)}; expected {len(own)} values")
        for i, (value, other) in enumerate(zip(own, given)):
            _check_like(f"{where}.{i}", value, other, fixed)
    elif isinstance(own, list):
        _expect(isinstance(given, list), f"{where} is {_shown(given)}; expected a list")
        # torch's schedulers have as many rates, milestones and schedulers in every state; others' lists may grow.
        fixed = fixed or any(isinstance(each, Mapping) for each in (*own, *given)) or where.endswith("_milestones")
        _expect(not fixed or len(given) == len(own), f"{where} has {len(given)} elements; expected {len(own)}")
        for i, (value, other) in enumerate(zip(own, given)):
            _check_like(f"{where}.{i}", value, other, fixed)


def _loads_as_torch(model: Any) -> bool:
    """Whether a model takes states such as it gives, as far as can be seen: none of its modules loads its own way."""
    if type(model).load_state_dict is not torch.nn.Module.load_state_dict:
        return False
    return all(
        type(module)._load_from_state_dict.__module__.partition(".")[0] == "torch"
        and not module._load_state_dict_pre_hooks
        for module in model.modules()
    )


def _check_model(model: Any, given: Mapping[str, Any]) -> None:
    if not _loads_as_torch(model):
        return
    own = model.state_dict()
    for what, keys in (("has no", own.keys() - given.keys()), ("has", given.keys() - own.keys())):
        shown = ", ".join(sorted(map(str, keys))[:5])
        _expect(not keys, f"model {what} {shown}" + (", which this one has not" if what == "has" else ""))
    for name, value in own.items():
        if not isinstance(value, Tensor) or torch.nn.parameter.is_lazy(value):
            continue
        other = given[name]
        fits = isinstance(other, Tensor) and other.shape == value.shape and not other.is_meta
        fits = fits and other.is_complex() == value.is_complex()
        _expect(fits, f"model.{name} is {_shown(other)}; expected {_shown(value)}")


def _check_optimizer(optimizer: Any, given: Mapping[str, Any]) -> None:
    for name, kind in (("param_groups", list), ("state", dict)):
        _expect(
            isinstance(given.get(name), kind),
            f"optimizer.{name} is {_shown(given.get(name))}; expected {a(kind.__name__)}",
        )
    groups, own = given["param_groups"], optimizer.state_dict()["param_groups"]
    given_one = type(optimizer).__name__
    _expect(
        len(groups) == len(own),
        f"it was not written with such an optimizer: it has {len(groups)} groups, that of the "
        f"{given_one} given {len(own)}",
    )
    for i, (group, other) in enumerate(zip(own, groups)):
        where = f"optimizer.param_groups.{i}"
        _expect(isinstance(other, dict) and isinstance(other.get("params"), list), f"{where} is {_shown(other)}")
        options, others = ({*each} - {"params"} for each in (group, other))
        _expect(
            options <= others and len(group["params"]) == len(other["params"]),
            f"it was not written with such an optimizer: group {i} has {len(other['params'])} tensors and "
            f"{', '.join(sorted(map(str, others))) or 'no options'}; that of the {given_one} given has "
            f"{len(group['params'])} and {', '.join(sorted(options)) or 'none'}",
        )
        for option in options:
            _check_like(f"{where}.{option}", group[option], other[option], _known(type(optimizer)))
            if option in _WAYS:
                same = isinstance(other[option], (bool, type(None))) and (not other[option] or bool(group[option]))
                _expect(
                    same,
                    f"{where}.{option} is {_shown(other[option])}; that of the {given_one} given is {group[option]}",
                )
            else:
                known = other[option] is not None or group[option] is None
                _expect(known, f"{where}.{option} is None; expected what {_shown(group[option])} is")
        _check_options(optimizer, where, optimizer.param_groups[i]["params"], other)
    places = [place for group in groups for place in group["params"]]
    params = [p for group in optimizer.param_groups for p in group["params"]]
    _expect(
        all(isinstance(place, int) for place in places), "optimizer.param_groups name parameters that are no numbers"
    )
    shapes = dict(zip(places, (p.shape for p in params)))
    amsgrad = {place for group in groups for place in group["params"] if group.get("amsgrad")}
    for place, state in given["state"].items():
        named = isinstance(place, (int, str)) and not isinstance(place, bool)
        _expect(named, f"a key of optimizer.state is {_shown(place)}; expected a parameter's number, or a name")
        where = f"optimizer.state.{place}"
        if isinstance(place, str):  # what an optimiser keeps of all parameters
            continue
        _expect(place in shapes, f"{where} is of a parameter that optimizer.param_groups don't name")
        _expect(isinstance(state, dict), f"{where} is {_shown(state)}; expected a dict")
        if isinstance(optimizer, torch.optim.Adam) and state:
            needed = ("step", "exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if place in amsgrad else []))
            missing = [name for name in needed if state.get(name) is None]
            _expect(not missing, f"{where} has no {', '.join(missing)}")
        for name in _OF_PARAMETERS:
            value = state.get(name)
            fits = isinstance(value, Tensor) and value.shape == shapes[place] and not value.is_meta
            fits = fits and (value.is_floating_point() or value.is_complex())
            _expect(
                value is None or fits,
                f"{where}.{name} is {_shown(value)}; expected floats of the parameter's shape {tuple(shapes[place])}",
            )
        step = state.get("step", 0)
        _expect(_number(step) and bool(step >= 0), f"{where}.step is {step!r:.60}; expected a number from 0 on")
    _check_alike(optimizer, given)


def _check_alike(optimizer: Any, given: Mapping[str, Any]) -> None:
    """Check that what torch's optimisers and ours keep of parameters of a group and so many axes is the same of all."""
    if not _known(type(optimizer)):
        return
    for i, group in enumerate(given["param_groups"]):
        alike: dict[int, set[Any]] = {}
        for p, place in zip(optimizer.param_groups[i]["params"], group["params"]):
            state = given["state"].get(place)
            if isinstance(state, dict) and state:
                differs = alike.setdefault(p.ndim, set(state)) ^ set(state)
                shown = ", ".join(sorted(map(str, differs)))
                _expect(not differs, f"optimizer.state.{place} is unlike others of group {i} in {shown}")


def _check_options(optimizer: Any, where: str, params: Sequence[Tensor], given: Mapping[str, Any]) -> None:
    """Check that an optimiser would be made with a group's options: its constructor knows which make sense."""
    kind = type(optimizer)
    if not _known(kind):
        return
    taken = {option: given[option] for option in inspect.signature(kind).parameters if option in given}
    like = [torch.empty((0,), dtype=p.dtype, device=p.device).requires_grad_() for p in params[:1]]
    try:
        kind(**{**taken, "params": like or [torch.empty(0)]})
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        raise InvalidArgumentError(f"{where} has options that no {kind.__name__} takes: {error}") from None


def _check_run(given: Mapping[str, Any], own: Sequence[torch.Generator]) -> None:
    missing, others = [name for name in FIELDS if name not in given], [name for name in given if name not in FIELDS]
    _expect(not missing, f"run has no {', '.join(missing)}")
    _expect(not others, f"run has {', '.join(map(str, others))}, which no run has")
    for name, kind in FIELDS.items():
        value = given[name]
        fits = isinstance(value, kind) or (kind is float and isinstance(value, int))
        fits = fits and (kind is bool or not isinstance(value, bool))
        if kind is list:
            fits = fits and all(isinstance(each, (int, float)) for each in value)
        elif kind is int:
            fits = fits and value >= 0
        _expect(fits, f"run.{name} is {_shown(value)}; expected " + _EXPECTED[kind])
    for name in ("losses", "validation"):
        epochs, of = given["epoch"], len(given[name])
        right = of == epochs or (of < epochs and name == "validation")  # which may have been given later
        _expect(right, f"run.{name} is of {of} epochs, and run.epoch {epochs}")
    _expect(
        given["done"] <= given["step"], f"run.done is {given['done']}, and run.step {given['step']}; expected fewer"
    )
    if given["done"] or given["before"]:
        _check_generators("run.before", given["before"], own)


_EXPECTED = {int: "an integer from 0 on", float: "a number", list: "a list of numbers", bool: "a bool", dict: "a dict"}


def _check_generators(where: str, given: Mapping[str, Any], own: Sequence[torch.Generator]) -> None:
    for name, kind in (("cpu", Tensor), ("cuda", list)):
        _expect(
            isinstance(given.get(name), kind),
            f"{where}.{name} is {_shown(given.get(name))}; expected {a(kind.__name__)}",
        )
    count = torch.cuda.device_count() if given["cuda"] else 0
    _expect(len(given["cuda"]) <= count, f"{where}.cuda is of {len(given['cuda'])} GPUs, and there are {count}")
    kept = given.get("batches", [])  # which former versions have not
    _expect(isinstance(kept, list), f"{where}.batches is {_shown(kept)}; expected a list")
    _expect(
        len(kept) == len(own),
        f"{where} has the states of {len(kept)} generators of the batches' own; those given have {len(own)}"
        + ("" if "batches" in given else ", of which former versions kept none"),
    )
    states = [("cpu", given["cpu"]), *((f"cuda:{i}", state) for i, state in enumerate(given["cuda"]))]
    for device, state in [*states, *((str(each.device), state) for each, state in zip(own, kept))]:
        try:
            torch.Generator(device).set_state(state)  # one that nobody uses
        except (TypeError, RuntimeError) as error:
            raise InvalidArgumentError(f"{where} holds no state of the generator on {device}: {error}") from None
