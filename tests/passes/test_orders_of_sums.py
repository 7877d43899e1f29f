"""Rewrites of contractions at `exact`, where the order of sums shows: ONNX Runtime is the judge.

Floats are summed in an order that depends on shapes, and x86 before VNNI adds products of u8 and i8
in pairs that saturate (on other processors the second half of these tests cannot fail)."""

# pyright: basic
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qdialect as qd
from qdialect.ir.context import new_context
from qdialect.plugins.onnx.read import import_model
from qdialect.plugins.onnx.write import OrtEngine, write_model

RULES = ("widen-convolution", "pad-into-window", "transposed-to-phases")
CASES = 150


def model(
    nodes: list[onnx.NodeProto], constants: dict[str, Any], shape: list[Any], kind: int
) -> qd.Model:
    made = helper.make_graph(
        nodes,
        "sums",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    session = new_context()
    whole = helper.make_model(made, opset_imports=opsets, ir_version=10)
    return qd.Model(import_model(whole, session), session)


def node(kind: str, *names: str, **attributes: Any) -> onnx.NodeProto:
    """The last name is that of the result."""
    return helper.make_node(kind, names[:-1], names[-1:], names[-1], **attributes)


def between_casts(op: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """`op` of floats `a` and `f` to `o`, between casts; 16 bits tell sums apart."""
    return [
        node("QuantizeLinear", "x", "s", "z", "xq"),
        node("DequantizeLinear", "xq", "s", "z", "a"),
        node("DequantizeLinear", "w", "sw", "zw", "f"),
        *op,
        node("QuantizeLinear", "o", "so", "zo", "oq"),
        node("DequantizeLinear", "oq", "so", "zo", "y"),
    ]


def same_bits(given: qd.Model, pipeline: str | None, x: Any, threads: int) -> Counter[str]:
    """Which rules fired (none: those of `optimize`), and how many contractions were refused for
    what their kernels add up; both models give the same bits."""
    better = qd.optimize(given) if pipeline is None else qd.run_passes(given, pipeline)
    found = [
        OrtEngine(write_model(one.module, one.ctx).whole(), optimize=False, threads=threads)
        for one in (given, better)
    ]
    before, after = (engine.run({"x": x})["y"] for engine in found)
    assert before.dtype == after.dtype
    assert np.array_equal(before, after), better
    kept = [r for r in better.ctx.remarks.remarks if "add up its products" in r.reason]
    return Counter(better.ctx.remarks.fired()) + Counter(refused=len(kept))


def windows(rng: Any) -> Iterator[dict[str, Any]]:
    """Convolutions of few and many filters, places and products, some of them with dynamic extents
    that turn out to be 1."""
    for number in range(CASES):
        groups, k = int(rng.choice([1, 1, 1, 4])), int(rng.choice([1, 1, 3, 3, 5]))
        channels, filters = (int(rng.choice([1, 1, 2, 3, 6, 13, 30])) for _ in range(2))
        size = [int(n) for n in rng.choice([1, 2, 3, 5, 8, 23, 60], 2)]
        yield {
            "group": groups,
            "kernel": (k, k),
            "channels": channels * groups,
            "filters": filters * groups,
            "strides": [int(rng.choice([1, 1, 2]))] * 2,
            "size": [max(n, k) if k < 5 else n + k for n in size],
            "open": number % 5 == 0,
            "threads": int(rng.choice([1, 2])),
        }


def constants(rng: Any, weights: tuple[int, ...], zero: Any) -> dict[str, Any]:
    return {
        "w": rng.integers(-128, 128, weights).astype(np.int8),
        "s": np.float32(0.0371),
        "z": zero,
        "sw": np.float32(0.0123),
        "zw": np.int8(0),
        "so": np.float32(0.000173 * np.sqrt(np.prod(weights[1:]))),
        "zo": np.uint16(32768),
    }


def inputs(rng: Any, shape: list[int]) -> Any:
    return (rng.normal(size=shape) * 3).astype(np.float32)


def test_of_windows_in_floats() -> None:
    """More channels, and pads around: the same bits, whatever the number of filters and places."""
    rng, total = np.random.default_rng(7), Counter[str]()
    for case in windows(rng):
        pads = [int(n) for n in rng.integers(0, 2, 4)]
        weights = (case["filters"], case["channels"] // case["group"], *case["kernel"])
        shape = [1, case["channels"], *case["size"]]
        op = [
            node("Pad", "a", "p", "b"),
            node("Conv", "b", "f", "o", group=case["group"], strides=case["strides"]),
        ]
        values = constants(rng, weights, np.uint8(131))
        values["p"] = np.array([0, 0, *pads[:2], 0, 0, *pads[2:]], np.int64)
        given = model(
            between_casts(op), values, [*shape[:2], "h", "w"] if case["open"] else shape, 1
        )
        pipeline = f"integerize,canonicalize,widen-channels{{multiple={rng.choice([4, 16])}}}"
        total += same_bits(given, pipeline, inputs(rng, shape), case["threads"])
    assert total["widen-convolution"] > CASES // 5 and total["pad-into-window"] > CASES // 5
    assert total["refused"] > CASES // 5, "few and many filters and places are among the cases"


def test_of_transposed_windows_in_floats() -> None:
    rng, total = np.random.default_rng(8), Counter[str]()
    for case in windows(rng):
        k = case["kernel"][0]
        weights = (case["channels"], case["filters"] // case["group"], k, k)
        shape = [1, case["channels"], *case["size"]]
        op = [node("ConvTranspose", "a", "f", "o", group=case["group"], strides=[k, k])]
        values = constants(rng, weights, np.uint8(131))
        total += same_bits(
            model(between_casts(op), values, shape, 1),
            "integerize,lower-transposed",
            inputs(rng, shape),
            case["threads"],
        )
    assert total["refused"]


KERNELS = ("MatMulInteger", "QLinearMatMul", "QGemm", "QLinearConv", "ConvInteger")


@pytest.mark.parametrize("signed", [False, True], ids=["u8", "i8"])
@pytest.mark.parametrize("kind", KERNELS)
@pytest.mark.parametrize("bits", [8, 7])
def test_of_integer_kernels(kind: str, signed: bool, bits: int) -> None:
    """A kernel reads the codes that it read before where its pairs of products may not fit."""
    rng, fired = np.random.default_rng(9), 0
    conv, transposed = "Conv" in kind, kind == "QGemm"
    for channels, filters, k in ((3, 10, 3), (24, 1, 1), (5, 2, 3), (3, 16, 1), (64, 7, 1)):
        weights = (filters, channels, k, k) if conv else (channels, filters)
        values = constants(rng, weights, np.int8(3) if signed else np.uint8(131))
        extreme = rng.choice([127, 126, -128, 100, 5], weights)
        values["w"] = (extreme // (1 << (8 - bits))).astype(np.int8)
        if transposed:
            values["w"] = np.ascontiguousarray(values["w"].T)
        values["so"] = np.float32(0.4)
        ends = node("DequantizeLinear", "o", "so", "z", "y")
        more = {"pads": [k // 2] * 4} if conv else {}
        names = ("xq", "s", "z", "w", "sw", "zw")
        if kind.endswith("Integer"):
            op = node(kind, "xq", "w", "z", "zw", "o", **more)
            ends = node("Cast", "o", "y", to=TensorProto.FLOAT)
        elif transposed:
            op = node(kind, *names, "", "so", "z", "o", domain="com.microsoft", transB=1)
        else:
            op = node(kind, *names, "so", "z", "o", **more)
        shape = [1, channels, 9, 7] if conv else [4, channels]
        nodes = [node("QuantizeLinear", "x", "s", "z", "xq"), op, ends]
        given = model(nodes, values, shape, TensorProto.FLOAT)
        fired += sum(same_bits(given, None, inputs(rng, shape), 1).values())
    if signed and bits == 7 and kind != "ConvInteger":
        assert fired, "pairs that fit are re-encoded"
