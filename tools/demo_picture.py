"""The figures of the demo as a picture: bars of time and of what is left to run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from tools.docs.figure_style import FONT, colour, style_sheet

WIDTH, LABELS, GAP, BAR, PITCH = 860, 170, 60, 15, 19


@dataclass(frozen=True)
class Bar:
    """A model: what it is of, its role, and its two figures."""

    group: str
    label: str
    role: str
    milliseconds: float
    nodes: int


def picture(bars: Sequence[Bar], title: str) -> str:
    """The bars as SVG, group by group: milliseconds on the left, nodes on the right."""
    panel = (WIDTH - LABELS - 2 * GAP) / 2
    heads = ("ms of processor per image", "nodes that ONNX Runtime runs")
    starts = (LABELS, LABELS + panel + GAP)
    parts = [_text(start, 16, head, "soft", 13) for start, head in zip(starts, heads, strict=True)]
    most = (max(bar.milliseconds for bar in bars), max(bar.nodes for bar in bars))
    y, group = 24.0, None
    for bar in bars:
        y += 10 if bar.group != group else 0
        group = bar.group
        parts.append(_text(LABELS - 10, y + 12, bar.label, "ink", 13, "end"))
        figures = ((bar.milliseconds, f"{bar.milliseconds:.2f}"), (bar.nodes, str(bar.nodes)))
        for start, (value, shown), largest in zip(starts, figures, most, strict=True):
            length = panel * value / largest
            parts.append(
                f'<rect x="{start:.1f}" y="{y:.1f}" width="{length:.1f}" height="{BAR}" rx="2"'
                f' style="fill: {colour(bar.role)}"/>'
            )
            parts.append(_text(start + length + 6, y + 12, shown, "ink", 12))
        y += PITCH
    height = y + 8
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}"'
            f' width="{WIDTH}" height="{height:.0f}" role="img" font-family="{FONT}">',
            f"<title>{escape(title)}</title>",
            f"<style>{style_sheet()}</style>",
            *parts,
            "</svg>",
            "",
        ]
    )


def _text(x: float, y: float, text: str, role: str, size: int, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
        f' style="fill: {colour(role)}">{escape(text)}</text>'
    )
