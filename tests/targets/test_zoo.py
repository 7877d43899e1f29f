"""The targets of others, and the page that cites where each of their statements is from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from qdialect.ir.ops.registry import op_names
from qdialect.plugins.onnx.target import TARGET as ONNXRUNTIME
from qdialect.targets.base import Target
from qdialect.targets.describe import description
from qdialect.targets.zoo import cmsis_nn, ethos_u, openvino, qnn, tensorrt, tflite, x86, xnnpack

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "targets.md"
ZOO: dict[str, Target] = {
    target.name: target
    for target in (
        *(ethos_u.U55, ethos_u.U65, ethos_u.U85),
        *(m.TARGET for m in (cmsis_nn, openvino, qnn, tensorrt, tflite, x86, xnnpack)),
    )
}
NOTHING_TO_CITE = "nn.constant"


def _chapter(name: str) -> str:
    found = re.search(rf"^## {re.escape(name)}$(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    assert found is not None, f"no chapter on {name}"
    return found[1]


def _rows(name: str) -> list[list[str]]:
    """The rows of the chapter's table: what, how it is said, the statement, its source."""
    lines = [line for line in _chapter(name).splitlines() if line.startswith("| ")][1:]
    return [[c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def _texts(cell: str) -> list[str]:
    return [text.replace("\\|", "|") for text in re.findall(r"`([^`]+)`", cell)]


def _said(target: Target) -> dict[str, list[str]]:
    """The kernels of each op that a target has of its own."""
    base = ONNXRUNTIME.kernels if target is x86.TARGET else {}
    return {
        op: [str(row) for row in rows]
        for op, rows in target.kernels.items()
        if op != NOTHING_TO_CITE and base.get(op) != rows
    }


@pytest.mark.parametrize("name", sorted(ZOO))
def test_every_kernel_is_cited_as_it_is(name: str) -> None:
    if name == "ethos-u65":
        assert _said(ZOO[name]) == _said(ZOO["ethos-u55"]) and "list of the U55" in _chapter(name)
        return
    properties = dict(description(ZOO[name]))
    cited: dict[str, list[str]] = {}
    for what, how, statement, source in _rows(name):
        assert statement and source
        if not what.startswith("`"):
            assert _texts(how) == [properties[what]], what
            continue
        for op in _texts(what):
            assert op not in cited, op
            cited[op] = _texts(how)
    assert cited == _said(ZOO[name])


def test_a_chapter_for_each_target() -> None:
    chapters = set(re.findall(r"^## ([\w-]+)$", PAGE.read_text(), re.M))
    assert chapters == set(ZOO)


@pytest.mark.parametrize("name", sorted(ZOO))
def test_kernels_are_of_ops_that_exist(name: str) -> None:
    assert set(ZOO[name].kernels) - {*op_names(), "quant.rescale"} == set()


def test_the_page_is_what_is_installed() -> None:
    """Every module of the zoo has an entry point."""
    project = (PAGE.parents[2] / "pyproject.toml").read_text()
    points = set(re.findall(r'^([\w-]+) = "qdialect\.targets\.zoo\.', project, re.M))
    assert points == set(ZOO)
