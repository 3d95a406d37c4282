"""When a run is to stop."""

from __future__ import annotations

import math
from typing import Any, Optional

from hologram.errors import InvalidArgumentError
from hologram_torch._taken import check_number

__all__ = ["EarlyStopping"]


class EarlyStopping:
    """Says when a number has not become better for some time.

    Args:
        patience: After so many values without a better one it says to stop.
        least: What counts as better is so much better.
        larger: Whether larger is better.

    Attributes:
        best: The best value so far.
        waited: How many values came since.

    Raises:
        TypeError: patience is no integer, or least no number.
        ValueError: patience is below 1, or least is NaN.
    """

    def __init__(self, patience: int, least: float = 0.0, larger: bool = False) -> None:
        check_number("EarlyStopping: patience", patience, True)
        check_number("EarlyStopping: least", least, False)
        if patience < 1:
            raise InvalidArgumentError(f"EarlyStopping: patience is {patience}; expected 1 or more")
        if math.isnan(least):
            raise InvalidArgumentError(f"EarlyStopping: least is {least}; expected a number")
        self.patience, self.least, self.larger = int(patience), least, larger
        self.best: Optional[float] = None
        self.waited = 0

    def __call__(self, value: float) -> bool:
        """Note a value, and return whether to stop. NaN is never better."""
        gain = math.inf if self.best is None else (value - self.best) * (1 if self.larger else -1)
        if gain > self.least and not math.isnan(value):
            self.best, self.waited = value, 0
        else:
            self.waited += 1
        return self.waited >= self.patience

    def state_dict(self) -> dict[str, Any]:
        """Return the state, as torch's optimisers do."""
        return {"best": self.best, "waited": self.waited}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Set the state."""
        self.best, self.waited = state["best"], state["waited"]
