"""`tflite.node` as tables of LiteRT see it: kinds of operands, constants, options.

`kind` is a plain name: `f32`, `i32`, or `i8` of codes that are stored so. A dynamic extent counts
as one, as LiteRT takes it before it knows shapes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, cast

from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, FloatAttr, IntegerAttr, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue

from qdialect.algebra.qparams import QParams
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.ops.constants import constant_of, inline_array
from qdialect.ir.quant import element_type, quant_element
from qdialect.plugins.tflite.numerics.scales import single

NODE = "tflite.node"


class Reason(NamedTuple):
    """Why an op is not taken: a code, and a sentence."""

    code: str
    text: str


@dataclass(frozen=True)
class Part:
    """An operand or a result."""

    value: SSAValue

    @property
    def qparams(self) -> QParams | None:
        """Its qparams, if it has codes."""
        element = quant_element(self.value.type)
        return None if element is None else element.qparams

    @property
    def kind(self) -> str:
        """`f32`, `i8`, `u8`, `i32` ...: of codes, what they are stored as."""
        qparams = self.qparams
        return str(element_type(self.value.type)) if qparams is None else qparams.storage.spelling

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, 1 for those that only a run tells."""
        return tuple(max(extent, 1) for extent in shape_of(self.value))

    @property
    def scale(self) -> float | None:
        """The one scale of 8-bit codes."""
        qparams = self.qparams
        return None if qparams is None or qparams.count != 1 else single(qparams.scale_list()[0])

    @property
    def is_constant(self) -> bool:
        """Whether the file has its value, perhaps in fewer bits."""
        if constant_of(self.value) is not None:
            return True
        owner = self.value.owner
        return isinstance(owner, Operation) and unpacks(owner)

    @property
    def numbers(self) -> list[int] | None:
        """What a constant of integers holds, if that is in the text."""
        array = inline_array(self.value)
        return None if array is None else array.reshape(-1).tolist()


@dataclass(frozen=True)
class Node:
    """A `tflite.node` as the table sees it."""

    op: Operation
    name: str
    inputs: Sequence[Part | None]
    results: Sequence[Part]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    version: int = 1

    def part(self, index: int) -> Part:
        """An input that is there."""
        found = self.inputs[index]
        assert found is not None
        return found


def node_of(op: Operation) -> Node:
    """The parts of a `tflite.node`."""
    name = cast("StringAttr", op.properties["op"]).data
    absent = op.properties.get("absent")
    missing: set[int] = set()
    if isinstance(absent, DenseArrayBase):
        missing = {int(n) for n in cast("Sequence[int]", absent.get_values())}
    given = iter(op.operands)
    count = len(op.operands) + len(missing)
    inputs = [None if n in missing else Part(next(given)) for n in range(count)]
    options = op.properties.get("options")
    fields: Mapping[str, Attribute] = {}
    if isinstance(options, DictionaryAttr):
        fields = options.data
    version = op.properties.get("version")
    return Node(
        op,
        name,
        inputs,
        [Part(result) for result in op.results],
        {key: _plain(value) for key, value in fields.items()},
        cast("IntegerAttr[Any]", version).value.data if version is not None else 1,
    )


def _plain(attribute: Any) -> Any:
    if isinstance(attribute, IntegerAttr | FloatAttr):
        return cast("IntegerAttr[Any]", attribute).value.data
    if isinstance(attribute, StringAttr):
        return attribute.data
    if isinstance(attribute, DenseArrayBase):
        return list(cast("Sequence[Any]", attribute.get_values()))
    return attribute


def unpacks(op: Operation) -> bool:
    """A DEQUANTIZE of a constant, or what makes a sparse one dense."""
    name = op.properties.get("op")
    if op.name != NODE or not isinstance(name, StringAttr) or len(op.operands) != 1:
        return False
    if constant_of(op.operands[0]) is None:
        return False
    kind = Part(op.operands[0]).kind
    return name.data == "DENSIFY" or (
        name.data == "DEQUANTIZE" and kind in ("f16", "i8") and Part(op.results[0]).kind == "f32"
    )
