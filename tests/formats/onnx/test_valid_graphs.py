"""Graphs that ONNX Runtime runs and that were refused, crashed or changed once: each is named for
what it has, and is optimized for both targets to the same bits (see `support/graph_checks.py`)."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from tests.support.graph_checks import failure

GRAPHS = sorted((Path(__file__).parent / "valid_graphs").glob("*.onnx"))


@pytest.mark.parametrize("path", GRAPHS, ids=lambda path: path.stem)
def test_optimized_and_the_same(path: Path, tmp_path: Path) -> None:
    kind, told = failure(onnx.load(path), tmp_path, True)
    assert kind == "", told
