"""What README and docs show is true: examples run and print what they say, commands, links and tests exist."""

from __future__ import annotations

import json
import linecache
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import hologram as hg
from hologram import cli

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))
import cuda_bounds
import readme_figures

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    found = []
    text = page.read_text(encoding="utf-8")
    for match in re.finditer(r"^```(\S*)\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL):
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(str(page.relative_to(ROOT)), line, match[1], match[2]))
    return found


BLOCKS = [block for page in PAGES for block in blocks(page)]


def of(*languages: str) -> list[Any]:
    return [pytest.param(b, id=f"{b.page}:{b.line}") for b in BLOCKS if b.language in languages]


def test_there_are_examples() -> None:
    """The patterns of this module find what they look for."""
    assert {b.page for b in BLOCKS if b.language == "python"} >= {"README.md", "docs/REDUCTIONS.md", "docs/KERNELS.md"}
    assert [b for b in BLOCKS if b.language == "atlas"]
    assert [b for b in BLOCKS if b.language == "sh" and "./build.sh" in b.text]


@pytest.mark.parametrize("page", NAMES)
def test_examples_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A page's Python blocks run in order, in one namespace, with its ``hologram`` commands between them.

    A comment after ``print(…)``, on its line or the next, is what it prints.
    """
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "example"}
    for block in BLOCKS:
        if block.page != page:
            continue
        if block.language == "python":
            code = "\n" * block.line + block.text  # so that errors have the page's line numbers
            # Kernels read their source where tracebacks do.
            monkeypatch.setitem(linecache.cache, page, (len(code), None, code.splitlines(True), page))
            capsys.readouterr()  # of the commands before it
            exec(compile(code, page, "exec"), namespace)
            shown = capsys.readouterr().out.splitlines()
            prints = re.findall(r"^ *print\(.*\)(?:\s+# (.*))?$", block.text, flags=re.MULTILINE)
            assert len(shown) == len(prints), shown
            for got, expected in zip(shown, prints):
                assert not expected or got == expected
        elif block.language == "sh":
            for line in block.text.splitlines():
                words = shlex.split(line, comments=True)
                if words[:1] == ["hologram"]:
                    assert cli.main(words[1:]) == 0, f"{page}: {line}\n{capsys.readouterr().err}"


@pytest.mark.parametrize("block", of("atlas"))
def test_programs_verify(block: Block) -> None:
    program = hg.Program(block.text, file=f"{block.page}:{block.line}")
    assert program.instructions > 0


def test_softsign_of_the_walk_through() -> None:
    """The expansions that ADDING_AN_OP.md shows compute what it says, at the edges too."""
    shown = [b.text for b in BLOCKS if b.language == "atlas" and "softsign" in b.text]
    assert len(shown) == 2
    for text in shown:
        program = hg.Program(text)
        x = np.array([1, -3, 0, -0.0, np.inf, -np.inf, np.nan], "f4" if program.slots[0].dtype == "f32" else "f2")
        out = np.empty_like(x)
        with hg.Executor("cpu") as ex:
            ex.launch(program, x=x, out=out)
        np.testing.assert_array_equal(out, np.array([0.5, -0.75, 0, 0, 1, -1, np.nan], x.dtype))
        assert np.signbit(out[3])


def test_commands_of_build_exist() -> None:
    usage = subprocess.run([ROOT / "build.sh", "help"], capture_output=True, text=True, check=True).stdout
    commands = set(re.findall(r"^  ([a-z]+)\b", usage, flags=re.MULTILINE))
    steps = subprocess.run([ROOT / "build.sh", "test", "list"], capture_output=True, text=True, check=True).stdout
    arguments = {
        "test": {"quick", "list", "NAME"} | set(re.findall(r"^(\S+)", steps, flags=re.MULTILINE)),
        "bench": set(re.findall(r"^  bench ([a-z-]+)", usage, flags=re.MULTILINE)),
        "clean": {"all"},
    }
    assert {"run", "test", "build"} <= commands
    for page in PAGES:
        for command, argument in re.findall(r"\./build\.sh +([a-z]+)(?: +([A-Za-z-]+))?", page.read_text("utf-8")):
            assert command in commands, f"{page.name}: ./build.sh {command}"
            if argument and command in arguments:
                assert argument in arguments[command], f"{page.name}: ./build.sh {command} {argument}"


def test_figures_are_those_measured() -> None:
    """The README's table is the one that ./build.sh bench cpu wrote."""
    readme = (ROOT / "README.md").read_text("utf-8")
    section = re.search(r"<!-- figures: begin[^>]*-->\n(.*)<!-- figures: end -->", readme, flags=re.DOTALL)
    assert section
    rows = [line for line in section[1].splitlines() if line.startswith("|")]
    results = ROOT / "benchmarks" / "results" / "cpu.md"
    measured = results.read_text("utf-8").splitlines() if results.exists() else []
    assert bool(rows) == bool(measured)
    assert [row for row in rows if row not in measured] == []


