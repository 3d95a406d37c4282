"""What benchmarks/cuda_all.py times: calls that do the same by Hologram, torch, torch.compile and CuPy, interleaved.

Each workload is checked first: results that differ by more than rounding end the run. Bits are compared elsewhere.
"""

from __future__ import annotations

import functools
import itertools
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import bits
import numpy as np
import torch

import hologram as hg

without_cupy = ""  # why it is a peer less
try:
    import cupy
except ImportError as error:
    cupy, without_cupy = None, "its import failed: " + " ".join(str(error).split())[:200]
refused: dict[tuple[str, str], str] = {}  # by a row's name and dtype: what CuPy's call raised

Call = Callable[[], Any]
TORCH = {"f32": torch.float32, "bf16": torch.bfloat16, "f64": torch.float64}
BYTES = 1 << 29  # of a large array: 2^27 f32, 2^28 bf16
SLOW = 0.05  # seconds of a call that is not repeated as others are
LONG = 0.01  # seconds that a round takes
TOLERANCE = {"f32": 2e-5, "bf16": 2e-2}


class Workload(NamedTuple):
    """What is timed: by library a call, and how many bytes it has to move, each input and output once.

    Of a product work is how many multiplications and additions it has. Without bytes and work it is a call on little,
    of which the host's time counts.
    """

    name: str
    dtype: str
    n: int
    calls: dict[str, Call]
    moved: int = 0
    work: int = 0


def measure(calls: dict[str, Call], wait: Call, count: int, rounds: int) -> dict[str, float]:
    """The seconds of a call, from rounds of count calls by turns.

    Of many calls it is the time until they have returned, in the best round; of few, but so many that they take LONG,
    until their work is done, in the median one.
    """
    slowest, fastest = 0.0, SLOW
    for call in calls.values():
        for _ in range(3):  # the second of a program that torch compiles is not yet as the others
            torch.cuda.synchronize()
            wait()
            start = time.perf_counter()
            call()
        torch.cuda.synchronize()
        wait()
        seconds = time.perf_counter() - start
        slowest, fastest = max(slowest, seconds), min(fastest, seconds)
    if slowest > SLOW and count < 100:
        count, rounds = 1, 3
    elif count < 100:  # the wait for the last is not theirs
        count = min(99, max(count, math.ceil(LONG / fastest)))
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            torch.cuda.synchronize()
            wait()
            start = time.perf_counter()
            for _ in range(count):
                call()
            if count < 100:
                torch.cuda.synchronize()
                wait()
            taken[name].append((time.perf_counter() - start) / count)
    return {name: min(t) if count >= 100 else statistics.median(t) for name, t in taken.items()}


def compiled(function: Callable[..., Any], *arguments: Any) -> Call:
    """A call of what torch.compile makes of a function, of which it knows nothing yet."""
    torch.compiler.reset()
    return functools.partial(torch.compile(function, dynamic=False), *arguments)


def with_cupy(calls: dict[str, Call], call: Call, name: str, dtype: str = "f32") -> None:
    """Add CuPy's call, if it can be made here: it wants a compiler and headers of CUDA's. If not, keep why."""
    refused.pop((name, dtype), None)
    try:
        call()
    except Exception as error:
        refused[name, dtype] = " ".join(repr(error).split())[:200]
        print(f"{name} {dtype} without CuPy: {refused[name, dtype]}", file=sys.stderr)
    else:
        calls["cupy"] = call


def near(name: str, dtype: str, theirs: Any, ours: Any, scale: float | None = None) -> None:
    """End the run if results are apart by more than rounding, on their own scale or a given one."""
    a, b = (x.flatten()[: 1 << 22].double() for x in (theirs, ours))
    scale = float(a.abs().max()) if scale is None else scale
    apart = float((a - b).abs().max())
    if not apart <= TOLERANCE[dtype] * scale:
        sys.exit(f"{name} {dtype}: apart from torch's by {apart:.3g}, where the scale is {scale:.3g}")


# ---- calls on little


