"""Messages under the logger "hologram"."""

from __future__ import annotations

import logging

import pytest

import hologram as hg


def test_executors_and_programs_are_logged(device: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "hologram"):
        with hg.Executor(device):
            hg.Program("program p\nexit")
    text = caplog.text
    assert f"on {device}" in text
    assert "program p: 1 instructions" in text
    assert "freed" in text
    assert {record.name for record in caplog.records} == {"hologram"}
