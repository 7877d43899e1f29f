"""Quantizes that multiply by reciprocals, in ONNX: a Mul and a QuantizeLinear of scale 1, with the
bits of the interpreter whether the runtime optimizes or not."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from qdialect.algebra.rounding import Rounding
from qdialect.errors import UnsupportedError
from qdialect.interpreter import Interpreter
from qdialect.ir.context import QContext, new_context
from qdialect.ir.quant import QCastOp, cast_rounding
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import OrtEngine, write_model

SHAPE = "2x3x4x64"
TYPES = {
    "i8": "i8:f32, 0.1:3",
    "u8": "u8:f32, 0.0123456789:131",
    "zero point 0": "u8:f32, 0.3",
    "i16": "i16:f32, 0.0333333333:77",
    "u16": "u16:f32, 0.0333333333:777",
    "i4": "i4:f32, 0.7:-3",
    "narrow": "i8<-127:127>:f32, 0.11",
    "axis": "i8:f32:1, {0.1, 0.037, 0.9}",
    "axis, zero points": "u8:f32:1, {0.1:3, 0.037:200, 0.9:128}",
    "last axis": "i8:f32:-1, {" + ", ".join(f"{0.01 * (n + 1):.2f}" for n in range(64)) + "}",
    "f16": "i8:f16, 0.0999755859375:3",
    "i32": "i32:f32, 0.1",
    "i32, axis": "i32:f32:1, {0.1:3, 0.037, 0.9}",
}
BEFORE = {
    "nothing": "",
    "relu": "nn.relu %x",
    "a product": "nn.mul %x, %c",
    "a quotient": "nn.div %c, %x",
    "a sum": "nn.add %x, %c",
}


def ctx_and_module(text: str) -> tuple[QContext, Any]:
    ctx = new_context()
    return ctx, read_module(text, ctx)


def cast(kind: str, before: str = "", floats: str = "f32") -> str:
    codes = f"tensor<{SHAPE}x!quant.uniform<{kind.replace(':-1,', ':3,')}>>"
    x = f"tensor<{SHAPE}x{floats}>"
    one, kinds = f"tensor<1x{floats}>", {"%x": x, "%c": f"tensor<1x{floats}>"}
    constant = f"  %c = nn.constant dense<0.7> : {one} : {one}\n" if "%c" in before else ""
    operands = ", ".join(kinds[word.strip(",")] for word in before.split() if "%" in word)
    step = f"  %y = {before} : ({operands}) -> {x}\n" if before else ""
    return (
        'module attributes {quant.arithmetic = "expressed"} {\n'
        f"func.func @main(%x: {x}) -> ({codes}, {x}) {{\n{constant}{step}"
        f'  %q = quant.qcast {"%y" if before else "%x"} {{quant.rounding = "reciprocal"}} : '
        f"{x} to {codes}\n"
        f"  %z = quant.dcast %q : {codes} to {x}\n"
        f"  return %q, %z : {codes}, {x}\n}}}}"
    )


def inputs(scale: float, kind: Any) -> np.ndarray[Any, Any]:
    """Half-way points of the scale, their neighbours, and what is far out."""
    random = np.random.default_rng(3)
    x = ((random.integers(-140, 140, (2, 3, 4, 64)) + 0.5) * scale).astype(np.float32)
    x = (x.view(np.int32) + random.integers(-1, 2, x.shape, np.int32)).view(np.float32)
    x.flat[:4] = [3e4, -3e4, 0, 1e-3]
    return x.astype(kind)


def same_in_runtime(text: str, x: np.ndarray[Any, Any]) -> onnx.ModelProto:
    ctx, module = ctx_and_module(text)
    expected = Interpreter(ctx, module).run([x])
    model = write_model(module, ctx).model
    for optimize in (False, True):
        engine = OrtEngine(model, optimize=optimize)
        found = list(engine.run({engine.inputs[0]: x}).values())
        if "<i4" in text:  # which numpy has no arrays of
            found = found[1:]
        for ours, theirs in zip(expected[-len(found) :], found, strict=True):
            np.testing.assert_array_equal(ours.view(theirs.dtype), theirs)
    return model


@pytest.mark.parametrize("name", TYPES)
def test_bits_of_every_type(name: str) -> None:
    kind = TYPES[name]
    floats = "f16" if "f16" in kind else "f32"
    scale = float(kind.partition(", ")[2].strip("{}").split(",")[0].split(":")[0])
    model = same_in_runtime(cast(kind, floats=floats), inputs(scale, f"f{int(floats[1:]) // 8}"))
    assert [n.op_type for n in model.graph.node].count("Mul") == 1


@pytest.mark.parametrize("name", BEFORE)
def test_the_op_before_is_no_part_of_it(name: str) -> None:
    x = inputs(0.1, np.float32)
    model = same_in_runtime(cast(TYPES["i8"], BEFORE[name]), np.where(x == 0, 1, x))
    kinds = [node.op_type for node in model.graph.node]
    assert ("Sum" in kinds) == (name != "nothing")


OPS = {
    "a rescale": ("quant.rescale %a rounding reciprocal : {x} to {y}", ["Mul"]),
    "an add": ("nn.add %a, %a rounding reciprocal : ({x}, {x}) -> {y}", ["Add", "Sum", "Mul"]),
    "a mul": ("nn.mul %a, %a rounding reciprocal : ({x}, {x}) -> {y}", ["Mul", "Sum", "Mul"]),
}


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("result", ["u8:f32, 0.037:100", "u8:f32:1, {0.037:3, 0.11:200, 0.7:128}"])
def test_ops_on_codes(name: str, result: str) -> None:
    """Products with a constant stand behind the float op: no integer kernel rounds so."""
    op, between = OPS[name]
    x, y = (f"tensor<4x3x8x8x!quant.uniform<{kind}>>" for kind in ("u8:f32, 0.05:100", result))
    floats = "tensor<4x3x8x8xf32>"
    text = (
        'module attributes {quant.arithmetic = "expressed"} {\n'
        f"func.func @main(%x: {floats}) -> {floats} {{\n"
        f"  %a = quant.qcast %x : {floats} to {x}\n"
        f"  %b = {op.format(x=x, y=y)}\n"
        f"  %z = quant.dcast %b : {y} to {floats}\n"
        f"  return %z : {floats}\n}}}}"
    )
    codes = np.resize(np.arange(256), (4, 3, 8, 8)) - 100
    model = same_in_runtime(text, (codes * 0.05).astype(np.float32))
    kinds = [n.op_type for n in model.graph.node if "Linear" not in n.op_type]
    assert kinds == between


#: of other scales a file has the f32, whose reciprocal is not that of the double, or it has
#: codes behind a Clip: they stay what they are in the file
READ_AGAIN = {"i8", "u8", "zero point 0", "i4", "axis", "axis, zero points"}


@pytest.mark.parametrize("name", [name for name in TYPES if name[:3] not in ("i32", "f16")])
def test_what_is_written_is_read_again(name: str) -> None:
    kind, floats = TYPES[name], "f32"
    ctx, module = ctx_and_module(cast(kind, floats=floats))
    other, again = new_context(), write_model(module, ctx).model
    back = import_model(again.SerializeToString(), other)
    x = inputs(0.1, np.float32)
    expected, found = Interpreter(ctx, module).run([x]), Interpreter(other, back).run([x])
    for ours, theirs in zip(expected, found, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    roundings = {cast_rounding(op) for op in back.walk() if isinstance(op, QCastOp)}
    assert (roundings == {Rounding.RECIPROCAL}) == (name in READ_AGAIN)
    assert ("nn.mul" in str(back)) == (name not in READ_AGAIN)


def test_a_product_with_another_number_stays_one() -> None:
    ctx, module = ctx_and_module(cast(TYPES["i8"]))
    model = write_model(module, ctx).model
    factor = next(t for t in model.graph.initializer if "reciprocal" in t.name)
    factor.CopyFrom(onnx.numpy_helper.from_array(np.array(10.5, np.float32), factor.name))
    other = new_context()
    back = import_model(model.SerializeToString(), other)
    assert "nn.mul" in str(back) and "quant.rounding" not in str(back)
    x = inputs(0.1, np.float32)
    engine = OrtEngine(model, optimize=False)
    (codes, _) = Interpreter(other, back).run([x])
    found = engine.run({engine.inputs[0]: x})
    np.testing.assert_array_equal(codes, next(iter(found.values())))


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("i8:f32:{0:1,1:1,2:2,3:64}, {{{{0.1}, {0.2}}}}", "reciprocals of blocks"),
        ("i8:f32, 1.0e-40", "its reciprocal is no f32"),
    ],
)
def test_what_has_no_form(kind: str, reason: str) -> None:
    text = cast(kind).replace("2x3x4x64", "1x1x4x64") if "{0:1" in kind else cast(kind)
    ctx, module = ctx_and_module(text)
    with pytest.raises(UnsupportedError, match=reason):
        write_model(module, ctx)