def small(gpu: hg.Executor) -> Iterator[Workload]:
    """Calls on 1,024 f32, of which the host's time counts: on buffers, and on torch's tensors."""
    f, n = hg.ops, 1 << 10
    hx, hy, hc = (gpu.allocate(n) for _ in range(3))
    x, y, c = (torch.ones(n, device="cuda") for _ in range(3))
    matrix = x.view(-1, 256)
    for name, theirs, ours in (
        ("add", lambda: torch.add(x, y, out=c), lambda x, y, c: lambda: f.vector_add(gpu, x, y, c)),
        ("relu", lambda: torch.relu(x), lambda x, y, c: lambda: f.vector_relu(gpu, x, c)),
        ("exp", lambda: torch.exp(x, out=c), lambda x, y, c: lambda: f.vector_exp(gpu, x, c)),
        (
            "softmax, rows of 256",
            lambda: torch.softmax(matrix, 1),
            lambda x, y, c: lambda: f.softmax_rows(gpu, x, c, n // 256, 256),
        ),
    ):
        calls = {"torch": theirs, "hologram": ours(hx, hy, hc), "hologram, tensors": ours(x, y, c)}
        if cupy is not None and name == "add":
            cx, cy, cc = (cupy.asarray(v) for v in (x, y, c))
            with_cupy(calls, functools.partial(cupy.add, cx, cy, out=cc), name)
        yield Workload(name, "f32", n, calls)


# ---- element by element

BY_ELEMENT = """
program by_element
slot a $T
slot b $T
slot c $T
  ldg.$T x, a[index]
  ldg.$T y, b[index]
  {}
  stg.$T t, c[index]
  exit
"""
CHAIN = BY_ELEMENT.format("""mul.$T t, x, y
  add.$T t, t, x
  mul.$T t, t, 0x1p-1
  sub.$T t, t, y
  max.$T t, t, 0x0p+0""")
POWER = BY_ELEMENT.format("pow.$T t, x, y")


def chain(x: Any, y: Any) -> Any:
    """The five operations of CHAIN."""
    return torch.relu((x * y + x) * 0.5 - y)


def tanh_gelu(x: Any) -> Any:
    """What ours computes."""
    return torch.nn.functional.gelu(x, approximate="tanh")


def elementwise(gpu: hg.Executor, dtype: str) -> Iterator[Workload]:
    """Operations by element, programs of five and of a power, and whole sums, on 512 MB an array."""
    f, size = hg.ops, TORCH[dtype].itemsize
    n = BYTES // size
    x, y = (torch.randn(n, device="cuda", dtype=TORCH[dtype]) for _ in range(2))
    z = x.abs().clamp_(0.5, 2)  # powers of which differ little in size, so that each is compared
    c, out = torch.empty_like(x), torch.empty_like(x)
    total = torch.empty(1, device="cuda", dtype=TORCH[dtype])
    program, power = (hg.Program(text.replace("$T", dtype)) for text in (CHAIN, POWER))
    cx, cy, cc = (cupy.asarray(v) for v in (x, y, c)) if cupy is not None and dtype == "f32" else (None,) * 3
    into: dict[str, tuple[tuple[Any, ...], Callable[..., Any], Call, Call]] = {
        "copy": ((x,), lambda x: torch.clone(x), lambda: c.copy_(x), lambda: f.copy(gpu, x, out)),
        "add": ((x, y), lambda x, y: x + y, lambda: torch.add(x, y, out=c), lambda: f.vector_add(gpu, x, y, out)),
        "exp": ((x,), lambda x: torch.exp(x), lambda: torch.exp(x, out=c), lambda: f.vector_exp(gpu, x, out)),
        "log": ((z,), lambda z: torch.log(z), lambda: torch.log(z, out=c), lambda: f.vector_log(gpu, z, out)),
        "pow": ((z, y), lambda z, y: z**y, lambda: torch.pow(z, y, out=c), lambda: gpu.launch(power, a=z, b=y, c=out)),
        "sigmoid": ((x,), lambda x: torch.sigmoid(x), lambda: torch.sigmoid(x, out=c), lambda: f.sigmoid(gpu, x, out)),
        "tanh": ((x,), lambda x: torch.tanh(x), lambda: torch.tanh(x, out=c), lambda: f.tanh(gpu, x, out)),
        "gelu": ((x,), tanh_gelu, lambda: tanh_gelu(x), lambda: f.gelu(gpu, x, out)),
        "chain of five": ((x, y), chain, lambda: chain(x, y), lambda: gpu.launch(program, a=x, b=y, c=out)),
        "sum": ((x,), lambda x: torch.sum(x), lambda: torch.sum(x), lambda: f.reduce_sum_rows(gpu, x, total, 1, n)),
    }
    peers: dict[str, Call] = {
        "copy": lambda: cupy.copyto(cc, cx),
        "add": lambda: cupy.add(cx, cy, out=cc),
        "exp": lambda: cupy.exp(cx, out=cc),
        "tanh": lambda: cupy.tanh(cx, out=cc),
        "sum": lambda: cupy.sum(cx),
    }
    for name, (operands, function, eager, ours) in into.items():
        calls = {"torch": eager, "torch.compile": compiled(function, *operands), "hologram": ours}
        if cx is not None and name in peers:
            with_cupy(calls, peers[name], name)
        wanted = eager()
        ours()
        gpu.synchronize()
        near(name, dtype, wanted, total if name == "sum" else out, n**0.5 if name == "sum" else None)
        yield Workload(name, dtype, n, calls, (len(operands) + (name != "sum")) * n * size)


# ---- by rows

SHAPES = ((32768, 4096), (8192, 32768), (512, 262144))


def norm(x: Any, w: Any, b: Any) -> Any:
    """Torch's layer_norm of rows."""
    return torch.nn.functional.layer_norm(x, x.shape[1:], w, b, 1e-5)


def by_rows(gpu: hg.Executor, dtype: str, rows: int, cols: int) -> Iterator[Workload]:
    """Softmax, layer_norm, sums and cumulative sums of a matrix's rows."""
    f, t = hg.ops, TORCH[dtype]
    n, size = rows * cols, t.itemsize
    x = torch.randn(rows, cols, device="cuda", dtype=t)
    w, b = (torch.rand(cols, device="cuda", dtype=t) for _ in range(2))
    out, sums = torch.empty_like(x), torch.empty(rows, device="cuda", dtype=t)
    mean, variance = (torch.empty(rows, device="cuda") for _ in range(2))
    kinds: list[tuple[str, int, Callable[..., Any], tuple[Any, ...], Call, Any]] = [
        ("softmax", 2, lambda x: torch.softmax(x, 1), (x,), lambda: f.softmax_rows(gpu, x, out, rows, cols), out),
        (
            "layer_norm",
            2,
            norm,
            (x, w, b),
            lambda: f.layer_norm(gpu, x, w, b, mean, variance, out, 1e-5, axis=1),
            out,
        ),
        ("sums of rows", 1, lambda x: torch.sum(x, 1), (x,), lambda: f.reduce_sum_rows(gpu, x, sums, rows, cols), sums),
    ]
    if dtype == "f32":
        kinds.append(
            ("cumsum", 2, lambda x: torch.cumsum(x, 1), (x,), lambda: f.cumsum_rows(gpu, x, out, rows, cols), out)
        )
    for name, arrays, function, operands, ours, result in kinds:
        calls = {"torch": functools.partial(function, *operands), "torch.compile": compiled(function, *operands)}
        calls["hologram"] = ours
        if cupy is not None and dtype == "f32" and name in ("sums of rows", "cumsum"):
            cx, co = cupy.asarray(x), cupy.asarray(out)
            kinds_of = {"sums of rows": functools.partial(cupy.sum, cx, axis=1)}
            kinds_of["cumsum"] = functools.partial(cupy.cumsum, cx, axis=1, out=co)
            with_cupy(calls, kinds_of[name], f"{name} {rows}×{cols}")
        wanted = calls["torch"]()
        ours()
        gpu.synchronize()
        near(f"{name} {rows}×{cols}", dtype, wanted, result, cols**0.5 if name == "sums of rows" else None)
        del wanted
        yield Workload(f"{name} {rows}×{cols}", dtype, n, calls, arrays * n * size)


# ---- products

PRODUCTS = [(n, n, n) for n in (1024, 2048, 4096, 8192)] + [(100, 100, 100), (4096, 4096, 64), (64, 4096, 4096)]


def layouts(m: int, n: int, k: int, x: Any, y: Any) -> Iterator[tuple[str, bool, bool, Any, Any]]:
    """The four ways to store the factors: their name, which are transposed, and both as they are stored."""
    for trans_a, trans_b in itertools.product((False, True), repeat=2):
        stored = x.T.contiguous() if trans_a else x, y.T.contiguous() if trans_b else y
        yield f"{'nt'[trans_a]}{'nt'[trans_b]}", trans_a, trans_b, *stored


def products(gpu: hg.Executor, cpu: hg.Executor, m: int, n: int, k: int) -> Iterator[Workload]:
    """A product of f32 in all four layouts, of which some rows are compared with the CPU's."""
    torch.backends.cuda.matmul.allow_tf32 = False
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape, np.float32) for shape in ((m, k), (k, n)))
    some = np.unique(rng.integers(0, m, 4))
    want = np.empty((len(some), n), a.dtype)
    hg.ops.gemm(cpu, np.ascontiguousarray(a[some]), b, want, len(some), n, k)
    theirs, result = (torch.empty(m, n, device="cuda") for _ in range(2))
    for layout, ta, tb, sx, sy in layouts(m, n, k, *(torch.from_numpy(v).cuda() for v in (a, b))):
        ours = functools.partial(hg.ops.gemm, gpu, sx, sy, result, m, n, k, trans_a=ta, trans_b=tb)
        ours()
        if not bits.same(result[torch.from_numpy(some).cuda()].cpu().numpy(), want):
            sys.exit(f"product {m}×{n}×{k} {layout}: rows differ between {gpu.device} and the CPU")
        both: dict[str, Call] = {
            "torch": functools.partial(torch.mm, sx.T if ta else sx, sy.T if tb else sy, out=theirs),
            "hologram": ours,
        }
        yield Workload(f"product {m}×{n}×{k} {layout}", "f32", m * n, both, 0, 2 * m * n * k)


