#include "half.h"

#include <math.h>
#include <string.h>

#include "support.h"

bool hologram_half(double value, int32_t dtype, uint64_t *to) {
  int digits = dtype == HOLOGRAM_BF16 ? 7 : 10, least = dtype == HOLOGRAM_BF16 ? -126 : -14; /* of normal exponents */
  uint64_t bits, sign, digit, rest, infinite = dtype == HOLOGRAM_BF16 ? 0x7f80 : 0x7c00;
  int exponent, shift;
  memcpy(&bits, &value, sizeof bits);
  sign = bits >> 63 << 15;
  exponent = (int)(bits >> 52 & 2047) - 1023;
  if (exponent == 1024) {
    *to = isinf(value) ? sign | infinite : infinite | 1u << (digits - 1);
    return true;
  }
  bits &= (1ull << 52) - 1;
  if (exponent == -1023) {
    exponent = -1022; /* a subnormal double */
  } else {
    bits |= 1ull << 52;
  }
  shift = 52 - digits + (exponent < least ? least - exponent : 0);
  if (shift > 54) shift = 54; /* less than half of the least: 0 */
  digit = bits >> shift;
  rest = bits & ((1ull << shift) - 1);
  if (rest > 1ull << (shift - 1) || (rest == 1ull << (shift - 1) && (digit & 1))) digit++;
  digit += (uint64_t)(exponent < least ? 0 : exponent - least) << digits; /* the first digit is of the exponent */
  *to = sign | digit;
  return digit < infinite;
}

bool hologram_half_of(int64_t whole, int32_t dtype, uint64_t *to) {
  int64_t most = 1ll << 53;
  return whole <= most && whole >= -most && hologram_half((double)whole, dtype, to);
}

uint32_t hologram_half_single(uint64_t cell, int32_t dtype) {
  uint32_t sign = (uint32_t)(cell >> 15 & 1) << 31, exponent = cell >> 10 & 31, digits = cell & 1023, bits;
  float small;
  if (dtype == HOLOGRAM_BF16) return (uint32_t)cell << 16;
  if (exponent == 31) return sign | 0x7f800000u;
  if (exponent) return sign | (exponent + 112) << 23 | digits << 13;
  small = (float)digits * 0x1p-24f; /* subnormal there alone */
  memcpy(&bits, &small, sizeof bits);
  return sign | bits;
}
