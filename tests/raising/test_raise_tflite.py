"""raise-tflite: one op at a time in each of LiteRT's engines, and what stays as it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from qdialect.interpreter import Interpreter
from qdialect.interpreter.kernels import KEPT_NODES
from qdialect.ir.context import QContext
from qdialect.ir.ops import keys_of
from qdialect.pipeline.plugins import Plugins
from qdialect.plugins.tflite.dialect import TfliteNodeOp
from qdialect.plugins.tflite.file.read import read_bytes
from qdialect.plugins.tflite.file.to_module import read_module
from qdialect.plugins.tflite.raising.convert import RaiseTflite

pytest.importorskip("ai_edge_litert")

from tests.support.tflite_cases import CASES, KINDS, Case, Maker
from tests.support.tflite_graphs import graph
from tests.support.tflite_models import LitertError, model, op, run_litert, tensor

ENGINES = ("xnn", "opt", "ref")

REF_STAYS = {("SUM", "i8"), ("LOCAL_RESPONSE_NORMALIZATION", "f32")}
"""Ops and types whose reference kernels are wrong."""


def raised(data: bytes, engine: str = "xnn") -> tuple[ModuleOp, QContext]:
    """The module of a file, raised and verified."""
    ctx = Plugins().session(allow_unregistered=True)
    module = read_module(read_bytes(data), ctx)
    RaiseTflite(f"litert-{engine}").apply(ctx, module)  # pyright: ignore[reportArgumentType]
    module.verify()
    return module, ctx


def kept(module: ModuleOp) -> list[str]:
    return [op.op.data for op in module.walk() if isinstance(op, TfliteNodeOp)]


def run(module: ModuleOp, ctx: QContext, inputs: Sequence[Any]) -> list[Any]:
    return Interpreter(ctx, module, functions=KEPT_NODES).run(list(inputs))


def assert_same(case: Case, engine: str) -> bool:
    """Whether LiteRT has a kernel; that the interpreter then gives what it gives."""
    try:
        expected = run_litert(case.data, case.inputs, engine)
    except LitertError:
        return False
    module, ctx = raised(case.data, engine)
    assert kept(module) == []
    for want, got in zip(expected, run(module, ctx, case.inputs), strict=True):
        assert (want.shape, want.dtype) == (np.shape(got), got.dtype)
        if want.dtype.kind == "f":
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())
        else:
            np.testing.assert_array_equal(got, want)
    return True


@pytest.mark.parametrize("name", CASES)
def test_an_op_gives_what_its_engine_gives(name: str) -> None:
    ran = 0
    for kind in KINDS:
        for seed in range(2):
            case = CASES[name](Maker(np.random.default_rng(seed), kind))
            if case is not None:
                engines = ENGINES[: 2 if (name, kind) in REF_STAYS else 3]
                ran += sum(assert_same(case, engine) for engine in engines)
    assert ran > 1


def test_what_nothing_computes_stays_and_what_is_around_it_does_not() -> None:
    ends = [tensor(name, (1, 4)) for name in "xy"]
    middle = [tensor(name, (1, 4)) for name in "ab"]
    ops = [op("RELU", ["x"], ["a"]), op("Mystery", ["a"], ["b"], custom=b"\x01")]
    module, ctx = raised(model([ends[0]], [ends[1]], [*ops, op("TANH", ["b"], ["y"])], middle))
    assert kept(module) == ["Mystery"]
    names = [op.name for op in module.walk()][2:-1]
    assert names == ["nn.relu", "tflite.node", "nn.tanh"]
    assert [keys_of(op) for op in module.walk()][2:-1] == [("a",), ("b",), ("y",)]
    (remark,) = ctx.remarks.remarks
    assert (remark.kind, remark.code) == ("refused", "no-counterpart")


def test_biases_have_the_steps_of_the_products_whatever_the_file_says() -> None:
    x = tensor("x", (1, 1, 1, 4), "INT8", 0.5, 3)
    y = tensor("y", (1, 1, 1, 2), "INT8", 0.75, -1)
    w = tensor("w", (2, 1, 1, 4), "INT8", [0.25, 0.125], data=np.arange(8))
    b = tensor("b", (2,), "INT32", [1.0, 1.0], data=[100, -100])
    options = {"padding": "VALID", "stride_w": 1, "stride_h": 1}
    data = model([x], [y], [op("CONV_2D", ["x", "w", "b"], ["y"], options)], [w, b])
    codes = np.array([1, 2, 30, -40], np.int8).reshape(1, 1, 1, 4)
    module, ctx = raised(data, "ref")
    (expected,) = run_litert(data, [codes], "ref")
    np.testing.assert_array_equal(run(module, ctx, [codes])[0], expected)
    (remark,) = ctx.remarks.remarks
    assert remark.code == "bias-scale" and "steps of 0.125" in remark.reason


def test_a_dilated_convolution_in_three_ops_is_one() -> None:
    x, y = tensor("x", (1, 8, 8, 2)), tensor("y", (1, 8, 8, 3))
    a, b = tensor("a", (4, 6, 6, 2)), tensor("b", (4, 4, 4, 3))
    w = tensor("w", (3, 3, 3, 2), data=np.random.default_rng(0).standard_normal((3, 3, 3, 2)))
    bias = tensor("bias", (3,), data=np.array([1, -2, 3], np.float32))
    block = tensor("block", (2,), "INT32", data=[2, 2])
    pads = tensor("pads", (2, 2), "INT32", data=[[2, 2], [2, 2]])
    crops = tensor("crops", (2, 2), "INT32", data=[[0, 0], [0, 0]])
    options = {"padding": "VALID", "stride_w": 1, "stride_h": 1}
    ops = [
        op("SPACE_TO_BATCH_ND", ["x", "block", "pads"], ["a"]),
        op("CONV_2D", ["a", "w", "bias"], ["b"], options),
        op("BATCH_TO_SPACE_ND", ["b", "block", "crops"], ["y"]),
    ]
    data = model([x], [y], ops, [a, b, w, bias, block, pads, crops])
    values = np.random.default_rng(1).standard_normal((1, 8, 8, 2)).astype(np.float32)
    module, ctx = raised(data)
    last = [op for op in module.walk() if op.name == "nn.conv2d"][-1]
    assert last.values["dilations"] == (2, 2) and last.values["pads"] == (2, 2, 2, 2)  # type: ignore[attr-defined]
    np.testing.assert_allclose(
        run(module, ctx, [values])[0], run_litert(data, [values])[0], rtol=1e-5, atol=1e-5
    )


def test_a_dilated_convolution_whose_blocks_litert_refuses_stays() -> None:
    def codes(name: str, shape: tuple[int, ...], scale: float) -> dict[str, Any]:
        return tensor(name, shape, "INT8", scale, 0)

    x, y = codes("x", (1, 4, 4, 1), 0.1), codes("y", (1, 4, 4, 1), 0.2)
    a, b = codes("a", (4, 2, 2, 1), 0.3), codes("b", (4, 2, 2, 1), 0.2)
    w = tensor("w", (1, 1, 1, 1), "INT8", 0.5, 0, data=np.ones((1, 1, 1, 1)))
    bias = tensor("bias", (1,), "INT32", 0.15, 0, data=np.zeros(1))
    block = tensor("block", (2,), "INT32", data=[2, 2])
    none = tensor("none", (2, 2), "INT32", data=[[0, 0], [0, 0]])
    options = {"padding": "VALID", "stride_w": 1, "stride_h": 1}
    ops = [
        op("SPACE_TO_BATCH_ND", ["x", "block", "none"], ["a"]),
        op("CONV_2D", ["a", "w", "bias"], ["b"], options),
        op("BATCH_TO_SPACE_ND", ["b", "block", "none"], ["y"]),
    ]
    data = model([x], [y], ops, [a, b, w, bias, block, none])
    with pytest.raises(LitertError):
        run_litert(data, [np.zeros((1, 4, 4, 1), np.int8)])
    module, _ = raised(data)
    assert kept(module) == ["SPACE_TO_BATCH_ND"]


def test_extents_that_only_a_run_tells() -> None:
    x = tensor("x", (1, 4, 6), signature=(-1, 4, 6))
    y = tensor("y", (1, 24), signature=(-1, 24))
    shape = tensor("s", (2,), "INT32", data=[-1, 24])
    a = tensor("a", (1, 4, 6), signature=(-1, 4, 6))
    ops = [op("LOGISTIC", ["x"], ["a"]), op("RESHAPE", ["a", "s"], ["y"])]
    data = model([x], [y], ops, [a, shape])
    module, ctx = raised(data)
    assert kept(module) == []
    for batch in (1, 3):
        values = np.random.default_rng(0).standard_normal((batch, 4, 6)).astype(np.float32)
        (expected,) = run_litert(data, [values], "opt")
        np.testing.assert_allclose(run(module, ctx, [values])[0], expected, rtol=1e-6)


@pytest.mark.parametrize("kind", ["f32", "i8", "u8"])
def test_networks_give_what_each_engine_gives(kind: str) -> None:
    for seed in range(5, 9 if kind != "u8" else 11):
        case = graph(np.random.default_rng(seed), kind, 14)
        ran = [assert_same(case, engine) for engine in ENGINES]
        assert any(ran), seed


def test_a_flattened_image_turns_the_weights_and_nothing_else() -> None:
    rng = np.random.default_rng(0)
    x, y = tensor("x", (2, 4, 6, 3)), tensor("y", (2, 5))
    a, f = tensor("a", (2, 2, 3, 3)), tensor("f", (2, 18))
    shape = tensor("s", (2,), "INT32", data=[2, 18])
    w = tensor("w", (5, 18), data=rng.standard_normal((5, 18)).astype(np.float32))
    pool = {"padding": "VALID", "stride_w": 2, "stride_h": 2, "filter_width": 2, "filter_height": 2}
    ops = [
        op("MAX_POOL_2D", ["x"], ["a"], pool),
        op("RESHAPE", ["a", "s"], ["f"]),
        op("FULLY_CONNECTED", ["f", "w", ""], ["y"]),
    ]
    values = rng.standard_normal((2, 4, 6, 3)).astype(np.float32)
    data = model([x], [y], ops, [a, f, shape, w])
    module, ctx = raised(data)
    names = [op.name for op in module.walk() if op.name.startswith("nn.")]
    assert names.count("nn.transpose") == 1 and "nn.gather" not in names
    np.testing.assert_allclose(run(module, ctx, [values])[0], run_litert(data, [values])[0], 1e-5)
    # Read by something else too, it is turned as it is.
    both = model([x], [y, f], ops, [a, shape, w])
    module, ctx = raised(both)
    for got, want in zip(run(module, ctx, [values]), run_litert(both, [values]), strict=True):
        np.testing.assert_allclose(got, want, 1e-5)