def test_what_the_readme_says_of_a_gpu_is_what_was_measured() -> None:
    """Its sentence is that of the record: python3 benchmarks/readme_figures.py writes it anew."""
    record = json.loads((ROOT / "benchmarks" / "results" / "cuda.json").read_text("utf-8"))
    assert readme_figures.said() == cuda_bounds.sentence(record) + "\n"


def test_reasons_for_no_gpu_are_those_that_are_said() -> None:
    """GPU.md's table has the words of the sources, and all reasons that the driver's package has; … is what varies."""
    table = (ROOT / "docs" / "GPU.md").read_text("utf-8").partition("| it says |")[2].partition("\n\n")[0]
    shown = re.findall(r"^\| ([^|]+) \|", table, flags=re.MULTILINE)

    def said(file: str, pattern: str) -> set[str]:
        found = re.findall(pattern, (ROOT / "backends" / "cuda" / file).read_text("utf-8"))
        return {re.sub(r"%\w(\.%\w)?", "…", text) for text in found}

    reasons = said("driver/driver.go", r'(?:&Unavailable\{(?:fmt\.Sprintf\()?|const noDevice = )"([^"]+)"')
    assert len(reasons) >= 6
    of_devices = said("cuda.go", r'fmt\.Errorf\("cuda: ([^"]+)"')
    assert reasons <= set(shown)
    assert set(shown) <= reasons | of_devices


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = page.parent / path if path else page
        assert file.exists(), f"{page.name} links to {target}"
        if anchor:
            assert anchor in anchors(file), f"{page.name} links to {target}"


def test_the_walk_through_names_what_exists() -> None:
    """Files and tests that ADDING_AN_OP.md speaks of are there, but for those that it has one make."""
    text = (ROOT / "docs" / "ADDING_AN_OP.md").read_text("utf-8")
    made = {"kernels/vector_hypot.go", "isa/math/softsign.f32.atlas", "softsign.f64.atlas", "copysign.atlas"}
    paths = set(re.findall(r"`([\w/.-]+\.(?:go|py|md|atlas))`", text)) - made
    assert len(paths) > 10
    for path in paths:
        assert (ROOT / path).exists() or any(ROOT.glob(f"*/**/{path}")), f"there is no {path}"
    goes = "".join(
        f.read_text("utf-8") for top in ("isa", "kernels", "backends") for f in (ROOT / top).rglob("*_test.go")
    )
    for name in set(re.findall(r"`(Test\w+)`", text)):
        assert f"func {name}(" in goes, f"there is no test {name}"
    pythons = "".join(f.read_text("utf-8") for f in (ROOT / "python").glob("tests*/test_*.py"))
    for name in set(re.findall(r"`(test_\w+)`", text)):
        assert f"def {name}(" in pythons, f"there is no test {name}"


def test_the_example_in_c_is_the_one_that_is_compiled_and_run() -> None:
    """By ./build.sh's step c-header."""
    (shown,) = [block.text for block in blocks(ROOT / "docs" / "C.md") if block.language == "c"]
    assert shown == (ROOT / "capi" / "ctest" / "example.c").read_text(encoding="utf-8")
