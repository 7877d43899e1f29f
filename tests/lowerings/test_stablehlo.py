"""Quantized networks in StableHLO, run by IREE: bit for bit where floats decide no tie."""

from __future__ import annotations

import numpy as np
import pytest
from engine_support import agree, converted, prepared
from test_linalg_ops import TYPES, batch

from qdialect.analysis.codes import qparams_of
from qdialect.api import Model
from qdialect.interpreter import Interpreter
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import read_module, verify_module
from qdialect.plugins.mlir.write import module_text

# Scales of few bits: all of f32 is exact, and many results are ties.
EXACT = {
    "a": "i8:f32, 0.0625:3",
    "b": "i8:f32, 0.03125:-7",
    "n": "i8<-100:90>:f32, 0.0625:5",
    "f": "i8:f32, 0.00390625:-128",
    "h": "i16:f32, 0.0078125",
    "q": "i8:f32, 0.0625:3",
    "o": "i8:f32, 0.25:-5",
    "p": "i8:f32, 0.25:4",
    "r": "i8:f32, 0.03125:-7",
    "s": "i32:f32, 0.0009765625",
    "t": "i8:f32, 0.015625:-5",
    "w": "i8:f32, 0.015625",
    "z": "i8:f32, 0.015625:5",
    "c": "i8:f32:0, {0.015625,0.03125,0.0625,0.125}",
}
# Scales as networks have them: hardly any result is near a tie.
USUAL = {
    **EXACT,
    "a": "i8:f32, 0.0517283:3",
    "b": "i8:f32, 0.0312911:-7",
    "o": "i8:f32, 0.2117339:-5",
    "p": "i8:f32, 0.2117339:4",
    "w": "i8:f32, 0.0152771",
    "z": "i8:f32, 0.0152771:5",
    "s": "i32:f32, 0.00079025821",
    "c": "i8:f32:0, {0.0151261,0.0317843,0.0611237,0.0911}",
}
CONFIGURATIONS = (
    "nn.conv2d a1x3x6x5, !w4x3x3x3 -> o1x4x4x3",
    "nn.conv2d a2x3x6x5, !c4x3x3x3 strides [2, 1] pads [1, 0, 1, 2] -> o2x4x3x5",
    "nn.conv2d a1x3x6x5, !z4x3x3x3 pads [1, 1, 1, 1] -> p1x4x6x5",
    "nn.conv2d a1x3x6x5, w4x3x3x3 pads [1, 1, 1, 1] dilations [1, 2] -> o1x4x6x3",
    "nn.conv2d a1x4x6x5, z2x2x3x3 groups 2 -> o1x2x4x3",
    "nn.conv2d a1x4x6x5, !w4x1x3x3 groups 4 pads [1, 1, 1, 1] -> o1x4x6x5",
    "nn.conv2d a1x8x6x5, !w8x1x3x3 groups 8 -> o1x8x4x3",
    "nn.conv1d a1x3x9, !w4x3x3 strides [2] pads [1, 1] -> o1x4x5",
    "nn.conv3d a1x2x4x3x3, !w4x2x2x2x2 pads [0, 1, 0, 0, 0, 1] -> o1x4x3x3x3",
    "nn.fully_connected a2x6, !w4x6 -> o2x4",
    "nn.fully_connected a2x6, !c4x6 -> p2x4",
    "nn.fully_connected a2x6, z4x6 -> o2x4",
    "nn.matmul a2x6, b6x3 -> o2x3",
    "nn.matmul a2x6, !z6x3 -> o2x3",
    "nn.matmul a3x2x6, !w6x3 -> o3x2x3",
    "nn.matmul a3x2x6, b3x6x3 -> o3x2x3",
    "nn.matmul a2x1x2x6, b3x6x3 -> o2x3x2x3",
    "nn.matmul a6, b6x3 -> o3",
    # IREE rounds both terms to the scale of the sum (`stablehlo-add`): here that is exact.
    "nn.add q2x3x4, r2x3x4 -> t2x3x4",
    "nn.add q2x3x4, r3x1 -> r2x3x4",
    "nn.sub q2x3x4, !r1x4 -> t2x3x4",
    "nn.mul a2x3x4, b4 -> o2x3x4",
    "nn.add h2x3, q2x3 -> h2x3",
    "nn.maximum a2x3, a2x3 -> a2x3",
    "nn.minimum a2x3, a1x3 -> a2x3",
    "nn.relu n2x50 -> n2x50",
    "nn.clip q2x50 min -1.0 max 2.0 -> q2x50",
    "nn.table a2x50, !o256 -> o2x50",
    "nn.table a2x50, !h256 -> h2x50",
    "nn.softmax a2x5x7 axis 1 -> f2x5x7",
    "nn.max_pool2d a1x2x6x5 kernel [2, 3] strides [2, 1] pads [1, 0, 0, 1] -> a1x2x3x4",
    "nn.max_pool2d n1x2x7x7 kernel [2, 2] dilations [2, 3] -> n1x2x5x4",
    "nn.max_pool1d a1x2x9 kernel [3] strides [2] -> a1x2x4",
    "nn.max_pool3d a1x2x4x5x3 kernel [2, 3, 1] strides [1, 2, 1] -> a1x2x3x2x3",
    "nn.avg_pool2d a1x2x6x5 kernel [2, 2] -> o1x2x5x4",
    "nn.avg_pool2d a1x2x6x6 kernel [2, 2] strides [2, 2] pads [1, 1, 1, 1] -> o1x2x4x4",
    "nn.global_avg_pool2d a1x3x4x8 -> o1x3x1x1",
    "nn.reduce_sum a2x3x4 axes [1] -> o2x1x4",
    "nn.reduce_mean a2x3x4 axes [0, 2] keepdims false -> o3",
    "nn.reduce_max a2x3x4 axes [-1] -> a2x3x1",
    "nn.reduce_min n2x3x4 axes [1] keepdims false -> n2x4",
    "nn.reshape a2x3x4 shape [4, 6] -> a4x6",
    "nn.transpose a2x3x4 perm [2, 0, 1] -> a4x2x3",
    "nn.concat a2x3, a2x4 axis 1 -> a2x7",
    "nn.concat a2x3, !a1x3, a2x3 axis 0 -> a5x3",
    "nn.pad q2x3 low [0, 1] high [2, 0] value 1.0 -> q4x4",
    "nn.pad a4x5 low [1, 2] high [0, 1] mode reflect -> a5x8",
    "nn.slice a6x7 starts [1, 6] stops [6, 7] steps [2, 1] -> a3x1",
    "nn.slice a6x7 starts [4, 6] stops [-9, 0] steps [-2, -3] -> a3x2",
    "nn.tile a2x3 repeats [2, 3] -> a4x9",
    "nn.flip a2x3 axes [1] -> a2x3",
    "nn.depth_to_space a1x8x2x3 block 2 -> a1x2x4x6",
)
CASTS = """
!c = tensor<64x!quant.uniform<i8:f32, 0.25:5>>
!d = tensor<64x!quant.uniform<i16:f32, 0.0371:-101>>
!e = tensor<64x!quant.uniform<i8<-100:90>:f32, 0.0371>>
func.func @main(%x: tensor<64xf32>) -> (!c, !d, !e, tensor<64xf32>) {
  %0 = quant.qcast %x : tensor<64xf32> to !c
  %1 = quant.qcast %x : tensor<64xf32> to !d
  %2 = quant.qcast %x : tensor<64xf32> to !e
  %3 = quant.dcast %0 : !c to tensor<64xf32>
  func.return %0, %1, %2, %3 : !c, !d, !e, tensor<64xf32>
}
"""


