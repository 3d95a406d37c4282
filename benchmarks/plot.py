"""Plots as SVG text, of points and lines, for pages that load nothing."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

WIDTH, HEIGHT = 900, 480
LEFT, RIGHT, TOP, BOTTOM = 80, 20, 20, 60
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf", "#7f7f7f")


class Point(NamedTuple):
    """A point, its series, what is said where the pointer is on it, and whether it is drawn as a ring."""

    x: float
    y: float
    series: str
    text: str
    ring: bool = False


class Line(NamedTuple):
    """A line through places, with a name at its end."""

    places: Sequence[tuple[float, float]]
    name: str
    dashed: bool = False


class Scale:
    """An axis: numbers to places, logarithmic or not."""

    def __init__(self, values: Sequence[float], start: float, end: float, log: bool) -> None:
        self.log, self.start, self.end = log, start, end
        self.low, self.high = min(values), max(values)
        if log:
            self.low, self.high = math.log10(self.low) - 0.05, math.log10(self.high) + 0.05
        else:
            room = 0.05 * (self.high - self.low) or 1.0
            self.low, self.high = self.low - room, self.high + room

    def place(self, value: float) -> float:
        """Where a number lies."""
        at = math.log10(value) if self.log else value
        return self.start + (at - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Numbers to write beside the axis."""
        if self.log:
            steps = (1, 2, 5) if self.high - self.low < 3 else (1,)
            powers = range(math.floor(self.low), math.ceil(self.high) + 1)
            every = [s * 10.0**p for p in powers for s in steps]
            return [v for v in every if self.low <= math.log10(v) <= self.high]
        step = 10.0 ** math.floor(math.log10(self.high - self.low))
        step = next(s for s in (step / 5, step / 2, step, 2 * step) if (self.high - self.low) / s < 9)
        return [k * step for k in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]


def number(value: float) -> str:
    """A number in few digits."""
    if value >= 1e4:
        power = math.floor(math.log10(value) / 3)
        return f"{value / 1000**power:.3g}{['', ' k', ' M', ' G', ' T'][min(power, 4)]}"
    return f"{value:.3g}"


def plot(
    points: Sequence[Point],
    lines: Sequence[Line],
    x: str,
    y: str,
    log: tuple[bool, bool] = (True, True),
    named: Sequence[tuple[float, str]] = (),
) -> str:
    """A plot with its legend, as an svg element. named are places along x to be named, instead of numbers."""
    xs = [p.x for p in points] + [a for line in lines for a, _ in line.places]
    ys = [p.y for p in points] + [b for line in lines for _, b in line.places]
    across = Scale(xs, LEFT, WIDTH - RIGHT, log[0])
    up = Scale(ys, HEIGHT - BOTTOM, TOP, log[1])
    series = list(dict.fromkeys(p.series for p in points))
    colour = {name: COLOURS[i % len(COLOURS)] for i, name in enumerate(series)}
    box = f"0 0 {WIDTH} {HEIGHT + 24 * (1 + len(series) // 6)}"
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img">']
    for value, text in named or [(v, number(v)) for v in across.ticks()]:
        at = across.place(value)
        parts.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(f'<text x="{at:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{html.escape(text)}</text>')
    for value in up.ticks():
        at = up.place(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">{number(value)}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    parts.append(f'<text x="{WIDTH / 2}" y="{HEIGHT - 20}" text-anchor="middle">{html.escape(x)}</text>')
    parts.append(f'<text transform="translate(18 {middle}) rotate(-90)" text-anchor="middle">{html.escape(y)}</text>')
    for line in lines:
        places = " ".join(f"{across.place(a):.1f},{up.place(b):.1f}" for a, b in line.places)
        dash = ' stroke-dasharray="5 4"' if line.dashed else ""
        parts.append(f'<polyline class="roof" points="{places}"{dash}/>')
        a, b = line.places[-1]
        name = html.escape(line.name)
        parts.append(f'<text x="{across.place(a):.1f}" y="{up.place(b) - 5:.1f}" text-anchor="end">{name}</text>')
    for p in points:
        at = f'cx="{across.place(p.x):.1f}" cy="{up.place(p.y):.1f}" r="4"'
        title = f"<title>{html.escape(p.text)}</title>"
        opacity = 0 if p.ring else 0.65
        ink = f'fill="{colour[p.series]}" fill-opacity="{opacity}" stroke="{colour[p.series]}"'
        parts.append(f"<circle {at} {ink}>{title}</circle>")
    for i, name in enumerate(series):
        left, top = LEFT + i % 6 * 135, HEIGHT + 24 * (i // 6)
        parts.append(f'<circle cx="{left}" cy="{top}" r="5" fill="{colour[name]}"/>')
        parts.append(f'<text x="{left + 10}" y="{top + 4}">{html.escape(name)}</text>')
    return "\n".join([*parts, "</svg>"])
