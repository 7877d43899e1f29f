"""Models and comparisons as notebooks show them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.cli.execution import OutputDifference
from qdialect.cli.inspection import difference_rows, inspect_module, type_text
from qdialect.report.notebook import table_html, text_html

if TYPE_CHECKING:
    from qdialect.api import Model


class Differences(list[OutputDifference]):
    """How far outputs are apart, one entry for each."""

    def _repr_html_(self) -> str:
        return table_html("differences of outputs", difference_rows(self))


def model_html(model: Model) -> str:
    """What is in a model, in short, and its text."""
    found = inspect_module(model.module, model.ctx)
    counts = [
        *found.counts,
        ("boundary findings", len(found.boundaries)),
        ("bytes of weights", found.weight_bytes),
    ]
    values = [
        (side, name, type_text(kind))
        for side, own in (("takes", found.inputs), ("gives", found.outputs))
        for name, kind in own.items()
    ]
    return "\n".join(
        [
            table_html(found.name or "module", [("what", "count"), *_texts(counts)]),
            table_html("interface", [("", "name", "type"), *values]),
            text_html("text", str(model)),
        ]
    )


def _texts(counts: list[tuple[str, int]]) -> list[tuple[str, str]]:
    return [(name, f"{count:,}") for name, count in counts]
