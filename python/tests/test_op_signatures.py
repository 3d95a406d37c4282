"""What operations are called with: their names, signatures, stubs and pages."""

from __future__ import annotations

import collections
import copy
import inspect
import json
import math
import pickle
import re
import runpy
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import buffer

import hologram as hg
from hologram import _hints, ops
from hologram._ffi import native
from hologram._signatures import stub_file


def test_every_operation_is_documented() -> None:
    for name in ops.__all__:
        op = getattr(ops, name)
        assert op.__doc__ and op.__doc__.strip().endswith(".")
        assert op.__name__ == name
        assert next(iter(inspect.signature(op).parameters)) == "ex"


def test_a_misspelled_name_is_told_what_there_is() -> None:
    for of, name, expected in (
        (ops, "sigmod", "hologram.ops' has no operation 'sigmod'; did you mean sigmoid?"),
        (ops, "zzz", r"no operation 'zzz'; dir(hologram.ops) lists"),
        (ops, "exp", "no operation 'exp'; did you mean vector_exp?"),
        (ops, "max", "did you mean reduce_max or vector_max?"),
        (ops, "vector_tanh", "did you mean tanh?"),
        (ops, "vector_floor", "no operation 'vector_floor'; hologram.floor takes arrays too"),
        (ops, "log10", "no operation 'log10'; hologram.log10 takes arrays too"),
        (ops, "mse", "did you mean mse_loss?"),
        (ops, "matmul", "did you mean gemm?"),
        (ops, "subtract", "did you mean vector_sub?"),
        (ops, "reduce_mul", "did you mean reduce_prod?"),
        (ops, "power", "'power'; hologram.pow takes arrays too"),
        (ops, "reduce_any", "'reduce_any'; reduce_max of bools says whether one is true"),
        (ops, "vector_square", "'vector_square'; write vector_mul(x, x)"),
        (ops, "huber", "'huber'; dir(hologram.ops) lists what there is, and hologram.kernel makes more"),
        (ops, "sort", "'sort'; dir(hologram.ops) lists"),
        (hg, "softmax", "hologram' has no attribute 'softmax'; for arrays there is hologram.ops.softmax"),
        (hg, "sum", "for arrays there is hologram.ops.reduce_sum"),
        (hg, "Executer", "hologram' has no attribute 'Executer'; did you mean Executor?"),
        (hg, "vectorize", "'vectorize'; hologram.kernel makes a program of a function of numbers"),
        (hg, "arctan", "'arctan'; dir(hologram) lists what there is"),
        (hg, "sinh", "'sinh'; dir(hologram) lists what there is"),
        (hg, "isinf", "'isinf'; here it is hologram.kernel(lambda x: abs(x) == math.inf)"),
        (hg, "mean", "'mean'; of arrays, with hologram.ops: divide reduce_sum by the number of elements"),
        (hg, "pi", "'pi'; numbers are Python's: math.pi"),
    ):
        with pytest.raises(AttributeError, match=re.escape(expected)):
            getattr(of, name)
    assert all(getattr(ops, ops.called(name) or "") for name in ops._ELSEWHERE)
    assert set(ops.__all__) <= set(dir(ops)) and "numpy" not in dir(ops)
    assert set(hg.__all__) <= set(dir(hg)) and "TYPE_CHECKING" not in dir(hg)


@pytest.mark.parametrize("name", sorted(_hints._WRITTEN))
def test_what_an_error_says_to_write_does_what_numpy_s_function_does(name: str) -> None:
    written = _hints._WRITTEN[name].partition(", which")[0]
    function = eval(written, {"hologram": hg, "math": math})  # of a kernel of one expression, which needs no source
    theirs = getattr(np, name)
    takes_floats = any(types.startswith("d") for types in theirs.types)
    a = np.array([-7.0, -2.5, 0.0, 0.5, 3.0] if takes_floats else [-7, -2, 0, 1, 3])
    arguments = [a, np.array(3, a.dtype)][: theirs.nin]
    np.testing.assert_allclose(function(*arguments), theirs(*arguments), rtol=1e-15)


SUMS = {"reduce_sum", "reduce_min", "reduce_max", "reduce_prod"}


LOSSES = {"mse_loss", "cross_entropy_loss", "binary_cross_entropy_loss"}


