"""Checkpoints that somebody has damaged: what load says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from hologram_torch import training

pytest.importorskip("safetensors", reason="checkpoints are safetensors files")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        (None, "'state' is missing"),
        ("{", "Expecting property name"),
        ("[" * 100000, "recursion"),
        ({"tensor": "z", "device": "cpu"}, "'z' is missing"),
        ({"tensor": "q"}, "'device' is missing"),
        ({"tensor": "q", "device": "rubbish"}, "rubbish"),
        ({"tensor": "q", "device": 1.5}, ""),
        ({"tensor": ["q"], "device": "cpu"}, "unhashable"),
        ({"items": [1]}, "cannot unpack"),
        ({"items": [[[1], 2]]}, "unhashable"),
        ({}, "'items' is missing"),
        (3, "it holds a int"),
        ({"tensor": "q", "device": "cpu"}, "it holds a Tensor"),
    ],
)
def test_files_that_are_damaged(tmp_path: Path, state: Any, said: str) -> None:
    from safetensors.torch import save_file

    described = {"format": training._FORMAT}
    if state is not None:
        described["state"] = state if isinstance(state, str) else json.dumps(state)
    save_file({"q": torch.ones(2)}, tmp_path / "bad", metadata=described)
    with pytest.raises(ValueError, match=f"^load: .*bad is damaged.*{said}"):
        training.load(tmp_path / "bad")
