"""What the parts of outputs are, and where their channels are: graphs as exporters write them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from qdialect.quantizer.output_parts import Part, parts_of


def parts(
    folder: Path,
    nodes: Sequence[Any],
    x: Sequence[Any],
    outputs: Sequence[str],
    **weights: Any,
) -> list[Part]:
    """The parts of a graph of these nodes on an input `x` of this shape."""
    initializers = [numpy_helper.from_array(np.asarray(w), name) for name, w in weights.items()]
    graph = helper.make_graph(
        nodes,
        "parts",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        initializers,
    )
    opset = [helper.make_opsetid("", 17)]
    path = folder / "net.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=9), path)
    model = qd.load(path)
    return list(parts_of(model.module, model.ctx))


def node(kind: str, inputs: str, outputs: str, **attributes: Any) -> Any:
    return helper.make_node(kind, inputs.split(), outputs.split(), outputs.split()[0], **attributes)


def kernel(*shape: int) -> Any:
    return np.random.default_rng(0).normal(size=shape).astype("f4")


def test_a_concat_of_boxes_and_scores_is_two_parts(tmp_path: Path) -> None:
    boxes, scores = parts(
        tmp_path,
        [
            node("Conv", "x w", "head"),
            node("Split", "head s", "a b", axis=1),
            node("Mul", "a pixels", "boxes"),
            node("Sigmoid", "b", "scores"),
            node("Concat", "boxes scores", "both", axis=1),
            node("Reshape", "both shape", "flat"),
            node("Transpose", "flat", "y", perm=[0, 2, 1]),
        ],
        [1, 3, 4, 4],
        ["y"],
        w=kernel(7, 3, 1, 1),
        s=np.array([4, 3]),
        pixels=np.float32(32),
        shape=np.array([1, 7, 16]),
    )
    assert (str(boxes), boxes.channel, boxes.key) == ("y[:, :, 0:4]", 2, "boxes")
    assert (str(scores), scores.channel, scores.key) == ("y[:, :, 4:7]", 2, "scores")
    array = np.arange(7 * 16).reshape(1, 16, 7)
    assert np.array_equal(scores.of(array), array[:, :, 4:7])


def test_nested_concats_of_several_scales(tmp_path: Path) -> None:
    found = parts(
        tmp_path,
        [
            node("Conv", "x w", "a"),
            node("Relu", "x", "b"),
            node("Concat", "a b", "near", axis=1),
            node("Reshape", "near flat", "n"),
            node("Conv", "x w2", "c", strides=[2, 2]),
            node("Reshape", "c flat", "f"),
            node("Concat", "n f", "y", axis=2),
        ],
        [1, 3, 4, 4],
        ["y"],
        w=kernel(4, 3, 1, 1),
        w2=kernel(7, 3, 1, 1),
        flat=np.array([1, 7, -1]),
    )
    assert [str(p) for p in found] == ["y[:, 0:4, 0:16]", "y[:, :, 16:20]", "y[:, 4:7, 0:16]"]
    assert [p.channel for p in found] == [1, 1, 1]


def test_parts_that_are_no_box_are_judged_as_what_they_are(tmp_path: Path) -> None:
    first, second = parts(
        tmp_path,
        [
            node("Relu", "x", "a"),
            node("Neg", "x", "b"),
            node("Concat", "a b", "both", axis=1),
            node("Reshape", "both flat", "y"),
        ],
        [5, 3],
        ["y"],
        flat=np.array([30]),
    )
    array = np.arange(30)
    assert np.array_equal(first.of(array), np.arange(30).reshape(5, 6)[:, :3].ravel())
    assert np.array_equal(second.of(array), np.arange(30).reshape(5, 6)[:, 3:].ravel())
    assert first.channel is None


def test_one_thing_is_one_part_however_often_it_is_joined(tmp_path: Path) -> None:
    (part,) = parts(tmp_path, [node("Concat", "x x", "y", axis=1)], [1, 3, 2, 2], ["y"])
    assert (str(part), part.slices) == ("y", None)


def test_extents_that_are_not_known(tmp_path: Path) -> None:
    boxes, scores = parts(
        tmp_path,
        [
            node("Gemm", "x w", "a"),
            node("Gemm", "x w2", "b"),
            node("Softmax", "b", "p", axis=-1),
            node("Concat", "a p", "y", axis=1),
        ],
        ["N", 3],
        ["y"],
        w=kernel(3, 4),
        w2=kernel(3, 6),
    )
    assert (str(boxes), str(scores)) == ("y[:, 0:4]", "y[:, 4:10]")
    assert scores.scores and scores.channel == 1


def test_a_sum_of_unknown_extents_is_one_part(tmp_path: Path) -> None:
    found = parts(
        tmp_path,
        [node("Relu", "x", "a"), node("Concat", "a x", "y", axis=0)],
        ["N", 3],
        ["y"],
    )
    assert [str(p) for p in found] == ["y"]


@pytest.mark.parametrize(
    ("last", "dim"),
    [
        ([node("Identity", "c", "y")], 1),
        ([node("Transpose", "c", "y", perm=[0, 2, 3, 1])], 3),
        ([node("Transpose", "c", "t", perm=[2, 3, 1, 0]), node("Relu", "t", "y")], 2),
        ([node("Reshape", "c anchors", "r"), node("Transpose", "r", "y", perm=[0, 1, 3, 4, 2])], 4),
        ([node("GlobalAveragePool", "c", "y")], 1),
        ([node("MaxPool", "c", "m", kernel_shape=[2, 2]), node("Sigmoid", "m", "y")], 1),
    ],
)
def test_channels_are_those_of_the_nearest_product(
    tmp_path: Path, last: Sequence[Any], dim: int
) -> None:
    (part,) = parts(
        tmp_path,
        [node("Conv", "x w", "c"), *last],
        [1, 3, 4, 4],
        ["y"],
        w=kernel(10, 3, 1, 1),
        anchors=np.array([1, 2, 5, 4, 4]),
    )
    assert part.channel == dim


def test_places_are_no_channels_of_a_part_that_has_one(tmp_path: Path) -> None:
    """As a detector gives how sure it is of each place."""
    boxes, sure = parts(
        tmp_path,
        [
            node("Conv", "x w", "boxes"),
            node("Conv", "x v", "raw"),
            node("Sigmoid", "raw", "sure"),
            node("Concat", "boxes sure", "both", axis=1),
            node("Reshape", "both shape", "flat"),
            node("Transpose", "flat", "y", perm=[0, 2, 1]),
        ],
        [1, 3, 4, 4],
        ["y"],
        w=kernel(4, 3, 1, 1),
        v=kernel(1, 3, 1, 1),
        shape=np.array([1, 5, 16]),
    )
    assert (str(boxes), boxes.channel) == ("y[:, :, 0:4]", 2)
    assert (str(sure), sure.channel, sure.scores) == ("y[:, :, 4:5]", None, False)


def test_a_product_with_one_channel_may_make_several(tmp_path: Path) -> None:
    """As a detector makes four distances of weights by a product with 0, 1, 2 ..."""
    (part,) = parts(
        tmp_path,
        [
            node("Conv", "x w", "c"),
            node("Reshape", "c sides", "s"),
            node("Softmax", "s", "p", axis=1),
            node("Conv", "p v", "d"),
            node("Reshape", "d four", "r"),
            node("Mul", "r stride", "y"),
        ],
        [1, 3, 4, 4],
        ["y"],
        w=kernel(20, 3, 1, 1),
        sides=np.array([1, 5, 4, 16]),
        v=kernel(1, 5, 1, 1),
        four=np.array([1, 4, 16]),
        stride=np.float32(8),
    )
    assert part.channel == 1


def test_of_a_product_with_rows_channels_are_last(tmp_path: Path) -> None:
    (part,) = parts(
        tmp_path,
        [node("MatMul", "x w", "m"), node("Add", "m x", "y")],
        [1, 6, 8],
        ["y"],
        w=kernel(8, 8),
    )
    assert (part.channel, part.scores) == (2, False)


def test_scores_are_a_softmax_and_vectors(tmp_path: Path) -> None:
    dense, vector, image = parts(
        tmp_path,
        [
            node("Conv", "x w", "image"),
            node("Softmax", "image", "dense", axis=1),
            node("GlobalAveragePool", "image", "p"),
            node("Flatten", "p", "vector"),
        ],
        [1, 3, 4, 4],
        ["dense", "vector", "image"],
        w=kernel(10, 3, 1, 1),
    )
    assert (dense.scores, vector.scores, image.scores) == (True, True, False)


def test_what_is_no_float_has_no_channels(tmp_path: Path) -> None:
    text = """
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x4xi1> {
  %w = nn.constant dense<1.0> : tensor<4x3xf32> : tensor<4x3xf32>
  %0 = nn.constant dense<0.0> : tensor<4xf32> : tensor<4xf32>
  %1 = nn.fully_connected %x, %w : (tensor<2x3xf32>, tensor<4x3xf32>) -> tensor<2x4xf32>
  %2 = nn.compare %1, %0 mode gt : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi1>
  func.return %2 : tensor<2x4xi1>
}"""
    path = tmp_path / "net.mlir"
    path.write_text(text)
    model = qd.load(path)
    (part,) = parts_of(model.module, model.ctx)
    assert (part.channel, part.scores) == (None, False)