def test_every_operation_of_the_library_is_there() -> None:
    descriptions = json.loads(native.ops())
    assert [d["number"] for d in descriptions] == list(range(len(descriptions)))
    assert len(descriptions) >= 30
    assert [d["name"] for d in descriptions if not hasattr(ops, d["name"])] == []
    gemm = next(d for d in descriptions if d["name"] == "gemm")
    assert gemm["dims"] == ["m", "n", "k", "trans_a", "trans_b"]
    assert gemm["operands"][2] == {"name": "c", "reads": True, "writes": True, "kind": "wider"}
    assert gemm["scalars"] == [
        {"name": "alpha", "wide": True, "default": 1, "of": None},
        {"name": "beta", "wide": True, "default": 0, "of": "c"},
    ]
    assert {d["name"] for d in descriptions if d["scalar_result"]} == {*SUMS, *LOSSES}
    assert {d["name"] for d in descriptions if d["reduces"] and not d["scalar_result"]} == {"argmin", "argmax"}


def test_the_stub_file_is_up_to_date() -> None:
    path = Path(ops.__file__).with_suffix(".pyi")
    assert path.read_text() == stub_file(ops._functions), "run python python/stubs.py"


def test_the_page_of_operations_is_up_to_date() -> None:
    root = Path(__file__).parents[2]
    page = runpy.run_path(str(root / "python/stubs.py"))["page"]
    text = (root / "docs/OPERATIONS.md").read_text(encoding="utf-8")
    assert text == page(json.loads(ops.native.ops())), "run python python/stubs.py"


def test_the_page_of_operations_says_once_what_holds_of_many() -> None:
    text = (Path(__file__).parents[2] / "docs/OPERATIONS.md").read_text(encoding="utf-8")
    rows = [line.rpartition(" | ")[2] for line in text.splitlines() if re.match(r"\| `\w+\(", line)]
    assert len(rows) == len(ops.__all__) and all(len(row) > 5 for row in rows)
    sentences = collections.Counter(
        re.sub(r"\b(a|b|c|y|src|dst|input|output|pred|gradient|logs|table)\b", "…", sentence)
        for row in rows
        for sentence in set(re.split(r"(?<=\.) ", row.removesuffix(" |"))[1:])
    )
    assert [sentence for sentence, rows in sentences.items() if rows > 6] == []


