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


def test_what_auto_is_and_why_is_logged_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hg.executor, "_told", [])
    with caplog.at_level(logging.INFO, "hologram"):
        for _ in range(2):
            with hg.Executor():
                pass
    (record,) = caplog.records
    assert record.levelname == "INFO"
    assert record.getMessage().startswith(f"auto is {hg.get_default_backend()} here (")
    for backend in hg.backend.backends():
        assert backend["available"] or backend["reason"] in record.getMessage()
