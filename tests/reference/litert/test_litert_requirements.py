"""What LiteRT refuses to load or run, and where it copies codes that mean something else: as
`litert_requirements` says, op by op."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from litert_cases import ENGINES, model, op, tensor

from qdialect.ir.context import new_context
from qdialect.plugins.tflite.file.read import read_bytes
from qdialect.plugins.tflite.file.to_module import read_module
from qdialect.plugins.tflite.target_requirements import breaches
from tests.support.tflite_models import LitertError, run_litert


def engines_that_refuse(data: bytes, inputs: list[np.ndarray]) -> set[str]:
    found: set[str] = set()
    for engine in ENGINES:
        try:
            run_litert(data, inputs, engine)
        except LitertError:
            found.add(engine)
    return found


def predicted(data: bytes) -> tuple[set[str], set[str]]:
    """The engines that refuse, and those that copy codes which mean something else."""
    module = read_module(read_bytes(data), new_context())
    (node,) = (o for o in module.walk() if o.name == "tflite.node")
    found = breaches(node)
    return {e for b in found for e in b.refuse}, {e for b in found for e in b.ignore}


CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"s_x": 1.0, "s_w": 1e-12, "s_y": 1.0},
    {"s_x": 1.0, "s_w": 255.9, "s_y": 1.0},
    {"s_x": 1.0, "s_w": 256.0, "s_y": 1.0},
    {"s_x": 1.0, "s_w": [1, 1, 1, 300.0], "s_y": 1.0},
    {"s_w": [0.1] * 4},
    {"s_w": [0.1] * 4, "s_b": 0.01},
    {"s_b": 0.5},
    {"s_b": [0.01] * 4},
    {"z_b": 3},
    {"s_b": None},
    {"bias": "left out"},
    {"bias": "absent"},
    {"z_w": 3},
    {"s_w": [0.1] * 4, "z_w": 3},
    {"s_w": [0.1] * 4, "s_b": 0.01, "type": "UINT8"},
    {"type": "UINT8", "z_w": 100},
    {"bias_type": "INT64"},
]


def convolution(what: str, case: dict[str, Any]) -> bytes:
    """A product of codes with one thing changed."""
    type, s_w = case.get("type", "INT8"), case.get("s_w", 0.1)
    s_x, s_y = case.get("s_x", 0.1), case.get("s_y", 0.1)
    shapes = {"DEPTHWISE_CONV_2D": (1, 1, 1, 4), "FULLY_CONNECTED": (4, 4)}
    shape = shapes.get(what, (4, 1, 1, 4))
    axis = 3 if what == "DEPTHWISE_CONV_2D" and np.size(s_w) > 1 else 0
    w = tensor("w", shape, type, s_w, case.get("z_w", 0), axis, np.ones(shape, type.lower()))
    s_b = case.get("s_b", s_x * np.asarray(s_w))
    kind = case.get("bias_type", "INT32")
    b = tensor("b", (4,), kind, s_b, case.get("z_b", 0), data=np.zeros(4, kind.lower()))
    extents = (16, 4) if what == "FULLY_CONNECTED" else (1, 4, 4, 4)
    names, options = ["x", "w"], {"padding": "VALID", "stride_h": 1, "stride_w": 1}
    others = [w]
    if what == "TRANSPOSE_CONV":
        names = ["shape", "w", "x"]
        others.append(tensor("shape", (4,), "INT32", data=np.array(extents, np.int32)))
    if what == "DEPTHWISE_CONV_2D":
        options["depth_multiplier"] = 1
    if "bias" not in case:
        names.append("b")
        others.append(b)
    elif case["bias"] == "absent":
        names.append("")
    return model(
        [tensor("x", extents, type, s_x, 0)],
        [tensor("y", extents, type, s_y, 0)],
        [op(what, names, ["y"], {} if what == "FULLY_CONNECTED" else options, version=3)],
        others,
    )


@pytest.mark.parametrize(
    "what", ["CONV_2D", "DEPTHWISE_CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"]
)
def test_products(what: str) -> None:
    wrong: list[Any] = []
    for case in CONVOLUTIONS:
        if what == "FULLY_CONNECTED" and case.get("bias") == "left out":
            continue
        data = convolution(what, case)
        extents = (16, 4) if what == "FULLY_CONNECTED" else (1, 4, 4, 4)
        codes = np.zeros(extents, case.get("type", "INT8").lower())
        refused = engines_that_refuse(data, [codes])
        if refused != predicted(data)[0]:
            wrong.append((case, refused, predicted(data)))
    assert wrong == []


def ints(name: str, *numbers: Any) -> dict[str, Any]:
    array = np.array(numbers, np.int32)
    return tensor(name, array.shape, "INT32", data=array)


_POOL = {"padding": "VALID", "stride_h": 2, "stride_w": 2, "filter_height": 2, "filter_width": 2}
IMAGE = (1, 4, 4, 4)
MOVED: dict[str, tuple[tuple[int, ...], dict[str, Any], list[dict[str, Any]], int]] = {
    "TRANSPOSE": ((1, 4, 4, 4), {}, [ints("c", 0, 3, 1, 2)], 2),
    "PAD": ((1, 5, 5, 4), {}, [ints("c", [0, 0], [1, 0], [0, 1], [0, 0])], 2),
    "MIRROR_PAD": ((1, 5, 5, 4), {}, [ints("c", [0, 0], [1, 0], [0, 1], [0, 0])], 2),
    "SLICE": ((1, 2, 4, 4), {}, [ints("b", 0, 1, 0, 0), ints("s", 1, 2, 4, 4)], 2),
    "SPACE_TO_DEPTH": ((1, 2, 2, 16), {"block_size": 2}, [], 2),
    "RESHAPE": ((64,), {}, [ints("c", 64)], 1),
    "GATHER": ((2, 4, 4, 4), {}, [ints("c", 0, 0)], 2),
    "MAX_POOL_2D": ((1, 2, 2, 4), _POOL, [], 2),
    "AVERAGE_POOL_2D": ((1, 2, 2, 4), _POOL, [], 2),
    "RESIZE_NEAREST_NEIGHBOR": ((1, 8, 8, 4), {}, [ints("c", 8, 8)], 2),
    "RESIZE_BILINEAR": ((1, 8, 8, 4), {}, [ints("c", 8, 8)], 2),
    "REDUCE_MAX": ((1, 4), {}, [ints("c", 1, 2)], 2),
    "SOFTMAX": (IMAGE, {"beta": 1.0}, [], 2),
    "LOGISTIC": (IMAGE, {}, [], 2),
    "TANH": (IMAGE, {}, [], 2),
    "LOG_SOFTMAX": (IMAGE, {}, [], 2),
    "L2_NORMALIZATION": (IMAGE, {}, [], 1),
}


def moved(name: str, scale: float, zero: int) -> bytes:
    """The op from scale 0.1 and zero point 0 to the given ones."""
    shape, options, others, version = MOVED[name]
    return model(
        [tensor("x", IMAGE, "INT8", 0.1, 0)],
        [tensor("y", shape, "INT8", scale, zero)],
        [op(name, ["x", *(o["name"] for o in others)], ["y"], options, version)],
        others,
    )


def grids() -> Iterator[tuple[float, int]]:
    yield from ((0.1, 0), (0.3, 0), (0.1, 5), (1 / 256, -128), (1 / 16, 127), (1 / 128, 0))


@pytest.mark.parametrize("name", MOVED)
def test_other_qparams(name: str) -> None:
    codes = np.random.default_rng(1).integers(-128, 128, IMAGE).astype(np.int8)
    wrong: list[Any] = []
    for scale, zero in grids():
        data = moved(name, scale, zero)
        refuse, silent = predicted(data)
        if engines_that_refuse(data, [codes]) != refuse:
            wrong.append((scale, zero, refuse))
        # What is padded has the zero point of the result.
        for engine in silent - refuse if name != "PAD" else ():
            (found,) = run_litert(data, [codes], engine)
            (copied,) = run_litert(moved(name, 0.1, 0), [codes], engine)
            if not np.array_equal(found, copied):
                wrong.append((scale, zero, engine, "computes"))
    assert wrong == []
