"""Models that quantize at run time: as files have them, raised, lowered, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from onnx_models import ModelBuilder, export, load, ops, random_feeds

from qdialect.interpreter import Interpreter
from qdialect.ir.context import QContext
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.plugins.onnx.write import OrtEngine, evaluate_node


def interpret(ctx: QContext, module: Any, feeds: dict[str, Any]) -> list[Any]:
    def kept(op: Any, operands: Any, evaluation: Any) -> list[Any]:
        return evaluate_node(op, operands, evaluation.ctx.blobs)

    return Interpreter(ctx, module, functions={NodeOp.name: kept}).run(feeds)


def apply(ctx: QContext, module: Any, pipeline: str) -> None:
    for _, instance in PassRegistry().build(parse_pipeline(pipeline)):
        instance.apply(ctx, module)
    module.verify()


class Builder(ModelBuilder):
    """What `quantize_dynamic` writes."""

    def product(
        self, x: str, w: Any, scale: Any, zero: Any, output: str, swap: bool = False, **more: Any
    ) -> str:
        names = [f"{x}_q", f"{x}_s", f"{x}_z"]
        if not any(names[0] in node.output for node in self.nodes):
            self.node("DynamicQuantizeLinear", [x], names)
        inputs = [names[0], self.const(f"{output}_w", w), names[2]]
        if zero is not None:
            inputs.append(self.const(f"{output}_wz", zero, w.dtype))
        kind = "ConvInteger" if w.ndim > 2 and "strides" in more else "MatMulInteger"
        sums = self.node(kind, inputs, f"{output}_sums", **more)
        real = self.node("Cast", [sums], f"{output}_real", to=TensorProto.FLOAT)
        self.const(f"{output}_ws", scale, np.float32)
        both = [names[1], f"{output}_ws"]
        scales = self.node("Mul", both[::-1] if swap else both, f"{output}_scales")
        return self.node("Mul", [scales, real] if swap else [real, scales], output)


def integers(rng: Any, dtype: Any, shape: Any) -> Any:
    info = np.iinfo(dtype)
    return rng.integers(info.min, int(info.max) + 1, shape).astype(dtype)


def random_model(seed: int) -> onnx.ModelProto:
    """Two products of one input: batches, channels, zero points, groups, any order."""
    rng = np.random.default_rng(seed)
    b = Builder(int(rng.integers(13, 24)))
    is_conv = rng.random() < 0.5
    spatial = int(rng.integers(1, 3))
    groups = int(rng.integers(1, 3)) if is_conv else 1
    depth = groups * int(rng.integers(1, 6))
    lead = [int(v) for v in rng.integers(1, 4, int(rng.integers(1, 4)))]
    if is_conv:
        b.input("x", (2, depth, *(int(v) for v in rng.integers(4, 7, spatial))))
    else:
        b.input("x", ("n" if rng.random() < 0.3 else lead[0], *lead[1:], depth))
    outputs = ["y0", "y1"]
    for output in outputs:
        dtype = (np.uint8, np.int8)[rng.integers(2)]
        channels = groups * int(rng.integers(1, 6))
        per = rng.random() < 0.5 and channels > 1
        more: dict[str, Any] = {}
        if is_conv:
            kernel = tuple(int(v) for v in rng.integers(1, 4, spatial))
            w = integers(rng, dtype, (channels, depth // groups, *kernel))
            scale = rng.uniform(1e-3, 1e-1, (channels, *(1,) * spatial) if per else ())
            zero = integers(rng, dtype, ()) if rng.random() < 0.5 else None
            more = {
                "strides": [int(v) for v in rng.integers(1, 3, spatial)],
                "pads": [int(v) for v in rng.integers(0, 2, 2 * spatial)],
                "group": groups,
            }
        else:
            w = integers(rng, dtype, (depth, channels))
            scale = rng.uniform(1e-3, 1e-1, (channels,) if per else (1,))
            zero = integers(rng, dtype, scale.shape) if rng.random() < 0.6 else None
        b.product("x", w, scale, zero, output, swap=bool(rng.random() < 0.5), **more)
        b.output(output)
    return b.model()


def same(got: list[Any], want: dict[str, Any]) -> None:
    for one, other in zip(got, want.values(), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.exact_sums
def test_raised_lowered_and_written(seed: int) -> None:
    """Every form is the function of the file, bit for bit."""
    model = random_model(seed)
    engine = OrtEngine(model, optimize=False)
    cases = [random_feeds(model, n) for n in range(3)]
    cases.append({name: value * 0 for name, value in cases[0].items()})
    cases.append({name: np.abs(value) + 1 for name, value in cases[0].items()})
    wanted = [engine.run(feeds) for feeds in cases]

    def check(ctx: QContext, module: Any) -> None:
        again = OrtEngine(export(ctx, module), optimize=False)
        for feeds, want in zip(cases, wanted, strict=True):
            same(interpret(ctx, module, feeds), want)
            same(list(again.run(feeds).values()), want)

    ctx, module = load(model)
    assert "nn.dynamic_quantize" in ops(module)
    check(ctx, module)
    written = [n.op_type for n in export(ctx, module).graph.node]
    assert written == [n.op_type for n in model.graph.node]
    apply(ctx, module, "raise-dynamic")
    kind = "nn.dynamic_conv" if "ConvInteger" in written else "nn.dynamic_matmul"
    assert [name.rstrip("123d") for name in ops(module)] == [kind.rstrip("123d")] * 2
    check(ctx, module)
    once = str(module)
    apply(ctx, module, "raise-dynamic")
    assert str(module) == once
    back = export(ctx, module)
    assert [n.op_type for n in back.graph.node].count("DynamicQuantizeLinear") == 1
    assert sorted(n.op_type for n in back.graph.node) == sorted(written)
    apply(ctx, module, "lower-dynamic,cse,dce")
    assert "nn.dynamic_matmul" not in ops(module)
    assert ops(module).count("nn.dynamic_quantize") == 1
    check(ctx, module)
    apply(ctx, module, "raise-dynamic,dce")
    assert [name.rstrip("123d") for name in ops(module)] == [kind.rstrip("123d")] * 2


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("storage", ["QUInt8", "QInt8"])
@pytest.mark.exact_sums
def test_what_the_runtime_writes(tmp_path: Path, storage: str, per_channel: bool) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    rng = np.random.default_rng(7)
    b = ModelBuilder(17)
    b.input("x", ("n", 3, 8, 8))
    b.const("k", rng.normal(size=(4, 3, 3, 3)), np.float32)
    b.const("kb", rng.normal(size=4), np.float32)
    b.node("Conv", ["x", "k", "kb"], "c")
    b.node("Relu", ["c"], "r")
    b.node("Flatten", ["r"], "f")
    b.const("w", rng.normal(size=(144, 10)), np.float32)
    b.const("b", rng.normal(size=10), np.float32)
    b.node("Gemm", ["f", "w", "b"], "g")
    b.const("v", rng.normal(size=(10, 5)), np.float32)
    b.node("MatMul", ["g", "v"], "y")
    b.output("y", shape=("n", 5))
    source, target = tmp_path / "f.onnx", tmp_path / "q.onnx"
    onnx.save(b.model(), source)
    quantize_dynamic(
        source, target, weight_type=getattr(QuantType, storage), per_channel=per_channel
    )
    model = onnx.load(target)
    ctx, module = load(model)
    engine = OrtEngine(model, optimize=False)
    feeds = [random_feeds(model, seed, n=seed + 1) for seed in range(3)]
    wanted = [engine.run(f) for f in feeds]
    exported = export(ctx, module)
    assert [n.op_type for n in exported.graph.node] == [n.op_type for n in model.graph.node]
    for f, want in zip(feeds, wanted, strict=True):
        same(interpret(ctx, module, f), want)
        same(list(OrtEngine(exported, optimize=False).run(f).values()), want)
    apply(ctx, module, "raise-dynamic,dce")
    found = ops(module)
    assert found.count("nn.dynamic_conv2d") == 1
    assert found.count("nn.dynamic_matmul") == 2
    assert "onnx.node" not in found
    for f, want in zip(feeds, wanted, strict=True):
        same(interpret(ctx, module, f), want)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("dtype", [np.uint8, np.int8])
@pytest.mark.parametrize("bias", [False, True])
def test_dynamic_quantize_matmul(dtype: Any, columns: bool, bias: bool) -> None:
    """The node that the runtime fuses the pieces to."""
    rng = np.random.default_rng(3)
    b = ModelBuilder(17)
    b.input("x", (2, 3, 5))
    shape = (4,) if columns else ()
    names = ["x", b.const("w", integers(rng, dtype, (5, 4)))]
    names.append(b.const("s", rng.uniform(0.01, 0.1, shape), np.float32))
    names.append(b.const("z", integers(rng, dtype, shape)))
    if bias:
        names.append(b.const("b", rng.normal(size=4), np.float32))
    b.node("DynamicQuantizeMatMul", names, "y", domain="com.microsoft")
    b.output("y", shape=(2, 3, 4))
    model = b.model(check=False)
    ctx, module = load(model)
    assert ops(module) == ["nn.dynamic_matmul", *(["nn.add"] if bias else [])]
    engine = OrtEngine(model, optimize=False)
    written = export(ctx, module)
    kinds = [node.op_type for node in written.graph.node]
    assert kinds == ["DynamicQuantizeMatMul", *(["Add"] if bias else [])]
    again = OrtEngine(written, optimize=False)
    for seed in range(3):
        feeds = random_feeds(model, seed)
        want = engine.run(feeds)["y"]
        np.testing.assert_allclose(interpret(ctx, module, feeds)[0], want, rtol=2e-6, atol=2e-6)
        np.testing.assert_array_equal(again.run(feeds)["y"], want)


def test_not_the_idiom() -> None:
    """A scale of something else, or sums that something else reads too."""
    rng = np.random.default_rng(1)
    b = Builder(17)
    b.input("x", (2, 3))
    b.product("x", integers(rng, np.int8, (3, 4)), 0.5, None, "y")
    b.input("other", ())
    next(n for n in b.nodes if n.output[0] == "y_scales").input[0] = "other"
    b.output("y")
    b.output("y_sums", np.int32)
    ctx, module = load(b.model())
    before = str(module)
    apply(ctx, module, "raise-dynamic")
    assert str(module) == before


def test_a_row_that_is_read_twice_stays_beside_the_op() -> None:
    rng = np.random.default_rng(1)
    b = Builder(17)
    b.input("x", (2, 3))
    b.product("x", integers(rng, np.int8, (3, 4)), 0.5, None, "y")
    b.output("y")
    b.output("y_sums", np.int32)
    model = b.model()
    ctx, module = load(model)
    apply(ctx, module, "raise-dynamic,dce")
    assert "nn.dynamic_matmul" in ops(module)
    feeds = random_feeds(model, 2)
    same(interpret(ctx, module, feeds), OrtEngine(model, optimize=False).run(feeds))
