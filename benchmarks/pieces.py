"""A benchmark in pieces, each done once: what takes too long for one run is done in several."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple


class Piece(NamedTuple):
    """Work that is done as a whole: its stage, its name, and what it returns goes into a file as JSON.

    Work that is not timed may be done beside other such work, in threads.
    """

    stage: str
    name: str
    work: Callable[[], Any]
    timed: bool = True


class Kept:
    """What the pieces returned that are done, in a file that the next run reads."""

    def __init__(self, file: Path, about: dict[str, str]) -> None:
        """What was measured of something else than what about says is left: it is begun anew."""
        self.file, self.about = file, about
        self.results: dict[str, Any] = {}
        if file.exists():
            found = json.loads(file.read_text())
            if found["about"] == about:
                self.results = found["results"]
            else:
                print(f"{file} is of {found['about']}, not of {about}: all is measured anew", file=sys.stderr)

    def keep(self, name: str, result: Any) -> None:
        """Write a piece's result down, so that whatever ends the process leaves the file whole."""
        self.results[name] = result
        new = self.file.with_suffix(".new")
        new.write_text(json.dumps({"about": self.about, "results": self.results}, indent=1) + "\n")
        os.replace(new, self.file)

    def missing(self, pieces: Iterable[Piece]) -> list[Piece]:
        """Those that are to be done."""
        return [p for p in pieces if p.name not in self.results]


def go_on(kept: Kept, pieces: Iterable[Piece], seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
    """Do the pieces that are missing, in their order; after so many seconds begin none.

    An error of one ends the run once those beside it are done; they are kept.
    """
    end = clock() + seconds
    todo = kept.missing(pieces)

    def one(piece: Piece) -> tuple[bool, Any]:
        return (True, piece.work()) if clock() < end else (False, None)

    def keep(piece: Piece, done: tuple[bool, Any]) -> None:
        if done[0]:
            kept.keep(piece.name, done[1])
            print(f"done: {piece.name}", file=sys.stderr, flush=True)

    errors = []
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for piece, future in [(p, pool.submit(one, p)) for p in todo if not p.timed]:
            try:
                keep(piece, future.result())
            except Exception as error:
                print(f"{piece.name}: {error}", file=sys.stderr, flush=True)
                errors.append(error)
    if errors:
        raise errors[0]
    for piece in todo:
        if piece.timed:
            keep(piece, one(piece))
