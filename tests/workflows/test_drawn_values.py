"""The numbers that inputs are drawn from: what a model quantizes or clips them to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from numpy.typing import NDArray

import qdialect as qd
from qdialect.workflows.inputs import drawn_inputs, input_ranges
from qdialect.workflows.model import Model
from tests.support.commands import call, qopt

_QUANTIZE = "q = QuantizeLinear (x{}, s, z) d = DequantizeLinear (q, s, z) y = Relu (d)"
_GRID = "float s = {0.5}, uint8 z = {0}"


def load(folder: Path, body: str, constants: str = _GRID, kind: str = "float") -> Model:
    text = f"""<ir_version: 9, opset_import: ["" : 17]>
    g ({kind}[1,3,16,16] x) => (float[1,3,16,16] y) <{constants}> {{ {body} }}"""
    path = folder / "model.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    return qd.load(path)


def codes_reached(arrays: list[dict[str, NDArray[np.float32]]]) -> list[int]:
    each = [np.clip(np.rint(a["x"].astype(float) / 0.5), 0, 255) for a in arrays]
    return [len(np.unique(codes)) for codes in each]


def test_every_sample_reaches_most_codes_of_a_quantized_input(tmp_path: Path) -> None:
    model = load(tmp_path, _QUANTIZE.format(""))
    assert input_ranges(model) == {"x": (0.0, 127.5)}
    arrays = drawn_inputs(model, 4)
    assert min(codes_reached(arrays)) > 180
    assert all((a["x"] > 127.5).any() for a in arrays)
    # Boundaries: both ends and zero.
    assert all((arrays[1]["x"] == end).sum() > 20 for end in (0.0, 127.5))


AFFINE = {
    "sub, div": ("a = Sub (x, m) b = Div (a, k)", (10.0 + 0 * 4, 10.0 + 127.5 * 4)),
    "mul, add": ("a = Mul (x, k) b = Add (a, m)", (-10 / 4, 117.5 / 4)),
    "constant first": ("a = Sub (m, x) b = Mul (k, a)", (10 - 127.5 / 4, 10.0)),
    "moved": ("b = Transpose <perm = [0, 1, 3, 2]> (x)", (0.0, 127.5)),
}


@pytest.mark.parametrize("name", AFFINE)
def test_a_range_is_found_through_what_prepares_an_input(tmp_path: Path, name: str) -> None:
    body, expected = AFFINE[name]
    quantize = _QUANTIZE.format("").replace("(x,", "(b,")
    constants = f"{_GRID}, float m = {{10}}, float k = {{4}}"
    model = load(tmp_path, f"{body} {quantize}", constants)
    assert input_ranges(model)["x"] == pytest.approx(expected)


def test_a_clip_says_a_range_and_integers_of_8_bits_have_all_values(tmp_path: Path) -> None:
    clipped = load(tmp_path, "y = Clip (x, a, b)", "float a = {-2}, float b = {300}")
    assert input_ranges(clipped) == {"x": (-2.0, 300.0)}
    cast = load(tmp_path, "y = Cast <to = 1> (x)", "float a = {0}", "uint8")
    assert len(np.unique(drawn_inputs(cast, 1)[0]["x"])) > 200


def test_a_model_beside_says_a_range_that_a_float_model_does_not(tmp_path: Path) -> None:
    floats = load(tmp_path, "y = Relu (x)", "float a = {0}")
    assert input_ranges(floats) == {}
    quantized = load(tmp_path, _QUANTIZE.format(""))
    assert input_ranges(floats, [quantized]) == {"x": (0.0, 127.5)}


def test_diff_of_a_float_and_a_quantized_model_draws_what_the_second_takes(tmp_path: Path) -> None:
    for name, body in (("a", "y = Relu (x)"), ("b", _QUANTIZE.format(""))):
        load(tmp_path, body)
        (tmp_path / "model.onnx").rename(tmp_path / f"{name}.onnx")
    run = call(qopt, "diff", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"), "--samples", "1")
    # Numbers near 0 alone (6 of 256 codes) would leave 17 dB.
    assert "dB" in run.out
    assert float(run.out.split("%")[-1].split()[0]) > 25
