"""The QOperator form beyond single kernels: bounds, fallbacks, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_graphs import BYTES, SHAPE, Graph, check, encoding, real
from onnx import numpy_helper
from onnx_models import BOUNDS, STORAGE_DTYPES, export
from xdsl.dialects.builtin import TensorType

from qdialect.algebra.qparams.parameters import QParams
from qdialect.ir import ops as nn
from qdialect.ir.context import new_context
from qdialect.ir.quant import RescaleOp, UniformType
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.onnx.write import OrtEngine, write_model
from qdialect.plugins.onnx.write.kernels import refusal


def test_rescale_with_another_reader_is_written_for_both() -> None:
    a, y = encoding("u8", 0.02, 9), encoding("u8", 0.03, 3)
    g = Graph((a, (2, 3)))
    shared = g.add(RescaleOp(g.block.args[0], TensorType(y, (2, 3))))
    flipped = g.add(nn.TransposeOp(g.add(nn.TransposeOp(shared, perm=(1, 0))), perm=(1, 0)))
    result = g.add(nn.ConcatOp(shared, flipped, element=y, axis=1))
    types = ["DequantizeLinear", "QuantizeLinear", "Transpose", "Transpose", "Concat"]
    q = np.arange(6, dtype=np.uint8).reshape(2, 3) * 40
    check(g.run(result, [q], types), np.concatenate([real(q, a)] * 2, 1), y, tie=1)


@pytest.mark.parametrize("storage", BYTES)
@pytest.mark.parametrize("zero", [-128, -20, 30])
def test_relu_is_a_bound(storage: str, zero: int) -> None:
    x = encoding(storage, 0.02, zero)
    g = Graph((x, (256,)))
    result = g.add(nn.ReluOp(g.block.args[0]))
    bounds = BOUNDS[storage]
    q = np.arange(bounds.min, bounds.max + 1).astype(STORAGE_DTYPES[storage])
    got = g.run(result, [q], ["Identity"] if zero == -128 else ["Clip"])
    np.testing.assert_array_equal(got, np.maximum(q, x.qparams.zero_point))


@pytest.mark.parametrize("storage", BYTES)
@pytest.mark.parametrize(
    ("bounds", "types"),
    [
        ((0.0, 1.5), ["Clip"]),
        ((None, 1.5), ["Clip"]),
        ((-1.0, None), ["Clip"]),
        ((-100.0, 100.0), ["Identity"]),
        ((None, None), ["Identity"]),
    ],
)
def test_clip_is_a_clip_of_integers(
    storage: str, bounds: tuple[float | None, float | None], types: list[str]
) -> None:
    x = encoding(storage, 0.02, 5)
    g = Graph((x, (256,)))
    given = {n: v for n, v in zip(("min", "max"), bounds, strict=True) if v is not None}
    result = g.add(nn.ClipOp(g.block.args[0], **given))
    info = BOUNDS[storage]
    q = np.arange(info.min, info.max + 1).astype(STORAGE_DTYPES[storage])
    got = g.run(result, [q], types)
    low, high = bounds
    exact = np.clip(real(q, x), -np.inf if low is None else low, np.inf if high is None else high)
    check(got, exact, x, tie=0)


@pytest.mark.parametrize("name", ["div", "sub", "tanh", "hard_sigmoid", "hard_swish", "batch_norm"])
def test_ops_without_a_kernel_are_dequantized(name: str) -> None:
    x, y = encoding("u8", 0.02, 9), encoding("u8", 0.03, 3)
    g = Graph((x, SHAPE))
    kinds: dict[str, Any] = {
        "div": nn.DivOp,
        "sub": nn.SubOp,
        "tanh": nn.TanhOp,
        "hard_sigmoid": nn.HardSigmoidOp,
        "hard_swish": nn.HardSwishOp,
        "batch_norm": nn.BatchNormOp,
    }
    operands = [g.block.args[0]]
    if name in ("div", "sub"):
        operands.append(g.constant(np.array([140], np.uint8), x))
    if name == "batch_norm":
        from xdsl.dialects.builtin import f32

        ones = np.ones(6, np.float32)
        operands += [g.add(nn.make_constant(ones, f32, g.ctx.blobs)) for _ in range(4)]
    op = kinds[name](*operands, element=y)
    assert refusal(op) is not None
    result = g.add(op)
    model = export(g.ctx, g.module(result), "qoperator")
    types = {node.op_type for node in model.graph.node}
    assert {"DequantizeLinear", "QuantizeLinear"} <= types
    assert not any(name.startswith("QLinear") for name in types)


@pytest.mark.parametrize(("activation", "weight"), [("i8", "u8"), ("u16", "i8")])
def test_pairs_the_kernels_refuse(activation: str, weight: str) -> None:
    x, w = encoding(activation, 0.02, 3), encoding(weight, 0.01, 0)
    g = Graph((x, (2, 4)))
    qw = np.ones((3, 4), STORAGE_DTYPES[weight])
    op = nn.FullyConnectedOp(g.block.args[0], g.constant(qw, w), element=x)
    assert refusal(op) is not None
    model = export(g.ctx, g.module(g.add(op)), "qoperator", opset=21)
    types = [node.op_type for node in model.graph.node]
    assert types[-2:] == ["Gemm", "QuantizeLinear"]


@pytest.mark.parametrize("optimize", [False, True])
@pytest.mark.parametrize(
    ("kind", "shapes"),
    [
        (nn.MatMulOp, ((7, 0), (0, 5))),
        (nn.FullyConnectedOp, ((7, 0), (5, 0))),
        (nn.CONVOLUTIONS[1], ((3, 0, 2, 2), (5, 0, 1, 1))),
    ],
)
def test_no_kernel_sums_over_nothing(
    kind: Any, shapes: tuple[tuple[int, ...], tuple[int, ...]], optimize: bool
) -> None:
    """The runtime's kernels leave in the result what was in memory."""
    x, w = encoding("u8", 0.02, 3), encoding("i8", 0.01, 0)
    g = Graph((x, shapes[0]))
    op = kind(g.block.args[0], g.constant(np.zeros(shapes[1], np.int8), w), element=x)
    model = export(g.ctx, g.module(g.add(op)), "qoperator")
    assert not any(node.op_type.startswith(("QLinear", "QGemm")) for node in model.graph.node)
    engine = OrtEngine(model, optimize=optimize)
    got = engine.run({engine.inputs[0]: np.zeros(shapes[0], np.uint8)})[engine.outputs[0]]
    assert got.size and (got == x.qparams.zero_point).all()


