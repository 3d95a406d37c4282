"""The bindings to the C ABI; the only file with ctypes."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from hologram._version import __version__

_NAMES = {"win32": "hologram.dll", "darwin": "libhologram.dylib"}
_lib = ctypes.CDLL(str(Path(__file__).with_name(_NAMES.get(sys.platform, "libhologram.so"))))
_lib.hologram_abi_version.restype = ctypes.c_int32
_lib.hologram_version.restype = ctypes.c_char_p
if _lib.hologram_version().decode() != __version__:
    raise ImportError(
        f"hologram {__version__} found a library of version {_lib.hologram_version().decode()}: "
        "run ./build.sh build, or install again"
    )


def abi_version() -> int:
    """Return the version of the C ABI that the loaded library offers."""
    return int(_lib.hologram_abi_version())
