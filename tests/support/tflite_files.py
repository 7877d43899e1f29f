"""Small TFLite and Circle files with one of everything a file can have, as plain data.

They need no package of a schema; what they are written as is held against those in tests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from qdialect.plugins.tflite.file.model import (
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


def quantized(*scales: float, zero: int = 0, axis: int = 0) -> Quantization:
    """Scales, each with the same zero point."""
    zeros = np.full(len(scales), zero, np.int64)
    return Quantization(np.array(scales, np.float32), zeros, axis)


def op(
    name: str, inputs: Sequence[int], outputs: Sequence[int], kind: Kind = "tflite", **options: Any
) -> Operator:
    """An operator with the schema's defaults for options that are not given."""
    schema = schema_of(kind)
    table = schema.options.get(name)
    defaults: Mapping[str, Any] = schema.defaults(table) if table else {}
    return Operator(name, 1, list(inputs), list(outputs), {**defaults, **options})


def convolution(kind: Kind = "tflite") -> File:
    """A convolution with scales along an axis, a fused activation, signature and metadata."""
    weights = np.arange(18, dtype=np.int8).reshape(3, 1, 3, 2)
    tensors = [
        Tensor("x", (1, 4, 4, 2), "INT8", (-1, 4, 4, 2), None, quantized(0.1, zero=3)),
        Tensor("w", (3, 1, 3, 2), "INT8", None, weights, quantized(0.5, 0.25, 0.125)),
        Tensor("b", (3,), "INT32", None, np.array([1, -2, 3], np.int32), quantized(0.05, 0.025, 1)),
        Tensor("y", (1, 4, 4, 3), "INT8", (-1, 4, 4, 3), None, quantized(0.2, zero=-5)),
    ]
    conv = op("CONV_2D", [0, 1, 2], [3], kind, stride_w=1, stride_h=1)
    conv.options = {**conv.options, "fused_activation_function": "RELU6"}
    conv.version = 3
    graph = Subgraph("main", tensors, [0], [3], [conv])
    signature = Signature("serving_default", 0, {"image": 0}, {"scores": 3})
    version = 3 if kind == "tflite" else 0
    metadata = {"min_runtime_version": b"1.14.0\0\0", "notes": b"", "long": bytes(range(256))}
    return File(kind, version, [graph], "a convolution", [signature], metadata)


CODES = np.arange(-8, 10).clip(-8, 7).reshape(3, 6).astype(np.int8)


def narrow() -> File:
    """Weights of 4 bits, in blocks too, of 2 bits, of 16-bit floats, and texts."""
    tensors = [
        Tensor("x", (2, 6), "FLOAT32"),
        Tensor("w", (3, 6), "INT4", None, CODES, quantized(0.5)),
        Tensor("y", (2, 3), "FLOAT32"),
        Tensor("scales", (3, 3), "FLOAT16", None, np.full((3, 3), 0.5, np.float16)),
        Tensor("blocks", (3, 6), "INT4", None, np.full((3, 6), -3, np.int8)),
        Tensor("z", (2, 3), "FLOAT32"),
        Tensor("texts", (2,), "STRING", None, np.array([b"one", b""], object)),
        Tensor("tile", (2,), "STRING"),
        Tensor("two", (5,), "INT2", None, np.array([-2, -1, 0, 1, 1], np.int8), quantized(0.5)),
        Tensor("dequantized", (5,), "FLOAT32"),
        Tensor("times", (1,), "INT32", None, np.array([1], np.int32)),
    ]
    empty = np.empty(0, np.float32), np.empty(0, np.int64)
    tensors[4].quantization = Quantization(*empty, blocks=Blocks(3, -1, 2))
    ops = [
        op("FULLY_CONNECTED", [0, 1, -1], [2], keep_num_dims=True),
        op("FULLY_CONNECTED", [0, 4, -1], [5]),
        op("TILE", [6, 10], [7]),
        op("DEQUANTIZE", [8], [9]),
    ]
    return File("tflite", 3, [Subgraph("main", tensors, [0], [2, 5, 7, 9], ops)])


