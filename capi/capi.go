// Command capi is the C ABI of Hologram, built with -buildmode=c-shared.
package main

// #include <stdint.h>
import "C"

// abiVersion changes whenever a caller compiled against an older hologram.h would break.
const abiVersion = 1

// hologram_abi_version returns the version of the C ABI that this library offers.
//
//export hologram_abi_version
func hologram_abi_version() C.int32_t { return abiVersion }

var versionText = C.CString(version)

// hologram_version returns the library's version, such as "0.1.0"; the string lives as long as the library.
//
//export hologram_version
func hologram_version() *C.char { return versionText }

func main() {}
