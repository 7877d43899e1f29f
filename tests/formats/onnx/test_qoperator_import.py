"""QOperator models: every node as the quantized op it is defined as, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import STORAGE_DTYPES, ModelBuilder, export, load, ops, random_feeds
from xdsl.dialects.builtin import ModuleOp

from qdialect.errors import InputError
from qdialect.interpreter import Interpreter
from qdialect.ir.context import QContext
from qdialect.plugins.onnx.dialect import PARAMS, NodeOp
from qdialect.plugins.onnx.write import OrtEngine

BYTES = ("u8", "i8")
MIDDLE = {"u8": 128, "i8": 0}
DTYPES = {**STORAGE_DTYPES, "i32": np.int32}


class Builder(ModelBuilder):
    """Nodes of `com.microsoft` among others; outputs without a shape."""

    def stored(self, name: str, shape: Any, storage: str) -> str:
        return self.input(name, shape, DTYPES[storage])

    def params(self, name: str, storage: str, scale: Any, zero: Any) -> list[str]:
        self.const(f"{name}_s", scale, np.float32)
        self.const(f"{name}_z", zero, DTYPES[storage])
        return [f"{name}_s", f"{name}_z"]

    def operand(self, name: str, storage: str, scale: Any = 0.02, off: Any = 3) -> list[str]:
        return [name, *self.params(name, storage, scale, np.asarray(off) + MIDDLE[storage])]

    def finish(self, storage: str | None, shape: Any) -> onnx.ModelProto:
        self.output("y", np.float32 if storage is None else DTYPES[storage], shape)
        return self.model(check=False)


def microsoft(b: Builder, op: str, inputs: list[str], **attributes: Any) -> None:
    b.node(op, inputs, "y", domain="com.microsoft", **attributes)


def conv(b: Builder, storage: str, per_channel: bool = False, bias: bool = True) -> Any:
    rng = np.random.default_rng(3)
    b.stored("x", (1, 4, 6, 7), storage)
    b.const("w", rng.integers(-100, 100, (6, 2, 3, 3)), np.int8)
    scale = rng.uniform(0.001, 0.02, 6) if per_channel else 0.01
    w = ["w", *b.params("w", "i8", scale, np.zeros(np.shape(scale)))]
    more = [b.const("b", rng.integers(-3000, 3000, 6), np.int32)] if bias else []
    inputs = [*b.operand("x", storage), *w, *b.params("y", storage, 0.3, MIDDLE[storage]), *more]
    b.node("QLinearConv", inputs, "y", group=2, pads=[1, 0, 1, 2], strides=[2, 1])
    return b.finish(storage, (1, 6, 3, 7))


def conv_per_channel(b: Builder, storage: str) -> Any:
    return conv(b, storage, per_channel=True)


def conv_plain(b: Builder, storage: str) -> Any:
    return conv(b, storage, bias=False)


def matmul(b: Builder, storage: str, columns: bool = False) -> Any:
    rng = np.random.default_rng(4)
    b.stored("x", (2, 3, 5), storage)
    b.const("w", rng.integers(-100, 100, (5, 4)), np.int8)
    scale = rng.uniform(0.001, 0.02, 4) if columns else 0.01
    w = ["w", *b.params("w", "i8", scale, np.zeros(np.shape(scale)))]
    y = b.params("y", storage, 0.1, 5 + MIDDLE[storage])
    b.node("QLinearMatMul", [*b.operand("x", storage), *w, *y], "y")
    return b.finish(storage, (2, 3, 4))


def matmul_columns(b: Builder, storage: str) -> Any:
    return matmul(b, storage, columns=True)


def gemm(b: Builder, storage: str, turned: int = 0, real: bool = False) -> Any:
    rng = np.random.default_rng(5)
    b.stored("x", (3, 5), storage)
    w = rng.integers(-100, 100, (5, 4))
    b.const("w", w.T if turned else w, np.int8)
    scale = rng.uniform(0.001, 0.02, 4)
    b.const("c", rng.integers(-3000, 3000, 4), np.int32)
    inputs = [*b.operand("x", storage), "w", *b.params("w", "i8", scale, np.zeros(4)), "c"]
    inputs += [] if real else b.params("y", storage, 0.1, 5 + MIDDLE[storage])
    microsoft(b, "QGemm", inputs, transB=turned)
    return b.finish(None if real else storage, (3, 4))


@pytest.mark.parametrize("real", [False, True])
@pytest.mark.parametrize(
    ("alpha", "folds"), [(0.5, True), (2.0, True), (0.3, False), (-1.0, False)]
)
def test_gemm_with_a_factor(alpha: float, folds: bool, real: bool) -> None:
    """alpha is in the scales of the weight where a file can hold them."""
    model = gemm(Builder(17), "u8", real=real)
    node = model.graph.node[0]
    node.attribute.append(onnx.helper.make_attribute("alpha", alpha))
    ctx, module = load(model)
    assert ("nn.fully_connected" in ops(module)) is folds
    engine = OrtEngine(model, optimize=False)
    for form in ("qdq", "qoperator"):
        again = OrtEngine(export(ctx, module, form, numerics="bounded"), optimize=False)
        for seed in range(3):
            feeds = random_feeds(model, seed)
            want = engine.run(feeds)["y"]
            got = again.run(feeds)["y"]
            np.testing.assert_allclose(got.astype("f8"), want, atol=1e-5 if real else 0)
            if folds:
                ours = interpret(ctx, module, feeds)[0]
                np.testing.assert_allclose(ours.astype("f8"), want, atol=1e-5 if real else 0)


def gemm_turned(b: Builder, storage: str) -> Any:
    return gemm(b, storage, turned=1)


def gemm_to_float(b: Builder, storage: str) -> Any:
    return gemm(b, storage, real=True)


def binary(op: str) -> Any:
    def build(b: Builder, storage: str) -> Any:
        b.stored("a", (2, 3, 4), storage)
        b.stored("b", (3, 1), storage)
        inputs = [*b.operand("a", storage), *b.operand("b", storage, 0.03, -7)]
        microsoft(b, op, [*inputs, *b.params("y", storage, 0.05, MIDDLE[storage])])
        return b.finish(storage, (2, 3, 4))

    return build


def unary(op: str, result: Any = (3, 5, 6, 7), **attributes: Any) -> Any:
    def build(b: Builder, storage: str) -> Any:
        b.stored("x", (3, 5, 6, 7), storage)
        inputs = [*b.operand("x", storage), *b.params("y", storage, 0.007, MIDDLE[storage])]
        microsoft(b, op, inputs, **attributes)
        return b.finish(storage, result)

    return build


def concat(b: Builder, storage: str) -> Any:
    b.stored("a", (2, 3), storage)
    b.stored("b", (2, 4), storage)
    y = b.params("y", storage, 0.03, MIDDLE[storage] - 7)
    inputs = [*y, *b.operand("a", storage), *b.operand("b", storage, 0.03, -7)]
    microsoft(b, "QLinearConcat", inputs, axis=1)
    return b.finish(storage, (2, 7))


def where(b: Builder, storage: str) -> Any:
    b.input("c", (2, 3), np.bool_)
    b.stored("a", (2, 3), storage)
    b.stored("b", (3,), storage)
    inputs = ["c", *b.operand("a", storage), *b.operand("b", storage, 0.03, -7)]
    microsoft(b, "QLinearWhere", [*inputs, *b.params("y", storage, 0.04, MIDDLE[storage])])
    return b.finish(storage, (2, 3))


def matmul_to_float(b: Builder, storage: str) -> Any:
    rng = np.random.default_rng(4)
    b.stored("x", (3, 5), storage)
    b.const("w", rng.integers(-100, 100, (5, 4)), np.int8)
    x, w = b.operand("x", storage), b.params("w", "i8", 0.01, 0)
    b.const("bias", rng.normal(size=4), np.float32)
    inputs = ["x", "w", x[1], w[0], x[2], w[1], "bias"]
    microsoft(b, "MatMulIntegerToFloat", inputs)
    return b.finish(None, (3, 4))


FORMS: dict[str, tuple[Any, list[str], float]] = {
    "conv": (conv, ["nn.conv2d"], 0),
    "conv_per_channel": (conv_per_channel, ["nn.conv2d"], 0),
    "conv_plain": (conv_plain, ["nn.conv2d"], 0),
    "matmul": (matmul, ["nn.matmul"], 0),
    "matmul_columns": (matmul_columns, ["nn.matmul"], 0),
    "gemm": (gemm, ["nn.fully_connected"], 0),
    "gemm_turned": (gemm_turned, ["nn.fully_connected"], 0),
    "gemm_to_float": (gemm_to_float, ["nn.fully_connected"], 1e-5),
    "matmul_to_float": (matmul_to_float, ["nn.matmul", "nn.add"], 1e-5),
    "add": (binary("QLinearAdd"), ["nn.add"], 1),
    "mul": (binary("QLinearMul"), ["nn.mul"], 1),
    "sigmoid": (unary("QLinearSigmoid"), ["nn.sigmoid"], 0),
    "leaky_relu": (unary("QLinearLeakyRelu", alpha=0.2), ["nn.leaky_relu"], 1),
    "softmax": (unary("QLinearSoftmax", opset=13), ["nn.softmax"], 1),
    "average_pool": (
        unary(
            "QLinearAveragePool",
            (3, 5, 6, 4),
            kernel_shape=[3, 2],
            pads=[1, 0, 1, 1],
            strides=[1, 2],
        ),
        ["nn.avg_pool2d"],
        1,
    ),
    "global_average_pool": (
        unary("QLinearGlobalAveragePool", (3, 5, 1, 1), channels_last=0),
        ["nn.global_avg_pool2d"],
        1,
    ),
    "concat": (concat, ["quant.rescale", "nn.concat"], 1),
    "where": (where, ["quant.rescale", "quant.rescale", "nn.select"], 1),
}


def build(form: str, storage: str) -> tuple[onnx.ModelProto, list[str], float]:
    make, want, step = FORMS[form]
    return make(Builder(17), storage), want, step


def interpret(ctx: QContext, module: ModuleOp, feeds: dict[str, Any]) -> list[Any]:
    return Interpreter(ctx, module).run(feeds)


@pytest.mark.parametrize("storage", BYTES)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.exact_sums
def test_the_op_it_is_defined_as(form: str, storage: str) -> None:
    """As ONNX Runtime computes it, but for the ties and steps its kernels give away."""
    model, want, step = build(form, storage)
    ctx, module = load(model)
    assert ops(module) == want
    assert not any(PARAMS in op.attributes for op in module.walk())
    engine = OrtEngine(model, optimize=False)
    for seed in range(3):
        feeds = random_feeds(model, seed)
        got, runtime = interpret(ctx, module, feeds)[0], engine.run(feeds)["y"]
        assert got.dtype == runtime.dtype
        difference = np.abs(got.astype(np.float64) - runtime)
        assert difference.max() <= step
        assert np.mean(difference > 1e-5) < 0.01 or form == "softmax"


@pytest.mark.parametrize("storage", BYTES)
@pytest.mark.parametrize("form", FORMS)
def test_there_and_back(form: str, storage: str) -> None:
    """Import, export as QOperator, import: the same text, and the same op types."""
    model, _, _ = build(form, storage)
    ctx, module = load(model)
    written = export(ctx, module, "qoperator", numerics="bounded")
    _, again = load(written)
    if form in ("matmul_to_float", "where"):  # an addition, and a choice, of their own
        engine, other = OrtEngine(model, optimize=False), OrtEngine(written, optimize=False)
        feeds = random_feeds(model, 1)
        tolerance = 1 if form == "where" else 1e-4
        difference = engine.run(feeds)["y"].astype(np.float64) - other.run(feeds)["y"]
        assert np.abs(difference).max() <= tolerance
        return
    assert [n.op_type for n in written.graph.node] == [n.op_type for n in model.graph.node]
    assert str(again) == str(module)


def kept(model: onnx.ModelProto) -> bool:
    _, module = load(model)
    return any(isinstance(op, NodeOp) for op in module.walk())


def test_qparams_that_are_inputs_stay() -> None:
    b = Builder(17)
    b.stored("x", (2, 3), "u8")
    b.input("s", (), np.float32)
    b.input("z", (), np.uint8)
    y = b.params("y", "u8", 0.1, 5)
    microsoft(b, "QLinearSigmoid", ["x", "s", "z", *y])
    assert kept(b.finish("u8", (2, 3)))


@pytest.mark.parametrize(
    ("op", "attributes"),
    [
        ("QLinearGlobalAveragePool", {"channels_last": 1}),
        ("QLinearAveragePool", {"channels_last": 1, "kernel_shape": [2, 2]}),
        ("QLinearSoftmax", {"opset": 11, "axis": 1}),
        ("QLinearUnheardOf", {}),
    ],
)
def test_other_forms_stay(op: str, attributes: Any) -> None:
    assert kept(unary(op, ("a", "b", "c", "d"), **attributes)(Builder(17), "u8"))


def test_an_attribute_of_another_kind_names_the_node() -> None:
    model = unary("QLinearSoftmax", opset=[13])(Builder(17), "u8")
    with pytest.raises(InputError, match="attribute 'opset' is a list, not an integer") as caught:
        load(model)
    assert caught.value.where is not None
    assert caught.value.where.node == "y_node"


def test_a_dynamic_batch_stays_dynamic() -> None:
    b = Builder(17)
    b.stored("x", ("n", 3), "u8")
    microsoft(b, "QLinearSigmoid", [*b.operand("x", "u8"), *b.params("y", "u8", 0.007, 0)])
    _, module = load(b.finish("u8", ("n", 3)))
    assert "tensor<?x3x!quant.uniform<u8:f32, 0.0" in str(module)


@pytest.mark.parametrize(
    ("scale", "zero", "storage", "message"),
    [
        (0.1, 3, "i8", "the zero point's type i8 is not the tensor's type u8"),
    ],
)
def test_bad_qparams_name_the_node(scale: float, zero: int, storage: str, message: str) -> None:
    b = Builder(17)
    b.stored("x", (2, 3), "u8")
    b.params("x", storage, scale, zero)
    y = b.params("y", "u8", 0.1, 5)
    b.node("QLinearSigmoid", ["x", "x_s", "x_z", *y], "y", "act", domain="com.microsoft")
    with pytest.raises(InputError, match=message) as caught:
        load(b.finish("u8", (2, 3)))
    assert caught.value.where is not None
    assert caught.value.where.node == "act"
