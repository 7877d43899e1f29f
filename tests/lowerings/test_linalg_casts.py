"""Quantizing floats and dequantizing, in each form, in engines: bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from engine_support import agree, compare, converted, prepared

from qdialect.interpreter import Interpreter, random_inputs
from qdialect.plugins.common import tools
from qdialect.plugins.common.program import Program, Tensor
from qdialect.plugins.linalg.engine import MlirRunner
from qdialect.plugins.mlir.write import module_text

KINDS = [
    "i8:f32, 0.5:3",
    "u8:f32, 0.1:131",
    "i8<-100:90>:f32, 0.3:5",
    "i4:f32, 0.7:-2",
    "u16:f32, 0.003:30000",
    "i8:f32:1, {0.1:3,0.2:-5,0.3,0.7:100}",
]


def casts(kinds: list[str], codes: bool) -> str:
    """Each kind: floats to codes and, if not `codes`, back to floats."""
    float_type = "tensor<6x4xf32>"
    lines: list[str] = []
    results: list[tuple[str, str]] = []
    for n, kind in enumerate(kinds):
        held = f"tensor<6x4x!quant.uniform<{kind}>>"
        lines += [
            f"  %q{n} = quant.qcast %x : {float_type} to {held}",
            f"  %m{n} = nn.maximum %q{n}, %q{n} : ({held}, {held}) -> {held}",
            f"  %d{n} = quant.dcast %m{n} : {held} to {float_type}",
        ]
        results.append((f"%m{n}", held) if codes else (f"%d{n}", float_type))
    types = ", ".join(kind for _, kind in results)
    names = ", ".join(name for name, _ in results)
    body = "\n".join(lines)
    return (
        f"func.func @main(%x: {float_type}) -> ({types}) {{\n{body}\n"
        f"  func.return {names} : {types}\n}}\n"
    )


@pytest.mark.parametrize(
    ("to", "engine"), [("linalg", "mlir-runner"), ("linalg", "iree"), ("iree", "iree")]
)
def test_casts(to: str, engine: str) -> None:
    # mlir-runner prints floats with six digits.
    text = casts(KINDS, codes=engine == "mlir-runner")
    assert agree(text, engine, samples=4, to=to) == 4 * 24 * len(KINDS)


CODES = """
!x = tensor<2x6x!quant.uniform<i8:f32, 0.5:1>>
!y = tensor<2x6x!quant.uniform<u8:f32, 0.2:100>>
func.func @main(%x: !x, %z: !y) -> (!y, !x) {
  %0 = nn.add %x, %z : (!x, !y) -> !y
  %1 = nn.maximum %x, %x : (!x, !x) -> !x
  func.return %0, %1 : !y, !x
}
"""


def test_quantized_signatures(tmp_path: Path) -> None:
    """mlir-opt takes the types away (strip-func-quant-types), and what is left is the same."""
    if MlirRunner().missing():
        pytest.skip("mlir-opt is not installed")
    given = prepared(CODES, "quant")
    interpreter = Interpreter(given.ctx, given.module)
    drawn = [random_inputs(interpreter.function(), n) for n in range(3)]
    wanted = [interpreter.run(inputs) for inputs in drawn]
    lowered = converted(given, "quant")
    text = module_text(lowered.module, lowered.ctx, generic=True, inline_weights=True)
    (tmp_path / "m.mlir").write_text(text, encoding="utf-8")
    stripped = tools.execute(
        [
            tools.command("mlir-opt", "mlir"),
            "m.mlir",
            "--pass-pipeline=builtin.module(strip-func-quant-types,canonicalize)",
            "--mlir-print-op-generic",
        ],
        engine="mlir-runner",
        folder=tmp_path,
    )
    assert "!quant" in text and "quant." not in stripped
    codes = Tensor((2, 6), np.dtype(np.int8), "i8")
    program = Program(stripped, "main", (codes, codes), (codes, codes))
    assert compare(wanted, MlirRunner().run(program, drawn), CODES) == 3 * 24


NF4 = (
    "!quant.quantile<ui4:f32, {-1.0, -0.6961928, -0.52507305, -0.3949175, -0.28444138, "
    "-0.18477343, -0.091050036, 0.0, 0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, "
    "0.562617, 0.72295684, 1.0}>"
)
CODED = {
    "levels": (NF4, "i4", [*range(8), *range(-8, 0)], ", 0.3"),
    "levels in blocks": (NF4, "i4", [*range(8), *range(-8, 0)], ":{1:4}, {{0.1, 0.3, 0.7, 2.5}}"),
    "signed levels": (
        "!quant.quantile<i2:f32, {-2.0, -0.3, 0.1, 5.0}>",
        "i2",
        range(-2, 2),
        ", 3.0",
    ),
    "f4": ("f4E2M1FN", "i4", [*range(8), *range(-8, 0)], ":{1:8}, {{0.25, 4.0}}"),
    "f8": ("f8E4M3FN", "i8", [*range(127), *range(-128, -1)], ", 0.3"),
    "f8 with infinities": ("f8E5M2", "i8", [*range(124), *range(-128, -4)], ", 0.3:1"),
}
"""Storages, and what they are held in: all codes that stand for numbers, and scales."""


@pytest.mark.parametrize("engine", ["iree", "mlir-runner"])
@pytest.mark.parametrize("name", CODED)
def test_codes_of_tables_and_floats(name: str, engine: str) -> None:
    storage, held, codes, scale = CODED[name]
    shape, kind = f"1x{len(codes)}", f"!quant.uniform<{storage}:f32{scale}>"
    text = f"""
func.func @main(%x: tensor<{shape}xf32>) -> tensor<{shape}xf32> {{
  %c = nn.constant dense<[{[*codes]}]> : tensor<{shape}x{held}> : tensor<{shape}x{kind}>
  %d = quant.dcast %c : tensor<{shape}x{kind}> to tensor<{shape}xf32>
  %r = nn.add %d, %d : (tensor<{shape}xf32>, tensor<{shape}xf32>) -> tensor<{shape}xf32>
  func.return %r : tensor<{shape}xf32>
}}
"""
    assert agree(text, engine, samples=1, to="linalg") == len(codes)
