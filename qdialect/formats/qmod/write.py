"""Writing modules as `.qmod` files (see `dialects.module_format`)."""

from __future__ import annotations

import json
import math
import struct
import sys
from array import array
from io import StringIO
from typing import Any, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    UNKNOWN_LOC,
    AnyFloat,
    DenseIntOrFPElementsAttr,
    DenseResourceAttr,
    FileLineColLoc,
    IntegerType,
    LocationAttr,
    ModuleOp,
    NoneAttr,
    StringAttr,
    TensorType,
    UnregisteredOp,
)
from xdsl.ir import Attribute, Block, Operation, Region, TypeAttribute

from qdialect.context import QContext
from qdialect.dialects.module_format import HEADER, MAGIC, VERSION, checksum, is_element
from qdialect.errors import UnsupportedError
from qdialect.formats.mlir.write.printer import MLIRPrinter
from qdialect.ops.constants import BlobAttr
from qdialect.ops.locations import op_where
from qdialect.qparams.parameters import QParams
from qdialect.quant.text_version import TextVersion, printing_for
from qdialect.quant.types import UniformType

_LINES = (1 << 32) - 1


def module_bytes(module: ModuleOp, ctx: QContext, *, inline_weights: bool = False) -> bytes:
    """The file of `module`; with `inline_weights` weights are in it, not referred to."""
    writer = _Writer(ctx, inline_weights)
    with printing_for(TextVersion("v24")):
        writer.op(module)
    tables = {
        "strings": list(writer.strings),
        "attributes": writer.attributes,
        "dictionaries": [list(entry) for entry in writer.dictionaries],
    }
    numbers = array("I", writer.numbers)
    if sys.byteorder == "big":
        numbers.byteswap()
    parts = [
        json.dumps(tables, separators=(",", ":")).encode(),
        numbers.tobytes(),
        b"".join(writer.data),
    ]
    behind = struct.pack("<QQQ", *map(len, parts)) + b"".join(parts)
    head = struct.pack(HEADER, MAGIC, VERSION, checksum(behind), 0, 0, 0)[:28]
    return head + behind