def halves(gpu: hg.Executor, size: int) -> Iterator[Workload]:
    """A product of bf16, whose error is held to that of matrix units."""
    m = n = k = size
    x, y = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    theirs, result = torch.empty_like(x), torch.empty_like(x)
    for layout, ta, tb, sx, sy in layouts(m, n, k, x, y):
        if layout in ("nt", "nn"):
            ours = functools.partial(hg.ops.gemm, gpu, sx, sy, result, m, n, k, trans_a=ta, trans_b=tb)
            ours()
            gpu.synchronize()
            exact = x[:8].double() @ y.double()
            bound = k * 2.0**-23 * (x[:8].double().abs() @ y.double().abs()) + exact.abs() * 2.0**-7
            if bool(((result[:8].double() - exact).abs() > bound).any()):
                sys.exit(f"product {m}×{n}×{k} {layout} bf16: beyond the bound of its error")
            both: dict[str, Call] = {
                "torch": functools.partial(torch.mm, sx.T if ta else sx, sy.T if tb else sy, out=theirs),
                "hologram": ours,
            }
            yield Workload(f"product {m}×{n}×{k} {layout}", "bf16", m * n, both, 0, 2 * m * n * k)


# ---- copies


def copies(gpu: hg.Executor) -> Iterator[Workload]:
    """256 MB to the device and back: of pinned memory, which torch gives, and of a plain array."""
    n = (256 << 20) // 4
    pinned = torch.randn(n).pin_memory()
    there, plain = torch.empty(n, device="cuda"), torch.randn(n)
    ours = gpu.allocate(n, zero=False)
    for kind, host in (("pinned", pinned), ("plain", plain)):
        array = host.numpy()
        want = array.copy()
        for name, theirs, mine in (
            (
                "to the device",
                lambda host=host: (there.copy_(host, non_blocking=True), torch.cuda.synchronize()),
                lambda array=array: (ours.from_numpy(array), gpu.synchronize()),
            ),
            (
                "to the host",
                lambda host=host: (host.copy_(there, non_blocking=True), torch.cuda.synchronize()),
                lambda array=array: ours.to_numpy(out=array),
            ),
        ):
            theirs()
            mine()
            if array.tobytes() != want.tobytes():
                sys.exit(f"copy {name}, {kind}: other numbers arrived")
            yield Workload(f"copy {name}, {kind}", "f32", n, {"torch": theirs, "hologram": mine}, 4 * n)
