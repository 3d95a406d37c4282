"""Write python/hologram/ops.pyi, which type checkers read, from the library's descriptions of its operations.

Run after adding an operation and building: python python/stubs.py
"""

from pathlib import Path

from hologram import _signatures, ops

if __name__ == "__main__":
    Path(ops.__file__).with_suffix(".pyi").write_text(_signatures.stub_file(ops._functions))
