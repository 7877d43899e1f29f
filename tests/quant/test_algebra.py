"""quantize(dequantize(q)) = q only where it is so: held against the interpreter on all codes."""

from __future__ import annotations

import numpy as np
import pytest

from qdialect.interpreter import Interpreter
from qdialect.ir.context import new_context
from qdialect.pipeline.manager import PassManager
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.plugins.mlir.read import read_module, verify_module

PAIR = """
func.func @f(%q: tensor<{n}x{type}>) -> tensor<{n}x{type}> {{
  %0 = quant.dcast %q : tensor<{n}x{type}> to tensor<{n}x{float}>
  %1 = quant.qcast %0 {attributes}: tensor<{n}x{float}> to tensor<{n}x{type}>
  return %1 : tensor<{n}x{type}>
}}
"""
LARGEST, SMALLEST = 3.4028234663852886e38, 2.0**-126


def folds(text: str) -> tuple[bool, np.ndarray, np.ndarray]:
    """Whether the pair folds, and the result of the pair and of no pair on all codes."""
    ctx = new_context()
    module = read_module(text, ctx)
    verify_module(module, ctx)
    element = module.body.block.first_op.function_type.inputs.data[0].element_type
    storage = element.qparams.storage
    codes = np.arange(storage.min, storage.max + 1).astype("i4")
    before = Interpreter(ctx, module).run([codes])[0].astype(np.int64)
    PassManager(ctx, PassRegistry().build(parse_pipeline("fold-rescale"))).run(module)
    left = [op.name for op in module.walk() if op.name.startswith("quant.")]
    return not left, before, codes


TYPES = [
    ("i8:f32, 0.1:5", 256, "f32", True),
    ("u8:f32, 0.1:255", 256, "f32", True),
    ("i16:f32, 0.1:-32768", 65536, "f32", True),
    ("i8:f32, 1.0e-30", 256, "f32", True),
    (f"i8:f32, {SMALLEST / 2:.17e}", 256, "f32", False),
    ("i8:f32, 1.0e-43:-128", 256, "f32", False),
    (f"i8:f32, {LARGEST / 100:.17e}", 256, "f32", False),
    (f"i8:f32, {LARGEST / 128:.17e}", 256, "f32", True),
    # 196 steps overflow to infinity, which saturates to the code they came from.
    (f"u8:f32, {LARGEST / 196:.17e}:59", 256, "f32", True),
    ("i8:f32, 1.0e35", 256, "f32", True),
    ("i8:f16, 0.1:5", 256, "f16", True),
    ("i16:f16, 0.001", 65536, "f16", False),
    ("i8:f16, 300.0", 256, "f16", True),
    ("i8:f16, 600.0", 256, "f16", False),
    ("i8:f16, 0.00001", 256, "f16", False),
    ("i8:bf16, 0.1:5", 256, "bf16", False),
    ("i4:bf16, 0.1:5", 16, "bf16", True),
    ("i8:f64, 0.1:5", 256, "f64", True),
]


@pytest.mark.parametrize(("text", "count", "kind", "expected"), TYPES)
@pytest.mark.parametrize("rounding", ["", '{quant.rounding = "half_up"} '])
def test_pair_of_equal_types(text: str, count: int, kind: str, expected: bool, rounding: str):
    given = PAIR.format(n=count, type=f"!quant.uniform<{text}>", float=kind, attributes=rounding)
    folded, result, codes = folds(given)
    assert folded == expected
    if folded:
        assert np.array_equal(result, codes)


def test_i32_does_not_fold():
    kind = "!quant.uniform<i32:f32, 0.5>"
    ctx = new_context()
    module = read_module(PAIR.format(n=2, type=kind, float="f32", attributes=""), ctx)
    codes = np.array([(1 << 24) + 1, -5], np.int32)
    assert Interpreter(ctx, module).run([codes])[0].tolist() == [1 << 24, -5]
    PassManager(ctx, PassRegistry().build(parse_pipeline("fold-rescale"))).run(module)
    assert sum(op.name.startswith("quant.") for op in module.walk()) == 2


def test_narrowed_bounds_fold_only_behind_a_clamp():
    """A code outside the bounds would be clamped: an argument may hold one."""
    kind = "!quant.uniform<i8<-100:100>:f32, 0.5>"
    assert not folds(PAIR.format(n=201, type=kind, float="f32", attributes=""))[0]
    text = PAIR.format(n=4, type=kind, float="f32", attributes="").replace(
        f"@f(%q: tensor<4x{kind}>)", "@f(%x: tensor<4xf32>)"
    )
    text = text.replace(
        "  %0 =", f"  %q = quant.qcast %x : tensor<4xf32> to tensor<4x{kind}>\n  %0 ="
    )
    ctx = new_context()
    module = read_module(text, ctx)
    PassManager(ctx, PassRegistry().build(parse_pipeline("fold-rescale"))).run(module)
    assert [op.name for op in module.walk() if op.name.startswith("quant.")] == ["quant.qcast"]


@pytest.mark.parametrize("level", ["exact", "ties", "bounded", "saturation"])
@pytest.mark.parametrize("passes", ["canonicalize", "cse", "dce", "fold-rescale{numerics=LEVEL}"])
def test_dequantize_of_quantize_stays(level: str, passes: str):
    kind = "!quant.uniform<i8:f32, 0.5>"
    text = f"""
func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> {{
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x{kind}>
  %1 = quant.dcast %0 : tensor<2x{kind}> to tensor<2xf32>
  return %1 : tensor<2xf32>
}}"""
    ctx = new_context()
    module = read_module(text, ctx)
    build = PassRegistry().build(parse_pipeline(passes.replace("LEVEL", level)))
    PassManager(ctx, build).run(module)
    assert sum(op.name.startswith("quant.") for op in module.walk()) == 2
    x = np.array([100.0, 0.3], np.float32)
    assert Interpreter(ctx, module).run([x])[0].tolist() == [63.5, 0.5]
