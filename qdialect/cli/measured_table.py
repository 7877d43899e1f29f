"""What was measured of a quantized model, as a table on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from qdialect.cli.terminal import line, table

if TYPE_CHECKING:
    from qdialect.workflows.quality import Measured

MOST_PARTS = 12
"""So many parts of outputs are shown."""


def measured_text(found: Measured) -> str:
    """Latency, size and nodes beside those of the float model, and the loss of each part."""
    text = ""
    if rows := found.rows():
        text += table(rows, dict.fromkeys((1, 2, 3), True), stream=sys.stderr, heading=True)
    if found.quality is not None:
        text += line(f"loss in {found.where}, on {found.samples}")
        right: dict[int, bool] = dict.fromkeys(range(1, 5), True)
        text += table(found.quality.rows(MOST_PARTS), right, stream=sys.stderr, heading=True)
        left_out = len(found.quality.parts) - MOST_PARTS
        if left_out > 0:
            text += f"and {left_out} parts of outputs that lose less; --json has all\n"
    if found.problem:
        text += line(f"not measured: {found.problem}")
    return text
