"""Exact arithmetic for the corpus: what every row means, on cells, by fractions and mpmath.

Nothing here uses Hologram.
"""

from __future__ import annotations

import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Callable

import ml_dtypes
import mpmath
import numpy as np

mpmath.mp.prec = 300
HERE = Path(__file__).parent

FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
INTS = {f"{s}{w}": (s == "i", w) for s in "iu" for w in (8, 16, 32, 64)}
TYPES = [*INTS, *FLOATS]
NUMPY = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
NUMPY |= {t: np.dtype(("int" if s else "uint") + str(w)).type for t, (s, w) in INTS.items()}


def width(t: str) -> int:
    return INTS[t][1] if t in INTS else 1 + sum(FLOATS[t])


class Float:
    """A float value: finite (a Fraction and the sign of a zero), infinite or NaN."""

    def __init__(self, value: Fraction | float, negative: bool | None = None) -> None:
        self.nan = isinstance(value, float) and math.isnan(value)
        self.inf = isinstance(value, float) and math.isinf(value)
        self.q = Fraction(0) if self.nan or self.inf else Fraction(value)
        self.negative = (value < 0) if negative is None else negative


def unpack(t: str, cell: int) -> Float:
    eb, mb = FLOATS[t]
    negative = bool(cell >> (eb + mb))
    e, m = (cell >> mb) & ((1 << eb) - 1), cell & ((1 << mb) - 1)
    bias = (1 << (eb - 1)) - 1
    if e == (1 << eb) - 1:
        return Float(math.nan) if m else Float(-math.inf if negative else math.inf)
    q = Fraction(m if e == 0 else m + (1 << mb)) * Fraction(2) ** (max(e, 1) - bias - mb)
    return Float(-q if negative else q, negative)


def pack(t: str, x: Float) -> int:
    """Round to nearest even."""
    eb, mb = FLOATS[t]
    bias = (1 << (eb - 1)) - 1
    top = ((1 << eb) - 1) << mb
    if x.nan:
        return top | 1 << (mb - 1)
    sign = int(x.negative) << (eb + mb)
    if x.inf:
        return sign | top
    q = abs(x.q)
    if q == 0:
        return sign
    e = q.numerator.bit_length() - q.denominator.bit_length()
    if Fraction(2) ** e > q:
        e -= 1
    e = max(e, 1 - bias)
    n = round(q / Fraction(2) ** (e - mb))  # Python rounds Fractions half to even
    cell = n + ((e + bias - 1) << mb)  # the hidden bit carries into the exponent
    return sign | min(cell, top)


def signed(t: str, cell: int) -> int:
    s, w = INTS[t]
    return cell - (1 << w) if s and cell >> (w - 1) else cell


def wrap(t: str, v: int) -> int:
    return v & ((1 << width(t)) - 1)


