"""MatMulNBits: weights in blocks of 2, 4 and 8 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx_models import ModelBuilder, export, load, ops, random_feeds

from qdialect.errors import InputError
from qdialect.interpreter import Interpreter
from qdialect.ir.quant import quant_element
from qdialect.plugins.onnx.write import OrtEngine


def model(
    bits: int,
    points: bool = False,
    bias: bool = False,
    k: int = 64,
    block: int = 32,
    dtype: Any = np.float32,
    **more: Any,
) -> onnx.ModelProto:
    rng = np.random.default_rng(bits)
    n, blocks = 5, -(-k // block)
    b = ModelBuilder(17)
    b.input("x", ("m", k), dtype)
    b.const("w", rng.integers(0, 256, (n, blocks, block * bits // 8)), np.uint8)
    names = ["x", "w", b.const("s", rng.uniform(0.01, 0.1, n * blocks), dtype)]
    if points or bias:
        size = n * -(-blocks * bits // 8)
        names.append(b.const("z", rng.integers(0, 256, size), np.uint8) if points else "")
    if bias:
        names += ["", b.const("b", rng.normal(size=n), dtype)]
    given = {"K": k, "N": n, "bits": bits, "block_size": block} | more
    b.node("MatMulNBits", names, "y", domain="com.microsoft", **given)
    b.output("y", dtype, ("m", n))
    return b.model(check=False)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("points", [False, True])
@pytest.mark.parametrize("bits", [2, 4, 8])
def test_a_product_with_a_weight_in_blocks(bits: int, points: bool, bias: bool) -> None:
    original = model(bits, points, bias, accuracy_level=0)
    ctx, module = load(original)
    assert ops(module) == ["quant.dcast", "nn.matmul", *(["nn.add"] if bias else [])]
    weight = next(op for op in module.walk() if op.name == "quant.dcast").operands[0]
    element = quant_element(weight.type)
    assert element is not None
    assert element.qparams.storage.spelling == f"u{bits}"
    assert element.qparams.grid == (2, 5)
    for form in ("qdq", "qoperator"):
        written = export(ctx, module, form)
        kinds = [node.op_type for node in written.graph.node]
        assert kinds == ["MatMulNBits", *(["Add"] if bias else [])]
        if not bias:
            assert str(next(iter(load(written)[1].ops))) == str(next(iter(module.ops)))
        for seed in range(3):
            feeds = random_feeds(original, seed, m=3)
            want = OrtEngine(original, optimize=False).run(feeds)["y"]
            again = OrtEngine(written, optimize=False).run(feeds)["y"]
            got = Interpreter(ctx, module).run(feeds)[0]
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())
            if bias:
                np.testing.assert_allclose(again, want, rtol=1e-5, atol=1e-5)
            else:
                np.testing.assert_array_equal(again, want)


def test_the_accuracy_level_is_kept() -> None:
    ctx, module = load(model(4, accuracy_level=4))
    (node,) = export(ctx, module).graph.node
    assert next(a.i for a in node.attribute if a.name == "accuracy_level") == 4


def test_small_floats() -> None:
    ctx, module = load(model(4, points=True, dtype=np.float16))
    assert "nn.matmul" in ops(module)
    assert [n.op_type for n in export(ctx, module).graph.node] == ["MatMulNBits"]


@pytest.mark.parametrize("case", ["partial", "permuted", "float points"])
def test_stays_a_node(case: str) -> None:
    if case == "partial":
        original = model(4, k=48)
    else:
        original = model(4, points=case == "float points", bias=case == "permuted")
        node = original.graph.node[0]
        if case == "permuted":
            index = np.zeros(64, np.int32)
            original.graph.initializer.append(onnx.numpy_helper.from_array(index, "g"))
            node.input[4] = "g"
        else:
            points = np.full(10, 7.5, np.float32)
            held = next(t for t in original.graph.initializer if t.name == "z")
            held.CopyFrom(onnx.numpy_helper.from_array(points, "z"))
    ctx, module = load(original)
    assert ops(module) == ["onnx.node"]
    assert [n.op_type for n in export(ctx, module).graph.node] == ["MatMulNBits"]


def test_a_weight_of_another_size_names_the_node() -> None:
    original = model(4)
    original.graph.node[0].attribute.extend([])
    for attribute in original.graph.node[0].attribute:
        if attribute.name == "N":
            attribute.i = 6
    with pytest.raises(InputError, match="the weight has 160 elements"):
        load(original)
