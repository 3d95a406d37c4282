"""Where the numbers of a run go."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Union

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["CSVLog", "Log", "TensorBoardLog"]


class Log(Protocol):
    """Where numbers go."""

    def begin(self, step: int) -> None:
        """Get ready for what comes after a step, 0 for a new run; what there was after it is void."""

    def write(self, step: int, values: dict[str, float]) -> None:
        """Take the numbers of a step."""

    def close(self) -> None:
        """Be done."""


class CSVLog:
    """A table of text, a row for each step that something is logged of: step, name, value."""

    def __init__(self, path: Union[str, os.PathLike[str]]) -> None:
        self.path = Path(path)
        self._file: Any = None

    def begin(self, step: int) -> None:
        """Keep the rows up to a step, and go on from there."""
        self._begun = step
        self._keep(step, ())

    def _keep(self, step: int, without: Collection[str]) -> None:
        """Open the file with the rows up to a step, but for its numbers of some names; it is whole at every moment."""
        rows: list[list[str]] = []
        if step and self.path.exists():
            with self.path.open(newline="") as file:
                rows = [row for row in csv.reader(file) if len(row) == 3 and row[0].isdigit() and int(row[0]) <= step]
        kept = [row for row in rows if int(row[0]) < step or row[1] not in without]
        part = f"{self.path}.part"
        with open(part, "w", newline="") as file:
            csv.writer(file).writerows([["step", "name", "value"], *kept])
        os.replace(part, self.path)
        self._file = self.path.open("a", newline="")

    def write(self, step: int, values: dict[str, float]) -> None:
        """Write a row for each number."""
        if step == self._begun:  # an epoch's end that failed is told again
            self.close()
            self._keep(step, values)
        csv.writer(self._file).writerows([step, name, repr(value)] for name, value in values.items())
        self._file.flush()  # a run that is killed goes on with all that its checkpoint has done

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()


class TensorBoardLog:
    """TensorBoard's files in a folder.

    Raises:
        ImportError: tensorboard is not installed.
    """

    def __init__(self, folder: Union[str, os.PathLike[str]]) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise ImportError("TensorBoardLog needs tensorboard: pip install tensorboard") from None
        self._kind, self._folder = SummaryWriter, folder
        self._writer: Any = None

    def begin(self, step: int) -> None:
        """Begin a file; TensorBoard drops what others have after the step."""
        self._writer = self._kind(os.fspath(self._folder), purge_step=step + 1 if step else None)

    def write(self, step: int, values: dict[str, float]) -> None:
        """Write the numbers."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
