"""The types on which a target runs an op, as data.

A `Kernel` is one row of a table: types of operands and results that go together.  A type is
written as the storages it may have, with `per-axis` behind them where the parameters may
differ along a dimension:

    Kernel(("i8", "i8|i4 per-axis", "i32 per-axis"), ("i8|i16",))

takes i8 codes per tensor, i8 or i4 weights per tensor or per channel, and a bias.  The
last type repeats for further operands or results; `*` is any type the target has at all.
A kernel restricts quantized tensors only, no indices or conditions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from qdialect.qparams import Layout

if TYPE_CHECKING:
    from qdialect.qparams import QParams

ANY = "*"
_PER_AXIS = "per-axis"


@dataclass(frozen=True)
class Kernel:
    """Types that go together: one per operand and one per result (the last repeats)."""

    operands: tuple[str, ...] = (ANY,)
    results: tuple[str, ...] = (ANY,)

    def __post_init__(self) -> None:
        for text in (*self.operands, *self.results):
            storages, *layout = text.split() or [""]
            if not storages or layout not in ([], [_PER_AXIS]):
                raise ValueError(f"not a type of a kernel: '{text}'")

    def refuses(
        self, operands: Sequence[QParams | None], results: Sequence[QParams | None]
    ) -> str | None:
        """Which of these types does not fit, or None (None: not quantized)."""
        sides = (("operand", self.operands, operands), ("result", self.results, results))
        for side, patterns, found in sides:
            for index, params in enumerate(found):
                pattern = patterns[min(index, len(patterns) - 1)]
                if params is not None and not _fits(params, pattern):
                    return f"{side} #{index} is {shown(params)}, not {pattern}"
        return None

    def __str__(self) -> str:
        return f"({', '.join(self.operands)}) -> {', '.join(self.results)}"


def _fits(params: QParams, pattern: str) -> bool:
    storages, *layout = pattern.split()
    layouts = {Layout.TENSOR, Layout.AXIS} if layout else {Layout.TENSOR}
    if storages != ANY and params.layout not in layouts:
        return False
    return storages == ANY or params.storage.spelling in storages.split("|")


def shown(params: QParams) -> str:
    """Storage and layout, for people: `i8`, `i8 per axis`."""
    layout = "" if params.layout is Layout.TENSOR else f" per {params.layout.value}"
    return f"{params.storage.spelling}{layout}"
