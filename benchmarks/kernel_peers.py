"""What ./build.sh bench kernels runs, with one number of threads: Hologram's kernels, and what others do for the same.

kernels_cpu.py starts it, with its options as JSON, and reads the JSON that it prints. The others are given:

- torch.compile: the formula, compiled for each size by itself (dynamic=False), which copies into its output within the
  same loop; of the stencil it gets the inner part of the output as a tensor, or it would copy the border too.
- torch: calls with out= and in place, in as few passes as there are calls for; its own gelu.
- numexpr: compiled expressions, called without being looked up, with numbers as f32 so that nothing becomes f64. It has
  no erf, so no Black-Scholes.
- Mandelbrot, of at most 50 rounds: none of them has lanes that leave a loop. They count the rounds in which |z| ≤ 2,
  and let z go on to infinity, from where it doesn't come back: without a mask, which is faster than with one. What
  torch.compile takes to compile grows out of all proportion with the rounds in a function, so it has one of 10, for
  every size (dynamic=True), which is called 5 times. torch and numexpr work round by round.
"""

from __future__ import annotations

import importlib.util
import json
import math
import re
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import numexpr
import numpy as np
import torch
from kernels_cpu import ANEW

import hologram as hg

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "kernels.py"
LIMIT, STEP = 50, 10  # Mandelbrot's rounds, and those in a function of torch.compile
RATE, VOLATILITY, HEAT = 0.02, 0.3, 0.1
LONGEST = 2.0  # seconds that a form may take in all rounds
PAUSE = 0.004  # for which a form's threads look about for more work, and disturb the next

Call = Callable[[], Any]
T = Any  # of torch, whose functions are called by many names


def examples() -> Any:
    """The module examples/kernels.py."""
    spec = importlib.util.spec_from_file_location("examples_kernels", EXAMPLES)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KERNELS = examples()


def f32(value: float) -> Any:
    """A number that leaves numexpr's expressions f32."""
    return np.array(value, np.float32)


class Expression:
    """An expression of numexpr, compiled: a call does no more than it must."""

    seconds = 0.0  # that making them took, since it was set to 0

    def __init__(self, text: str, **constants: float) -> None:
        """Names in the text that aren't constants are arrays, given in the order of the alphabet."""
        names = sorted(set(re.findall(r"\b[a-z]\w*\b(?!\()", text)) - set(constants))
        start = time.perf_counter()
        # To numexpr, Python's float is f32.
        self.compiled = numexpr.NumExpr(text, [(name, float) for name in (*names, *constants)])
        Expression.seconds += time.perf_counter() - start
        self.constants = [f32(value) for value in constants.values()]

    def __call__(self, *arrays: Any, out: Any = None) -> Any:
        return self.compiled(*arrays, *self.constants, out=out, order="K", casting="same_kind", ex_uses_vml=False)


class Forms(NamedTuple):
    """What computes a kernel on arrays of one size: calls by the names of forms, which return the results.

    Attributes:
        out: The arrays that forms with out= write to.
        calls: The calls, Hologram's first.
    """

    out: tuple[Any, ...]
    calls: dict[str, Call]


Maker = Callable[[int], Forms]


def normal(n: int, count: int) -> list[Any]:
    rng = np.random.default_rng(n)
    return [rng.standard_normal(n, dtype=np.float32) for _ in range(count)]


def tensors(*arrays: Any) -> list[T]:
    """The same memory for torch."""
    return [torch.from_numpy(a) for a in arrays]


def compiled(f: Callable[..., Any], dynamic: bool = False) -> Callable[..., Any]:
    made: Callable[..., Any] = torch.compile(f, dynamic=dynamic)
    return made


# ---- the kernels ----------------------------------------------------------------------------------------------------