def test_narrow_bounds_are_kept() -> None:
    element = UniformType(QParams.per_tensor(nn_storage(-100, 90), 0.01, 4))
    x = encoding("i8", 0.02, 3)
    for form in ("qdq", "qoperator"):
        g = Graph((x, (256,)))
        op = nn.SigmoidOp(g.block.args[0], element=element)
        model = export(g.ctx, g.module(g.add(op)), form)
        engine = OrtEngine(model, optimize=False)
        q = np.arange(-128, 128).astype(np.int8)
        got = engine.run({engine.inputs[0]: q})[engine.outputs[0]]
        assert got.max() == 90


def nn_storage(low: int, high: int) -> Any:
    from qdialect.algebra.qparams.parameters import Storage

    return Storage.of("i8", low, high)


def test_other_roundings_are_refused() -> None:
    from qdialect.errors import UnsupportedError

    g = Graph((encoding("u8", 0.02, 3), (4,)))
    source = g.block.args[0]
    module = g.module(g.add(nn.AddOp(source, source, rounding="half_up")))
    with pytest.raises(UnsupportedError, match="ONNX rounds half even"):
        export(g.ctx, module, "qoperator")


@pytest.mark.parametrize(
    ("call", "bounds"), [("nn.relu %x", (10,)), ("nn.clip %x min -1.0 max 6.0", (8, 22))]
)
def test_clamps_are_of_codes_in_either_form(call: str, bounds: tuple[int, ...]) -> None:
    """On floats between casts they would take ten times as long."""
    kind = "tensor<1x1x16x16x!quant.uniform<u8:f32, 0.5:10>>"
    text = f"func.func @main(%x: {kind}) -> {kind} {{\n  %0 = {call} : ({kind}) -> {kind}\n"
    ctx = new_context()
    module = read_module(text + f"  func.return %0 : {kind}\n}}", ctx)
    for form in ("qdq", "qoperator"):
        model = write_model(module, ctx, form=form).whole()
        (node,) = model.graph.node
        held = {t.name: numpy_helper.to_array(t).item() for t in model.graph.initializer}
        assert node.op_type == "Clip" and tuple(held[n] for n in node.input[1:]) == bounds
        codes = np.arange(256, dtype=np.uint8).reshape(1, 1, 16, 16)
        (got,) = OrtEngine(model, optimize=True).run({"arg0": codes}).values()
        np.testing.assert_array_equal(got, np.clip(codes, bounds[0], (*bounds, 255)[1]))