@pytest.fixture(params=[EXACT, USUAL], ids=["exact", "usual"])
def kinds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, kind in request.param.items():
        monkeypatch.setitem(TYPES, name, kind)


@pytest.mark.usefixtures("kinds")
def test_bit_equal() -> None:
    assert agree(batch(CONFIGURATIONS), "iree", to="stablehlo") > 2000


def test_casts() -> None:
    """Ties of floats, and zero points that adding to a float would round."""
    assert agree(CASTS, "iree", samples=4, to="stablehlo") == 4 * 256


ROUNDED = """
!x = tensor<256x1x!quant.uniform<i8:f32, 0.0625:3>>
!y = tensor<1x256x!quant.uniform<i8:f32, 0.03125:-7>>
!o = tensor<256x256x!quant.uniform<i8:f32, 0.25:-5>>
!e = tensor<256x256x!quant.uniform<i8:f32, 0.5:2>>
!z = tensor<256x1x!quant.uniform<i8:f32, 0.125:1>>
func.func @main(%x: !x, %y: !y) -> (!o, !e, !o, !o, !z) {
  %0 = nn.add %x, %y : (!x, !y) -> !o
  %1 = nn.add %x, %y : (!x, !y) -> !e
  %2 = nn.sub %x, %y : (!x, !y) -> !o
  %3 = nn.mul %x, %y : (!x, !y) -> !o
  %4 = quant.rescale %x : !x to !z
  func.return %0, %1, %2, %3, %4 : !o, !e, !o, !o, !z
}
"""


