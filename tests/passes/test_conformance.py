"""The rewrites of lit_tests/conformance, held to more than their text.

Each file there is one row of docs/design/005-glow-conformance.md, with the pipeline in its
RUN lines. Whatever order its ops are in, the pipeline ends in one structure; a second run
changes nothing; results stay within the contracts claimed; and once rescales are placed no
greedy pass finds one less.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from rewrite_support import apply, fired, parse
from xdsl.dialects.builtin import ModuleOp

from qdialect.ir.ops import shape_of
from qdialect.pipeline.manager import PassManager
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.plugins.mlir.write import module_text
from qdialect.workflows.validation.numerics_check import NumericsCheck
from tests.generators.orders import shuffle, structure

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "lit_tests" / "conformance"
PAGE = ROOT / "docs" / "design" / "005-glow-conformance.md"
FILES = sorted(FOLDER.glob("*.mlir"))
_RUN = re.compile(r'RUN: qopt-opt %s -p "([^"]+)"')


def pipelines(path: Path) -> list[str]:
    return _RUN.findall(path.read_text("utf-8"))


CASES = [(path, pipeline) for path in FILES for pipeline in pipelines(path)]
each_case = pytest.mark.parametrize(
    ("path", "pipeline"), CASES, ids=[f"{p.stem}:{n.split(',')[-1]}" for p, n in CASES]
)


def level(pipeline: str) -> str:
    found = re.search(r"numerics=(\w+)", pipeline)
    return found.group(1) if found else "exact"


def elements_rescaled(module: ModuleOp) -> int:
    """Elements of all rescales (an unknown extent counts as 16)."""
    shapes = [shape_of(op.operands[0]) for op in module.walk() if op.name == "quant.rescale"]
    return sum(math.prod(16 if n < 0 else n for n in shape) for shape in shapes)


@each_case
def test_twice_is_once(path: Path, pipeline: str) -> None:
    module, ctx = parse(path.read_text("utf-8"))
    apply(module, ctx, pipeline)
    once = module_text(module, ctx)
    assert not fired([r for r in apply(module, ctx, pipeline) if r.rule != "placement"])
    assert module_text(module, ctx) == once


@each_case
def test_op_order_does_not_matter(path: Path, pipeline: str) -> None:
    module, ctx = parse(path.read_text("utf-8"))
    apply(module, ctx, pipeline)
    for order in range(3):
        other, other_ctx = parse(path.read_text("utf-8"))
        shuffle(other, order)
        apply(other, other_ctx, pipeline)
        assert structure(other) == structure(module)


@each_case
def test_numerics_within_the_contracts(path: Path, pipeline: str) -> None:
    module, ctx = parse(path.read_text("utf-8"))
    passes = PassRegistry().build(parse_pipeline(pipeline))
    said: list[str] = []
    PassManager(ctx, passes, instrumentation=[NumericsCheck(8, say=said.append)]).run(module)
    assert not any("not compared" in text for text in said)


@each_case
def test_no_removable_rescale_is_left(path: Path, pipeline: str) -> None:
    numerics = f"{{numerics={level(pipeline)}}}"
    module, ctx = parse(path.read_text("utf-8"))
    apply(module, ctx, f"{pipeline},place-rescales{numerics}")
    placed = elements_rescaled(module)
    greedy = ",".join(
        f"{name}{numerics}"
        for name in ("sink-rescale", "combine-rescale", "fold-rescale", "hoist-rescale")
    )
    apply(module, ctx, f"{greedy},fold-rescale{numerics},combine-rescale{numerics}")
    assert elements_rescaled(module) >= placed


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_every_file_has_a_case_of_several_uses_and_a_row(path: Path) -> None:
    assert "@multi_use(" in path.read_text("utf-8") or not pipelines(path)
    assert f"conformance/{path.name}" in PAGE.read_text("utf-8")


def test_every_row_has_its_files() -> None:
    page = PAGE.read_text("utf-8")
    named = re.findall(r"conformance/([\w-]+\.mlir)", page)
    assert {path.name for path in FILES} == set(named)
    rows = re.findall(r"^\| (T\d+) \|", page, re.M)
    assert rows == [f"T{n}" for n in range(1, 28)]
