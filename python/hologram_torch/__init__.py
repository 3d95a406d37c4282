"""Hologram in PyTorch models: functions, layers and autograd on top of :mod:`hologram`.

This release holds the package's place in the distribution; its code comes with a later one.
"""

from __future__ import annotations

from hologram._version import __version__

__all__ = ["__version__"]