def chain(n: int) -> Forms:
    x, y = normal(n, 2)
    out = np.empty_like(x)
    tx, ty, to = tensors(x, y, out)

    def formula(x: T, y: T) -> T:
        return torch.sigmoid(torch.relu((x * y + x) * 0.5 - y))

    def into(x: T, y: T, out: T) -> None:
        out.copy_(formula(x, y))

    def eager() -> T:
        return torch.mul(tx, ty, out=to).add_(tx).mul_(0.5).sub_(ty).relu_().sigmoid_()

    expression = Expression("1 / (1 + exp(-maximum((x*y + x) * half - y, zero)))", half=0.5, zero=0)
    fast, natural = compiled(into), compiled(formula)
    return Forms(
        (out,),
        {
            "hologram": lambda: KERNELS.chain(x, y, out=out),
            "torch.compile": lambda: (fast(tx, ty, to), to)[1],
            "torch": eager,
            "numexpr": lambda: expression(x, y, out=out),
            "hologram" + ANEW: lambda: KERNELS.chain(x, y),
            "torch.compile" + ANEW: lambda: natural(tx, ty),
            "torch" + ANEW: lambda: formula(tx, ty),
            "numexpr" + ANEW: lambda: expression(x, y),
        },
    )


def twelve(n: int) -> Forms:
    x, y, z = normal(n, 3)
    out = np.empty_like(x)
    tx, ty, tz, to = tensors(x, y, z, out)
    s, t = torch.empty_like(tx), torch.empty_like(tx)

    def formula(x: T, y: T, z: T) -> T:
        a = x * y + z
        b = torch.maximum(a, x) - y * z
        c = torch.minimum(a * 0.25, b) + x
        return torch.abs(c - z) * 0.5 + torch.sqrt(torch.abs(b))

    def into(x: T, y: T, z: T, out: T) -> None:
        out.copy_(formula(x, y, z))

    def eager() -> T:
        torch.addcmul(tz, tx, ty, out=s)
        torch.maximum(s, tx, out=t).addcmul_(ty, tz, value=-1)
        torch.minimum(s.mul_(0.25), t, out=s).add_(tx).sub_(tz).abs_()
        return torch.add(t.abs_().sqrt_(), s, alpha=0.5, out=to)

    b = "(maximum(x*y + z, x) - y*z)"
    expression = Expression(
        f"abs(minimum((x*y + z) * quarter, {b}) + x - z) * half + sqrt(abs{b})", half=0.5, quarter=0.25
    )
    fast, natural = compiled(into), compiled(formula)
    return Forms(
        (out,),
        {
            "hologram": lambda: KERNELS.twelve(x, y, z, out=out),
            "torch.compile": lambda: (fast(tx, ty, tz, to), to)[1],
            "torch": eager,
            "numexpr": lambda: expression(x, y, z, out=out),
            "hologram" + ANEW: lambda: KERNELS.twelve(x, y, z),
            "torch.compile" + ANEW: lambda: natural(tx, ty, tz),
            "torch" + ANEW: lambda: formula(tx, ty, tz),
            "numexpr" + ANEW: lambda: expression(x, y, z),
        },
    )


def gelu(n: int) -> Forms:
    (x,) = normal(n, 1)
    out = np.empty_like(x)
    tx, to = tensors(x, out)
    factor = math.sqrt(2 / math.pi)

    def formula(x: T) -> T:
        return 0.5 * x * (1 + torch.tanh(factor * (x + 0.044715 * x * x * x)))

    def into(x: T, out: T) -> None:
        out.copy_(formula(x))

    expression = Expression("half * x * (1 + tanh(factor * (x + k * x * x * x)))", half=0.5, factor=factor, k=0.044715)
    own = torch._C._nn.gelu
    fast, natural = compiled(into), compiled(formula)
    return Forms(
        (out,),
        {
            "hologram": lambda: KERNELS.gelu(x, out=out),
            "torch.compile": lambda: (fast(tx, to), to)[1],
            "torch": lambda: own(tx, approximate="tanh", out=to),
            "numexpr": lambda: expression(x, out=out),
            "hologram" + ANEW: lambda: KERNELS.gelu(x),
            "torch.compile" + ANEW: lambda: natural(tx),
            "torch" + ANEW: lambda: own(tx, approximate="tanh"),
            "numexpr" + ANEW: lambda: expression(x),
        },
    )


