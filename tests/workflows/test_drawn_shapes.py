"""Unknown extents of inputs: weights, constants and reshapes tell them before any is guessed."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from qdialect.plugins.onnx.extents import MOST_DRAWN
from qdialect.workflows.inputs import argument_shapes
from tests.support.commands import call, qopt

Shapes = list[tuple[int, ...]]
Model = onnx.ModelProto


def node(kind: str, inputs: str, outputs: str = "y", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(kind, inputs.split(), outputs.split(), **attributes)


def model(nodes: list[onnx.NodeProto], opset: int = 17, ids: bool = False, **given: Any) -> Model:
    """Texts of extents are inputs, arrays are constants; the first result of the last node is the
    output."""
    kind = TensorProto.INT64 if ids else TensorProto.FLOAT
    inputs = [
        helper.make_tensor_value_info(
            name, kind, [int(d) if d.isdigit() else d for d in dims.split()]
        )
        for name, dims in given.items()
        if isinstance(dims, str)
    ]
    constants = [
        numpy_helper.from_array(np.asarray(value), name)
        for name, value in given.items()
        if not isinstance(value, str)
    ]
    output = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", inputs, [output], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def ones(*shape: int) -> np.ndarray[Any, Any]:
    return np.ones(shape, np.float32)


def integers(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


CONV = node("Conv", "x w")
MATMUL = node("MatMul", "x w")
FLATTENED = [
    node("Conv", "x w", "c", strides=[2, 2], pads=[1, 1, 1, 1]),
    node("Flatten", "c", "f"),
    node("Gemm", "f v", "y"),
]
HALVES = [
    node("MaxPool", "x", "p", kernel_shape=[2, 2], strides=[2, 2]),
    node("MaxPool", "p", "q", kernel_shape=[2, 2], strides=[2, 2]),
    node("Resize", "q q s", "u"),
    node("Concat", "u p", "y", axis=1),
]
HALVES[2].input[1] = ""
HEADS = [
    node("Shape", "x", "n"),
    node("Gather", "n first", "b"),
    node("Concat", "b rest", "s", axis=0),
    node("Reshape", "x s", "r"),
    node("MatMul", "r w", "y"),
]

#: models, and what is true of the shapes of their inputs
SOLVED: dict[str, tuple[Model, Callable[[Shapes], bool]]] = {
    "reshape": (
        model([node("Reshape", "x s")], x="N 4", s=integers(12)),
        lambda s: s == [(3, 4)],
    ),
    "channels": (model([CONV], x="N C H W", w=ones(8, 3, 3, 3)), lambda s: s[0][1] == 3),
    "groups": (model([node("Conv", "x w", group=4)], x="N C H W", w=ones(8, 3, 3, 3)),
               lambda s: s[0][1] == 12),
    "gemm": (model([node("Gemm", "x w")], x="N K", w=ones(48, 10)), lambda s: s[0][1] == 48),
    "gemm-transposed": (
        model([node("Gemm", "x w", transA=1, transB=1)], x="K N", w=ones(10, 48)),
        lambda s: s[0][0] == 48,
    ),
    "flattened": (
        model(FLATTENED, x="N C H W", w=ones(8, 3, 3, 3), v=ones(8 * 16 * 16, 10)),
        lambda s: s[0][1:] == (3, 32, 32) and s[0][0] < 3,
    ),
    "concat": (
        model([node("Concat", "x z", "c", axis=1), node("MatMul", "c w")], x="N A", z="N B",
              w=ones(24, 5)),
        lambda s: s[0][1] + s[1][1] == 24 and s[0][0] == s[1][0],
    ),
    "concat-constant": (
        model([node("Concat", "x k", "c", axis=0), node("Reshape", "c s")], x="A 6",
              k=ones(3, 6), s=integers(2, 30)),
        lambda s: s == [(7, 6)],
    ),
    "batch-and-length": (
        model([MATMUL], x="N T K", w=ones(48, 10)), lambda s: s[0][2] == 48),
    "two-symbols-of-a-reshape": (
        model([node("Reshape", "x s")], x="N 3 H W", s=integers(4, -1, 3, 64, 64)),
        lambda s: prod(s[0]) % (4 * 3 * 64 * 64) == 0,
    ),
    "copied-extents": (
        model([node("Reshape", "x s")], x="N T D", s=integers(0, 0, 8, 64)),
        lambda s: s[0][2] == 512,
    ),
    "multiple": (model([node("Reshape", "x s")], x="N D", s=integers(0, 3, 5)),
                 lambda s: s[0][1] == 15),
    "computed-shape": (
        model(HEADS, x="N T D", first=integers(0), rest=integers(-1, 16), w=ones(16, 20)),
        lambda s: s[0][1] * s[0][2] % 16 == 0,
    ),
    "blocks": (model([node("DepthToSpace", "x", blocksize=3)], x="N C H W"),
               lambda s: s[0][1] % 9 == 0),
    "even-parts": (model([node("Split", "x", "y z u", axis=1)], 11, x="N C"),
                   lambda s: s[0][1] % 3 == 0),
    "groups-of-a-norm": (
        model([node("GroupNormalization", "x a b", num_groups=4)], 21, x="N C H W",
              a=ones(12), b=ones(12)),
        lambda s: s[0][1] == 12,
    ),
    "rows-that-are-read": (model([node("Gather", "x i", axis=1)], x="N L", i=integers(0, 5, 9)),
                           lambda s: s[0][1] > 9),
    "window": (model([node("MaxPool", "x", kernel_shape=[7, 5])], x="N C H W"),
               lambda s: s[0][2] >= 7 and s[0][3] >= 5),
    "halved-and-doubled": (
        model(HALVES, x="N 3 H W", s=np.array([1, 1, 2, 2], np.float32)),
        lambda s: s[0][2] % 4 == s[0][3] % 4 == 0,
    ),
    "recurrent": (
        model([node("LSTM", "x w r", hidden_size=8)], x="T N I", w=ones(1, 32, 10),
              r=ones(1, 32, 8)),
        lambda s: s[0][2] == 10,
    ),
    "chained": (
        model([node("MatMul", "x z", "a"), node("MatMul", "a w")], x="S T", z="T U",
              w=ones(7, 5)),
        lambda s: s[0][1] == s[1][0] and s[1][1] == 7,
    ),
    "free": (model([node("Relu", "x")], x="N A B"), lambda s: prod(s[0]) < 1 << 10),
    "many-free": (
        model([node("Concat", " ".join(f"x{i}" for i in range(30)), axis=0)],
              **{f"x{i}": f"a{i} 16" for i in range(30)}),
        lambda s: sum(map(prod, s)) < 1 << 16,
    ),
    "no-names": (model([CONV], x="? ? ? ?", w=ones(8, 3, 3, 3)), lambda s: s[0][1] == 3),
}  # fmt: skip


def solved(model: Model, path: Path) -> Shapes:
    onnx.save(model, path)
    return next(argument_shapes(qd.load(path)))


@pytest.mark.parametrize("name", SOLVED)
def test_extents_are_solved_before_they_are_guessed(name: str, tmp_path: Path) -> None:
    built, holds = SOLVED[name]
    shapes = solved(built, tmp_path / "m.onnx")
    assert holds(shapes), shapes
    session = onnxruntime.InferenceSession(built.SerializeToString())
    feeds = {v.name: np.ones(s, np.float32) for v, s in zip(built.graph.input, shapes, strict=True)}
    session.run(None, feeds)


def test_lookups_and_positions(tmp_path: Path) -> None:
    nodes = [node("Gather", "e x", "g"), node("Add", "g p")]
    built = model(nodes, ids=True, x="N T", e=ones(100, 16), p=ones(12, 16))
    assert solved(built, tmp_path / "m.onnx")[0][1] in (1, 12)


def test_a_contradiction_ends(tmp_path: Path) -> None:
    """No number fits two products; the first is what the extent follows."""
    nodes = [node("MatMul", "x w", "a"), node("MatMul", "x v", "b"), node("Add", "a b")]
    path = tmp_path / "m.onnx"
    onnx.save(model(nodes, x="N K", w=ones(48, 10), v=ones(49, 10)), path)
    found = list(argument_shapes(qd.load(path)))
    assert found[0][0][1] in (48, 49)
    done = call(qopt, "diff", str(path), str(path))
    assert done.code == 1
    assert done.err.count("error: ") == 1
    assert "node 'b'" in done.err and "48 against 49" in done.err


def test_what_is_drawn_has_a_limit(tmp_path: Path) -> None:
    """A reshape that asks for 2^38 elements is not followed."""
    path = tmp_path / "m.onnx"
    nodes = [node("Reshape", "x s")]
    onnx.save(model(nodes, x="A B C D E F", s=integers(1 << 19, 1 << 19)), path)
    for shapes in argument_shapes(qd.load(path)):
        assert sum(map(prod, shapes)) <= MOST_DRAWN


@pytest.mark.parametrize("name", ["channels", "reshape"])
def test_optimized_all_the_same(name: str, tmp_path: Path) -> None:
    """Quantized models as in `cases/found`: all passes run, and the result is compared."""
    built, _ = SOLVED[name]
    scale, zero = np.float32(0.1), np.uint8(128)
    for key, value in (("s_", scale), ("z_", zero)):
        built.graph.initializer.append(numpy_helper.from_array(np.asarray(value), key))
    (only,) = built.graph.node
    only.input[0], only.output[0] = "xd", "r"
    around = [node("QuantizeLinear", "x s_ z_", "xq"), node("DequantizeLinear", "xq s_ z_", "xd")]
    behind = [node("QuantizeLinear", "r s_ z_", "rq"), node("DequantizeLinear", "rq s_ z_", "y")]
    copy = onnx.NodeProto()
    copy.CopyFrom(only)
    del built.graph.node[:]
    built.graph.node.extend([*around, copy, *behind])
    source, output = tmp_path / "m.onnx", tmp_path / "o.onnx"
    onnx.save(built, source)
    done = call(qopt, "optimize", str(source), "-o", str(output), "--race", "0")
    assert done.code == 0
    assert "left out" not in done.err
    assert "1 of 1 outputs have the same bits" in done.err
