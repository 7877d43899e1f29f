"""What `convert-nn-to-tflite` writes with integers: LiteRT gives the interpreter's codes."""

from __future__ import annotations

import numpy as np
import pytest
from float_operators import GROUPS, FloatProgram
from test_linalg_ops import TYPES, batch
from test_stablehlo import CONFIGURATIONS, EXACT, USUAL

pytest.importorskip("ai_edge_litert")

from tflite_support import both, model, prepared, tflite_bytes
from xdsl.dialects.builtin import TensorType
from xdsl.utils.test_value import create_ssa_value

from qdialect.algebra.qparams import QParams
from qdialect.errors import UnsupportedError
from qdialect.interpreter import Interpreter
from qdialect.ir.context import new_context
from qdialect.ir.quant import UniformType
from qdialect.plugins.common.lowering.errors import Unlowerable
from qdialect.plugins.tflite.lowering.emitter import Emitter
from tests.support.tflite_models import litert_ops, run_litert

MORE = (
    "nn.conv2d a1x1x6x5, !w1x1x3x3 -> o1x1x4x3",
    "nn.conv2d a1x3x7x7, !w4x3x3x3 strides [2, 2] pads [1, 1, 1, 1] -> o1x4x4x4",
    "nn.conv2d a1x3x8x8, !w4x3x3x3 strides [2, 2] pads [1, 1, 1, 1] -> o1x4x4x4",
    "nn.conv2d a1x3x8x8, !c4x3x3x3 strides [2, 2] pads [0, 0, 1, 1] -> p1x4x4x4",
    "nn.conv_transpose2d a1x3x4x5, !w3x4x3x3 strides [2, 2] -> o1x4x9x11",
    "nn.conv_transpose2d a1x3x4x5, !w3x4x3x3 strides [2, 2] pads [1, 1, 1, 1] "
    "output_padding [1, 1] -> o1x4x8x10",
    "nn.conv_transpose2d a1x4x4x5, !w4x2x2x2 strides [2, 2] groups 2 -> o1x4x8x10",
    "nn.conv_transpose1d a1x3x5, !w3x4x3 strides [2] pads [1, 0] -> o1x4x10",
    "nn.avg_pool2d a1x2x6x6 kernel [3, 3] strides [2, 2] pads [0, 0, 1, 1] "
    "count_include_pad true -> o1x2x3x3",
    "nn.avg_pool1d a1x2x6 kernel [3] -> o1x2x4",
    "nn.reduce_mean a1x3x3x5 axes [2, 3] -> o1x3x1x1",
    "nn.softmax a2x5x7 axis 2 -> f2x5x7",
    "nn.concat a2x3, b2x4 axis 1 -> o2x7",
    "nn.space_to_depth a1x2x4x6 block 2 -> a1x8x2x3",
    "nn.depth_to_space a1x8x2x3 block 2 mode CRD -> a1x2x4x6",
    "nn.resize_nearest a1x2x4x5 scales [1.0, 1.0, 2.0, 2.0] -> a1x2x8x10",
    "nn.resize_nearest a1x2x4x5 scales [1.0, 1.0, 2.0, 2.0] coordinates asymmetric nearest floor "
    "-> a1x2x8x10",
    "nn.repeat a2x3 repeats [2, 3] -> a4x9",
    "nn.expand a1x3 shape [4, 3] -> a4x3",
)
REFUSED = {
    "nn.conv3d": "convolutions over three dimensions are of floats",
    "nn.table": "there is no lookup of codes",
    "nn.matmul a2x6, b6x3": "its weight is no constant and has a zero point",
    "nn.add h2x3": "its result is stored as i16",
}
"""What no kernel gives, by how its configuration starts. (Where scales have few bits, sums are on
ties that a kernel may round in another way.)"""


