"""The version of Hologram: the one place where it is written.

The build reads it for the distribution's metadata and hands it to the Go library, and ``import hologram``
refuses a library of another version.
"""

__version__ = "0.1.0"
