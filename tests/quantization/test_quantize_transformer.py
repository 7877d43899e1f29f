"""A transformer as exporters write it: what becomes one op before it is quantized."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.ir import SSAValue

import qdialect as qd
from qdialect.cli.qopt import main
from qdialect.ir.ops.keys import keys_of
from qdialect.ir.quant import DCastOp, quant_element
from qdialect.quantizer.recipe import Recipe
from tests.support.processor import saturates_pairs

WIDTH, HEADS, STEPS = 16, 2, 6


class _Net:
    """Nodes that are named as their results."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(5)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def node(self, kind: str, name: str, *inputs: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def hold(self, name: str, array: Any) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def normal(self, name: str, *shape: int) -> str:
        return self.hold(name, (self.random.normal(size=shape) / shape[0] ** 0.5).astype("f4"))

    def linear(self, x: str, name: str, given: int, made: int) -> str:
        product = self.node("MatMul", f"{name}_product", x, self.normal(f"{name}.w", given, made))
        return self.node("Add", name, self.normal(f"{name}.b", made), product)

    def norm(self, x: str, name: str) -> str:
        vectors = [self.normal(f"{name}.{part}", WIDTH) for part in "sb"]
        return self.node("LayerNormalization", name, x, *vectors, axis=-1)

    def heads(self, x: str, name: str, perm: list[int]) -> str:
        self.node("Reshape", f"{name}_split", x, "split")
        return self.node("Transpose", name, f"{name}_split", perm=perm)

    def model(self, batch: int | str, out: str) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes,
            "transformer",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, STEPS, WIDTH])],
            [helper.make_tensor_value_info(out, TensorProto.FLOAT, [batch, STEPS, WIDTH])],
            self.weights,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def transformer(batch: int | str) -> onnx.ModelProto:
    net = _Net()
    net.hold("split", np.array([0, STEPS, HEADS, WIDTH // HEADS]))
    net.hold("join", np.array([0, STEPS, WIDTH]))
    x = net.linear("x", "embed", WIDTH, WIDTH)
    inner = net.norm(x, "norm")
    parts = {"q": [0, 2, 1, 3], "k": [0, 2, 3, 1], "v": [0, 2, 1, 3]}
    q, k, v = (
        net.heads(net.linear(inner, name, WIDTH, WIDTH), f"{name}_heads", perm)
        for name, perm in parts.items()
    )
    scores = net.node(
        "Div", "scores", net.node("MatMul", "qk", q, k), net.hold("root", np.float32(2.8))
    )
    mixed = net.node("MatMul", "av", net.node("Softmax", "softmax", scores, axis=-1), v)
    mixed = net.node("Transpose", "turned", mixed, perm=[0, 2, 1, 3])
    mixed = net.linear(net.node("Reshape", "joined", mixed, "join"), "project", WIDTH, WIDTH)
    x = net.node("Add", "residual", mixed, x)
    up = net.linear(x, "up", WIDTH, 2 * WIDTH)
    gate = net.node("Erf", "erf", net.node("Div", "over", up, net.hold("two", np.float32(2**0.5))))
    gate = net.node("Add", "gate", gate, net.hold("one", np.float32(1)))
    up = net.node(
        "Mul", "gated", net.node("Mul", "up_gate", up, gate), net.hold("half", np.float32(0.5))
    )
    return net.model(batch, net.linear(up, "down", 2 * WIDTH, WIDTH))


@pytest.fixture
def files(tmp_path: Path, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    model, data = tmp_path / "net.onnx", tmp_path / "data.npz"
    onnx.save(transformer(getattr(request, "param", 1)), model)
    np.savez(data, x=np.random.default_rng(1).normal(size=(12, 1, STEPS, WIDTH)).astype("f4"))
    return model, data


def sqnr(a: qd.Model, b: qd.Model, data: Path, engine: Any = "numpy") -> float:
    signal = noise = 0.0
    for sample in np.load(data)["x"]:
        (wanted,) = qd.run(a, {"x": sample}).values()
        (got,) = qd.run(b, {"x": sample}, engine=engine).values()
        signal += float((wanted.astype("f8") ** 2).sum())
        noise += float(((wanted.astype("f8") - got) ** 2).sum())
    return 10 * np.log10(signal / noise)


def _codes_of(value: SSAValue) -> SSAValue:
    return value.owner.input if isinstance(value.owner, DCastOp) else value


@pytest.mark.parametrize("files", [1, "batch"], indirect=True)
def test_a_product_and_its_bias_are_one_op(files: tuple[Path, Path]) -> None:
    """i32 biases on the scale of the products, and at most one rounding behind each: none in front
    of a residual sum, which is computed in floats."""
    model, data = qd.load(str(files[0])), files[1]
    result = qd.quantize(model, data)
    ops = list(result.model.module.walk())
    found = {op.name for op in ops}
    assert found & {"nn.gelu", "nn.table"} and "nn.erf" not in found
    products = [op for op in ops if op.name == "nn.fully_connected"]
    assert {key for op in products for key in keys_of(op)} >= {
        "embed",
        "q",
        "k",
        "v",
        "project",
        "up",
        "down",
    }
    for op in products:
        x, w, bias = (quant_element(_codes_of(value).type) for value in op.operands)
        assert x is not None and w is not None and bias is not None
        assert bias.qparams.storage.spelling == "i32"
        scales = [np.float32(x.qparams.scale * s) for s in w.qparams.scale_list()]
        assert [np.float32(s) for s in bias.qparams.scale_list()] == scales
    assert {left.op for left in result.coverage.left} == {"nn.layer_norm"}
    assert not result.coverage.stale
    assert sqnr(model, result.model, data) > 25


def test_the_runtime_runs_it(files: tuple[Path, Path], tmp_path: Path) -> None:
    model, data = qd.load(str(files[0])), files[1]
    for form in ("qdq", "qoperator"):
        out = tmp_path / f"{form}.onnx"
        assert (
            main(
                [
                    "quantize",
                    str(files[0]),
                    "--data",
                    str(data),
                    "-o",
                    str(out),
                    "--form",
                    form,
                    "-q",
                ]
            )
            == 0
        )
        engine = "numpy" if saturates_pairs() else "onnxruntime"
        assert sqnr(model, qd.load(str(out)), data, engine=engine) > 25


@pytest.mark.parametrize("key", ["up", "up_product"])
def test_what_is_kept_is_kept_by_the_name_of_any_piece(files: tuple[Path, Path], key: str) -> None:
    model = qd.load(str(files[0]))
    result = qd.quantize(model, files[1], recipe=Recipe(keep_float=frozenset({key})))
    assert {left.key for left in result.coverage.left if left.code == "kept"} == {"up"}


def floats(model: qd.Model) -> set[str]:
    """The ops that compute on floats."""
    return {
        op.name
        for op in model.module.walk()
        if op.name.startswith("nn.")
        and op.name != "nn.constant"
        and op.results
        and not any(quant_element(value.type) for value in (*op.operands, *op.results))
    }


@pytest.mark.parametrize("target", ["integer", "tosa"])
def test_a_target_without_floats_gets_none(files: tuple[Path, Path], target: str) -> None:
    """Layer norms in pieces, and a division as a product with a reciprocal."""
    model = qd.load(str(files[0]))
    result = qd.quantize(model, files[1], target=target)
    assert not result.coverage.left and not floats(result.model)
    names = {op.name for op in result.model.module.walk()}
    assert "nn.layer_norm" not in names and "nn.div" not in names
    if target == "tosa":
        assert sqnr(model, result.model, files[1]) > 22
