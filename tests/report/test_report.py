"""The page tells what was done, needs nothing but itself, and works in a browser."""

from __future__ import annotations

import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import browser
import pytest

import qdialect as qd
from gen_graph import GRAPHS
from qdialect.backends.mlir import save_module
from qdialect.cli.qopt import main as qopt
from qdialect.cli.reporting import comparison_page
from qdialect.context import new_context
from qdialect.errors import UsageError
from qdialect.report import layout
from qdialect.report.casts import follow, history
from qdialect.report.graph import graph_of
from qdialect.targets.installed import get_target

needs_layout = pytest.mark.skipif(
    find_spec("fast_sugiyama") is None, reason="no layout library: pip install 'qdialect[report]'"
)
needs_browser = pytest.mark.skipif(bool(browser.missing()), reason=browser.missing() or "-")
_MODELS: dict[int, tuple[qd.Model, qd.Model]] = {}


def models(ops: int) -> tuple[qd.Model, qd.Model]:
    """A residual network of so many ops, and what `optimize` makes of it."""
    if ops not in _MODELS:
        before = qd.Model(GRAPHS["residual"](ops, "qdq"), new_context())
        _MODELS[ops] = before, qd.optimize(before)
    return _MODELS[ops]


def page_of(ops: int) -> str:
    return comparison_page(*models(ops), get_target("onnxruntime"))


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found is not None
    return json.loads(found.group(1))


@needs_layout
def test_the_page_tells_what_is_there() -> None:
    data = data_of(page_of(60))
    before, after = data["graphs"]
    reads = graph_of(models(60)[0].module, models(60)[0].ctx)
    assert [data["text"][n[0]] for n in before["nodes"]] == [n.name for n in reads.nodes]
    assert 0 < len(after["nodes"]) < len(before["nodes"])
    tables = {table["id"]: table for table in data["tables"]}
    assert set(tables) == {"casts", "boundaries", "error", "cost", "refused", "bounds"}
    for table in tables.values():
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
    assert tables["error"]["rows"] and not tables["error"]["problem"]
    log = models(60)[1].ctx.remarks.remarks
    assert sum(row[0] for row in tables["refused"]["rows"]) == sum(
        remark.kind == "refused" for remark in log
    )
    told = {n for numbers in data["history"].values() for n in numbers}
    assert {n for n, remark in enumerate(log) if remark.key} <= told


@needs_layout
def test_the_page_needs_nothing_else() -> None:
    page = page_of(60)
    assert not re.search(r"""(src|href)\s*=\s*["'](?!#)""", page)
    assert "@import" not in page and "url(" not in page and "@DATA@" not in page


@needs_layout
def test_a_name_cannot_leave_its_place(tmp_path: Path) -> None:
    text = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.relu %x {nn.key = "</script><script>alert(1)</script>"} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
    file = tmp_path / "m.mlir"
    file.write_text(text)
    model = qd.load(file)
    page = comparison_page(model, qd.optimize(model), get_target("onnxruntime"))
    assert "alert(1)</script>" not in page
    assert "</script><script>alert(1)</script>" in data_of(page)["text"]


def test_every_cast_is_followed() -> None:
    before, after = models(60)
    first, second = (graph_of(m.module, m.ctx) for m in (before, after))
    remarks = after.ctx.remarks.remarks
    moves = follow(first, second, remarks, history(remarks))
    assert len([m for m in moves if m.fate != "new"]) == len(first.casts())
    kept = [m for m in moves if m.after in ("quant.qcast", "quant.dcast", "quant.rescale")]
    assert len(kept) >= len(second.casts())
    assert all(m.fate in ("new", "kept", "kept, other type", "another cast now") for m in kept)


@pytest.mark.skipif(find_spec("fast_sugiyama") is None, reason="no layout library")
def test_layers_go_down_and_no_two_nodes_meet() -> None:
    edges = [(0, 1), (1, 2), (0, 2), (3, 4), (2, 5), (4, 5)]
    placed = layout.place(7, edges)
    for source, use in edges:
        assert placed.nodes[source][1] < placed.nodes[use][1]
    assert len(set(placed.nodes)) == 7
    assert placed.bends.keys() <= set(edges)


def test_without_the_library_one_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(layout, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"report needs"):
        layout.require_layout()
    model = tmp_path / "m.mlir"
    save_module(GRAPHS["chain"](10, "qdq"), new_context(), model)
    target = tmp_path / "r.html"
    assert qopt(["inspect", str(model), "--report", str(target)]) == 2
    said = capsys.readouterr().err
    assert ("qdialect[report]" in said) == (sys.version_info >= (3, 11))
    assert not target.exists()


@needs_layout
def test_commands_write_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, out = tmp_path / "m.mlir", tmp_path / "o.mlir"
    save_module(GRAPHS["residual"](40, "qdq"), new_context(), model)
    page = tmp_path / "r.html"
    assert qopt(["optimize", str(model), "-o", str(out), "--report", str(page), "-q"]) == 0
    assert "m.mlir, before and after" in page.read_text()
    assert qopt(["inspect", str(model), "--report", str(page)]) == 0
    assert [graph["title"] for graph in data_of(page.read_text())["graphs"]] == ["model"]
    assert qopt(["inspect", str(model), "--report", str(tmp_path / "r.txt")]) == 2
    assert "must end in .html" in capsys.readouterr().err
    nowhere = tmp_path / "no" / "r.html"
    assert qopt(["inspect", str(model), "--report", str(nowhere)]) == 1


@needs_layout
@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_works_in_a_browser(tmp_path: Path, scheme: str) -> None:
    file = tmp_path / "r.html"
    file.write_text(page_of(100))
    with browser.opened(file, scheme) as (page, problems):
        page.fill("#search", "conv2d")
        page.keyboard.press("Enter")
        page.wait_for_selector("#detail h3")
        said = page.inner_text("#detail")
        assert "before: nn.conv2d" in said and "after: nn.conv2d" in said
        assert "History" in said and "i8" in said
        page.focus("svg")
        page.keyboard.press("ArrowDown")
        assert page.inner_text("#detail") != said
        page.get_by_role("button", name="Blocks").first.click()
        page.locator(".blocks button").first.click()
        page.get_by_role("button", name="code").first.click()
        page.locator("th[aria-sort]").wait_for()
        if find_spec("axe_playwright_python") is not None:
            from axe_playwright_python.sync_playwright import Axe

            found: Any = Axe().run(page).response["violations"]
            assert [(v["id"], v["nodes"][0]["html"]) for v in found] == []
        assert problems == []


@needs_layout
@needs_browser
def test_a_large_graph_is_quick(tmp_path: Path) -> None:
    """Two thousand ops: loaded and zoomed out in seconds, with few elements."""
    file = tmp_path / "r.html"
    file.write_text(page_of(2000))
    assert file.stat().st_size < 8_000_000
    with browser.opened(file) as (page, problems):
        assert float(page.get_attribute("html", "data-ready")) < 20_000
        for button in page.get_by_role("button", name="Show all").all():
            button.evaluate("button => button.click()")
        page.wait_for_timeout(300)
        assert page.evaluate("document.querySelectorAll('svg *').length") < 2000
        assert problems == []