def test_the_help_says_what_makes_bools() -> None:
    text = re.sub(r"\s+", " ", str(ops.__doc__))
    (said,) = re.findall(r"outputs of bools have (.*?)\.", text)
    named = {"vector_" + n for n in ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")}
    assert "comparisons" in said
    named |= set(re.findall(r"``(\w+)``", said))
    assert named == {f.name for f in ops._functions if f.bools and not f.name.endswith("_rows")}


# The signatures that users of the system before know.
SIGNATURES = {
    "vector_add": "(ex, a, b, c=None, n=None)",
    "vector_mad": "(ex, a, b, c, d=None, n=None)",
    "vector_relu": "(ex, a, c=None, n=None)",
    "vector_clip": "(ex, a, c, min_val, max_val, n=None)",
    "scalar_mul": "(ex, a, c, scalar, n=None)",
    "sigmoid": "(ex, input, output=None, n=None)",
    "copy": "(ex, src, dst=None, n=None)",
    "softmax": "(ex, input, output=None, n=None, *, axis=None)",
    "softmax_rows": "(ex, input, output=None, rows=None, cols=None)",
    "reduce_sum": "(ex, input, output=None, n=None, *, axis=None, keepdims=False)",
    "argmax": "(ex, input, output=None, n=None, *, axis=None, keepdims=False)",
    "reduce_max_rows": "(ex, input, output=None, rows=None, cols=None)",
    "mse_loss": "(ex, pred, target, output=None, n=None)",
    "gemm": "(ex, a, b, c=None, m=None, n=None, k=None, *, trans_a=False, trans_b=False, alpha=1.0, beta=0.0)",
    "matvec": "(ex, a, x, y=None, m=None, n=None, *, trans_a=False, alpha=1.0, beta=0.0)",
    "fill": "(ex, dst, value, n=None)",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_signatures(name: str) -> None:
    wanted = SIGNATURES[name][:-1] + (", stream=None)" if "*" in SIGNATURES[name] else ", *, stream=None)")
    assert str(inspect.signature(getattr(ops, name))) == wanted


@pytest.mark.parametrize(
    ("arguments", "named", "text"),
    [
        (2, {}, r"vector_add\(\) missing required argument: 'b'"),
        (6, {}, r"vector_add\(\) takes at most 5 positional arguments \(6 given\)"),
        (4, {"a": 1}, r"vector_add\(\) got multiple values for argument 'a'"),
        (4, {"m": 1}, r"vector_add\(\) got an unexpected keyword argument 'm'; it has ex, a, b, c, n"),
    ],
)
def test_arguments_that_no_function_takes(ex: hg.Executor, arguments: int, named: dict[str, Any], text: str) -> None:
    given = [ex, *[ex.allocate(4)] * 5][:arguments]
    with pytest.raises(TypeError, match=text):
        ops.vector_add(*given, **named)


def as_f32(value: int) -> float:
    """Return the f32 next to an int, of two the one whose last bit is 0."""
    low = value.bit_length() - 24
    top, rest = divmod(abs(value), 1 << low)
    top += rest > 1 << low - 1 or (rest == 1 << low - 1 and top & 1)
    return float((top << low) * (1 if value > 0 else -1))


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("rest", [0, 1, 2**53, 2**76, 2**76 + 1, 2**76 + 2**23, 2**76 - 1, 3 * 2**76, 3 * 2**76 - 1])
def test_integers_beyond_64_bits_beside_floats(ex: hg.Executor, rest: int, sign: int) -> None:
    """Are rounded once, wherever an operation takes them."""
    value = sign * (2**100 + rest)
    x, wide = np.ones(2, np.float32), np.ones(2)
    want = [as_f32(value)] * 2
    out = ex.allocate(2)
    assert ops.vector_mul(x, value).tolist() == ops.vector_mul(value, x).tolist() == want
    assert ops.vector_mul(ex, ex.from_numpy(x), value).to_numpy().tolist() == want
    assert ops.scalar_mul(x, scalar=value).tolist() == want
    ops.fill(ex, out, value)
    assert out.to_numpy().tolist() == want
    out.fill(value)
    assert out.to_numpy().tolist() == want
    assert hg.kernel(lambda x, y: x * y)(x, value).tolist() == want
    assert ops.vector_mul(wide, value).tolist() == ops.scalar_mul(wide, scalar=value).tolist() == [float(value)] * 2


def test_integers_beyond_64_bits_that_nothing_holds(ex: hg.Executor) -> None:
    for dtype, value in ((np.float32, 2**128), (np.float16, 2**70), (np.float64, 2**1024), (np.float64, 10**400)):
        x = np.ones(2, dtype)
        for use in (
            lambda: ops.vector_mul(x, value),  # noqa: B023
            lambda: ops.scalar_mul(x, scalar=value),  # noqa: B023
            lambda: ex.from_numpy(x).fill(value),  # noqa: B023
            lambda: hg.kernel(lambda x, y: x * y)(x, value),  # noqa: B023
        ):
            with pytest.raises(ValueError, match=r"goes from|out of range|too large for a float"):
                use()
    for of in (np.int32, np.uint64, np.uint8):
        with pytest.raises(ValueError, match=r"b is 18446744073709551616; .* goes from"):
            ops.vector_mul(np.ones(2, of), 2**64)
        with pytest.raises(ValueError, match="18446744073709551616, which has more than 64 bits"):
            ops.scalar_mul(np.ones(2, of), scalar=2**64)


def test_arguments_by_name(ex: hg.Executor) -> None:
    a, c = buffer(ex, [1, 2, 3, 4]), ex.allocate(4)
    ops.vector_add(c=c, ex=ex, b=a, a=a, n=3)
    assert c.to_numpy().tolist() == [2, 4, 6, 0]
    name = "".join(["sca", "lar"])  # no interned one
    ops.scalar_mul(ex, a, c, **{name: 3})
    assert c.to_numpy().tolist() == [3, 6, 9, 12]
    ops.gemm(ex, a, a, c, 2, 2, 2, trans_b=True, alpha=2)
    assert c.to_numpy().tolist() == [10, 22, 22, 50]


def test_modules_are_modules_of_their_own_type() -> None:
    """They look names up where these are (capi/python_module.c), and are modules as any."""
    for module in (hg, ops):
        assert inspect.ismodule(module)
        assert (type(module) is types.ModuleType) == (sys.version_info < (3, 10))
        assert vars(module) is module.__dict__ and repr(module).startswith(f"<module '{module.__name__}'")
        if type(module) is not types.ModuleType:  # which others pickle as such: cloudpickle
            assert pickle.loads(pickle.dumps(module)) is module is copy.deepcopy(module)
    setattr(ops, name := "of_a_test", 3)
    assert getattr(ops, name) == 3
    delattr(ops, name)
    with pytest.raises(AttributeError, match="no operation 'of_a_test'"):
        getattr(ops, name)
