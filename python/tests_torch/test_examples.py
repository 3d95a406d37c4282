"""The examples with torch run, and show what they claim."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from moving import devices

import hologram as hg

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name: str, folder: Path, *arguments: str) -> str:
    """Run an example, and return what it prints, once it has drawn its picture.

    In this process, which has imported all that takes long.
    """
    command = [str(EXAMPLES / f"{name}.py"), "--picture", str(folder / "picture.png"), *arguments]
    text = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(text):
        patch.setattr(sys, "argv", command)
        runpy.run_path(command[0], run_name="__main__")
    assert (folder / "picture.png").stat().st_size > 1000
    return text.getvalue()


def run_alone(name: str, folder: Path, *arguments: str) -> str:
    """Run one in a process of its own, as it is started from a shell: so it must be for one that starts others."""
    command = [sys.executable, str(EXAMPLES / f"{name}.py"), "--picture", "picture.png", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (folder / "picture.png").stat().st_size > 1000
    return done.stdout


def numbers(pattern: str, text: str) -> list[float]:
    found = re.search(pattern, text)
    assert found is not None, text
    return [float(number) for number in found.groups()]


def test_digits(tmp_path: Path) -> None:
    """Hologram's losses are no farther from torch's than twice what rounding makes."""
    text = run("digits_torch", tmp_path)
    assert "3 of 3 layers converted" in text
    apart, rounding = numbers(r"at most (\S+) apart; of torch in f32 and in f64: (\S+)", text)
    assert apart <= 2 * rounding
    accuracies = [float(accuracy) for accuracy in re.findall(r"accuracy of \w+: (\S+)", text)]
    assert len(accuracies) == 2
    assert min(accuracies) > 0.85
    if torch.cuda.is_available() and hg.is_cuda_available():
        assert "the same bits in every step" in text


STEPS = os.environ.get("HOLOGRAM_GPT_STEPS", "8")


@pytest.mark.parametrize("device", devices())
def test_gpt(device: str, tmp_path: Path) -> None:
    """A few steps, or HOLOGRAM_GPT_STEPS, 200 where there is time: all are within the bound."""
    text = run("gpt_torch", tmp_path, "--steps", STEPS, "--device", device)
    assert "17 of 17 layers converted" in text
    apart, rounding = numbers(r"at most (\S+) apart; of torch in f32 and in f64: (\S+)", text)
    assert apart <= 2 * rounding
    first, last = numbers(r"loss: (\S+) at first, (\S+) at last", text)
    assert last < first - 0.3


@pytest.mark.parametrize("device", devices())
def test_gpt_in_mixed_precision(device: str, tmp_path: Path) -> None:
    text = run("gpt_torch", tmp_path, "--steps", "8", "--amp", "--device", device)
    whole, again = numbers(r"backward pass: (\d+) bytes, with checkpointing (\d+)", text)
    assert again < whole / 3
    first, last = numbers(r"loss: (\S+) at first, (\S+) at last", text)
    assert last < first - 0.3


def test_kernel(tmp_path: Path) -> None:
    """The kernel's layer learns as torch's does, by the gradients that were derived, that of the slopes among them."""
    text = run("kernel_torch", tmp_path, "--steps", "60")
    apart, rounding = numbers(r"at most (\S+) apart; of torch in f32 and in f64: (\S+)", text)
    assert apart <= 2 * rounding
    first, last, right = numbers(r"loss: (\S+) at first, (\S+) at last; accuracy: (\S+)", text)
    assert last < first / 2 and right > 0.8
    least, most = numbers(r"slopes: (\S+) to (\S+),", text)
    assert least < 1 < most


def test_linear(tmp_path: Path) -> None:
    (found, least) = numbers(
        r"squared error: (\S+), of least squares (\S+)", run("linear_torch", tmp_path, "--epochs", "60")
    )
    assert least <= found < least + 1e-3


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_two_processes(device: str, tmp_path: Path) -> None:
    if device == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip("NCCL takes two GPUs")
    text = run_alone("ddp_torch", tmp_path, "--steps", "20", "--device", device)
    assert "parameters are the same" in text
    (apart,) = numbers(r"of two processes and of one: at most (\S+) apart", text)
    assert apart < 1e-5
    first, last = numbers(r"loss: (\S+) at first, (\S+) at last", text)
    assert last < first - 0.3