def diffuse(n: int) -> Forms:
    """A grid of n elements, whose border stays."""
    rows = 1 << (n.bit_length() - 1) // 2
    grid = normal(n, 1)[0][: rows * (n // rows)].reshape(rows, n // rows)
    out = grid.copy()
    tgrid, tout = tensors(grid, out)
    inner, tinner = out[1:-1, 1:-1], tout[1:-1, 1:-1]

    def views(g: Any) -> tuple[Any, ...]:
        return g[1:-1, 1:-1], g[:-2, 1:-1], g[2:, 1:-1], g[1:-1, :-2], g[1:-1, 2:]

    def formula(g: T) -> T:
        here, up, down, left, right = views(g)
        return here + HEAT * (up + down + left + right - 4 * here)

    def into(g: T, out: T) -> None:
        out.copy_(formula(g))

    t = torch.empty_like(tinner)

    def eager() -> T:
        here, up, down, left, right = views(tgrid)
        torch.add(up, down, out=t).add_(left).add_(right).sub_(here, alpha=4)
        return torch.add(here, t, alpha=HEAT, out=tinner)

    expression = Expression("here + heat * (up + down + left + right - 4 * here)", heat=HEAT)

    def evaluated(out: Any = None) -> Any:
        here, up, down, left, right = views(grid)
        return expression(down, here, left, right, up, out=out)

    fast, natural = compiled(into), compiled(formula)
    return Forms(
        (inner,),
        {
            "hologram": lambda: KERNELS.diffuse(*views(grid), HEAT, out=inner),
            "torch.compile": lambda: (fast(tgrid, tinner), tinner)[1],
            "torch": eager,
            "numexpr": lambda: evaluated(inner),
            "hologram" + ANEW: lambda: KERNELS.diffuse(*views(grid), HEAT),
            "torch.compile" + ANEW: lambda: natural(tgrid),
            "torch" + ANEW: lambda: formula(tgrid),
            "numexpr" + ANEW: lambda: evaluated(),
        },
    )


def black_scholes(n: int) -> Forms:
    rng = np.random.default_rng(n)
    spot, strike = (50 + 100 * rng.random(n, dtype=np.float32) for _ in range(2))
    years = np.float32(0.1) + rng.random(n, dtype=np.float32)
    outs = np.empty_like(spot), np.empty_like(spot)
    inputs, (tcall, tput) = tensors(spot, strike, years), tensors(*outs)
    ts, tk, ty = inputs
    a, b, c = (torch.empty_like(ts) for _ in range(3))
    root, drift = math.sqrt(0.5), RATE + 0.5 * VOLATILITY * VOLATILITY

    def distribution(x: T) -> T:
        return 0.5 + 0.5 * torch.erf(x * root)

    def formula(spot: T, strike: T, years: T) -> tuple[T, T]:
        spread = VOLATILITY * torch.sqrt(years)
        d1 = (torch.log(spot / strike) + drift * years) / spread
        d2 = d1 - spread
        discounted = strike * torch.exp(-RATE * years)
        call = spot * distribution(d1) - discounted * distribution(d2)
        return call, call - spot + discounted

    def into(spot: T, strike: T, years: T, call: T, put: T) -> None:
        x, y = formula(spot, strike, years)
        call.copy_(x)
        put.copy_(y)

    def eager() -> tuple[T, T]:
        torch.sqrt(ty, out=a).mul_(VOLATILITY)
        torch.div(ts, tk, out=b).log_().add_(ty, alpha=drift).div_(a)
        torch.sub(b, a, out=a).mul_(root).erf_().mul_(0.5).add_(0.5)
        b.mul_(root).erf_().mul_(0.5).add_(0.5)
        torch.mul(ty, -RATE, out=c).exp_().mul_(tk)
        torch.mul(ts, b, out=tcall).addcmul_(c, a, value=-1)
        torch.sub(tcall, ts, out=tput).add_(c)
        return tcall, tput

    fast, natural = compiled(into), compiled(formula)
    return Forms(
        outs,
        {
            "hologram": lambda: KERNELS.black_scholes(spot, strike, years, RATE, VOLATILITY, out=outs),
            "torch.compile": lambda: (fast(*inputs, tcall, tput), (tcall, tput))[1],
            "torch": eager,
            "hologram" + ANEW: lambda: KERNELS.black_scholes(spot, strike, years, RATE, VOLATILITY),
            "torch.compile" + ANEW: lambda: natural(*inputs),
            "torch" + ANEW: lambda: formula(*inputs),
        },
    )


def step(zr: T, zi: T, cr: T, ci: T, counts: T) -> None:
    """Some of Mandelbrot's rounds, for torch.compile."""
    r, i, k = zr, zi, counts
    for _ in range(STEP):
        r2, i2 = r * r, i * i
        k = k + (r2 + i2 <= 4).to(torch.int32)
        r, i = r2 - i2 + cr, 2 * r * i + ci
    zr.copy_(r)
    zi.copy_(i)
    counts.copy_(k)


def mandelbrot(n: int) -> Forms:
    rows = 1 << (n.bit_length() - 1) // 2
    cr = np.tile(np.linspace(-2, 0.6, n // rows, dtype=np.float32), rows)
    ci = np.repeat(np.linspace(-1.1, 1.1, rows, dtype=np.float32), n // rows)
    out = np.empty(len(cr), np.int32)
    tcr, tci, tout = tensors(cr, ci, out)
    zr, zi, square, sum_ = (torch.empty_like(tcr) for _ in range(4))
    lives = torch.empty(len(cr), dtype=torch.bool)
    many = compiled(step, dynamic=True)

    def steps(counts: T) -> T:
        for t in (zr, zi, counts):
            t.zero_()
        for _ in range(LIMIT // STEP):
            many(zr, zi, tcr, tci, counts)
        return counts

    def eager(counts: T) -> T:
        for t in (zr, zi, counts):
            t.zero_()
        for _ in range(LIMIT):
            torch.mul(zr, zr, out=square)
            torch.addcmul(square, zi, zi, out=sum_)
            counts.add_(torch.le(sum_, 4, out=lives))
            square.addcmul_(zi, zi, value=-1)
            torch.addcmul(tci, zr, zi, value=2, out=zi)
            torch.add(square, tcr, out=zr)
        return counts

    count = numexpr.NumExpr("n + (r*r + i*i <= 4)", [("i", float), ("n", np.int32), ("r", float)])
    real, imaginary = Expression("r*r - i*i + c"), Expression("2*r*i + c")
    nr, ni, new = (np.empty_like(cr) for _ in range(3))

    def evaluated(counts: Any) -> Any:
        r, i, room = nr, ni, new
        for a in (r, i, counts):
            a.fill(0)
        for _ in range(LIMIT):
            count(i, counts, r, out=counts, order="K", casting="unsafe", ex_uses_vml=False)
            real(cr, i, r, out=room)
            imaginary(ci, i, r, out=i)
            r, room = room, r
        return counts

    return Forms(
        (out,),
        {
            "hologram": lambda: KERNELS.mandelbrot(cr, ci, LIMIT, out=out),
            "torch.compile": lambda: steps(tout),
            "torch": lambda: eager(tout),
            "numexpr": lambda: evaluated(out),
            "hologram" + ANEW: lambda: KERNELS.mandelbrot(cr, ci, LIMIT),
            "torch.compile" + ANEW: lambda: steps(torch.empty_like(tout)),
            "torch" + ANEW: lambda: eager(torch.empty_like(tout)),
            "numexpr" + ANEW: lambda: evaluated(np.empty_like(out)),
        },
    )


CASES: dict[str, Maker] = {f.__name__: f for f in (chain, twelve, gelu, diffuse, black_scholes, mandelbrot)}


# ---- measuring ------------------------------------------------------------------------------------------------------


def check(name: str, form: str, found: Any, expected: tuple[Any, ...]) -> None:
    """Compare results with Hologram's.

    Raises:
        SystemExit: They differ by more than rounding; counts, by which a rounding may lie, in over one of 200.
    """
    for got, want in zip(found if isinstance(found, tuple) else (found,), expected):
        if want.dtype == np.int32:
            if (np.asarray(got) != want).mean() > 0.005:
                sys.exit(f"{name}: {form} counts otherwise")
        elif not np.allclose(np.asarray(got), want, rtol=0, atol=1e-5 * float(np.abs(want).max())):
            sys.exit(f"{name}: {form} computes something else")


def best(calls: dict[str, Call], rounds: int, budget: float, threads: int) -> dict[str, float]:
    """The least time of a call in seconds, by form; they take turns."""
    clock = time.process_time if threads == 1 else time.perf_counter
    taken = dict.fromkeys(calls, math.inf)
    times: dict[str, int] = {}
    most: dict[str, int] = {}
    for name, call in calls.items():
        start, passed = clock(), time.perf_counter()
        call()
        taken[name], once = clock() - start, time.perf_counter() - passed
        if once < LONGEST / 4:
            call()
            passed = time.perf_counter()
            call()
            once = max(time.perf_counter() - passed, 1e-7)
        times[name] = max(1, min(10_000, int(budget / once)))
        most[name] = int(LONGEST / (once * times[name]))
    for k in range(rounds):
        for name, call in calls.items():
            if k >= most[name]:
                continue
            if threads > 1:
                time.sleep(PAUSE)
            if threads > 1 or times[name] > 1:
                call()  # wakes its own threads, and has the caches that others' results were in
            start = clock()
            for _ in range(times[name]):
                call()
            taken[name] = min(taken[name], (clock() - start) / times[name])
    return taken


def first_call(name: str) -> dict[str, Any]:
    """What the first call of a kernel takes, in seconds, and how many instructions its program has."""
    kernel = getattr(KERNELS, name)
    count = {"chain": 2, "twelve": 3, "gelu": 1, "diffuse": 5, "black_scholes": 3, "mandelbrot": 2}[name]
    arrays = [np.full(16, 0.5 + k, np.float32) for k in range(count)]
    numbers = {"diffuse": (HEAT,), "black_scholes": (RATE, VOLATILITY), "mandelbrot": (LIMIT,)}.get(name, ())
    start = time.perf_counter()
    kernel(*arrays, *numbers)
    seconds = time.perf_counter() - start
    return {"kernel": name, "instructions": kernel.program(*arrays, *numbers).instructions, "hologram": seconds}


def printed(kind: str, value: Any) -> None:
    print(json.dumps([kind, value]), flush=True)


def main(sizes: list[int], only: str, rounds: int, budget: float, threads: int) -> None:
    torch.set_num_threads(threads)
    numexpr.set_num_threads(threads)
    hg.set_num_threads(threads)
    versions = {"hologram": hg.__version__, "numpy": np.__version__, "torch": torch.__version__}
    printed("versions", {**versions, "numexpr": metadata.version("numexpr")})
    cases = {name: maker for name, maker in CASES.items() if re.search(only, name)}
    # What the first kernel, function and expression of a process take beside is nothing of theirs.
    hg.kernel(lambda x: x + 1)(np.ones(16, np.float32))
    compiled(lambda x: x + 1)(torch.ones(16))
    compiling = {name: first_call(name) for name in cases}
    for k, n in enumerate(sizes):
        for name, maker in cases.items():
            torch._dynamo.reset()  # keeps what it compiled for another size from being looked at first
            Expression.seconds = 0.0
            out, calls = maker(n)
            made = Expression.seconds
            calls["hologram"]()
            expected = tuple(a.copy() for a in out)
            for form, call in calls.items():
                for a in out:
                    a.fill(-1)
                start = time.perf_counter()
                found = call()
                if k == 0 and form == "torch.compile":
                    compiling[name][form] = time.perf_counter() - start
                check(name, form, found, expected)
            if k == 0:
                compiling[name].update({"numexpr": made} if made else {})
                printed("compiling", compiling[name])
            seconds = best(calls, rounds, budget, threads)
            label = f"{name}, {threads} thread{'s' * (threads > 1)}"
            printed("row", {"workload": label, "kernel": name, "threads": threads, "n": n, "seconds": seconds})


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