def edges(t: str, extra: int = 8) -> list[int]:
    rng = random.Random(t)
    w = width(t)
    if t in INTS:
        top = 1 << w
        v = [0, 1, 2, 3, 7, w - 1, w, w + 1, top - 1, top - 2, top // 2, top // 2 - 1, top // 2 + 1]
        v += [0x55 * (top // 255), 0xAA * (top // 255)]
    else:
        eb, mb = FLOATS[t]
        one = ((1 << (eb - 1)) - 1) << mb
        inf, sign = ((1 << eb) - 1) << mb, 1 << (eb + mb)
        v = [
            0,
            sign,
            one,
            sign | one,
            one - (1 << mb),
            one + 1,
            one - 1,
            one + (1 << (mb - 1)),
            one + (1 << mb),
        ]
        v += [
            sign | (one + (1 << mb) + (1 << (mb - 2))),
            inf - 1,
            sign | (inf - 1),
            1 << mb,
            (1 << mb) - 1,
            1,
            sign | 1,
        ]
        v += [
            inf,
            sign | inf,
            inf | 1 << (mb - 1),
            one + (mb << mb),
            one + (mb << mb) + 1,
            one + ((mb + 1) << mb),
        ]
        v += [
            pack(t, Float(Fraction("0.1"))),
            pack(t, Float(Fraction("-3.14159265"))),
            pack(t, Float(Fraction(1000))),
        ]
    return list(dict.fromkeys(v + [rng.getrandbits(w) for _ in range(extra)]))


# --- what the rows mean -------------------------------------------------------


def add(a: Float, b: Float) -> Float:
    if a.nan or b.nan or (a.inf and b.inf and a.negative != b.negative):
        return Float(math.nan)
    if a.inf or b.inf:
        return a if a.inf else b
    q = a.q + b.q
    return Float(q, (a.negative and b.negative) if q == 0 else q < 0)


def neg(a: Float) -> Float:
    return (
        Float(math.nan)
        if a.nan
        else Float(-math.inf if not a.negative else math.inf)
        if a.inf
        else Float(-a.q, not a.negative)
    )


def mul(a: Float, b: Float) -> Float:
    sign = a.negative != b.negative
    if a.nan or b.nan or (a.inf and b.q == 0 and not b.inf) or (b.inf and a.q == 0 and not a.inf):
        return Float(math.nan)
    if a.inf or b.inf:
        return Float(-math.inf if sign else math.inf)
    return Float(a.q * b.q, sign)


def div(a: Float, b: Float) -> Float:
    sign = a.negative != b.negative
    if a.nan or b.nan or (a.inf and b.inf) or (not a.inf and not b.inf and a.q == 0 and b.q == 0):
        return Float(math.nan)
    if a.inf or (not b.inf and b.q == 0):
        return Float(-math.inf if sign else math.inf)
    return Float(Fraction(0) if b.inf else a.q / b.q, sign)


def order(a: Float) -> tuple[int, Fraction, int]:
    """Sort key of a float that is not NaN, with −0 before +0."""
    return (-1 if a.negative else 1) if a.inf else 0, a.q, 0 if a.negative else 1


def fmin(a: Float, b: Float) -> Float:
    return Float(math.nan) if a.nan or b.nan else min(a, b, key=order)


def fmax(a: Float, b: Float) -> Float:
    return Float(math.nan) if a.nan or b.nan else max(a, b, key=order)


def sqrt(t: str) -> Callable[[Float], Float]:
    def f(a: Float) -> Float:
        if a.nan or (a.negative and (a.inf or a.q != 0)):
            return Float(math.nan)
        if a.inf or a.q == 0:
            return a
        # an integer square root with 80 bits and a sticky one decides every rounding
        shift = 1200  # bits below the point; f64 subnormals have roots down to 2^−537
        n = (a.q.numerator << (2 * shift)) // a.q.denominator
        r = math.isqrt(n)
        exact = r * r == n and (a.q.numerator << (2 * shift)) % a.q.denominator == 0
        return Float(Fraction(2 * r + (0 if exact else 1), 2) / (1 << shift), False)

    return f


def integral(rule: Callable[[Fraction], int]) -> Callable[[Float], Float]:
    return lambda a: a if a.nan or a.inf else Float(Fraction(rule(a.q)), a.negative)


def as_float(t: str, f: Callable[..., Float]) -> Callable[..., int]:
    """Compute f on exact values, rounded to t once."""
    return lambda *cells: pack(t, f(*(unpack(t, c) for c in cells)))


def narrow_fma(t: str) -> Callable[..., int]:
    def f(a: int, b: int, c: int) -> int:
        exact = add(mul(unpack(t, a), unpack(t, b)), unpack(t, c))
        return pack(t, unpack("f32", pack("f32", exact))) if t in ("f16", "bf16") else pack(t, exact)

    return f


def mad(t: str) -> Callable[..., int]:
    if t in INTS:
        return lambda a, b, c: wrap(t, a * b + c)
    return lambda a, b, c: as_float(t, add)(as_float(t, mul)(a, b), c)


def as_int(t: str, f: Callable[..., int]) -> Callable[..., int]:
    return lambda *cells: wrap(t, f(*(signed(t, c) for c in cells)))


def trunc_div(a: int, b: int) -> int:
    q = abs(a) // abs(b) if b else 0
    return -q if (a < 0) != (b < 0) else q


def trunc_rem(a: int, b: int) -> int:
    return a - trunc_div(a, b) * b if b else 0


def fmod(a: Float, b: Float) -> Float:
    if a.nan or b.nan or a.inf or (not b.inf and b.q == 0):
        return Float(math.nan)
    if b.inf:
        return a
    r = abs(a.q) % abs(b.q)
    return Float(-r if a.negative else r, a.negative)


def compare(t: str, cond: str) -> Callable[[int, int], int]:
    def f(a: int, b: int) -> int:
        if t in FLOATS:
            x, y = unpack(t, a), unpack(t, b)
            if x.nan or y.nan:
                return int(cond == "ne")
            ka, kb = order(x)[:2], order(y)[:2]
        else:
            ka, kb = signed(t, a), signed(t, b)  # type: ignore[assignment]
        return int(
            {"eq": ka == kb, "ne": ka != kb, "lt": ka < kb, "le": ka <= kb, "gt": ka > kb, "ge": ka >= kb}[cond[:2]]
        )

    return f


def one(t: str) -> int:
    """The cell of 1."""
    return 1 if t in INTS else pack(t, Float(Fraction(1)))


def convert(to: str, frm: str) -> Callable[[int], int]:
    def f(a: int) -> int:
        if frm in INTS:
            v = signed(frm, a)
            return wrap(to, v) if to in INTS else pack(to, Float(Fraction(v)))
        x = unpack(frm, a)
        if to in FLOATS:
            return pack(to, x)
        s, w = INTS[to]
        low, high = (-(1 << (w - 1)), (1 << (w - 1)) - 1) if s else (0, (1 << w) - 1)
        if x.nan:
            return 0
        if x.inf:
            return wrap(to, low if x.negative else high)
        return wrap(to, max(low, min(high, math.trunc(x.q))))

    return f


# --- transcendentals ----------------------------------------------------------


def transcendental(name: str, t: str) -> Callable[..., int]:
    mp = mpmath.mp

    def special(*x: Float) -> Float | None:
        a = x[0]
        if name == "pow":
            b = x[1]
            if (not b.nan and not b.inf and b.q == 0) or (not a.nan and not a.inf and a.q == 1):
                return Float(Fraction(1))
            if a.nan or b.nan:
                return Float(math.nan)
            odd = not b.inf and b.q.denominator == 1 and b.q.numerator % 2 == 1
            mag = math.inf if a.inf else abs(a.q)
            if b.inf:
                if mag == 1:
                    return Float(Fraction(1))
                return Float(math.inf) if (mag > 1) != b.negative else Float(Fraction(0))
            if mag == 0 or mag == math.inf:
                big = (mag == 0) == b.negative
                sign = a.negative and odd
                return Float(-math.inf if sign else math.inf) if big else Float(Fraction(0), sign)
            if a.negative and b.q.denominator != 1:
                return Float(math.nan)
            return None
        if a.nan:
            return a
        zero = not a.inf and a.q == 0
        if name in ("exp", "exp2"):
            return (Float(Fraction(0)) if a.negative else a) if a.inf else None
        if name == "expm1":
            return a if zero else (Float(Fraction(-1)) if a.negative else a) if a.inf else None
        if name in ("log", "log2", "log10"):
            return Float(-math.inf) if zero else Float(math.nan) if a.negative else a if a.inf else None
        if name == "log1p":
            if zero or (a.inf and not a.negative):
                return a
            return Float(math.nan) if a.inf or a.q < -1 else Float(-math.inf) if a.q == -1 else None
        if name == "rsqrt":
            if zero:
                return Float(-math.inf if a.negative else math.inf)
            return Float(math.nan) if a.negative else Float(Fraction(0)) if a.inf else None
        if name in ("sin", "cos", "tan"):
            return Float(math.nan) if a.inf else (Float(Fraction(1)) if name == "cos" else a) if zero else None
        if name in ("tanh", "erf"):
            return a if zero else Float(Fraction(-1 if a.negative else 1)) if a.inf else None
        if name == "sigmoid":
            return Float(Fraction(0 if a.negative else 1)) if a.inf else None
        raise ValueError(name)

    functions = {
        "exp": mp.exp,
        "exp2": lambda v: mp.power(2, v),
        "expm1": mp.expm1,
        "log": mp.log,
        "log2": lambda v: mp.log(v, 2),
        "log10": mp.log10,
        "log1p": mp.log1p,
        "rsqrt": lambda v: 1 / mp.sqrt(v),
        "sin": mp.sin,
        "cos": mp.cos,
        "tan": mp.tan,
        "tanh": mp.tanh,
        "sigmoid": lambda v: 1 / (1 + mp.exp(-v)),
        "erf": mp.erf,
        "pow": mp.power,
    }

    def f(*cells: int) -> int:
        x = [unpack(t, c) for c in cells]
        s = special(*x)
        if s is not None:
            return pack(t, s)
        limit = 1 << FLOATS[t][0] + 4  # beyond this an exponent over- or underflows
        if name in ("exp", "exp2", "expm1", "sigmoid") and abs(x[0].q) > limit:
            v = Fraction(limit if x[0].q > 0 else -limit)
        else:
            v = x[0].q
        arg = mp.mpf(v.numerator) / v.denominator
        if name == "pow":
            y = mp.mpf(x[1].q.numerator) / x[1].q.denominator
            e = y * mp.log(abs(arg), 2)
            if abs(e) > limit:
                r, negative = mp.power(2, limit if e > 0 else -limit), v < 0 and x[1].q.numerator % 2 == 1
            else:
                r, negative = mp.power(abs(arg), y), v < 0 and x[1].q.numerator % 2 == 1
            r = -r if negative else r
        else:
            if name in ("sin", "cos", "tan"):
                mp.prec = 1500
                arg = mp.mpf(v.numerator) / v.denominator
            r = functions[name](arg)
            mp.prec = 300
        return pack(t, exact_fraction(r))

    return f


def exact_fraction(r: mpmath.mpf) -> Float:
    sign, man, exp, _ = r._mpf_
    q = Fraction(int(man)) * (Fraction(2) ** exp)
    return Float(-q if sign else q, bool(sign))
