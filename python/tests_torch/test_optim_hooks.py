"""Who is told of an optimiser's steps: hooks, schedulers, subclasses, modes."""

from __future__ import annotations

import copy
import functools
import inspect
import pickle
import warnings
from typing import Any

import pytest
import torch
import torch.optim.optimizer as torch_optimizer

from hologram_torch import optim


class Own(optim.SGD):
    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


class Copied(optim.Adam):
    @functools.wraps(optim.Adam.step)
    def step(self, closure: Any = None) -> Any:
        return optim.Adam.step(self, closure)


def optimisers(params: Any) -> list[Any]:
    return [kind(params, lr=0.1) for kind in (optim.SGD, optim.Adam, optim.AdamW, Own, Copied)]


def test_who_is_told_of_steps() -> None:
    """Hooks, an optimiser's and all's, once each, before and after; a profiler; none of them when it is gone."""
    for optimizer in optimisers([torch.nn.Parameter(torch.ones(3))]):
        (p,) = optimizer.param_groups[0]["params"]
        p.grad = torch.ones(3)
        told: list[Any] = []

        def hook(what: str, told: list[Any] = told) -> Any:
            return lambda o, a, k: told.append((what, o, o.param_groups[0]["params"][0][0].item()))

        def closure() -> float:
            return 7.0

        name = f"Optimizer.step#{type(optimizer).__name__}.step"
        for _ in range(2):
            hooks = {
                "before all": torch_optimizer.register_optimizer_step_pre_hook(hook("before all")),
                "before": optimizer.register_step_pre_hook(hook("before")),
                "after": optimizer.register_step_post_hook(hook("after")),
                "after all": torch_optimizer.register_optimizer_step_post_hook(hook("after all")),
            }
            try:
                while True:
                    told.clear()
                    at = p[0].item()
                    assert optimizer.step(closure) == 7.0
                    assert told == [(what, optimizer, at if "before" in what else p[0].item()) for what in hooks]
                    if not hooks:
                        break
                    hooks.pop(next(iter(hooks))).remove()  # so each is the only one some time or other
            finally:
                for left in hooks.values():
                    left.remove()
            optimizer = copy.deepcopy(optimizer)
            (p,) = optimizer.param_groups[0]["params"]
            p.grad = torch.ones(3)
        changed = optimizer.register_step_pre_hook(lambda o, a, k: (a[:1], {"closure": lambda: 8.0}))
        assert optimizer.step(closure) == 8.0
        changed.remove()
        with torch.profiler.profile() as seen:
            optimizer.step()
            optimizer.zero_grad()
        names = [event.name for event in seen.events()]
        assert names.count(name) == 1
        assert names.count(f"Optimizer.zero_grad#{type(optimizer).__name__}.zero_grad") == 1


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
def test_hooks_are_told_of_the_call_as_it_came(kind: str) -> None:
    """And a hook before may change it, both as with torch's."""
    seen: list[list[Any]] = []
    for module in (optim, torch.optim):
        p = torch.nn.Parameter(torch.ones(3))
        p.grad = torch.ones(3)
        optimizer = getattr(module, kind)([p], lr=0.1)
        told: list[Any] = []

        def told_of(o: Any, a: tuple[Any, ...], k: dict[str, Any], told: list[Any] = told) -> None:
            told.append(([type(one).__name__ for one in a], {name: one and one() for name, one in k.items()}))

        before = optimizer.register_step_pre_hook(told_of)
        optimizer.register_step_post_hook(told_of)
        for arguments, named in (
            ((), {}),
            ((lambda: 7.0,), {}),
            ((), {"closure": lambda: 8.0}),
            ((None,), {}),
            ((), {"closure": None}),
        ):
            told.append(optimizer.step(*arguments, **named))
        before.remove()
        for changed in (
            lambda o, a, k: (a, {"closure": lambda: 9.0}),
            lambda o, a, k: ((*a, lambda: 10.0), k),
            lambda o, a, k: ((a[0],), {}),
        ):
            before = optimizer.register_step_pre_hook(changed)
            told.append(optimizer.step())
            before.remove()
        with pytest.raises(TypeError, match=r"step.* takes from 1 to 2 positional arguments but 3 were given"):
            optimizer.step(None, None)
        seen.append(told)
        taken = inspect.signature(optimizer.step).parameters.values()
        seen[-1].append([(one.name, one.kind, one.default) for one in taken])
    assert seen[0] == seen[1]


def test_schedulers_see_steps() -> None:
    """They replace the method by one that counts, and warn if it is not called first."""
    for at in range(5):
        rates = []
        for make in (optimisers, lambda params: [torch.optim.SGD(params, lr=0.1)] * 5):
            p = torch.nn.Parameter(torch.ones(3))
            optimizer = make([p])[at]
            schedules = [
                torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.5, total_steps=9, cycle_momentum=False),
                torch.optim.lr_scheduler.StepLR(optimizer, 2),
            ]
            told: list[int] = []
            optimizer.register_step_post_hook(lambda *_, told=told: told.append(1))
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                for _ in range(4):
                    p.grad = torch.ones(3)
                    optimizer.step()
                    for schedule in schedules:
                        schedule.step()
            rates.append(optimizer.param_groups[0]["lr"])
            assert len(told) == 4 and (p != 1).all()
            again = pickle.loads(pickle.dumps(optimizer))
            again.param_groups[0]["params"][0].grad = torch.ones(3)
            again.step()
        assert rates[0] == rates[1]
        with pytest.warns(UserWarning, match=r"before `optimizer\.step\(\)`"):
            torch.optim.lr_scheduler.StepLR(optimisers([p])[at], 1).step()


def test_a_step_records_no_gradients_and_leaves_the_mode() -> None:
    for optimizer in optimisers([torch.nn.Parameter(torch.ones(3))]):
        (p,) = optimizer.param_groups[0]["params"]
        for recorded in (True, False):
            p.grad = torch.ones(3, requires_grad=True)
            with torch.set_grad_enabled(recorded):
                optimizer.step(lambda: [torch.is_grad_enabled()])
                assert torch.is_grad_enabled() == recorded
                p.grad = p.grad.to_sparse().detach()
                with pytest.raises(TypeError, match="sparse"):
                    optimizer.step()
                assert torch.is_grad_enabled() == recorded
            assert p.grad_fn is None and all(not value.requires_grad for value in optimizer.state[p].values())
