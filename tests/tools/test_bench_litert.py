"""What the benches over LiteRT count and compare."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from tools.bench.litert_files import Row as FileRow
from tools.bench.litert_files import Same, summary
from tools.bench.litert_onnx import Codes, best, codes
from tools.bench.litert_onnx import Row as OnnxRow
from tools.bench.litert_peers import File, Row, report
from tools.bench.litert_run import Job, Ran, differing, nearness, run_jobs


def test_elements_that_are_other_bits_are_counted() -> None:
    a, b = np.array([1.0, 2.0, np.nan]), np.array([1.0, 2.5, np.nan])
    assert differing([[a]], [[b]]) == (3, 1, 0.5)
    assert differing([[a]], [[a]]) == (3, 0, 0.0)
    assert differing([[a]], [[a[:2]]]) == (3, 3, math.inf)


def test_nearness_is_that_of_the_worst_output() -> None:
    expected = [[np.array([1.0, 0.0]), np.array([3.0, 4.0])]]
    got = [[np.array([1.0, 0.0]), np.array([3.0, 4.5])]]
    found = nearness(expected, got)
    assert found.decibels == pytest.approx(20.0)
    assert found.cosine < 1 and found.first == 1


def test_codes_are_compared_by_the_scale_of_the_output() -> None:
    one, other = Ran([[np.float32([0.0, 0.5])]]), Ran([[np.float32([0.0, 1.5])]])
    assert codes(one, other, [0.5]) == Codes(2, 1, 2.0)
    assert codes(one, Ran(why="no"), [0.5]).why == "no"


def test_litert_is_compared_with_the_faster_onnx_file() -> None:
    assert best(OnnxRow("a", "u8s8", litert=0.4, ours=0.8)) == pytest.approx(0.5)
    assert best(OnnxRow("a", "u8s8", litert=0.4, ours=1.2)) == pytest.approx(0.4)


def test_what_is_not_made_is_told() -> None:
    row = Row("net", 1, {"tico": File("no such op"), "ours s8": File(ops=3, ratio=0.5, cosine=1)})
    text = report([row])
    assert "none: no such op" in text
    assert "0 of 1" in text and "1 of 1" in text


def test_files_that_are_equal_and_those_that_are_not_are_counted() -> None:
    rows = [
        FileRow("a", quantized=True, ratio=0.5),
        FileRow("b", quantized=True, tflite=Same(4, 1, 1.0), onnx=Same(why="no"), ratio=2.0),
    ]
    said = summary(rows)
    assert ".tflite written 2, equal 1; .onnx written 1, equal 1" in said
    assert "geometric mean of 2: 1.00" in said


def test_what_a_runtime_refuses_is_said_and_the_others_run(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    (tmp_path / "a.onnx").write_bytes(b"no model")
    sample = [np.zeros(1, np.float32)]
    found = run_jobs([Job("a", tmp_path / "a.onnx", "onnxruntime")], [sample])
    assert found["a"].why
