"""The examples with torch run, and show what they claim."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_digits(tmp_path: Path) -> None:
    """Hologram's losses are no farther from torch's than twice what rounding makes."""
    command = [sys.executable, str(EXAMPLES / "digits_torch.py"), "--picture", "digits.png"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "3 of 3 layers converted" in done.stdout
    found = re.search(r"at most (\S+) apart; of torch in f32 and in f64: (\S+)", done.stdout)
    assert found is not None
    assert float(found[1]) <= 2 * float(found[2])
    accuracies = [float(text) for text in re.findall(r"accuracy of \w+: (\S+)", done.stdout)]
    assert len(accuracies) == 2
    assert min(accuracies) > 0.85
    assert (tmp_path / "digits.png").stat().st_size > 1000
