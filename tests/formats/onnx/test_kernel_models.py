"""Models of integer kernels (QLinear ops): at `exact` the kernels stay, in either form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx_models import Array
from xdsl.parser import Parser

from qdialect import api
from qdialect.ir.context import new_context
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import OrtEngine, write_model

pytest.importorskip("onnxruntime")

MS = "com.microsoft"
SHAPE = (1, 4, 8, 8)


class Net:
    """A model of nodes on codes of one storage."""

    def __init__(self, signed: bool, seed: int) -> None:
        self.dtype: Any = np.int8 if signed else np.uint8
        self.rng = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.x = self.rng.integers(0, 256, SHAPE).astype(np.uint8).view(self.dtype)

    def const(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def scale(self) -> np.float32:
        return np.float32(abs(self.rng.normal()) * 0.05 + 1e-3)

    def zero(self) -> Any:
        return np.array(self.rng.integers(0, 256), np.uint8).view(self.dtype)

    def node(self, kind: str, *inputs: str, domain: str = MS, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], domain=domain, **attributes))
        return name

    def model(self, output: str) -> onnx.ModelProto:
        code = helper.np_dtype_to_tensor_dtype(np.dtype(self.dtype))
        graph = helper.make_graph(
            self.nodes,
            "kernels",
            [helper.make_tensor_value_info("x", code, SHAPE)],
            [helper.make_tensor_value_info(output, code, None)],
            self.constants,
        )
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(MS, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def nets(signed: bool) -> Iterator[tuple[str, onnx.ModelProto, Array]]:
    """Two kernels each: a convolution, and one of the others below it."""
    kinds = ("Add", "Mul", "Sigmoid", "LeakyRelu", "AveragePool", "GlobalAveragePool", "Concat")
    for seed, kind in enumerate((*kinds, "Softmax", "Where")):
        net = Net(signed, seed)
        weight = net.rng.integers(-127, 128, (4, 4, 3, 3)).astype(np.int8)
        scales = (np.abs(net.rng.normal(size=4)) * 0.01 + 1e-3).astype(np.float32)
        first = [net.const(net.scale()), net.const(net.zero())]
        middle = [net.const(np.float32(2.0)), net.const(net.zero())]
        last = [net.const(net.scale()), net.const(net.zero())]
        held = [net.const(weight), net.const(scales), net.const(np.zeros(4, np.int8))]
        bias = net.const(net.rng.integers(-9999, 9999, 4).astype(np.int32))
        parts = ["x", *first, *held, *middle, bias]
        y = net.node("QLinearConv", *parts, domain="", pads=[1, 1, 1, 1])
        given = [y, *middle]
        if kind in ("Add", "Mul"):
            result = net.node(f"QLinear{kind}", *given, "x", *first, *last)
        elif kind == "Concat":
            result = net.node("QLinearConcat", *last, *given, "x", *first, axis=1)
        elif kind == "Where":
            chosen = net.const(net.x.astype(np.int64) > 3)
            result = net.node("QLinearWhere", chosen, *given, "x", *first, *last)
        else:
            attributes: dict[str, Any] = {"AveragePool": {"kernel_shape": [3, 3]}}.get(kind, {})
            if kind == "Softmax":
                attributes = {"opset": 17, "axis": -1}
            result = net.node(f"QLinear{kind}", *given, *last, **attributes)
        yield kind, net.model(result), net.x


def kernels(model: onnx.ModelProto) -> list[str]:
    return sorted(n.op_type for n in model.graph.node if n.op_type.startswith("QLinear"))


@pytest.mark.parametrize("signed", [True, False], ids=["i8", "u8"])
@pytest.mark.exact_sums
def test_kernels_stay(signed: bool) -> None:
    for kind, source, x in nets(signed):
        ctx = new_context()
        model = api.Model(import_model(source, ctx), ctx)
        expected = list(OrtEngine(source, optimize=False).run({"x": x}).values())
        optimized = api.optimize(model, "onnxruntime", "exact")
        for form in ("qdq", "qoperator"):
            written = write_model(optimized.module, optimized.ctx, form=form).whole()
            got = list(OrtEngine(written, optimize=False).run({"x": x}).values())
            assert np.array_equal(expected[0], got[0].view(expected[0].dtype)), (kind, form)
            rescales = {"QLinearConcat", "QLinearWhere"}
            assert set(kernels(source)) - rescales <= set(kernels(written)), (kind, form)


def test_a_rewrite_of_what_a_kernel_defines_is_no_longer_exact() -> None:
    text = """
!a = !quant.uniform<i8:f32, 5.000000e-01>
!b = !quant.uniform<i8:f32, 2.500000e-01:3>
func.func @f(%x: tensor<4x!a>, %y: tensor<4x!a>) -> tensor<4x!b> {
  %0 = quant.rescale %x : tensor<4x!a> to tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>
  %1 = nn.add %0, %y MARK: (tensor<4x!quant.uniform<i16:f32, 2.500000e-01>>, tensor<4x!a>)
    -> tensor<4x!b>
  return %1 : tensor<4x!b>
}
"""
    for mark, fires in (("", 1), ("{nn.kernel} ", 0)):
        ctx = new_context()
        model = api.Model(Parser(ctx, text.replace("MARK", mark)).parse_module(), ctx)
        after = api.run_passes(model, "combine-rescale")
        assert after.ctx.remarks.fired().get("combine-down", 0) == fires
        assert api.run_passes(model, "combine-rescale{numerics=ties}").ctx.remarks.fired()
