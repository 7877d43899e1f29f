"""Every builtin op of the schema: read from the package's files, and back, with all its options."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qdialect.ir.context import new_context
from qdialect.plugins.tflite.file.elements import ELEMENTS, from_stored, stored_size, to_stored
from qdialect.plugins.tflite.file.from_module import module_file
from qdialect.plugins.tflite.file.read import read_bytes
from qdialect.plugins.tflite.file.schema import schema_of
from qdialect.plugins.tflite.file.to_module import read_module, to_dense
from qdialect.plugins.tflite.file.versions import Value, version_of
from qdialect.plugins.tflite.file.write import file_bytes

NOT_OPS = {"CUSTOM", "PLACEHOLDER_FOR_GREATER_OP_CODES"}
OPS = sorted(set(schema_of("tflite").enums["BuiltinOperator"].numbers) - NOT_OPS)


def drawn(name: str, seed: int) -> dict[str, Any]:
    """Numbers, texts and lists for the options of an op, none of which is the default."""
    schema = schema_of("tflite")
    draw = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for field in schema.tables.get(schema.options.get(name, ""), ()):
        if "subgraph" in field.name:
            found[field.name] = [0, 0] if field.many else 0
        elif field.role == "string":
            found[field.name] = f"text {seed}"
        elif field.enum:
            members = [n for n in schema.enums[field.enum].numbers if n != "NONE"]
            count = schema.enums[field.enum].numbers
            found[field.name] = (
                [count[m] for m in members] if field.many else members[seed % len(members)]
            )
        elif field.many:
            numbers = draw.integers(0, 2 if field.type == "bool" else 100, 3)
            found[field.name] = numbers.astype(field.type)
        elif field.type == "bool":
            found[field.name] = not field.default
        else:
            number = draw.integers(1, 100)
            found[field.name] = float(number) / 4 if field.type == "float32" else int(number)
    return found


@pytest.mark.parametrize("name", OPS)
def test_ops_come_back_with_their_options(name: str) -> None:
    pytest.importorskip("ai_edge_litert")
    from tests.support.tflite_models import model, op, tensor

    given = drawn(name, len(name))
    x, y = tensor("x", (2, 3)), tensor("y", (2, 3))
    table = schema_of("tflite").options.get(name)
    data = model([x], [y], [op(name, ["x", "", "x"], ["y"], given, 7, table=table)])
    file = read_bytes(data)
    (found,) = file.subgraphs[0].operators
    assert (found.op, found.version, found.inputs) == (name, 7, [0, -1, 0])
    assert found.table is None
    for option, value in given.items():
        read = found.options[option]
        assert list(read) == list(value) if isinstance(value, list | np.ndarray) else read == value
    ctx = new_context()
    again = module_file(read_module(file, ctx), ctx)
    again.signatures = []
    assert file_bytes(again) == file_bytes(file)


@pytest.mark.parametrize("type", ELEMENTS)
def test_elements_come_back(type: str) -> None:
    draw = np.random.default_rng(3)
    shape = (3, 7)
    size = stored_size(type, shape)
    assert size is not None
    stored = draw.integers(0, 2 if type == "BOOL" else 256, size).astype(np.uint8)
    if 21 * ELEMENTS[type].bits % 8:
        stored[-1] &= (1 << 21 * ELEMENTS[type].bits % 8) - 1
    data = from_stored(stored, type, shape)
    assert data.shape == shape and np.array_equal(to_stored(data, type), stored)


def test_narrow_numbers_have_the_first_in_the_lowest_bits() -> None:
    stored = np.array([0x8F, 0x07], np.uint8)
    assert from_stored(stored, "INT4", (3,)).tolist() == [-1, -8, 7]
    assert from_stored(stored, "UINT4", (3,)).tolist() == [15, 8, 7]
    assert from_stored(stored, "INT2", (5,)).tolist() == [-1, -1, 0, -2, -1]


def test_blocks_of_sparse_constants() -> None:
    # 4 x 4 in blocks of 2 x 2, of which two are there.
    levels = [
        {"format": "DENSE", "dense_size": 2},
        {
            "format": "SPARSE_CSR",
            "dense_size": 0,
            "array_segments": ("Int32Vector", {"values": np.array([0, 1, 2])}),
            "array_indices": ("Int32Vector", {"values": np.array([1, 0])}),
        },
        {"format": "DENSE", "dense_size": 2},
        {"format": "DENSE", "dense_size": 2},
    ]
    order, blocks = np.array([0, 1, 2, 3]), np.array([0, 1])
    parameters = {"traversal_order": order, "block_map": blocks, "dim_metadata": levels}
    found = to_dense(np.arange(1, 9), (4, 4), parameters)
    assert found.tolist() == [[0, 0, 1, 2], [0, 0, 3, 4], [5, 6, 0, 0], [7, 8, 0, 0]]
    for change in (
        {"traversal_order": np.array([0, 1, 3, 4])},
        {"block_map": np.array([0, 5])},
        {"block_map": np.array([0, 0])},
        {"dim_metadata": levels[:3]},
    ):
        with pytest.raises(ValueError, match=r"its|blocks"):
            to_dense(np.arange(1, 9), (4, 4), {**parameters, **change})
    with pytest.raises(ValueError, match="too few"):
        to_dense(np.arange(1, 8), (4, 4), parameters)


INT8, INT16, F32 = Value("INT8", (1, 4)), Value("INT16", (1, 4)), Value("FLOAT32", (1, 4))


@pytest.mark.parametrize(
    ("op", "inputs", "output", "options", "version"),
    [
        ("CONV_2D", [INT8, INT8], INT8, {}, 3),
        ("CONV_2D", [INT16, INT8], INT16, {"quantized_bias_type": "INT32"}, 8),
        ("CONV_2D", [INT16, INT8], INT16, {"quantized_bias_type": "FLOAT32"}, 1),
        ("DEPTHWISE_CONV_2D", [F32, F32], F32, {"dilation_w_factor": 2}, 2),
        ("FULLY_CONNECTED", [INT8, INT8], INT8, {}, 6),
        ("FULLY_CONNECTED", [INT8, INT8, None], INT8, {"keep_num_dims": True}, 5),
        ("FULLY_CONNECTED", [INT8, INT8, None], INT8, {}, 4),
        ("ADD", [INT8, INT8], INT8, {}, 2),
        ("MUL", [Value("INT8", (1,), (2.0,)), Value("INT8", (1,), (2.0,))], INT8, {}, 2),
        (
            "MUL",
            [Value("INT8", (1,), (2.0,)), Value("INT8", (1,), (2.0,))],
            Value("INT8", (1,), (3.0,)),
            {},
            3,
        ),
        ("BROADCAST_TO", [F32, F32], F32, {}, 2),
        ("BROADCAST_TO", [INT8, F32], INT8, {}, 3),
        ("DEQUANTIZE", [Value("INT8", (3, 2), (1.0, 2.0, 3.0))], F32, {}, 5),
        ("SUB", [Value("FLOAT32", (1,) * 5), F32], F32, {}, 3),
        ("TRANSPOSE", [Value("FLOAT32", (1,) * 5), F32], F32, {}, 4),
        ("STRIDED_SLICE", [INT8], INT8, {"new_axis_mask": 1}, 6),
        ("WHERE", [F32], F32, {}, 2),
        ("NEG", [F32], F32, {}, 1),
    ],
)
def test_versions(op: str, inputs: Any, output: Value, options: Any, version: int) -> None:
    assert version_of(op, inputs, [output], options) == version
