"""Files are read and written without loss, and as the packages of the schemas read them."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qdialect.errors import InputError
from qdialect.plugins.tflite.file.flatbuffer_read import Bytes, Decoder
from qdialect.plugins.tflite.file.model import File, Quantization, Subgraph, Tensor
from qdialect.plugins.tflite.file.read import read_bytes, read_file
from qdialect.plugins.tflite.file.schema import schema_of
from qdialect.plugins.tflite.file.write import file_bytes, write_file
from tests.support.tflite_files import FILES, convolution, quantized


def equal(a: Any, b: Any) -> bool:
    """Whether two parts of files say the same; arrays by their type, shape and bits."""
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        same = (a.dtype, a.shape) == (b.dtype, b.shape)
        return same and (
            a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes()
        )
    if dataclasses.is_dataclass(a):
        names = [field.name for field in dataclasses.fields(a)]
        return type(a) is type(b) and all(
            equal(getattr(a, name), getattr(b, name)) for name in names if name != "name" or a.name
        )
    if isinstance(a, Mapping):
        # Fields that are not given have the schema's defaults.
        return all(equal(a.get(k), b.get(k)) for k in {*a, *b})
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(equal, a, b))
    return bool(a == b)


@pytest.mark.parametrize("largest", [1 << 31, 100])
@pytest.mark.parametrize("name", FILES)
def test_what_is_written_is_read(name: str, largest: int) -> None:
    file = FILES[name]()
    data = file_bytes(file, largest=largest)
    again = read_bytes(data)
    again.name = file.name
    assert equal(normalized(again), normalized(file))
    assert file_bytes(again, largest=largest) == data == file_bytes(FILES[name](), largest=largest)


def normalized(file: File) -> File:
    """Absent fields of nested tables as their defaults."""
    for tensor in (tensor for graph in file.subgraphs for tensor in graph.tensors):
        tensor.variants = list(tensor.variants)
        for level in (tensor.sparsity or {}).get("dim_metadata", ()):
            for key in ("array_segments", "array_indices"):
                level.setdefault(key, None)
    return file


@pytest.mark.parametrize("largest", [1 << 31, 100])
def test_bytes_of_buffers_are_aligned(largest: int) -> None:
    file = convolution()
    data = file_bytes(file, largest=largest)
    base = np.frombuffer(data, np.uint8).ctypes.data
    for tensor in read_bytes(data).subgraphs[0].tensors:
        if tensor.data is not None:
            assert (tensor.data.ctypes.data - base) % 16 == 0


def test_constants_are_views_of_the_file(tmp_path: Path) -> None:
    big = np.arange(1 << 20, dtype=np.float32)
    tensors = [Tensor("w", big.shape, "FLOAT32", data=big)]
    path = tmp_path / "big.tflite"
    write_file(File("tflite", 3, [Subgraph("main", tensors, [], [0], [])]), path)
    data = read_file(path).subgraphs[0].tensors[0].data
    assert data is not None and not data.flags.owndata and not data.flags.writeable
    assert np.array_equal(data, big)


def test_equal_constants_are_one_buffer() -> None:
    array = np.arange(4096, dtype=np.float32)
    tensors = [Tensor(n, array.shape, "FLOAT32", data=array.copy()) for n in "abc"]
    data = file_bytes(File("tflite", 3, [Subgraph("main", tensors, [], [0, 1, 2], [])]))
    assert array.nbytes < len(data) < 2 * array.nbytes


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "x.tflite"
    path.write_bytes(b"before")
    file = convolution()
    file.subgraphs[0].tensors[1].type = "NO_SUCH_TYPE"
    with pytest.raises(KeyError):
        write_file(file, path)
    assert path.read_bytes() == b"before"
    with pytest.raises(InputError, match="cannot write"):
        write_file(convolution(), tmp_path / "none" / "x.tflite")


# -- the packages of the schemas read the same ----------------------------------------------


@pytest.mark.parametrize("largest", [1 << 31, 100])
@pytest.mark.parametrize("name", [n for n in FILES if "circle" not in n])
def test_the_package_reads_what_we_write(name: str, largest: int) -> None:
    schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
    data = file_bytes(FILES[name](), largest=largest)
    assert schema.Model.ModelBufferHasIdentifier(data, 0)
    theirs = schema.ModelT.InitFromPackedBuf(data)
    root = Decoder(Bytes(memoryview(data), "x"), schema_of("tflite")).root("Model")
    compare("Model", root, theirs)


def compare(table: str, ours: Mapping[str, Any], theirs: Any) -> None:
    """A table as we read it, and as the object API does."""
    schema = schema_of("tflite")
    for field in schema.tables[table]:
        if field.role == "tag":
            continue
        first, *rest = field.name.split("_")
        found = getattr(theirs, first + "".join(part[:1].upper() + part[1:] for part in rest))
        given = ours[field.name]
        where = f"{table}.{field.name}"
        if given is None or found is None:
            assert given is None and found is None, where
        elif field.role == "union":
            assert type(found).__name__ == f"{given[0]}T", where
            compare(given[0], given[1], found)
        elif field.role == "table":
            pairs = zip(given, found, strict=True) if field.many else [(given, found)]
            for one, other in pairs:
                compare(field.type, one, other)
        elif field.role == "string":
            assert given == found.decode(), where
        elif field.many:
            assert list(given) == list(found), where
        else:
            number = schema.enums[field.enum].numbers[given] if field.enum else given
            assert number == found, where


def test_older_packages_read_what_we_write() -> None:
    tflite = pytest.importorskip("tflite")
    model = tflite.Model.GetRootAsModel(file_bytes(convolution()), 0)
    graph = model.Subgraphs(0)
    assert [graph.Tensors(i).Name() for i in range(4)] == [b"x", b"w", b"b", b"y"]
    assert graph.Tensors(1).Quantization().ScaleAsNumpy().tolist() == [0.5, 0.25, 0.125]
    code = model.OperatorCodes(0)
    assert (code.BuiltinCode(), code.DeprecatedBuiltinCode(), code.Version()) == (3, 3, 3)
    weights = model.Buffers(graph.Tensors(1).Buffer()).DataAsNumpy()
    assert weights.tobytes() == bytes(range(18))


def test_the_package_of_circle_reads_what_we_write() -> None:
    circle = pytest.importorskip("circle_schema.v0_10.circle.Model").Model
    data = file_bytes(FILES["circle"]())
    assert circle.ModelBufferHasIdentifier(data, 0)
    model = circle.GetRootAs(data, 0)
    code = model.OperatorCodes(0)
    assert (code.BuiltinCode(), code.DeprecatedBuiltinCode(), model.Version()) == (-6, -6, 0)
    graph = model.Subgraphs(0)
    assert graph.Operators(0).BuiltinOptionsType() == 250  # counted downward from 254
    assert [graph.Tensors(i).Type() for i in (0, 3)] == [0, -1]


# -- odd files ------------------------------------------------------------------------------


def bad_tensor(**changes: Any) -> Callable[[File], None]:
    def change(file: File) -> None:
        tensor = file.subgraphs[0].tensors[1]
        for name, value in changes.items():
            setattr(tensor, name, value)

    return change


def bad_graph(**changes: Any) -> Callable[[File], None]:
    def change(file: File) -> None:
        for name, value in changes.items():
            setattr(file.subgraphs[0], name, value)

    return change


def bad_op(**changes: Any) -> Callable[[File], None]:
    def change(file: File) -> None:
        for name, value in changes.items():
            setattr(file.subgraphs[0].operators[0], name, value)

    return change


def scales(*numbers: float, zero: int = 0, axis: int = 0) -> Quantization:
    return quantized(*numbers, zero=zero, axis=axis)


def with_one_op_more(file: File) -> None:
    file.subgraphs[0].operators *= 2


def with_version(file: File) -> None:
    file.version = 2


ODD: dict[str, tuple[Callable[[File], None], str]] = {
    "scales": (bad_tensor(quantization=scales(*[0.5] * 24)), "24 scales, length 3 along axis 0"),
    "axis": (bad_tensor(quantization=scales(1, 1, axis=4)), "2 scales along axis 4 of 4"),
    "nan": (bad_tensor(quantization=scales(1, np.nan, 1)), "a scale is nan"),
    "zero scale": (bad_tensor(quantization=scales(1, 0, 1)), "a scale is 0.0"),
    "zero point": (bad_tensor(quantization=scales(1, zero=128)), "zero point 128 is outside of"),
    "shape": (bad_tensor(shape=(3, 1, 3, 3)), "18 bytes for [3, 1, 3, 3] of INT8, which takes 27"),
    "negative": (bad_tensor(shape=(3, 1, 3, -2)), "has a negative extent"),
    "huge": (bad_tensor(shape=(1 << 30,) * 4), "has too many elements"),
    "rank": (bad_tensor(signature=(3,)), "differ in rank"),
    "no data": (bad_tensor(data=None), "reads tensor 1 'w', which nothing makes"),
    "twice": (with_one_op_more, "its result tensor 3 'y' is made twice"),
    "input": (bad_graph(inputs=[0, 9]), "there is no tensor 9 of 4"),
    "constant input": (bad_graph(inputs=[0, 1]), "it is an input, and has a constant value"),
    "same input": (bad_graph(inputs=[0, 0]), "a tensor is an input twice"),
    "unmade": (bad_graph(operators=[]), "it is an output that nothing makes"),
    "operand": (bad_op(inputs=[0, 1, -2]), "there is no tensor -2 of 4"),
    "result": (bad_op(outputs=[1]), "its result tensor 1 'w' is a constant"),
    "version": (with_version, "the schema's version is 2, not 3"),
}


@pytest.mark.parametrize("name", ODD)
def test_files_that_cannot_run_are_refused(name: str) -> None:
    change, reason = ODD[name]
    file = convolution()
    change(file)
    with pytest.raises(InputError, match=re.escape(reason)) as caught:
        read_bytes(file_bytes(file), "m.tflite")
    assert caught.value.code == "invalid-tflite"
    assert caught.value.where is not None and caught.value.where.file == "m.tflite"
    assert caught.value.where.node


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "at byte 4 is nothing"),
        (b"TFL3", "at byte 4 is nothing"),
        (b"\x1c\0\0\0TFL2" + bytes(40), "at byte 4 is 'TFL2'"),
        (b"\xff\xff\xff\xffTFL3", "outside of the 8 bytes"),
        (b"\x08\0\0\0TFL3\x04\0\0\0", "the vtable of Model has 18004 bytes"),
    ],
)
def test_what_is_no_such_file_is_refused(data: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "m.tflite"
    path.write_bytes(data)
    with pytest.raises(InputError, match=re.escape(reason)):
        read_file(path)


def test_tables_that_are_shared_a_million_times_are_refused() -> None:
    file = convolution()
    tensors = [Tensor(f"t{n}", (1,), "FLOAT32") for n in range(2000)]
    others = [Subgraph("", [], [], [], []) for _ in range(500)]
    file.subgraphs = [Subgraph("large", tensors, [], [], []), *others]
    file.signatures = []
    data = bytearray(file_bytes(file))
    assert len(read_bytes(bytes(data)).subgraphs) == 501
    at = vector_of_subgraphs(data) + 4
    target = at + int.from_bytes(data[at : at + 4], "little")
    for place in range(at, at + 4 * 501, 4):  # all are the first one now
        data[place : place + 4] = (target - place).to_bytes(4, "little")
    with pytest.raises(InputError, match="more often than its size allows"):
        read_bytes(bytes(data))


def vector_of_subgraphs(data: bytearray) -> int:
    root = int.from_bytes(data[:4], "little")
    vtable = root - int.from_bytes(data[root : root + 4], "little", signed=True)
    field = root + int.from_bytes(data[vtable + 8 : vtable + 10], "little")
    return field + int.from_bytes(data[field : field + 4], "little")


def test_overlapping_buffers_are_not_unpacked_without_end() -> None:
    file = convolution()
    file.metadata = {f"m{n}": bytes([n]) * 1000 for n in range(200)}
    data = bytearray(file_bytes(file, largest=100))
    # All buffers behind the flatbuffer become nearly the whole file.
    root = Decoder(Bytes(memoryview(bytes(data)), "x"), schema_of("tflite")).root("Model")
    for row in root["buffers"]:
        if row["size"] == 1000:
            pair = row["offset"].to_bytes(8, "little"), (1000).to_bytes(8, "little")
            at = data.find(pair[0])
            data[at : at + 8] = (16).to_bytes(8, "little")
            at = data.find(pair[1])
            data[at : at + 8] = (len(data) - 16).to_bytes(8, "little")
    with pytest.raises(InputError, match="the same bytes in too many places"):
        read_bytes(bytes(data))


def test_a_file_that_is_not_there_is_an_error() -> None:
    with pytest.raises(InputError, match="cannot read"):
        read_file("/nowhere/x.tflite")
