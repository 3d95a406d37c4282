"""Hologram runs numeric programs, written once in the Atlas ISA, on the CPU and on GPUs."""

from __future__ import annotations

from hologram._ffi import abi_version
from hologram._version import __version__

__all__ = ["__version__", "abi_version"]
