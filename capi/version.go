package main

// version is the distribution's version, set by the build (-ldflags -X main.version=...) from
// python/hologram/_version.py, the one place where it is written.
var version = "0.0.0+unset"