def control() -> File:
    """Two branches, a variable, an op of others, and a number known only when it runs."""
    main = Subgraph(
        "main",
        [
            Tensor("c", (), "BOOL"),
            Tensor("x", (4,), "FLOAT32"),
            Tensor("y", (4,), "FLOAT32"),
            Tensor("state", (4,), "FLOAT32", is_variable=True),
            Tensor("z", (4,), "FLOAT32"),
            Tensor("handle", (1,), "RESOURCE"),
            Tensor("v", (4,), "FLOAT32"),
        ],
        [0, 1],
        [4, 6],
        [
            op("CALL_ONCE", [], [], init_subgraph_index=3),
            op("IF", [0, 1], [2], then_subgraph_index=1, else_subgraph_index=2),
            Operator("acme_mix", 2, [2, 3], [4], is_custom=True, custom=b"\x01\x02\xff"),
            op("VAR_HANDLE", [], [5], container="", shared_name="kept"),
            op("READ_VARIABLE", [5], [6]),
        ],
    )
    main.operators[2].mutating = [False, True]
    branches = [
        Subgraph(
            name,
            [Tensor("a", (4,), "FLOAT32"), Tensor("b", (4,), "FLOAT32")],
            [0],
            [1],
            [op(kind, [0], [1])],
        )
        for name, kind in (("then", "EXP"), ("else", "NEG"))
    ]
    once = Subgraph(
        "init",
        [
            Tensor("handle", (1,), "RESOURCE"),
            Tensor("zero", (4,), "FLOAT32", None, np.zeros(4, np.float32)),
        ],
        [],
        [],
        [
            op("VAR_HANDLE", [], [0], container="", shared_name="kept"),
            op("ASSIGN_VARIABLE", [0, 1], []),
        ],
    )
    return File("tflite", 3, [main, *branches, once])


def sparse() -> File:
    """A weight of which only some elements are there, and the op that fills in the others."""
    levels = [
        {"format": "DENSE", "dense_size": 2},
        {
            "format": "SPARSE_CSR",
            "dense_size": 0,
            "array_segments": ("Uint8Vector", {"values": np.array([0, 1, 3], np.uint8)}),
            "array_indices": ("Uint16Vector", {"values": np.array([2, 0, 3], np.uint16)}),
        },
    ]
    order = np.array([0, 1], np.int32)
    stored = np.array([1, 2, 3], np.float32).view(np.uint8)
    parameters = {"traversal_order": order, "block_map": None, "dim_metadata": levels}
    tensors = [
        Tensor("x", (1, 4), "FLOAT32"),
        Tensor("w", (2, 4), "FLOAT32", None, stored, sparsity=parameters),
        Tensor("dense", (2, 4), "FLOAT32"),
        Tensor("y", (1, 2), "FLOAT32"),
    ]
    ops = [op("DENSIFY", [1], [2]), op("FULLY_CONNECTED", [0, 2, -1], [3])]
    return File("tflite", 3, [Subgraph("main", tensors, [0], [3], ops)])


def circle() -> File:
    """An op and a type that only Circle has."""
    codes = np.arange(8, dtype=np.uint8).reshape(2, 4)
    tensors = [
        Tensor("x", (1, 4), "FLOAT32"),
        Tensor("scale", (4,), "FLOAT32", None, np.ones(4, np.float32)),
        Tensor("y", (1, 4), "FLOAT32"),
        Tensor("w", (2, 4), "UINT4", None, codes, quantized(0.5, zero=7)),
        Tensor("z", (1, 2), "FLOAT32"),
    ]
    ops = [
        op("RMS_NORM", [0, 1], [2], "circle", epsilon=0.5),
        op("FULLY_CONNECTED", [2, 3, -1], [4], "circle"),
    ]
    return File("circle", 0, [Subgraph("net", tensors, [0], [4], ops)])


FILES = {
    "convolution": convolution,
    "circle-convolution": lambda: convolution("circle"),
    "narrow": narrow,
    "control": control,
    "sparse": sparse,
    "circle": circle,
}
