"""A decoder with a cache, of one attention, and steps of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

WIDTH, HEADS = 32, 2
MAKE, FLOAT = helper.make_node, onnx.TensorProto.FLOAT


def decoder(*, returned: bool = True, shape_read: bool = False) -> onnx.ModelProto:
    """One attention over what came before, with names that say nothing."""
    random = np.random.default_rng(0)
    size, tensors, nodes = WIDTH // HEADS, list[Any](), list[Any]()

    def constant(name: str, value: Any) -> str:
        tensors.append(onnx.numpy_helper.from_array(np.asarray(value), name))
        return name

    split = constant("split", np.array([1, -1, HEADS, size]))
    for name in "qkv":
        weight = random.normal(0, WIDTH**-0.5, (WIDTH, WIDTH)).astype(np.float32)
        nodes += [
            MAKE("MatMul", ["x", constant(f"w{name}", weight)], [f"{name}0"], name=f"{name}0"),
            MAKE("Reshape", [f"{name}0", split], [f"{name}1"], name=f"{name}1"),
            MAKE("Transpose", [f"{name}1"], [name], name=name, perm=[0, 2, 1, 3]),
        ]
    nodes += [
        MAKE("Concat", ["a", "k"], ["c"], name="c", axis=2),
        MAKE("Concat", ["b", "v"], ["d"], name="d", axis=2),
        MAKE("Transpose", ["c"], ["t"], name="t", perm=[0, 1, 3, 2]),
        MAKE("MatMul", ["q", "t"], ["s"], name="s"),
        MAKE("Softmax", ["s"], ["p"], name="p"),
        MAKE("MatMul", ["p", "d"], ["y"], name="y"),
    ]
    outputs = ["y", *(["c", "d"] if returned else [])]
    if shape_read:
        nodes.append(MAKE("Shape", ["a"], ["n"], name="n"))
    value = helper.make_tensor_value_info
    grown: dict[str, Any] = {"y": [1, HEADS, 1, size]}
    results = [value(n, FLOAT, grown.get(n, [1, HEADS, "after", size])) for n in outputs]
    if shape_read:
        results.append(value("n", onnx.TensorProto.INT64, [4]))
    past = [value(n, FLOAT, [1, HEADS, "before", size]) for n in "ab"]
    arguments = [value("x", FLOAT, [1, 1, WIDTH]), *past]
    graph = helper.make_graph(nodes, "decoder", arguments, results, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def write_steps(data: Path) -> None:
    """Samples with caches of all lengths."""
    data.mkdir()
    random = np.random.default_rng(1)
    for number in range(24):
        shape = 1, HEADS, number // 2, WIDTH // HEADS
        arrays = {"x": random.normal(size=(1, 1, WIDTH))}
        arrays |= {name: random.normal(size=shape) for name in "ab"}
        samples = {name: array.astype(np.float32) for name, array in arrays.items()}
        np.savez(data / f"{number}.npz", **samples)  # pyright: ignore[reportArgumentType]
