"""The ``hologram`` command."""

from __future__ import annotations

import hologram


def main() -> int:
    """Print the version and return the exit status."""
    print(f"hologram {hologram.__version__}, C ABI {hologram.abi_version()}")
    return 0
