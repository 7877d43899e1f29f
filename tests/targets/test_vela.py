"""What the Ethos-U targets say of single ops, against Vela, which places them.

Needs Vela (`ethos-u-vela` of the package index), installed beside qdialect, or for the Python
interpreter that `QDIALECT_VELA` is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module
from qdialect.targets.base import Target
from qdialect.targets.zoo.ethos_u import U55, U65, U85
from tests.support import vela_model

PYTHON = os.environ.get("QDIALECT_VELA") or (sys.executable if find_spec("ethosu") else None)
NAMES = {"i8": "INT8", "u8": "UINT8", "i16": "INT16", "i32": "INT32"}
ZEROS = {"i8": 3, "u8": 131, "i16": 0, "i32": 0}


class Case(NamedTuple):
    """An op here, in NCHW, and the operator of TensorFlow Lite that it is, in NHWC."""

    name: str
    text: str
    operator: dict[str, Any]


def kind(shape: list[int], storage: str, scale: float = 0.5) -> str:
    dims = "x".join(map(str, shape))
    return f"tensor<{dims}x!quant.uniform<{storage}:f32, {scale}:{ZEROS[storage]}>>"


def lite(shape: list[int], storage: str, scale: float = 0.5, **data: Any) -> dict[str, Any]:
    nhwc = [shape[0], *shape[2:], shape[1]] if len(shape) == 4 else shape
    return {
        "shape": nhwc,
        "type": NAMES[storage],
        "scale": scale,
        "zero": ZEROS[storage],
        **data,
    }


def op_text(op: str, operands: list[str], result: str) -> str:
    arguments = ", ".join(f"%{n}: {t}" for n, t in enumerate(operands))
    return (
        f"func.func @f({arguments}) -> {result} {{ %r = nn.{op} : ({', '.join(operands)}) -> "
        f"{result} func.return %r : {result} }}"
    )


def simple(
    op: str,
    code: str,
    shapes: list[list[int]],
    result: list[int],
    storages: str | list[str] = "i8",
    attributes: str = "",
    options: Any = None,
    extra: list[dict[str, Any]] | None = None,
    name: str = "",
) -> Case:
    kinds = [storages] * (len(shapes) + 1) if isinstance(storages, str) else storages
    operands = [kind(s, k) for s, k in zip(shapes, kinds, strict=False)]
    values = ", ".join(f"%{n}" for n in range(len(shapes)))
    made = op_text(f"{op} {values} {attributes}", operands, kind(result, kinds[-1]))
    inputs = [lite(s, k) for s, k in zip(shapes, kinds, strict=False)] + (extra or [])
    operator = {"op": code, "inputs": inputs, "outputs": [lite(result, kinds[-1])]}
    label = f"{code} {' '.join(dict.fromkeys(kinds))} {name}".strip()
    return Case(label, made, {**operator, "options": options})


def windows(
    extent: int, window: int, stride: int, dilation: int, same: bool
) -> tuple[int, list[int]]:
    """Extent of the result and padding in front and behind, as TensorFlow Lite pads."""
    reach = (window - 1) * dilation + 1
    if not same:
        return (extent - reach) // stride + 1, [0, 0]
    out = -(-extent // stride)
    total = max((out - 1) * stride + reach - extent, 0)
    return out, [total // 2, total - total // 2]


def pools() -> Iterator[Case]:
    for op, code in (("avg_pool2d", "AVERAGE_POOL_2D"), ("max_pool2d", "MAX_POOL_2D")):
        for window, stride, same in product((2, 8, 9), (1, 3, 4), (False, True)):
            out, (low, high) = windows(36, window, stride, 1, same)
            sizes = {"StrideW": stride, "StrideH": stride, "Padding": int(not same)}
            yield simple(
                op,
                code,
                [[1, 2, 36, 36]],
                [1, 2, out, out],
                attributes=f"kernel [{window}, {window}] strides [{stride}, {stride}] "
                f"pads [{low}, {low}, {high}, {high}]",
                options=["Pool2DOptions", {**sizes, "FilterWidth": window, "FilterHeight": window}],
                name=f"window {window} stride {stride} {'same' if same else 'valid'}",
            )
        yield simple(
            op,
            code,
            [[1, 1, 300, 2]],
            [1, 1, 44, 1],
            attributes="kernel [257, 2]",
            options=[
                "Pool2DOptions",
                {"StrideW": 1, "StrideH": 1, "Padding": 1, "FilterWidth": 2, "FilterHeight": 257},
            ],
            name="window 257 high",
        )


def convolutions() -> Iterator[Case]:
    for stride, dilation, same in product((1, 3, 4), (1, 2), (False, True)):
        for storage in ("i8", "i16") if stride == 1 else ("i8",):
            out, (low, high) = windows(24, 3, stride, dilation, same)
            x, w, bias, y = [1, 4, 24, 24], [2, 4, 3, 3], [2], [1, 2, out, out]
            weights = "tensor<2x4x3x3x!quant.uniform<i8:f32, 0.5>>"
            kinds = [kind(x, storage), weights, kind(bias, "i32", 0.25)]
            text = op_text(
                f"conv2d %0, %1, %2 strides [{stride}, {stride}] "
                f"dilations [{dilation}, {dilation}] pads [{low}, {low}, {high}, {high}]",
                kinds,
                kind(y, storage),
            )
            fields = {"StrideW": stride, "StrideH": stride, "Padding": int(not same)}
            fields |= {"DilationWFactor": dilation, "DilationHFactor": dilation}
            constants = [
                {**lite(w, "i8", data=[1, 2, 3]), "zero": 0},
                lite(bias, "i32", 0.25, data=[1, 2]),
            ]
            yield Case(
                f"CONV_2D {storage} stride {stride} dilation {dilation} "
                f"{'same' if same else 'valid'}",
                text,
                {
                    "op": "CONV_2D",
                    "inputs": [lite(x, storage), *constants],
                    "outputs": [lite(y, storage)],
                    "options": ["Conv2DOptions", fields],
                },
            )


def elementwise() -> Iterator[Case]:
    x = [1, 2, 4, 4]
    for storage in NAMES:
        for op in ("add", "sub", "mul", "maximum", "minimum"):
            option = {"add": "AddOptions", "sub": "SubOptions", "mul": "MulOptions"}.get(
                op, "MaximumMinimumOptions"
            )
            yield simple(op, op.upper(), [x, x], x, storage, options=[option, {}])
        for op, code in (
            *(("relu", "RELU"), ("abs", "ABS"), ("sigmoid", "LOGISTIC"), ("tanh", "TANH")),
            *(("exp", "EXP"), ("hard_swish", "HARD_SWISH"), ("log", "LOG"), ("neg", "NEG")),
            *(("elu", "ELU"), ("gelu", "GELU"), ("floor", "FLOOR"), ("sqrt", "SQRT")),
        ):
            if storage == "i32" and op not in ("abs", "neg"):
                continue  # Vela ends with an error of its own
            options = ["GeluOptions", {}] if op == "gelu" else None
            yield simple(op, code, [x], x, storage, options=options)
    yield simple("div", "DIV", [x, x], x, options=["DivOptions", {}])


def reductions() -> Iterator[Case]:
    axes = {"shape": [2], "type": "INT32", "data": [1, 2]}
    for storage, batch, height in (
        ("i8", 1, 8),
        ("i16", 1, 8),
        ("i8", 2, 8),
        ("i8", 1, 4096),
        ("i8", 1, 4097),
    ):
        yield simple(
            "reduce_mean",
            "MEAN",
            [[batch, 2, height, 8]],
            [batch, 2, 1, 1],
            storage,
            "axes [2, 3] keepdims true",
            ["ReducerOptions", {"KeepDims": True}],
            [axes],
            f"batch {batch} height {height}",
        )
    for width in (32, 400):
        x = [1, 3, width, width]
        yield simple(
            "softmax",
            "SOFTMAX",
            [x],
            x,
            "i8",
            "axis 1",
            ["SoftmaxOptions", {"Beta": 1.0}],
            name=f"{width}",
        )


def movements() -> Iterator[Case]:
    x = [1, 2, 4, 4]
    for storage in ("i8", "i16"):
        for op, code, name in (
            ("resize_nearest", "RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions"),
            ("resize_linear", "RESIZE_BILINEAR", "ResizeBilinearOptions"),
        ):
            for factor in (2, 3, 8, 16):
                size = 4 * factor
                yield simple(
                    op,
                    code,
                    [x],
                    [1, 2, size, size],
                    storage,
                    f"sizes [1, 2, {size}, {size}]",
                    [name, {}],
                    [{"shape": [2], "type": "INT32", "data": [size, size]}],
                    f"by {factor}",
                )
    yield simple(
        "space_to_depth",
        "SPACE_TO_DEPTH",
        [x],
        [1, 8, 2, 2],
        attributes="block 2",
        options=["SpaceToDepthOptions", {"BlockSize": 2}],
    )
    for storage in NAMES:
        joined = {"axis": "axis 1", "options": ["ConcatenationOptions", {"Axis": 3}]}
        yield simple(
            "concat",
            "CONCATENATION",
            [x, x],
            [1, 4, 4, 4],
            storage,
            joined["axis"],
            joined["options"],
        )
        shape = {"shape": [2], "type": "INT32", "data": [1, 32]}
        yield simple(
            "reshape",
            "RESHAPE",
            [[1, 32, 1]],
            [1, 32],
            storage,
            "shape [1, 32]",
            ["ReshapeOptions", {}],
            [shape],
        )


def transposed_convolutions() -> Iterator[Case]:
    for stride in (1, 2, 3):
        size = 8 * stride
        x, bias, y = [1, 4, 8, 8], [2], [1, 2, size, size]
        total = max(7 * stride + 3 - size, 0)
        low, high = total // 2, total - total // 2
        more = size - (7 * stride + 3 - total)
        weights = "tensor<4x2x3x3x!quant.uniform<i8:f32, 0.5>>"
        text = op_text(
            f"conv_transpose2d %0, %1, %2 strides [{stride}, {stride}] "
            f"pads [{low}, {low}, {high}, {high}] output_padding [{more}, {more}]",
            [kind(x, "i8"), weights, kind(bias, "i32", 0.25)],
            kind(y, "i8"),
        )
        inputs = [
            {"shape": [4], "type": "INT32", "data": [1, size, size, 2]},
            {"shape": [2, 3, 3, 4], "type": "INT8", "scale": 0.5, "zero": 0, "data": [1, 2, 3]},
            lite(x, "i8"),
            lite(bias, "i32", 0.25, data=[1, 2]),
        ]
        fields = {"StrideW": stride, "StrideH": stride, "Padding": 0}
        operator = {"op": "TRANSPOSE_CONV", "inputs": inputs, "outputs": [lite(y, "i8")]}
        options = {"options": ["TransposeConvOptions", fields]}
        yield Case(f"TRANSPOSE_CONV stride {stride}", text, {**operator, **options})


def others() -> Iterator[Case]:
    x = [1, 2, 4, 4]
    for storage in ("i8", "u8", "i16"):
        yield simple(
            "relu", "RELU", [[1, 1, 2, 3, 4, 5]], [1, 1, 2, 3, 4, 5], storage, name="rank 6"
        )
        yield simple(
            "leaky_relu",
            "LEAKY_RELU",
            [x],
            x,
            storage,
            "alpha 0.5",
            ["LeakyReluOptions", {"Alpha": 0.5}],
        )
        yield simple("clip", "RELU6", [x], x, storage, "{min = 0.0 : f64, max = 6.0 : f64}")
        yield simple("clip", "RELU_N1_TO_1", [x], x, storage, "{min = -1.0 : f64, max = 1.0 : f64}")
        rows = {"shape": [3], "type": "INT32", "data": [2, 0, 1]}
        taken = simple(
            "relu", "GATHER", [[4, 6]], [3, 6], storage, "", ["GatherOptions", {}], [rows]
        )
        indices = "%i = nn.constant dense<[2, 0, 1]> : tensor<3xi64> : tensor<3xi64>"
        y = kind([3, 6], storage)
        text = (
            f"func.func @f(%x: {kind([4, 6], storage)}) -> {y} {{ {indices} %r = nn.gather %x, %i "
            f"axis 0 : ({kind([4, 6], storage)}, tensor<3xi64>) -> {y} func.return %r : {y} }}"
        )
        yield taken._replace(text=text)


def products() -> Iterator[Case]:
    for storage in ("i8", "u8", "i16"):
        yield simple(
            "matmul",
            "BATCH_MATMUL",
            [[4, 8], [8, 6]],
            [4, 6],
            storage,
            "",
            ["BatchMatMulOptions", {}],
        )


def cases() -> list[Case]:
    parts = (pools, convolutions, elementwise, reductions, movements, products)
    parts = (*parts, transposed_convolutions, others)
    return [case for part in parts for case in part()]


def verdict(case: Case, target: Target) -> bool:
    module = read_module(case.text, new_context())
    (op,) = (op for op in module.walk() if op.name.startswith("nn.") and op.operands)
    types = [v.type for v in op.operands], [v.type for v in op.results]
    return target.refuses(op, *types) is None


def on_npu(found: list[Case], accelerator: str) -> list[bool | None]:
    if PYTHON is None:
        pytest.skip("Vela is not installed (ethos-u-vela; or QDIALECT_VELA=its python)")
    done = subprocess.run(
        [PYTHON, str(Path(vela_model.__file__)), accelerator],
        input=json.dumps([case.operator for case in found]),
        capture_output=True,
        text=True,
        timeout=300,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    ("target", "accelerator"),
    [(U55, "ethos-u55-128"), (U65, "ethos-u65-256"), (U85, "ethos-u85-256")],
    ids=["u55", "u65", "u85"],
)
def test_vela_places_what_the_target_takes(target: Target, accelerator: str) -> None:
    found = cases()
    theirs = on_npu(found, accelerator)
    differ = {
        case.name: "on the NPU" if npu else "on the processor"
        for case, npu in zip(found, theirs, strict=True)
        if npu is not None and npu != verdict(case, target)
    }
    assert differ == {}, len(found)


def test_both_verdicts_occur() -> None:
    """Each target takes some cases and refuses some: a comparison can fail both ways."""
    for target in (U55, U65, U85):
        verdicts = [verdict(case, target) for case in cases()]
        assert 20 < sum(verdicts) < len(verdicts) - 20
