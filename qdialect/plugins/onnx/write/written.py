"""A model that is written without being in memory: its message, and its large weights apart.

A weight stays where it is, in a mapped file mostly, until its bytes go from there to the file of
the model or to the one beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from qdialect.plugins.onnx.protobuf import header
from qdialect.plugins.onnx.write.graph import LARGE_WEIGHT

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

# Numbers of fields.
_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
_MOST = (1 << 31) - 1
"""Bytes of a message."""


_Pieces = list[bytes | memoryview]


@dataclass(frozen=True)
class Written:
    """`model`, whose initializers hold their data but for the `weights`, by name."""

    model: ModelProto
    weights: Mapping[str, memoryview]

    def data(self, tensor: TensorProto) -> memoryview | bytes | None:
        """The bytes of an initializer that is large enough to be elsewhere than in it."""
        known = self.weights.get(tensor.name)
        if known is None and tensor.HasField("raw_data"):
            known = tensor.raw_data
        return known if known is not None and len(known) >= LARGE_WEIGHT else None

    def whole(self) -> ModelProto:
        """The model with all of its weights in it."""
        for tensor in self.model.graph.initializer:
            if tensor.name in self.weights and not tensor.HasField("raw_data"):
                tensor.raw_data = bytes(self.weights[tensor.name])
        return self.model

    def serialized(self) -> _Pieces:
        """The one message of all, in pieces; ValueError if it is larger than one may be."""
        if not self.weights:
            return [self.model.SerializeToString()]
        pieces = list(self._pieces())
        if (size := _size(pieces)) > _MOST:
            raise ValueError(f"it would be of {size} bytes, a protobuf file holds {_MOST}")
        return pieces

    def _pieces(self) -> Iterator[bytes | memoryview]:
        graph = self.model.graph
        before, after = _around(self.model, _GRAPH)
        first, last = _around(graph, _INITIALIZER)
        tensors: _Pieces = []
        for tensor in graph.initializer:
            content = self._tensor(tensor)
            tensors += [header(_INITIALIZER, _size(content)), *content]
        inside = [first, *tensors, last]
        yield from (before, header(_GRAPH, _size(inside)), *inside, after)

    def _tensor(self, tensor: TensorProto) -> _Pieces:
        data = self.weights.get(tensor.name)
        if data is None:
            return [tensor.SerializeToString()]
        before, after = _around(tensor, _RAW_DATA)
        return [before, header(_RAW_DATA, len(data)), data, after]


def without(message: Any, left_out: str) -> Any:
    """A copy of a message without one of its fields."""
    number: int = message.DESCRIPTOR.fields_by_name[left_out].number
    return _with(message, lambda other: other != number)


def _around(message: Any, number: int) -> tuple[bytes, bytes]:
    before, after = _with(message, number.__gt__), _with(message, number.__lt__)
    return before.SerializeToString(), after.SerializeToString()


def _with(message: Any, keep: Callable[[int], bool]) -> Any:
    """A copy of the fields with such numbers."""
    made = type(message)()
    for field, value in message.ListFields():
        if not keep(field.number):
            continue
        if hasattr(value, "extend"):
            getattr(made, field.name).extend(value)
        elif hasattr(value, "CopyFrom"):
            getattr(made, field.name).CopyFrom(value)
        else:
            setattr(made, field.name, value)
    return made


def _size(pieces: _Pieces) -> int:
    return sum(map(len, pieces))
