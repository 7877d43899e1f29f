"""Reading a TFLite or Circle file: `read_file(path)` is a `File`, or one InputError.

Every number of a tensor, buffer, op and subgraph is checked, and so is what LiteRT relies on:
sizes of constants, counts of scales, and that each value is made once, in front of its readers.
Constants are views of the file, which stays mapped.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qdialect.errors import InputError, Where
from qdialect.plugins.tflite.file.elements import ELEMENTS, RANGES, from_stored, stored_size
from qdialect.plugins.tflite.file.flatbuffer_read import CODE, Bytes, Decoder
from qdialect.plugins.tflite.file.model import (
    ABSENT,
    Blocks,
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

KINDS: dict[bytes, Kind] = {b"TFL3": "tflite", b"CIR0": "circle"}
"""What stands at byte 4 of each kind of file."""
VERSION = 3
"""The version of the schema that LiteRT takes."""
RANK = 32
"""Dimensions of a tensor at most: arrays of numpy have no more."""


def read_file(path: str | os.PathLike[str]) -> File:
    """The file at `path`, whose constants stay in it.

    Raises InputError (`invalid-tflite`) with the field, tensor or op that is wrong.
    """
    from mmap import ACCESS_READ, mmap

    source = Path(path)
    try:
        with source.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            contents = mmap(file.fileno(), 0, access=ACCESS_READ) if size else b""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"cannot read: {reason}", where=Where(str(source)), code=CODE) from None
    return read_bytes(contents, str(source))


def read_bytes(data: Any, name: str = "<file>") -> File:
    """As `read_file`, of bytes (or any buffer) that stay as they are."""
    contents = Bytes(memoryview(data), name)
    identifier = bytes(contents.data[4:8])
    if identifier not in KINDS:
        found = f"'{identifier.decode('ascii', 'backslashreplace')}'" if identifier else "nothing"
        raise InputError(
            f"neither a TFLite nor a Circle file: at byte 4 is {found}, not 'TFL3' or 'CIR0'",
            where=Where(name),
            code=CODE,
        )
    return _Reader(contents, KINDS[identifier]).file()


class _Reader:
    """The state of reading one file."""

    def __init__(self, contents: Bytes, kind: Kind) -> None:
        self._contents = contents
        self._kind: Kind = kind
        self._schema = schema_of(kind)
        self._root = Decoder(contents, self._schema).root("Model")
        self._buffers: Sequence[Mapping[str, Any]] = self._root["buffers"] or ()
        #: bytes of buffers by their numbers
        self._stored: dict[int, NDArray[Any]] = {}
        #: of constants that are no views: their arrays, and bytes that may still be unpacked
        self._arrays: dict[tuple[int, str, tuple[int, ...]], NDArray[Any]] = {}
        self._unpacked = 8 * len(contents.data) + 1024
        self._copies: dict[int, bytes] = {}

    def file(self) -> File:
        """The whole file."""
        root, contents = self._root, self._contents
        if self._kind == "tflite" and root["version"] != VERSION:
            raise contents.bad("Model.version", f"the schema's version is {root['version']}, not 3")
        codes = [self._code(n, row) for n, row in enumerate(root["operator_codes"] or ())]
        tables: Sequence[Mapping[str, Any]] = root["subgraphs"] or ()
        if not tables:
            raise contents.bad("Model.subgraphs", "the file has no subgraph")
        subgraphs = [self._subgraph(n, row, codes) for n, row in enumerate(tables)]
        metadata: dict[str, bytes] = {}
        for index, row in enumerate(root["metadata"] or ()):
            place = f"Model.metadata[{index}]"
            metadata.setdefault(row["name"] or "", self._copy(place, row["buffer"]))
        given: Sequence[int] = () if root["metadata_buffer"] is None else root["metadata_buffer"]
        # Quantizers that renumber buffers leave this list, which no runtime reads, as it was.
        unnamed = [int(number) for number in given if 0 <= number < len(self._buffers)]
        return File(
            self._kind,
            root["version"],
            subgraphs,
            root["description"] or "",
            [
                self._signature(n, row, subgraphs)
                for n, row in enumerate(root["signature_defs"] or ())
            ],
            metadata,
            [self._copy("Model.metadata_buffer", number) for number in unnamed],
            contents.name,
        )

    # -- buffers ------------------------------------------------------------------------

    def _buffer(self, place: str, number: int) -> NDArray[Any]:
        """The bytes of a buffer, in the flatbuffer or behind it."""
        import numpy as np

        if number in self._stored:
            return self._stored[number]
        if not 0 <= number < len(self._buffers):
            raise self._contents.bad(place, f"there is no buffer {number} of {len(self._buffers)}")
        row = self._buffers[number]
        offset, size = row["offset"], row["size"]
        if offset > 1 and size:
            if row["data"] is not None and row["data"].size:
                raise self._contents.bad(
                    place, f"buffer {number} is inside and behind the flatbuffer"
                )
            found = self._contents.numbers(f"{place}: buffer {number}", offset, size, "uint8", 1)
        else:
            found = np.empty(0, np.uint8) if row["data"] is None else row["data"]
        self._stored[number] = found
        return found

    def _copy(self, place: str, number: int) -> bytes:
        if number not in self._copies:
            self._copies[number] = self._unpack(place, self._buffer(place, number)).tobytes()
        return self._copies[number]

    def _unpack(self, place: str, stored: NDArray[Any], times: int = 1) -> NDArray[Any]:
        """Bytes that are copied: not much more in all than the file has, however often they
        are named."""
        self._unpacked -= stored.size * times
        if self._unpacked < 0:
            raise self._contents.bad(place, "the file names the same bytes in too many places")
        return stored

    def _constant(self, place: str, row: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
        """The elements of a constant; None for what a run computes."""
        number, type = row["buffer"], row["type"]
        if row.get("external_buffer"):
            raise self._contents.bad(place, "its data is in another file, which is not supported")
        stored = self._buffer(place, number)
        if not stored.size:
            return None
        if row["sparsity"] is not None or row.get("compression_type", "NONE") != "NONE":
            return stored
        size = stored_size(type, shape)
        if size is not None and stored.size != size:
            text = f"{stored.size} bytes for {list(shape)} of {type}, which takes {size}"
            raise self._contents.bad(place, f"buffer {number} has {text}")
        if type in ELEMENTS and ELEMENTS[type].bits >= 8 and type != "BOOL":
            return from_stored(stored, type, shape)
        key = number, type, shape
        if key not in self._arrays:
            times = 64 if type == "STRING" else 8 // ELEMENTS[type].bits if type in ELEMENTS else 0
            try:
                self._arrays[key] = from_stored(self._unpack(place, stored, times), type, shape)
            except ValueError as error:
                raise self._contents.bad(place, f"buffer {number}: {error}") from None
        return self._arrays[key]

    # -- tensors ------------------------------------------------------------------------

    def _tensor(self, number: int, index: int, row: Mapping[str, Any], count: int) -> Tensor:
        name = row["name"] or ""
        place = f"subgraph {number}, tensor {index}" + (f" '{name}'" if name else "")
        shape = self._shape(place, row["shape"])
        signature = (
            self._shape(place, row["shape_signature"], -1)
            if _given(row, "shape_signature")
            else None
        )
        type = row["type"]
        if not isinstance(type, str):
            raise self._contents.bad(place, f"there is no type of tensors {type}")
        if signature is not None and len(signature) != len(shape):
            raise self._contents.bad(
                place, f"its shape {list(shape)} and signature {list(signature)} differ in rank"
            )
        tensor = Tensor(
            name,
            shape,
            type,
            signature,
            self._constant(place, row, shape),
            None,
            row["is_variable"],
            row["has_rank"] or bool(shape),
            row["sparsity"],
            row["variant_tensors"] or (),
            str(row.get("compression_type", "NONE")),
        )
        if row["quantization"] is not None:
            tensor.quantization = self._quantization(place, row["quantization"], tensor, count)
        return tensor

    def _shape(self, place: str, given: Any, least: int = 0) -> tuple[int, ...]:
        shape: tuple[int, ...] = () if given is None else tuple(given[: RANK + 1].tolist())
        if len(shape) > RANK:
            raise self._contents.bad(place, f"it has more than {RANK} dimensions")
        if min(shape, default=0) < least:
            raise self._contents.bad(place, f"its shape {list(shape)} has a negative extent")
        if prod(max(n, 1) for n in shape) >= 1 << 60:
            raise self._contents.bad(place, f"its shape {list(shape)} has too many elements")
        return shape

    def _quantization(
        self, place: str, row: Mapping[str, Any], tensor: Tensor, count: int
    ) -> Quantization:
        import numpy as np

        scales = np.empty(0, np.float32) if row["scale"] is None else row["scale"]
        zeros = np.empty(0, np.int64) if row["zero_point"] is None else row["zero_point"]
        axis: int = row["quantized_dimension"]
        found = Quantization(
            scales,
            zeros,
            axis,
            row["min"] if _given(row, "min") else None,
            row["max"] if _given(row, "max") else None,
        )

        def bad(reason: str) -> InputError:
            return self._contents.bad(place, reason)

        if row["details"] is not None:
            table, fields = row["details"]
            if table == "BlockwiseQuantization" and not _given(fields, "block_shape"):
                blocks = Blocks(fields["scales"], fields["zero_points"], fields["block_size"])
                if not 0 <= blocks.scales < count or not ABSENT <= blocks.zero_points < count:
                    raise bad("the scales of its blocks are in a tensor that is not there")
                if blocks.size <= 0:
                    raise bad(f"blocks of {blocks.size} elements")
                found.blocks = blocks
            else:
                found.details = table, fields
        if len(zeros) not in (0, 1, len(scales)) and len(scales):
            raise bad(f"{len(scales)} scales and {len(zeros)} zero points")
        if tensor.type not in RANGES or not len(scales):
            return found
        if not (np.isfinite(scales).all() and (scales > 0).all()):
            wrong = scales[~(np.isfinite(scales) & (scales > 0))][0]
            raise bad(f"a scale is {wrong}; scales are finite and greater than zero")
        low, high = RANGES[tensor.type]
        if len(zeros) and not low <= int(zeros.min()) <= int(zeros.max()) <= high:
            wrong = zeros[(zeros < low) | (zeros > high)][0]
            raise bad(f"the zero point {wrong} is outside of {tensor.type}")
        if len(scales) > 1:
            rank = len(tensor.shape)
            if not 0 <= axis < rank:
                raise bad(f"{len(scales)} scales along axis {axis} of {rank}")
            if tensor.shape[axis] != len(scales):
                raise bad(f"{len(scales)} scales, length {tensor.shape[axis]} along axis {axis}")
        return found

    # -- ops and subgraphs --------------------------------------------------------------

    def _code(self, index: int, row: Mapping[str, Any]) -> tuple[str, bool, int]:
        """The op, whether it is a custom one, and its version."""
        ops = self._schema.enums["BuiltinOperator"]
        given = row["builtin_code"]
        number = ops.numbers[given] if isinstance(given, str) else int(given)
        old: int = row["deprecated_builtin_code"]
        # Circle has ops below zero; files older than `builtin_code` have only the other field.
        code = min(number, old) if min(number, old) < 0 else max(number, old)
        name = ops.names.get(code)
        place = f"Model.operator_codes[{index}]"
        if name is None:
            raise self._contents.bad(place, f"there is no op {code}")
        if name == "CUSTOM":
            if not row["custom_code"]:
                raise self._contents.bad(place, "a custom op has no name")
            return row["custom_code"], True, row["version"]
        return name, False, row["version"]

    def _subgraph(
        self, number: int, row: Mapping[str, Any], codes: Sequence[tuple[str, bool, int]]
    ) -> Subgraph:
        rows: Sequence[Mapping[str, Any]] = row["tensors"] or ()
        tensors = [self._tensor(number, n, entry, len(rows)) for n, entry in enumerate(rows)]
        place = f"subgraph {number}"
        operators = [
            self._operator(f"{place}, op {n}", entry, codes, len(tensors))
            for n, entry in enumerate(row["operators"] or ())
        ]
        inputs = self._numbers(f"{place}, inputs", row["inputs"], len(tensors))
        outputs = self._numbers(f"{place}, outputs", row["outputs"], len(tensors))
        found = Subgraph(
            row["name"] or "", tensors, inputs, outputs, operators, row["debug_metadata_index"]
        )
        wrong = check_order(found)
        if wrong is not None:
            raise self._contents.bad(f"{place}, {wrong[0]}", wrong[1])
        return found

    def _numbers(self, place: str, given: Any, count: int, least: int = 0) -> list[int]:
        numbers: list[int] = [] if given is None else given.tolist()
        for number in numbers:
            if not least <= number < count:
                raise self._contents.bad(place, f"there is no tensor {number} of {count}")
        return numbers

    def _operator(
        self, place: str, row: Mapping[str, Any], codes: Sequence[tuple[str, bool, int]], count: int
    ) -> Operator:
        index: int = row["opcode_index"]
        if index >= len(codes):
            raise self._contents.bad(place, f"there is no op code {index} of {len(codes)}")
        op, is_custom, version = codes[index]
        place = f"{place} {op}"
        found = Operator(
            op,
            version,
            self._numbers(f"{place}, inputs", row["inputs"], count, ABSENT),
            self._numbers(f"{place}, outputs", row["outputs"], count),
            is_custom=is_custom,
            intermediates=self._numbers(
                f"{place}, intermediates", row["intermediates"], count, ABSENT
            ),
            debug=row["debug_metadata_index"],
        )
        if row["mutating_variable_inputs"] is not None:
            found.mutating = row["mutating_variable_inputs"].tolist()
        union = row["builtin_options"] or row["builtin_options_2"]
        table = "" if union is None else union[0]
        if table != self._schema.options.get(op if not is_custom else "", ""):
            found.table = table
        if union is not None:
            found.options = union[1]
        offset, size = row["large_custom_options_offset"], row["large_custom_options_size"]
        if offset > 1 and size:
            stored = self._contents.numbers(f"{place}, custom options", offset, size, "uint8", 1)
            found.custom = self._unpack(place, stored).tobytes()
        elif row["custom_options"] is not None:
            found.custom = self._unpack(place, row["custom_options"]).tobytes()
        return found

    def _signature(
        self, index: int, row: Mapping[str, Any], subgraphs: Sequence[Subgraph]
    ) -> Signature:
        key = row["signature_key"] or ""
        place = f"signature {index} '{key}'"
        number: int = row["subgraph_index"]
        if number >= len(subgraphs):
            raise self._contents.bad(place, f"there is no subgraph {number} of {len(subgraphs)}")
        names: list[dict[str, int]] = []
        for entries in (row["inputs"], row["outputs"]):
            found: dict[str, int] = {}
            for entry in entries or ():
                tensor: int = entry["tensor_index"]
                if tensor >= len(subgraphs[number].tensors):
                    raise self._contents.bad(place, f"there is no tensor {tensor}")
                found[entry["name"] or ""] = tensor
            names.append(found)
        return Signature(key, number, *names)


def _given(row: Mapping[str, Any], field: str) -> bool:
    """Whether a table has a vector with elements."""
    return row.get(field) is not None and len(row[field]) > 0


# Whether the ops of a subgraph stand in an order in which they can run.


def check_order(subgraph: Subgraph) -> tuple[str, str] | None:
    """The place and the reason of what cannot run: a value that is made twice, or is read where
    nothing has made it. None where all is well."""
    tensors = subgraph.tensors

    def called(number: int) -> str:
        return f"tensor {number} '{tensors[number].name}'"

    known = [is_known(tensor) for tensor in tensors]
    for number in subgraph.inputs:
        if known[number] and tensors[number].data is not None:
            return called(number), "it is an input, and has a constant value"
    inputs = set(subgraph.inputs)
    if len(inputs) != len(subgraph.inputs):
        return "inputs", "a tensor is an input twice"
    made = set(inputs)
    for index, op in enumerate(subgraph.operators):
        for number in op.inputs:
            if number != ABSENT and number not in made and not known[number]:
                later = any(number in other.outputs for other in subgraph.operators[index:])
                reason = "an op behind it makes" if later else "nothing makes"
                return f"op {index} {op.op}", f"it reads {called(number)}, which {reason}"
        for number in op.outputs:
            if number in inputs or tensors[number].data is not None:
                what = "an input" if number in inputs else "a constant"
                return f"op {index} {op.op}", f"its result {called(number)} is {what}"
            if number in made:
                return f"op {index} {op.op}", f"its result {called(number)} is made twice"
            made.add(number)
    for number in subgraph.outputs:
        if number not in made and not known[number]:
            return called(number), "it is an output that nothing makes"
    return None


def is_known(tensor: Tensor) -> bool:
    """Whether a tensor has a value that no op makes: constants, variables, and tensors without
    elements, which files cannot tell from others."""
    empty = prod(tensor.shape) == 0 and -1 not in (tensor.signature or ())
    return tensor.data is not None or tensor.is_variable or (empty and tensor.has_rank)
