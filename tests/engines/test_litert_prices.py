"""Prices of LiteRT's kernels: measured on one-op files, fitted, shipped, and summed over files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from qdialect.context import new_context
from qdialect.formats.mlir.read import read_module
from qdialect.formats.tflite.read import read_bytes
from qdialect.formats.tflite.write import file_bytes
from qdialect.ops.base import NNOp
from qdialect.targets.installed import get_target
from qdialect.targets.litert_kernels import CODES, CODES_16, DYNAMIC, FLOAT, I8, I16
from qdialect.targets.price_table import parse_prices, read_prices, shipped_prices
from qdialect.workflows import litert_prices
from qdialect.workflows.litert_cases import Case, cases, one
from qdialect.workflows.litert_nodes import alone, node_times
from qdialect.workflows.litert_works import Works, predicted, priced
from tests.support.commands import call, qopt

ALL = [(case, state) for case in cases() for state in case.states]


def test_each_case_is_one_execution_of_a_kernel_that_is_priced() -> None:
    kernels = shipped_prices("litert").kernels
    for case, state in ALL:
        graph = one(case, state, 2).subgraphs[0]
        works = Works(graph).of(graph.operators[-1])
        assert works is not None and len(works) == 1, case
        work = works[0]
        assert work.state in (FLOAT, I8, I16, DYNAMIC, CODES, CODES_16)
        # LiteRT has no RSQRT of all codes.
        assert (work.kernel, work.state) == ("nn.sqrt", CODES) or work.state in kernels[work.kernel]


def test_files_of_cases_are_sound() -> None:
    for case, state in ALL[:: len(ALL) // 40]:
        data = file_bytes(one(case, state, 2))
        again = read_bytes(data)
        assert [op.op for op in again.subgraphs[0].operators] == [case.op.partition(" ")[0]] * 2


def test_prices_are_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    few = [case for case in cases() if case.op in ("QUANTIZE", "ADD", "MAXIMUM", "DEQUANTIZE")]
    conv = [case for case in cases() if case.op in ("CONV_2D", "DEPTHWISE_CONV_2D")]
    few += [conv[0], *(case for case in conv if case.op != "CONV_2D")][:2]
    monkeypatch.setattr(litert_prices, "cases", lambda: iter(few))
    path = tmp_path / "p.json"
    result = call(qopt, "prices", "--engine=litert", "--rounds=1", "-o", str(path))
    assert result.code == 0, result.err
    assert "prices of LiteRT" in result.err and "a rescale takes" in result.err
    found = read_prices(path, "litert")
    assert parse_prices(found.to_json()) == found
    assert found.kernels["run"][CODES]["node"] > 0 and found.sizes[0].codes["nn.add"] > 0
    # An op that XNNPACK does not take is priced too, and the way there and back.
    assert CODES in found.kernels["nn.maximum"] and CODES in found.kernels["leave"]


def test_a_file_is_the_sum_of_its_ops() -> None:
    prices = shipped_prices("litert")
    conv = next(case for case in cases() if case.op == "CONV_2D")
    times = [predicted(one(conv, I8, copies), prices)[0] for copies in (1, 2, 4)]
    assert math.isclose(times[2] - times[1], 2 * (times[1] - times[0]), rel_tol=1e-6)
    unknown = one(conv, I8, 1)
    unknown.subgraphs[0].operators[0].op = "SVDF"
    assert predicted(unknown, prices)[1] == {"SVDF"}
    assert [price for _, price in priced(unknown, prices)] == [None]


def test_leaving_xnnpack_is_paid_once_for_a_row_of_ops() -> None:
    image = (1, 8, 8, 32)
    file = one(Case("ADD", (image, image), image), CODES, 5)
    graph = file.subgraphs[0]

    def leaving(delegated: list[bool]) -> int:
        made = [works or () for _, works in Works(graph, delegated).all()]
        return sum(work.kernel == "leave" for works in made for work in works)

    assert leaving([True] * 5) == 0
    assert leaving([True, False, False, True, True]) == 1
    assert leaving([False, True, False, True, False]) == 3


NN = """
!q = tensor<1x32x20x20x!quant.uniform<i8:f32, 0.05>>
!f = tensor<1x32x20x20xf32>
func.func @main(%x: !f, %w: tensor<32x1x3x3xf32>, %s: tensor<1x64x20x20xf32>) -> !f {
  %c = nn.constant dense<0.5> : tensor<64x32x1x1xf32> : tensor<64x32x1x1xf32>
  %d = nn.constant dense<0.5> : tensor<32x1x7x7xf32> : tensor<32x1x7x7xf32>
  %0 = nn.conv2d %x, %c : (!f, tensor<64x32x1x1xf32>) -> tensor<1x64x20x20xf32>
  %1 = nn.relu %0 : (tensor<1x64x20x20xf32>) -> tensor<1x64x20x20xf32>
  %2 = nn.conv2d %x, %d pads [3, 3, 3, 3] groups 32 : (!f, tensor<32x1x7x7xf32>) -> !f
  %3 = nn.hard_swish %2 : (!f) -> !f
  %4 = nn.add %3, %x : (!f, !f) -> !f
  %5 = nn.softplus %4 : (!f) -> !f
  func.return %5 : !f
}
"""


def test_the_target_prices_ops_of_a_float_module() -> None:
    module = read_module(NN, new_context())
    found = {op.name: op for op in module.walk() if isinstance(op, NNOp)}
    convs = [op for op in module.walk() if op.name == "nn.conv2d"]
    target = get_target("litert")

    def price(op: NNOp, state: str) -> float:
        price = target.state_price(op, state)
        assert price is not None and price >= 0
        return price

    point, large = convs
    # On codes a convolution takes less, its clamp nothing, a depthwise one of 49 taps much more.
    assert price(point, I8) < price(point, FLOAT)  # pyright: ignore[reportArgumentType]
    assert price(found["nn.relu"], I8) == price(found["nn.relu"], FLOAT) == 0
    assert price(large, FLOAT) > price(point, FLOAT)  # pyright: ignore[reportArgumentType]
    assert price(found["nn.add"], I8) > 0
    # XNNPACK has it on floats, LiteRT's own kernel on codes is slow.
    assert price(found["nn.hard_swish"], I8) > 5 * price(found["nn.hard_swish"], FLOAT)
    assert target.state_price(found["nn.softplus"], I8) is None
    assert np.isfinite(target.start_price()) and target.op_price(found["nn.add"]) > 0
    assert target.state_cast_price("quant.qcast", 1000) is not None


def test_ops_are_timed_on_their_own() -> None:
    pytest.importorskip("ai_edge_litert")
    conv = next(case for case in cases() if case.op == "CONV_2D")
    file = one(conv, I8, 3)
    cut = alone(file, file.subgraphs[0].operators[1])
    (graph,) = cut.subgraphs
    assert [op.op for op in graph.operators] == ["CONV_2D"] and len(graph.tensors) == 4
    assert [graph.tensors[n].name for n in (*graph.inputs, *graph.outputs)] == ["x0", "y1"]
    found = node_times(file, runs=3)
    assert [node.index for node in found] == [0, 1, 2] and all(node.delegated for node in found)
    assert all(node.nanoseconds is not None and node.nanoseconds > 0 for node in found)
    file.subgraphs[0].operators[2].op = "CALL_ONCE"
    file.subgraphs[0].operators[2].options = {}
    assert node_times(file, runs=1)[2].nanoseconds is None
