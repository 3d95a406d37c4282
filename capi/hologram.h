/* hologram.h: the C ABI of Hologram. */
#ifndef HOLOGRAM_H
#define HOLOGRAM_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the C ABI that the library offers. */
int32_t hologram_abi_version(void);

/* The library's version, such as "0.1.0"; the string lives as long as the library. */
const char *hologram_version(void);

#ifdef __cplusplus
}
#endif

#endif
