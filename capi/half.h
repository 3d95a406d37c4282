/* Floats of 16 bits. */
#ifndef HOLOGRAM_HALF_H
#define HOLOGRAM_HALF_H

#include <stdbool.h>
#include <stdint.h>

/* The cell of a number as a float of 16 bits: rounded once, to nearest, ties to even. False of what is beyond its range. */
bool hologram_half(double value, int32_t dtype, uint64_t *to);

/* The same of an integer, false too of what a double does not hold. */
bool hologram_half_of(int64_t whole, int32_t dtype, uint64_t *to);

/* The cell of the f32 that a float of 16 bits is, no NaN. */
uint32_t hologram_half_single(uint64_t cell, int32_t dtype);

#endif