@pytest.mark.parametrize("grids", [EXACT, USUAL], ids=["exact", "usual"])
def test_codes_are_those_of_the_interpreter(
    grids: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, kind in grids.items():
        monkeypatch.setitem(TYPES, name, kind)
    written = refused = 0
    for configuration in (*CONFIGURATIONS, *MORE):
        text = batch([configuration])
        try:
            pairs, _ = both(model(text))
        except UnsupportedError:
            refused += 1
            continue
        written += 1
        for mine, theirs in pairs:
            assert np.array_equal(mine, theirs), configuration
    assert written > 50
    assert refused < 20


@pytest.mark.parametrize("start", REFUSED)
def test_what_no_kernel_gives_is_refused(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, kind in USUAL.items():
        monkeypatch.setitem(TYPES, name, kind)
    configuration = next(c for c in CONFIGURATIONS if c.startswith(start))
    with pytest.raises(UnsupportedError, match=REFUSED[start]):
        tflite_bytes(model(batch([configuration])))


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.__name__)
def test_floats_are_near(group: object) -> None:
    program = FloatProgram()
    group(program)  # type: ignore[operator]
    given = prepared(program.text("f32"))
    inputs = program.inputs(3)
    wanted = Interpreter(given.ctx, given.module).run(inputs)
    found = run_litert(tflite_bytes(given), inputs)
    for mine, theirs, (_, kind, _) in zip(wanted, found, program.results, strict=True):
        np.testing.assert_allclose(theirs, mine, rtol=3e-5, atol=3e-5, err_msg=kind)


FUSED = """
!x = !quant.uniform<i8:f32, 0.047:-9>
!w = !quant.uniform<i8:f32, 0.013>
!y = !quant.uniform<i8:f32, {scale}:{zero}>
func.func @main(%x: tensor<1x2x5x5x!x>) -> tensor<1x3x5x5x!y> {{
  %w = nn.constant dense<7> : tensor<3x2x3x3xi8> : tensor<3x2x3x3x!w>
  %0 = nn.conv2d %x, %w pads [1, 1, 1, 1]
     : (tensor<1x2x5x5x!x>, tensor<3x2x3x3x!w>) -> tensor<1x3x5x5x!y>
  %1 = {op} : (tensor<1x3x5x5x!y>) -> tensor<1x3x5x5x!y>
  return %1 : tensor<1x3x5x5x!y>
}}
"""


@pytest.mark.parametrize(
    ("op", "scale", "zero", "nodes"),
    [
        ("nn.relu %0", 0.05, -20, {"CONV_2D"}),
        ("nn.clip %0 min 0.0 max 6.0", 0.0625, -40, {"CONV_2D"}),
        ("nn.clip %0 min -1.0 max 1.0", 0.03125, 5, {"CONV_2D"}),
        ("nn.clip %0 min -0.5 max 1.5", 0.03125, 5, {"CONV_2D", "MAXIMUM", "MINIMUM"}),
        ("nn.relu %0", 0.05, -128, {"CONV_2D"}),
    ],
)
def test_clamps_are_activations(op: str, scale: float, zero: int, nodes: set[str]) -> None:
    pairs, found = both(model(FUSED.format(op=op, scale=scale, zero=zero)))
    assert set(found) - {"DELEGATE", "TRANSPOSE"} == nodes
    assert all(np.array_equal(mine, theirs) for mine, theirs in pairs)


UNSIGNED = """
!x = !quant.uniform<u8:f32, 0.047:119>
!w = !quant.uniform<u8:f32, 0.013:128>
!y = !quant.uniform<u8:f32, 0.2:0>
func.func @main(%x: tensor<1x2x5x5x!x>) -> tensor<1x3x3x3x!y> {
  %w = nn.constant dense<-56> : tensor<3x2x3x3xi8> : tensor<3x2x3x3x!w>
  %0 = nn.conv2d %x, %w : (tensor<1x2x5x5x!x>, tensor<3x2x3x3x!w>) -> tensor<1x3x3x3x!y>
  return %0 : tensor<1x3x3x3x!y>
}
"""


def test_codes_without_a_sign_are_renumbered() -> None:
    pairs, found = both(model(UNSIGNED))
    assert found["QUANTIZE"] == 2
    assert all(np.array_equal(mine, theirs) for mine, theirs in pairs)


ROWS = """
func.func @main(%x: tensor<?x3x6x6xf32>) -> tensor<?x5xf32> {
  %w = nn.constant dense<0.125> : tensor<4x3x3x3xf32> : tensor<4x3x3x3xf32>
  %v = nn.constant dense<0.25> : tensor<5x64xf32> : tensor<5x64xf32>
  %0 = nn.conv2d %x, %w : (tensor<?x3x6x6xf32>, tensor<4x3x3x3xf32>) -> tensor<?x4x4x4xf32>
  %1 = nn.relu %0 : (tensor<?x4x4x4xf32>) -> tensor<?x4x4x4xf32>
  %2 = nn.flatten %1 : (tensor<?x4x4x4xf32>) -> tensor<?x64xf32>
  %3 = nn.fully_connected %2, %v : (tensor<?x64xf32>, tensor<5x64xf32>) -> tensor<?x5xf32>
  return %3 : tensor<?x5xf32>
}
"""


def test_codes_that_are_read_anew_keep_what_they_mean_behind_a_reshape() -> None:
    a, b = "!quant.uniform<i8:f32, 0.1:3>", "!quant.uniform<i8:f32, 0.5:-7>"
    given = model(f"""
        func.func @main(%x: tensor<2x8x{a}>, %y: tensor<16x{a}>) -> tensor<16x{a}> {{
          %0 = quant.scast %x : tensor<2x8x{a}> to tensor<2x8xi8>
          %1 = quant.scast %0 : tensor<2x8xi8> to tensor<2x8x{b}>
          %2 = nn.reshape %1 : (tensor<2x8x{b}>) -> tensor<16x{b}>
          %3 = nn.maximum %2, %2 : (tensor<16x{b}>, tensor<16x{b}>) -> tensor<16x{b}>
          %4 = nn.add %3, %y {{nn.kernel = "litert-xnn"}}
            : (tensor<16x{b}>, tensor<16x{a}>) -> tensor<16x{a}>
          return %4 : tensor<16x{a}>
        }}""")
    pairs, ops = both(given)
    assert ops["RESHAPE"] == 2
    for expected, found in pairs:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("op", "storage"), [("PACK", "i8"), ("CONCATENATION", "i8"), ("SLICE", "u8"), ("SQUARE", "i8")]
)
def test_no_op_is_written_that_its_kernel_refuses(op: str, storage: str) -> None:
    x, y = (UniformType(QParams.per_tensor(storage, scale, 0)) for scale in (0.1, 0.2))
    value = create_ssa_value(TensorType(x, (2, 2)))
    emitter = Emitter(new_context())
    rest = [emitter.numbers([0, 1]), emitter.numbers([1, 1])] if op == "SLICE" else []
    with pytest.raises(Unlowerable, match=f"LiteRT runs no such {op}"):
        emitter.node(op, [value, *rest], (1, 1) if rest else (2, 2), y)


def test_unknown_batches_and_rows_of_channels_last() -> None:
    """Columns of weights are permuted in place of what is flattened."""
    given = model(ROWS)
    data = tflite_bytes(given)
    assert litert_ops(data).count("TRANSPOSE") == 1
    for batch_size in (1, 3):
        x = np.random.default_rng(batch_size).normal(size=(batch_size, 3, 6, 6)).astype("f4")
        (wanted,) = Interpreter(given.ctx, given.module).run([x])
        (found,) = run_litert(data, [x])
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)
