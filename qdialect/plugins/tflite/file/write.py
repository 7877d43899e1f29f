"""Writing a TFLite or Circle file: the same `File` gives the same bytes.

Constants of equal bytes are one buffer; they go from where they are into the file.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qdialect.ir.weights import Load, replacing
from qdialect.plugins.tflite.file.elements import to_stored
from qdialect.plugins.tflite.file.model import (
    File,
    Kind,
    Operator,
    Quantization,
    Signature,
    Subgraph,
    Tensor,
)
from qdialect.plugins.tflite.file.schema import Field, Schema, schema_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Writing flatbuffers by a schema: the same bytes each time, aligned, weights never copied.
#
# Tables stand in front of what they have, so that all distances but those to vtables lead forward.
# The bytes of `Buffer.data` come last, one behind the other, each at a multiple of 16: they are
# written to the file from where they are. Where all would be more than a flatbuffer can hold, they
# stand behind it, and `Buffer.offset` and `Buffer.size` say where.

LARGEST = (1 << 31) - 1
"""Bytes of a flatbuffer at most."""
ALIGNED = 16

_U32 = struct.Struct("<I")
_TEXT = Field(0, "", "string", False, "string", "", None)


def encode(
    schema: Schema,
    identifier: bytes,
    table: str,
    values: Mapping[str, Any],
    largest: int = LARGEST,
) -> Iterator[memoryview]:
    """The pieces of a file, in their order, whose root is `table`.

    `values` are as `Decoder` gives them; of a `Buffer`, what `data` has may be any array.
    """
    encoder = _Encoder(schema, identifier, behind=False)
    encoder.write(table, values)
    if encoder.end() > largest:
        encoder = _Encoder(schema, identifier, behind=True)
        encoder.write(table, values)
    return encoder.pieces()


class _Encoder:
    """Head and bytes of buffers, which stand in the flatbuffer or `behind` it."""

    def __init__(self, schema: Schema, identifier: bytes, behind: bool) -> None:
        self._schema, self._behind = schema, behind
        self._head = bytearray(8)
        self._head[4:8] = identifier
        #: vtables that are written already, by their bytes
        self._vtables: dict[bytes, int] = {}
        #: bytes of buffers, with where the fields that tell their place stand
        self._data: list[tuple[NDArray[Any], tuple[int, ...]]] = []
        #: distances to fill in, last first, and what they lead to: a table has no field here
        self._pending: list[tuple[int, Field | None, Any]] = []

    def write(self, table: str, values: Mapping[str, Any]) -> None:
        """Make the head."""
        self._pending.append((0, None, (table, values)))
        while self._pending:
            at, row, value = self._pending.pop()
            if row is None:
                self._table(at, *value)
            elif row.role == "string" and not row.many:
                self._string(at, value)
            elif row.role == "number":
                self._numbers(at, row, value)
            else:
                self._distances(at, row, value)

    # -- tables -------------------------------------------------------------------------

    def _table(self, at: int, name: str, values: Mapping[str, Any]) -> None:
        present = list(self._present(name, values))
        layout = sorted(present, key=lambda entry: (-entry[0].packing.size, entry[0].slot))
        wide = any(row.packing.size == 8 for row, _ in layout)
        places: dict[str, int] = {}
        size = 4
        entries = [0] * (max((row.slot for row, _ in present), default=-1) + 1)
        for row, _ in layout:
            entries[row.slot] = places[row.name] = size
            size += row.packing.size
        vtable = struct.pack(f"<{2 + len(entries)}H", 4 + 2 * len(entries), size, *entries)
        if vtable not in self._vtables:
            self._vtables[vtable] = self._align(4)
            self._head += vtable
        # The fields begin 4 bytes behind the start, the widest first.
        start = self._align(8, 4) if wide else self._align(4)
        self._point(at, start)
        self._head += struct.pack("<i", start - self._vtables[vtable]) + bytes(size - 4)
        if name == "Buffer" and values.get("data") is not None:
            self._data.append(
                (values["data"], tuple(start + places[row.name] for row, _ in present))
            )
            return
        later: list[tuple[int, Field | None, Any]] = []
        for row, value in present:
            place = start + places[row.name]
            if _is_plain(row):
                row.packing.pack_into(self._head, place, value)
            elif row.role == "union":
                later.append((place, None, value))
            elif row.role == "table" and not row.many:
                later.append((place, None, (row.type, value)))
            else:
                later.append((place, row, value))
        self._pending.extend(reversed(later))

    def _present(self, name: str, values: Mapping[str, Any]) -> Iterator[tuple[Field, Any]]:
        """The fields of a table that are not as the schema has them anyway; enums as numbers."""
        rows = self._schema.tables[name]
        if name == "Buffer" and values.get("data") is not None:
            yield from ((row, 0) for row in rows if (row.name != "data") == self._behind)
            return
        for row, following in zip(rows, (*rows[1:], None), strict=False):
            if row.role == "tag":
                union = values.get(following.name) if following is not None else None
                if union is not None:
                    yield row, self._schema.enums[row.enum].numbers[union[0]]
                continue
            value = values.get(row.name)
            if value is None:
                continue
            if not _is_plain(row):
                yield row, value
                continue
            number, default = self._number(row, value), self._number(row, row.default)
            if row.packing.pack(number) != row.packing.pack(default):
                yield row, number

    def _number(self, row: Field, value: Any) -> Any:
        if row.enum and isinstance(value, str):
            return self._schema.enums[row.enum].numbers[value]
        return value

    # -- vectors ------------------------------------------------------------------------

    def _string(self, at: int, value: str) -> None:
        text = value.encode()
        self._point(at, self._align(4))
        self._head += _U32.pack(len(text)) + text + b"\0"

    def _numbers(self, at: int, row: Field, value: Any) -> None:
        import numpy as np

        array = np.ascontiguousarray(value, np.dtype(row.type).newbyteorder("<"))
        unit = ALIGNED if row.type == "uint8" else max(row.width, 4)
        self._align(unit, unit - 4)
        self._point(at, len(self._head))
        self._head += _U32.pack(array.size)
        self._head += array.tobytes()

    def _distances(self, at: int, row: Field, values: Sequence[Any]) -> None:
        start = self._align(4)
        self._point(at, start)
        self._head += _U32.pack(len(values)) + bytes(4 * len(values))
        for index, value in reversed(list(enumerate(values))):
            place = start + 4 + 4 * index
            if row.role == "string":
                self._pending.append((place, _TEXT, value))
            else:
                self._pending.append((place, None, (row.type, value)))

    # -- places -------------------------------------------------------------------------

    def _align(self, unit: int, remainder: int = 0) -> int:
        """Fill up to a position that is `remainder` modulo `unit`; the position."""
        self._head += bytes((remainder - len(self._head)) % unit)
        return len(self._head)

    def _point(self, at: int, target: int) -> None:
        _U32.pack_into(self._head, at, target - at)

    # -- the bytes of buffers -----------------------------------------------------------

    def end(self) -> int:
        """How many bytes head and buffers take."""
        return max(
            (start + data.nbytes for data, _, start in self._places()), default=len(self._head)
        )

    def _places(self) -> Iterator[tuple[NDArray[Any], tuple[int, ...], int]]:
        """The bytes of buffers and where they begin; their lengths stand in front of them."""
        end = len(self._head)
        for data, fields in self._data:
            start = end if self._behind else end + 4
            start += -start % ALIGNED
            yield data, fields, start
            end = start + data.nbytes

    def pieces(self) -> Iterator[memoryview]:
        """Head, then the bytes of buffers with what lies between them."""
        places = list(self._places())
        for data, fields, start in places:
            if self._behind:
                for place, number in zip(fields, (start, data.nbytes), strict=True):
                    struct.pack_into("<Q", self._head, place, number)
            else:
                self._point(fields[0], start - 4)
        end = len(self._head)
        yield memoryview(self._head)
        for data, _, start in places:
            length = b"" if self._behind else _U32.pack(data.nbytes)
            yield memoryview(bytes(start - end - len(length)) + length)
            if data.nbytes:
                yield data.reshape(-1).view("u1").data
            end = start + data.nbytes


def _is_plain(row: Field) -> bool:
    return row.role in ("number", "tag") and not row.many


IDENTIFIERS: dict[Kind, bytes] = {"tflite": b"TFL3", "circle": b"CIR0"}

_OLD_CODES = 127
"""The greatest number of an op that the field of old files has room for."""


def write_file(
    file: File,
    path: str | os.PathLike[str],
    *,
    largest: int = LARGEST,
    load: Load | None = None,
) -> None:
    """Write a file, whole or not at all; InputError (`unwritable-file`).

    Where it would be a flatbuffer of more than `largest` bytes, constants stand behind that.
    """
    target = Path(path)
    pieces = file_pieces(file, largest)
    with replacing(target, load) as temporary, temporary.open("wb") as out:
        out.writelines(pieces)


def file_bytes(file: File, *, largest: int = LARGEST) -> bytes:
    """What `write_file` writes."""
    return b"".join(file_pieces(file, largest))


def file_pieces(file: File, largest: int = LARGEST) -> Iterator[memoryview]:
    """What `write_file` writes, piece by piece."""
    root = _Writer(file).root()
    return encode(schema_of(file.kind), IDENTIFIERS[file.kind], "Model", root, largest)


class _Writer:
    """Makes the tables of a file."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._schema = schema_of(file.kind)
        self._buffers: list[Mapping[str, Any]] = [{}]
        #: buffers of bytes that may be the same: as many, with the same ends
        self._alike: dict[tuple[int, bytes, bytes], list[tuple[int, NDArray[Any]]]] = {}
        self._codes: dict[tuple[str, bool, int], int] = {}

    def root(self) -> dict[str, Any]:
        """The fields of `Model`."""
        file = self._file
        subgraphs = [self._subgraph(subgraph) for subgraph in file.subgraphs]
        metadata = [
            {"name": name, "buffer": self._bytes(content)}
            for name, content in file.metadata.items()
        ]
        return {
            "version": file.version,
            "operator_codes": [self._code(*code) for code in self._codes],
            "subgraphs": subgraphs,
            "description": file.description or None,
            "metadata": metadata or None,
            "metadata_buffer": [self._bytes(content) for content in file.unnamed_metadata] or None,
            "buffers": self._buffers,
            "signature_defs": [self._signature(row) for row in file.signatures] or None,
        }

    # -- buffers ------------------------------------------------------------------------

    def _bytes(self, content: bytes) -> int:
        import numpy as np

        return self._buffer(np.frombuffer(content, np.uint8))

    def _buffer(self, stored: NDArray[Any]) -> int:
        """The number of a buffer with these bytes; 0 for none."""
        import numpy as np

        if not stored.size:
            return 0
        key = stored.size, stored[:64].tobytes(), stored[-64:].tobytes()
        alike = self._alike.setdefault(key, [])
        for number, other in alike:
            if other.ctypes.data == stored.ctypes.data or np.array_equal(other, stored):
                return number
        self._buffers.append({"data": stored})
        alike.append((len(self._buffers) - 1, stored))
        return len(self._buffers) - 1

    # -- tensors ------------------------------------------------------------------------

    def _subgraph(self, subgraph: Subgraph) -> dict[str, Any]:
        return {
            "tensors": [self._tensor(tensor) for tensor in subgraph.tensors],
            "inputs": subgraph.inputs,
            "outputs": subgraph.outputs,
            "operators": [self._operator(op) for op in subgraph.operators],
            "name": subgraph.name or None,
            "debug_metadata_index": subgraph.debug,
        }

    def _tensor(self, tensor: Tensor) -> dict[str, Any]:
        buffer = 0
        if tensor.data is not None:
            type = "" if tensor.is_stored_otherwise else tensor.type
            buffer = self._buffer(to_stored(tensor.data, type))
        fields: dict[str, Any] = {
            "shape": list(tensor.shape),
            "type": tensor.type,
            "buffer": buffer,
            "name": tensor.name or None,
            "quantization": None,
            "is_variable": tensor.is_variable,
            "sparsity": tensor.sparsity,
            "shape_signature": None if tensor.signature is None else list(tensor.signature),
            "has_rank": tensor.has_rank,
            "variant_tensors": list(tensor.variants) or None,
        }
        if tensor.compression != "NONE":
            fields["compression_type"] = tensor.compression
        if tensor.quantization is not None:
            fields["quantization"] = self._quantization(tensor.quantization)
        return fields

    def _quantization(self, given: Quantization) -> dict[str, Any]:
        details: Any = given.details
        if given.blocks is not None:
            blocks = given.blocks
            fields = {
                "scales": blocks.scales,
                "zero_points": blocks.zero_points,
                "block_size": blocks.size,
            }
            details = "BlockwiseQuantization", fields
        return {
            "min": given.minimum,
            "max": given.maximum,
            "scale": given.scales if len(given.scales) else None,
            "zero_point": given.zero_points if len(given.zero_points) else None,
            "details": details,
            "quantized_dimension": given.axis,
        }

    # -- ops ----------------------------------------------------------------------------

    def _code(self, op: str, is_custom: bool, version: int) -> dict[str, Any]:
        number = self._schema.enums["BuiltinOperator"].numbers["CUSTOM" if is_custom else op]
        return {
            "deprecated_builtin_code": min(number, _OLD_CODES),
            "custom_code": op if is_custom else None,
            "version": version,
            "builtin_code": number,
        }

    def _operator(self, op: Operator) -> dict[str, Any]:
        import numpy as np

        code = op.op, op.is_custom, op.version
        table = op.table
        if table is None:
            table = self._schema.options.get(op.op, "") if not op.is_custom else ""
        second = table not in self._schema.enums["BuiltinOptions"].numbers
        fields: dict[str, Any] = {
            "opcode_index": self._codes.setdefault(code, len(self._codes)),
            "inputs": op.inputs,
            "outputs": op.outputs,
            "mutating_variable_inputs": op.mutating or None,
            "intermediates": op.intermediates or None,
            "debug_metadata_index": op.debug,
        }
        if table:
            fields["builtin_options_2" if second else "builtin_options"] = table, op.options
        if op.custom:
            fields["custom_options"] = np.frombuffer(op.custom, np.uint8)
        return fields

    def _signature(self, given: Signature) -> dict[str, Any]:
        def names(rows: Mapping[str, int]) -> list[dict[str, Any]]:
            return [{"name": name, "tensor_index": number} for name, number in rows.items()]

        return {
            "inputs": names(given.inputs),
            "outputs": names(given.outputs),
            "signature_key": given.key,
            "subgraph_index": given.subgraph,
        }
