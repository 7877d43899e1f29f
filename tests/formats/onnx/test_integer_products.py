"""MatMulInteger and ConvInteger, and the scale that follows, against ONNX Runtime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto
from onnx_models import ModelBuilder, export, load, ops, random_feeds

from qdialect.errors import InputError
from qdialect.interpreter import Interpreter
from qdialect.ir.quant import quant_element
from qdialect.plugins.onnx.write import OrtEngine

Shape = tuple[int, ...]


def integers(rng: Any, dtype: Any, shape: Shape) -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, int(info.max) + 1, shape).astype(dtype)


class Builder(ModelBuilder):
    """Integer products of an input `x` and a constant `w`."""

    def product(
        self,
        op: str,
        x: Any,
        w: Any,
        zero_x: Any = None,
        zero_w: Any = None,
        output: str = "sums",
        **attributes: Any,
    ) -> str:
        names = [self.input("x", x[1], x[0]), self.const("w", w)]
        zeros = ["", ""]
        if zero_x is not None:
            zeros[0] = self.const("zx", zero_x, x[0])
        if zero_w is not None:
            zeros[1] = self.const("zw", zero_w, w.dtype)
        names += zeros if zeros[1] else zeros[:1] if zeros[0] else []
        return self.node(op, names, output, **attributes)

    def scaled(self, sums: str, scale: Any, output: str = "y", factors: Any = None) -> str:
        real = self.node("Cast", [sums], "real", to=TensorProto.FLOAT)
        if factors is None:
            self.const("s", scale, np.float32)
        else:
            a, b = (self.const(f"s{n}", f, np.float32) for n, f in enumerate(factors))
            self.node("Mul", [a, b], "s")
        return self.node("Mul", [real, "s"], output)


def random_model(seed: int, scaled: bool) -> Any:
    rng = np.random.default_rng(seed)
    dtypes = [np.uint8, np.int8]
    xd, wd = dtypes[rng.integers(2)], dtypes[rng.integers(2)]
    b = Builder(int(rng.integers(13, 24)))
    zero_x = None if rng.random() < 0.3 else integers(rng, xd, () if rng.random() < 0.5 else (1,))
    if rng.random() < 0.5:
        rank = int(rng.integers(1, 5))
        k, n = (int(v) for v in rng.integers(1, 9, 2))
        lead = tuple(int(v) for v in rng.integers(1, 4, rank - 1))
        batched = rank > 2 and rng.random() < 0.4
        w = integers(rng, wd, (*lead[:-1], k, n) if batched else (k, n))
        per = rng.random() < 0.5 and not batched
        zero_w = None if rng.random() < 0.3 else integers(rng, wd, (n,) if per else ())
        if per and zero_w is not None and rank == 1:
            zero_w = zero_w[:1]
        sums = b.product("MatMulInteger", (xd, (*lead, k)), w, zero_x, zero_w)
        scale_shape: Shape = (n,)
    else:
        spatial = int(rng.integers(1, 3))
        groups = int(rng.integers(1, 3))
        size = tuple(int(v) for v in rng.integers(4, 8, spatial))
        kernel = tuple(int(v) for v in rng.integers(1, 4, spatial))
        inner, outer = int(rng.integers(1, 4)), groups * int(rng.integers(1, 4))
        w = integers(rng, wd, (outer, inner, *kernel))
        zero_w = None if rng.random() < 0.3 else integers(rng, wd, ())
        sums = b.product(
            "ConvInteger",
            (xd, (2, groups * inner, *size)),
            w,
            zero_x,
            zero_w,
            group=groups,
            pads=[int(v) for v in rng.integers(0, 2, 2 * spatial)],
            strides=[int(v) for v in rng.integers(1, 3, spatial)],
        )
        scale_shape = (outer, *(1 for _ in range(spatial)))
    if not scaled:
        b.output("sums", np.int32)
        return b.model()
    per = rng.random() < 0.5
    scale = rng.uniform(1e-4, 1e-2, scale_shape if per else ())
    factors = None if rng.random() < 0.5 else (np.float32(0.0371), scale)
    y = b.scaled(sums, scale, factors=factors)
    if rng.random() < 0.5:
        b.const("bias", rng.normal(size=scale_shape), np.float32)
        y = b.node("Add", [y, "bias"], "z")
    b.output(y)
    return b.model()


def body(module: Any) -> str:
    """The function, without the names that a product of scales does not have."""
    return re.sub(r"onnx\.params = \[[^]]*\], ", "", str(next(iter(module.ops))))


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("seed", range(60))
@pytest.mark.exact_sums
def test_bit_for_bit(seed: int, scaled: bool) -> None:
    """Ours, the exported model and the original agree in every bit."""
    model = random_model(seed, scaled)
    ctx, module = load(model)
    left = {op.name for op in module.walk()}
    assert "onnx.node" not in left
    assert ("nn.mul" in left) is False
    engine = OrtEngine(model, optimize=False)
    for form in ("qdq", "qoperator"):
        written = export(ctx, module, form)
        again = OrtEngine(written, optimize=False)
        kinds = [node.op_type for node in written.graph.node]
        assert [k for k in kinds if k != "Mul"] == [
            n.op_type for n in model.graph.node if n.op_type != "Mul"
        ]
        for number in range(2):
            feeds = random_feeds(model, number)
            want = next(iter(engine.run(feeds).values()))
            got = Interpreter(ctx, module).run(feeds)[0]
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(next(iter(again.run(feeds).values())), want)
        assert body(load(written)[1]) == body(module)


def test_zero_points_per_output_channel() -> None:
    """ONNX Runtime has no such ConvInteger; the sum is written out."""
    rng = np.random.default_rng(0)
    w = integers(rng, np.int8, (3, 2, 2, 2))
    zeros = np.array([1, -5, 100], np.int8)
    b = Builder(17)
    b.product("ConvInteger", (np.uint8, (1, 2, 3, 3)), w, np.uint8(7), zeros, output="y")
    b.output("y", np.int32)
    model = b.model()
    ctx, module = load(model)
    assert "nn.conv2d" in ops(module)
    feeds = random_feeds(model, 1)
    x = feeds["x"].astype(np.int64) - 7
    want = np.zeros((1, 3, 2, 2), np.int64)
    for o in range(3):
        for i in range(2):
            for j in range(2):
                taps = w[o].astype(np.int64) - int(zeros[o])
                want[0, o, i, j] = (x[0, :, i : i + 2, j : j + 2] * taps).sum()
    np.testing.assert_array_equal(Interpreter(ctx, module).run(feeds)[0], want)
    written = export(ctx, module)
    assert [n.op_type for n in written.graph.node] == ["ConvInteger"]
    np.testing.assert_array_equal(Interpreter(*load(written)).run(feeds)[0], want)


@pytest.mark.exact_sums
def test_the_scale_of_a_quantized_input_is_kept() -> None:
    b = Builder(17)
    b.input("f", (2, 5))
    b.quantize("f", 0.02, 120, "u8")
    b.const("w", integers(np.random.default_rng(1), np.int8, (5, 4)))
    b.node("MatMulInteger", ["f_q", "w", "f_z"], "sums")
    y = b.scaled("sums", 0.0004)
    b.output(y)
    ctx, module = load(b.model())
    assert ops(module) == ["quant.qcast", "nn.matmul", "quant.dcast"]
    matmul = next(op for op in module.walk() if op.name == "nn.matmul")
    elements = [quant_element(v.type) for v in (*matmul.operands, *matmul.results)]
    lhs, rhs, sums = (element.qparams.scale for element in elements if element is not None)
    assert lhs == float(np.float32(0.02))
    assert sums == float(np.float32(0.0004))
    assert rhs == sums / lhs
    feeds = random_feeds(b.model(), 0)
    want = OrtEngine(b.model(), optimize=False).run(feeds)["y"]
    np.testing.assert_array_equal(Interpreter(ctx, module).run(feeds)[0], want)


@pytest.mark.parametrize("case", ["dynamic zero point", "rows", "too deep", "unknown depth"])
def test_stays_a_node(case: str) -> None:
    b = Builder(17)
    depth = {"too deep": 40000, "unknown depth": "k"}.get(case, 4)
    b.input("x", (3, depth), np.uint8)
    b.input("w", (depth, 2), np.uint8)
    names = ["x", "w"]
    if case == "dynamic zero point":
        names.append(b.input("z", (), np.uint8))
    if case == "rows":
        names.append(b.const("z", [1, 2, 3], np.uint8))
    b.node("MatMulInteger", names, "y")
    b.output("y", np.int32)
    ctx, module = load(b.model())
    assert ops(module) == ["onnx.node"]
    written = export(ctx, module)
    assert [n.op_type for n in written.graph.node] == ["MatMulInteger"]


def test_other_readers_of_the_sums_keep_them() -> None:
    b = Builder(17)
    w = integers(np.random.default_rng(2), np.int8, (4, 3))
    sums = b.product("MatMulInteger", (np.uint8, (2, 4)), w, np.uint8(3))
    b.output(b.scaled(sums, 0.25))
    b.output("sums", np.int32)
    model = b.model()
    ctx, module = load(model)
    feeds = random_feeds(model, 4)
    want = OrtEngine(model, optimize=False).run(feeds)
    for got, expected in zip(Interpreter(ctx, module).run(feeds), want.values(), strict=True):
        np.testing.assert_array_equal(got, expected)
    again = OrtEngine(export(ctx, module), optimize=False).run(feeds)
    for name, expected in want.items():
        np.testing.assert_array_equal(again[name], expected)


def test_a_zero_point_of_another_type_names_the_node() -> None:
    b = Builder(17)
    b.input("x", (2, 4), np.uint8)
    b.const("w", np.ones((4, 3), np.int8))
    b.const("z", 1, np.int8)
    b.node("MatMulInteger", ["x", "w", "z"], "y", "product")
    b.output("y", np.int32, (2, 3))
    with pytest.raises(InputError, match="zero point's type i8 is not the tensor's type u8"):
        load(b.model(check=False))
