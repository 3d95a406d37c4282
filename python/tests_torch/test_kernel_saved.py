"""Saved graphs find the users' kernels that they call."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any

import fresh
import pytest
import torch


def test_a_saved_graph_finds_its_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a process that has the module of the kernels, and has not called them."""
    (tmp_path / "kernels_of_mine.py").write_text(
        "import hologram as hg, hologram_torch as ht\n\n\n@ht.kernel\ndef cube(x, k):\n    return x * x * x * k\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    mine = importlib.import_module("kernels_of_mine")
    monkeypatch.delitem(sys.modules, "kernels_of_mine")

    class Net(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> Any:
            return mine.cube(x, 2.0)

    torch.export.save(torch.export.export(Net(), (torch.arange(3.0),)), tmp_path / "net.pt2")
    load = (
        "import sys, torch, kernels_of_mine\nprint(torch.export.load(sys.argv[1]).module()(torch.arange(3.0)).tolist())"
    )
    done = fresh.run(load, tmp_path / "net.pt2")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[0.0, 2.0, 16.0]\n"


MADE = """
import sys

import torch

import hologram_torch as ht


def make(k):
    @ht.kernel
    def scaled(x):
        return x * k

    return scaled


class Net(torch.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, x):
        return self.f(x)


def load(path, *factors):
    made = [make(k) for k in factors]
    try:
        print(torch.export.load(path).module()(torch.ones(2)).tolist())
    except LookupError as error:
        print(error)
"""


def test_a_saved_graph_finds_the_kernel_that_it_was_made_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those of one name, in whatever order they are made, the one that does the same; or none."""
    (tmp_path / "made_of_mine.py").write_text(MADE)
    monkeypatch.syspath_prepend(tmp_path)
    mine = importlib.import_module("made_of_mine")
    monkeypatch.delitem(sys.modules, "made_of_mine")
    kernels = mine.make(2.0), mine.make(3.0)
    torch.export.save(torch.export.export(mine.Net(kernels[1]), (torch.ones(2),)), tmp_path / "net.pt2")
    calls = {
        "(path, 2.0, 3.0)": r"\[3.0, 3.0\]",
        "(path, 3.0, 2.0)": r"\[3.0, 3.0\]",
        "(path, 3)": r"the kernel made_of_mine.make.<locals>.scaled computes something else .*",
        "(path)": r"there is no kernel made_of_mine.make.<locals>.scaled, which a graph calls; is the module .*",
    }
    for call, expected in calls.items():
        command = f"import sys, made_of_mine\npath = sys.argv[1]\nmade_of_mine.load{call}"
        done = fresh.run(command, tmp_path / "net.pt2")
        assert done.returncode == 0, done.stderr
        assert re.fullmatch(expected + "\n", done.stdout), (call, done.stdout)
