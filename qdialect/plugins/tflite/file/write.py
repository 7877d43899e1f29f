"""Writing a TFLite or Circle file: the same `File` gives the same bytes.

Constants of equal bytes are one buffer; they go from where they are into the file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qdialect.ir.weights import Load, replacing
from qdialect.plugins.tflite.file.elements import to_stored
from qdialect.plugins.tflite.file.flatbuffer_write import LARGEST, encode
from qdialect.plugins.tflite.file.model import (
    File,
    Kind,
    Operator,
    Quantization,
    Signature,
    Subgraph,
    Tensor,
)
from qdialect.plugins.tflite.file.schema import schema_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

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