def test_specified() -> None:
    """Every pair of codes, half of them ties, as the specification says: dequantize, compute,
    add the zero point, and round to even."""
    given = prepared(ROUNDED, "stablehlo")
    interpreter = Interpreter(given.ctx, given.module)
    codes = np.arange(-128, 128, dtype=np.int8)
    inputs = [codes.reshape(-1, 1), codes.reshape(1, -1)]
    wanted = interpreter.run(inputs)
    lowered = converted(given, "stablehlo")
    for mine, specified in zip(wanted, evaluated(lowered, inputs), strict=True):
        assert np.array_equal(mine, specified)


COMPUTED = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}


def evaluated(given: Model, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """What a function of quantized elementwise ops gives; scales are powers of two, for which
    double precision is exact."""
    (function,) = given.module.ops
    block = function.body.blocks[0]
    values = dict(zip(block.args, inputs, strict=True))
    for op in block.ops:
        if op.name == "func.return":
            return [values[v] for v in op.operands]
        shape = shape_of(op.results[0])
        if op.name == "stablehlo.broadcast_in_dim":
            values[op.results[0]] = np.broadcast_to(values[op.operands[0]], shape)
            continue
        floats = []
        for v in op.operands:
            q = qparams_of(v)
            floats.append((values[v].astype(np.float64) - q.zero_point) * q.scale)
        name = op.name.removeprefix("stablehlo.")
        x = floats[0] if name == "uniform_quantize" else COMPUTED[name](*floats)
        q = qparams_of(op.results[0])
        codes = np.clip(x / q.scale + q.zero_point, q.storage.min, q.storage.max)
        values[op.results[0]] = np.rint(codes).astype(np.int64)
    raise AssertionError("no return")


@pytest.mark.usefixtures("kinds")
def test_read_again() -> None:
    """The text is IR that we read: what it says stays the same."""
    given = converted(prepared(batch(CONFIGURATIONS), "stablehlo"), "stablehlo")
    text = module_text(given.module, given.ctx, generic=True, inline_weights=True)
    ctx = new_context()
    module = read_module(text, ctx)
    verify_module(module, ctx)
    again = Model(module, ctx)
    assert module_text(again.module, again.ctx, generic=True, inline_weights=True) == text
    names = {op.name for op in module.walk()}
    assert not any(name.startswith(("nn.", "quant.")) for name in names)
    assert np.all(["stablehlo.convolution" in names, "stablehlo.gather" in names])
