"""The page that ./build.sh bench report makes of the records."""

import json
import math
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))
import costs
import limits
import plot
import report

ROOT = Path(__file__).parents[2]
RECORD = json.loads((ROOT / "benchmarks" / "results" / "operations.json").read_text())
LIMITS = {"copy": {"16384": 2e11, "67108864": 1e10}, "peak": {"f32": 2e11, "f64": 1e11}}


class Tags(HTMLParser):
    """The tags of a page, and that they are closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.seen, self.loaded = [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.loaded += [value for name, value in attributes if name in ("src", "href")]
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_stands_alone_and_has_every_operation():
    text = report.page()
    tags = Tags(text)
    assert tags.seen.count("svg") >= 2
    assert not tags.loaded
    assert "url(" not in text
    for operation in {row["operation"] for row in RECORD["rows"]}:
        assert f"<title>{operation} " in text
    for drawn in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        for circle in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}circle"):
            assert 0 <= float(circle.get("cx")) <= plot.WIDTH
            assert 0 <= float(circle.get("cy")) <= plot.HEIGHT + 100


def test_what_is_left_out_of_the_slow_points_is_said():
    rows = [{**row, "seconds": dict.fromkeys(row["seconds"], 1.0) | {"hologram": 2.0}} for row in RECORD["rows"]]
    for few in (report.SLOWEST, report.SLOWEST + 1):
        text = report.roofline({**RECORD, "rows": rows[:few]})
        listed = text[text.index("Slower than the best peer") :]
        assert listed.count("<tr><td>") == report.SLOWEST
        assert listed.startswith(f"Slower than the best peer: {few} of {few}")
        assert ("of which the" in listed) == (few > report.SLOWEST)


def test_every_operation_of_the_record_has_its_cost():
    assert {row["operation"] for row in RECORD["rows"]} <= set(costs.ELEMENT)
    assert len(list(report.done(RECORD))) == len(RECORD["rows"])


@pytest.mark.parametrize(
    "operation, dtype, work, size",
    [
        ("copy", "i8", 0, 2),
        ("vector_add", "f32", 1, 12),
        ("vector_mad", "f64", 2, 32),
        ("vector_equal", "bf16", 1, 5),
        ("where", "f32", 1, 13),
        ("reduce_sum", "bf16", 1, 2),
        ("cumsum", "i32", 1, 8),
        ("vector_div by 3", "i16", 1, 4),
        ("gemm of 3×3", "f32", 5, 12),
    ],
)
def test_costs(operation, dtype, work, size):
    assert (costs.operations(operation, dtype), costs.moved(operation, dtype)) == (work, size)


def test_functions_are_counted_expanded():
    tanh, exp, sin = (costs.operations(f, "f32") for f in ("tanh", "vector_exp", "sin"))
    assert 10 < tanh < exp < sin < 200
    assert costs.operations("vector_exp", "f32") < costs.operations("vector_exp", "f64")


def test_shapes():
    assert costs.elements("1,048,576") == 1 << 20
    assert costs.elements("16 × 65536, axis 0") == 1 << 20


def test_limits_are_drawn_where_the_record_has_them():
    points = list(report.done(RECORD))
    assert [line.name.partition(",")[0] for line in report.roofs({**RECORD, "limits": LIMITS}, points)] == [
        "a copy in cache",
        "a copy in memory",
        "f32 products",
    ]
    assert [line.name.partition(",")[0] for line in report.roofs({"rows": RECORD["rows"]}, points)] == [
        "a copy in cache",
        "a copy in memory",
    ]
    assert report.copies({"limits": LIMITS, "rows": []}) == {32768: 2e11, 1 << 27: 1e10}


def test_limits_are_measured(monkeypatch):
    monkeypatch.setattr(limits, "COPIED", [1 << 10])
    monkeypatch.setattr(limits, "SIDE", 8)
    ticks = iter(range(10**9))
    found = limits.limits({"numpy": lambda a, b, c: np.matmul(a, b, out=c)}, lambda: next(ticks))
    assert found["copy"].keys() == {"1024"}
    assert found["peak"].keys() == {"f32", "f64"}
    assert all(rate > 0 for rates in found.values() for rate in rates.values())


def test_speeds_are_of_all_forms_of_rows():
    rows = [
        {"operation": "a", "dtype": "f32", "shape": "1", "seconds": {"hologram": 1.0, "torch": 3.0, "numpy": 2.0}},
        {"workload": "b", "n": 4, "seconds": {"hologram": 2.0, "hologram, tensors": 0.1, "torch": 1.0}},
        {"workload": "alone", "seconds": {"hologram": 2.0}},
        {"workload": "rounds", "seconds": {"hologram": [1.0], "torch": [1.0]}},
        {"call": "no times", "seconds": 1.0},
    ]
    assert report.speeds({"rows": rows}) == {"a f32 1": 2.0, "b 4": 0.5}


def test_axes():
    log = plot.Scale([1, 1000], 0, 100, True)
    assert math.isclose(log.place(math.sqrt(1000)), 50)
    assert log.ticks() == [1, 10, 100, 1000]
    assert plot.Scale([2.0, 2.0], 0, 100, False).place(2.0) == 50
    assert [plot.number(v) for v in (0.5, 200, 2e4, 3e11)] == ["0.5", "200", "20 k", "300 G"]


def test_names_are_escaped():
    drawn = plot.plot([plot.Point(1, 2, "a<b", "x & y"), plot.Point(3, 4, "c", "")], [], "<x>", "y")
    assert ElementTree.fromstring(drawn) is not None
