"""`tools.bench prices`: kernels measured on one-op models, fitted, and summed over files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from qdialect.plugins.tflite.file.read import read_bytes
from qdialect.plugins.tflite.file.write import file_bytes
from qdialect.plugins.tflite.target_kernels import CODES, CODES_16, DYNAMIC, FLOAT, I8, I16
from qdialect.targets.price_table import parse_prices, read_prices, shipped_prices
from tests.support.price_files import table_text
from tools.bench import litert_prices, prices
from tools.bench.litert_cases import Case, cases, one
from tools.bench.litert_works import Works, predicted, priced

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


def test_prices_of_onnx_runtime_are_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "p.json"
    assert prices.main(["-o", str(path), "--rounds=1"]) == 0
    assert "a rescale takes" in capsys.readouterr().out
    measured, shipped = read_prices(path, "onnxruntime"), shipped_prices("onnxruntime")
    assert measured.cpu
    by_kernel = {name: states.keys() for name, states in shipped.kernels.items()}
    assert {name: states.keys() for name, states in measured.kernels.items()} == by_kernel
    for ours, theirs in zip(measured.sizes, shipped.sizes, strict=True):
        assert ours.elements == theirs.elements
        for section in ("codes", "floats", "forms", "transposed"):
            assert getattr(ours, section).keys() == getattr(theirs, section).keys()


def test_prices_of_litert_are_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("ai_edge_litert")
    few = [case for case in cases() if case.op in ("QUANTIZE", "ADD", "MAXIMUM", "DEQUANTIZE")]
    conv = [case for case in cases() if case.op in ("CONV_2D", "DEPTHWISE_CONV_2D")]
    few += [conv[0], *(case for case in conv if case.op != "CONV_2D")][:2]
    monkeypatch.setattr(litert_prices, "cases", lambda: iter(few))
    path = tmp_path / "p.json"
    assert prices.main(["--engine=litert", "--rounds=1", "-o", str(path)]) == 0
    found = read_prices(path, "litert")
    assert parse_prices(table_text(found)) == found
    assert found.kernels["run"][CODES]["node"] > 0 and found.sizes[0].codes["nn.add"] > 0
    # An op that XNNPACK does not take is priced too, and the way there and back.
    assert CODES in found.kernels["nn.maximum"] and CODES in found.kernels["leave"]


def test_a_file_is_the_sum_of_its_ops() -> None:
    table = shipped_prices("litert")
    conv = next(case for case in cases() if case.op == "CONV_2D")
    times = [predicted(one(conv, I8, copies), table)[0] for copies in (1, 2, 4)]
    assert math.isclose(times[2] - times[1], 2 * (times[1] - times[0]), rel_tol=1e-6)
    unknown = one(conv, I8, 1)
    unknown.subgraphs[0].operators[0].op = "SVDF"
    assert predicted(unknown, table)[1] == {"SVDF"}
    assert [price for _, price in priced(unknown, table)] == [None]


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
