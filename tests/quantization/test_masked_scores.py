"""Masks are told from data by what reads them, not by how large they are."""

# pyright: basic

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.ir import Operation, SSAValue

import qdialect as qd
from qdialect.ir.ops import keys_of
from qdialect.quantizer.masked_scores import masked_scores
from qdialect.quantizer.values import real_array
from tests.support.commands import call, qopt

NODES = """
    transposed = Transpose<perm = [0, 2, 1]>(k)
    scores = MatMul(q, transposed)
    scaled = Mul(scores, half)
    other = Sub(one, padding)
    mask = Mul(other, far)
    masked = Add(scaled, mask)
    shares = Softmax<axis = -1>(masked)
    y = MatMul(shares, v)
"""


def attention(more: str = "", outputs: str = "float[1, 4, 8] y") -> onnx.ModelProto:
    return onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["" : 17]>
        attention (float[1, 4, 8] q, float[1, 4, 8] k, float[1, 4, 8] v, float[1, 1, 4] padding)
            => ({outputs})
        <float half = {{0.5}}, float one = {{1}}, float far = {{-10000}}> {{ {NODES} {more} }}"""
    )


def masked_in(model: onnx.ModelProto, folder: Path) -> set[str]:
    onnx.save(model, folder / "m.onnx")
    loaded = qd.load(folder / "m.onnx")

    def number(value: SSAValue) -> float | None:
        array = real_array(value, loaded.ctx.blobs)
        return None if array is None or array.size != 1 else float(array.item())

    found = masked_scores(loaded.function(), loaded.ctx, number)
    owners = {v.owner for v in found if isinstance(v.owner, Operation) and v.owner.operands}
    return {key for owner in owners for key in keys_of(owner)}


def test_only_what_ends_in_a_softmax_may_have_masks(tmp_path: Path) -> None:
    masks = {"other", "mask", "masked"}
    assert masked_in(attention(), tmp_path) == {"scores", "scaled", *masks}
    # A value that somebody sees holds data.
    seen = attention(outputs="float[1, 4, 8] y, float[1, 1, 4] mask")
    assert masked_in(seen, tmp_path) == {"scores", "scaled", "masked"}
    read = attention("z = Relu(masked)", "float[1, 4, 8] y, float[1, 4, 4] z")
    assert masked_in(read, tmp_path) == set()


@pytest.mark.parametrize("far", [1e4, 65504.0, 1e6, 1e9])
def test_far_numbers_are_data(far: float, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    weight = random.standard_normal((8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "a"),
        helper.make_node("Abs", ["a"], ["y"], "y"),
    ]
    ports = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [4, 8]) for n in "xy"]
    graph = helper.make_graph(
        nodes, "g", ports[:1], ports[1:], [numpy_helper.from_array(weight, "w")]
    )
    opsets = [helper.make_opsetid("", 17)]
    path, written = tmp_path / "m.onnx", tmp_path / "q.onnx"
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path)
    data = random.standard_normal((32, 4, 8)).astype(np.float32)
    data[random.random(data.shape) < 0.1] = far
    np.savez(tmp_path / "x.npz", x=data)
    arguments = [
        "quantize",
        path,
        "--data",
        tmp_path / "x.npz",
        "-o",
        written,
        "--time=0",
        "--force",
    ]
    done = call(qopt, *map(str, arguments))
    assert done.code == 0, done.err
    signal, found = (
        np.stack([ort.InferenceSession(each).run(None, {"x": x})[0] for x in data])
        for each in (path, written)
    )
    noise = ((signal - found) ** 2).sum(dtype=np.float64)
    assert 10 * np.log10((signal**2).sum(dtype=np.float64) / noise) > 20
