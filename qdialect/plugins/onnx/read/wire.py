"""Model files without their large weights, which stay where they are.

Parsing copies every byte of a message. Of a `ModelProto` this takes `graph.initializer.raw_data`
out where it is large, and leaves in its place the reference that a tensor in a file beside the
model has, to a location that no file has. Only the outlines of messages are read; on anything
that is not as it should be all is left as it is, for the parser to say what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple
from uuid import uuid4

from qdialect.plugins.onnx.protobuf import (
    BYTES,
    VARINT,
    Field,
    fields,
    header,
    number_field,
    text_field,
)

_LARGE = 1 << 16
"""Bytes; shape inference looks at no weight of as many."""

# Numbers of fields.
_GRAPH, _INITIALIZER, _RAW_DATA, _EXTERNAL_DATA, _DATA_LOCATION = 7, 5, 9, 13, 14
_KEY, _VALUE = 1, 2
_EXTERNAL = 1

_Pieces = list[bytes | memoryview]


class CutOut(NamedTuple):
    """What is left of the bytes of a model, and the weights by their locations."""

    message: bytes | memoryview
    weights: dict[str, memoryview]


def cut_out(data: memoryview) -> CutOut:
    """The model without its large weights; these are views of `data`."""
    cutter = _Cutter(data)
    try:
        pieces = cutter.model() if len(data) >= _LARGE else []
    except ValueError:
        return CutOut(data, {})
    return CutOut(b"".join(pieces), cutter.weights) if cutter.weights else CutOut(data, {})


class _Cutter:
    def __init__(self, data: memoryview) -> None:
        self.weights: dict[str, memoryview] = {}
        self._data = data
        # With a zero, as no file has, and by chance, so that no model can ask for it.
        self._name = f"\0{uuid4().hex}/"

    def model(self) -> _Pieces:
        return list(self._cut(0, len(self._data), _GRAPH, self._graph))

    def _graph(self, field: Field) -> _Pieces:
        return list(self._cut(field.begin, field.end, _INITIALIZER, self._tensor))

    def _cut(
        self, begin: int, end: int, number: int, cut: Callable[[Field], _Pieces | None]
    ) -> Iterator[bytes | memoryview]:
        """A message with what `cut` makes of its fields of that number."""
        kept = begin
        for field in fields(self._data, begin, end):
            # What is smaller holds nothing large.
            if field.number != number or field.end - field.begin < _LARGE:
                continue
            if field.kind != BYTES:
                raise ValueError(f"field {number} is no message")
            content = cut(field)
            if content is None:
                continue
            yield self._data[kept : field.start]
            yield header(number, sum(map(len, content)))
            yield from content
            kept = field.end
        yield self._data[kept:end]

    def _tensor(self, field: Field) -> _Pieces | None:
        """None for one that stays whole."""
        inner = list(fields(self._data, field.begin, field.end))
        if any(self._is_elsewhere(f) for f in inner):
            return None
        found = [f for f in inner if f.number == _RAW_DATA]
        if len(found) != 1 or found[0].kind != BYTES or found[0].end - found[0].begin < _LARGE:
            return None
        raw, location = found[0], f"{self._name}{len(self.weights)}"
        self.weights[location] = self._data[raw.begin : raw.end]
        entry = text_field(_KEY, "location") + text_field(_VALUE, location)
        return [
            self._data[field.begin : raw.start],
            self._data[raw.end : field.end],
            header(_EXTERNAL_DATA, len(entry)) + entry,
            number_field(_DATA_LOCATION, _EXTERNAL),
        ]

    def _is_elsewhere(self, field: Field) -> bool:
        """Whether a field of a tensor may say that its data is not in it."""
        if field.number == _DATA_LOCATION:
            return field.kind != VARINT or any(self._data[field.begin : field.end])
        return field.number == _EXTERNAL_DATA