class _Writer:
    def __init__(self, ctx: QContext, inline: bool) -> None:
        self._ctx = ctx
        self._inline = inline
        self.strings: dict[str, int] = {}
        self.attributes: list[Any] = []
        self.dictionaries: dict[tuple[int, ...], int] = {}
        self.numbers: list[int] = []
        self.data: list[bytes] = []
        self._length = 0
        #: by identity, which the second part keeps alive, and by what they are
        self._known: dict[int, tuple[int, Attribute]] = {}
        self._equal: dict[Attribute, int] = {}
        #: by identity, as their own hash is slow
        self._values: dict[int, int] = {}
        self._where: Operation | None = None

    def op(self, op: Operation) -> None:
        """Write `op` and what is in it."""
        self._number(op)
        self._op(op, {})

    def _number(self, op: Operation) -> None:
        for region in op.regions:
            for block in region.blocks:
                for argument in block.args:
                    self._values[id(argument)] = len(self._values)
            for block in region.blocks:
                for inner in block.ops:
                    self._number(inner)
        for result in op.results:
            self._values[id(result)] = len(self._values)

    def _op(self, op: Operation, blocks: dict[Block, int]) -> None:
        self._where = op
        attributes = op.attributes
        name = op.name
        if isinstance(op, UnregisteredOp):
            name = op.op_name.data
            attributes = {k: value for k, value in attributes.items() if k != "op_name__"}
        string, attribute, values = self._string, self._attribute, self._values
        properties: list[int] = []
        for key, value in op.properties.items():
            properties += (string(key), attribute(value))
        number = self.dictionaries.setdefault(tuple(properties), len(self.dictionaries))
        numbers = self.numbers
        numbers += (string(name), number, len(attributes))
        for key, value in attributes.items():
            numbers += (string(key), attribute(value))
        self._location(op.location)
        operands = op._operands  # pyright: ignore[reportPrivateUsage]
        numbers.append(len(operands))
        for operand in operands:
            numbers.append(values[id(operand)])
        numbers.append(len(op.results))
        for result in op.results:
            hint = result.name_hint
            numbers += (attribute(result.type), 0 if hint is None else 1 + string(hint))
        successors = op.successors
        numbers.append(len(successors))
        numbers += [blocks[block] for block in successors]
        numbers.append(len(op.regions))
        for region in op.regions:
            self._region(region)

    def _region(self, region: Region) -> None:
        put = self.numbers.append
        blocks = {block: index for index, block in enumerate(region.blocks)}
        put(len(blocks))
        for block in blocks:
            put(0 if block.name_hint is None else 1 + self._string(block.name_hint))
            put(len(block.args))
            for value in block.args:
                put(self._attribute(value.type))
                put(0 if value.name_hint is None else 1 + self._string(value.name_hint))
                self._location(value.location)
        for block in blocks:
            ops = list(block.ops)
            put(len(ops))
            for op in ops:
                self._op(op, blocks)

    def _location(self, location: LocationAttr) -> None:
        if location is UNKNOWN_LOC:
            self.numbers.append(0)
        elif isinstance(location, FileLineColLoc) and max(self._place(location)) <= _LINES:
            self.numbers += (1, self._string(location.filename.data), *self._place(location))
        else:
            self.numbers += (2, self._attribute(location))

    @staticmethod
    def _place(location: FileLineColLoc) -> tuple[int, int]:
        return location.line.data, location.column.data

    def _string(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))

    def _attribute(self, attribute: Attribute) -> int:
        known = self._known.get(id(attribute))
        if known is not None:
            return known[0]
        number = self._equal.get(attribute)
        if number is None:
            entry = self._entry(attribute)
            number = self._equal[attribute] = len(self.attributes)
            self.attributes.append(entry)
        self._known[id(attribute)] = number, attribute
        return number

    def _entry(self, attribute: Attribute) -> Any:
        if type(attribute) is StringAttr:
            return attribute.data
        if isinstance(attribute, BlobAttr) and self._inline:
            data = self._ctx.blobs.get(attribute.key.data).data
            kind = cast("TensorType[Any]", attribute.type)
            return self._dense(kind, bytes(data))
        if type(attribute) is DenseIntOrFPElementsAttr:
            dense = cast("DenseIntOrFPElementsAttr[Any]", attribute)
            data = bytes(dense.data.data)
            if _is_plain(dense.get_type(), len(data)):
                return self._dense(dense.get_type(), data)
        if isinstance(attribute, DenseResourceAttr):
            where = None if self._where is None else op_where(self._where)
            raise UnsupportedError("dense_resource cannot go into a .qmod file", where=where)
        if type(attribute) is TensorType:
            tensor = attribute
            if is_element(tensor.element_type) and type(tensor.encoding) is NoneAttr:
                shape = (-1 if n == DYNAMIC_INDEX else n for n in tensor.get_shape())
                return ["s", self._attribute(tensor.element_type), *shape]
        if type(attribute) is UniformType and attribute.data.is_per_tensor:
            qparams = attribute.data
            like = UniformType(QParams.per_tensor(qparams.storage, 1.0, 0, qparams.expressed))
            if attribute != like:
                return ["q", self._attribute(like), qparams.scale, qparams.zero_point]
        stream = StringIO()
        plain: Attribute = attribute
        MLIRPrinter(stream=stream, ctx=self._ctx).print_attribute(plain)
        if isinstance(attribute, LocationAttr):
            return ["l", stream.getvalue()]
        return ["t" if isinstance(attribute, TypeAttribute) else "a", stream.getvalue()]

    def _dense(self, kind: Attribute, data: bytes) -> list[Any]:
        offset = self._length
        self.data.append(data)
        self._length += len(data)
        return ["d", self._attribute(kind), offset, len(data)]


def _is_plain(kind: Attribute, length: int) -> bool:
    """Whether a tensor of this type is as long as `length` says."""
    if not isinstance(kind, TensorType):
        return False
    element: Attribute = cast("TensorType[Attribute]", kind).element_type
    if not isinstance(element, IntegerType | AnyFloat):
        return False
    size: int = cast("Any", element).compile_time_size
    return math.prod(cast("TensorType[Any]", kind).get_shape()) * size == length
