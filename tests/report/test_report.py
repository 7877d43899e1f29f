"""The page tells what was done, needs nothing but itself, and works in a browser."""

from __future__ import annotations

import json
import re
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import browser
import numpy as np
import pytest

import qdialect as qd
from qdialect.cli.qopt import main as qopt
from qdialect.errors import UsageError
from qdialect.ir.behaviors.shapes import shape_of
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.write import save_module
from qdialect.report import layout
from qdialect.report.casts import follow, history
from qdialect.report.graph import graph_of
from qdialect.report.page import Contents, report_page
from qdialect.report.tables import LayerError
from qdialect.targets.installed import get_target
from qdialect.workflows.report import comparison_page
from tests.generators.sized import GRAPHS

LIBRARIES = ("fast_sugiyama", "grandalf")
needs_layout = pytest.mark.skipif(
    not any(map(find_spec, LIBRARIES)), reason="no layout library: pip install 'qdialect[report]'"
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
    names = {"casts", "boundaries", "error", "ranges", "cost", "target", "refused", "bounds"}
    assert set(tables) == names
    for table in tables.values():
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
    assert tables["error"]["rows"] and not tables["error"]["problem"]
    # What is exact by contract is exact in every row: values are compared with what they were
    # once quantized.
    assert {row[2] for row in tables["error"]["rows"]} == {None}
    assert len(data["histograms"]) == len(tables["ranges"]["rows"]) > 0
    for histogram in data["histograms"]:
        assert histogram["start"] <= histogram["low"] <= histogram["high"] <= histogram["stop"]
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


EDGES = ([(0, 1), (1, 2), (0, 2), (3, 4), (2, 5), (4, 5)], [], [(0, 1), (2, 3)], [(0, 6), (5, 6)])


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("edges", EDGES, ids=str)
def test_layers_go_down_and_no_two_parts_meet(
    library: str, edges: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if find_spec(library) is None:
        pytest.skip(f"no {library}")
    monkeypatch.setattr(layout, "find_spec", lambda name: name == library or None)
    placed = layout.place(7, edges)
    for source, use in edges:
        assert placed.parts[source][1] < placed.parts[use][1]
        rows = [row for _, row in placed.bends.get((source, use), [])]
        assert rows == list(range(placed.parts[source][1] + 1, placed.parts[use][1]))
    places = [*placed.parts, *(point for bent in placed.bends.values() for point in bent)]
    assert len(set(places)) == len(places)
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
    for command in (["inspect"], ["optimize", "-o", str(tmp_path / "o.mlir")]):
        assert qopt([*command, str(model), "--report", str(target)]) == 2
        assert 'pip install "qdialect[report]"' in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.mlir"]


def test_marks_in_a_title_and_numbers_without_an_end(tmp_path: Path) -> None:
    model = models(40)[0]
    contents = Contents("@DATA@ @STYLE@ <b>", "@SCRIPT@", (model.module, model.ctx))
    contents.after = models(40)[1].module, models(40)[1].ctx
    contents.layers = [LayerError("n1", "f32", float("nan"), float("inf"), None, None)]
    page = report_page(contents)
    assert "<h1>@DATA@ @STYLE@ &lt;b&gt;</h1>" in page
    assert data_of(page)["subtitle"] == "@SCRIPT@"


FLOATS = """func.func @main(%x: tensor<1x8xf32>) -> tensor<1x4xf32> {
  %w = nn.constant dense<[[0.5, -0.25, 0.75, 1.0]]> : tensor<1x4xf32> : tensor<1x4xf32>
  %k = nn.constant dense<0.125> : tensor<8x4xf32> : tensor<8x4xf32>
  %0 = nn.matmul %x, %k {nn.key = "fc"} : (tensor<1x8xf32>, tensor<8x4xf32>) -> tensor<1x4xf32>
  %1 = nn.relu %0 {nn.key = "relu"} : (tensor<1x4xf32>) -> tensor<1x4xf32>
  %2 = nn.mul %1, %w {nn.key = "scaled"} : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32>
  return %2 : tensor<1x4xf32>
}"""


@needs_layout
@pytest.mark.parametrize("given", ["data", "profile"])
@pytest.mark.exact_sums
def test_quantize_shows_ranges_over_what_the_profile_saw(tmp_path: Path, given: str) -> None:
    model, page, data = (tmp_path / name for name in ("m.mlir", "r.html", "d.npz"))
    model.write_text(FLOATS, encoding="utf-8")
    shape = shape_of(qd.load(model).function().body.block.args[0])
    np.savez(data, arg0=np.random.default_rng(0).normal(size=(6, *shape)).astype("f4"))
    source = ["-d", str(data)]
    if given == "profile":
        profile = tmp_path / "p.json"
        assert qopt(["profile", str(model), *source, "-o", str(profile), "-q"]) == 0
        source = ["--profile", str(profile)]
    out = str(tmp_path / "o.mlir")
    assert qopt(["quantize", str(model), *source, "-o", out, "--report", str(page), "-q"]) == 0
    told = data_of(page.read_text(encoding="utf-8"))
    ranges = next(table for table in told["tables"] if table["id"] == "ranges")
    assert ranges["caption"] == "Ranges, on the 6 samples of the profile"
    assert ranges["rows"] and told["histograms"]

    assert all(sum(h["counts"]) == 6 * 4 for h in told["histograms"])
    tables = {table["id"]: table for table in told["tables"]}
    assert tables["executed"]["rows"][0][0] == "latency, one thread"
    if given == "profile":
        assert tables["outputs"]["problem"] == "there is no data to judge the outputs on"
        return
    assert "too few to hold some out" in tables["outputs"]["caption"]
    ((part, sqnr, *_),) = tables["outputs"]["rows"]
    assert part == ["result0", ["scaled"]] and sqnr > 20
    names = [name for name, *_ in told["summary"]["tiles"]]
    assert names[:3] == ["SQNR of the worst output", "latency, one thread", "file"]


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
@pytest.mark.parametrize("width", [1400, 700])
def test_it_works_in_a_browser(tmp_path: Path, scheme: str, width: int) -> None:
    file = tmp_path / "r.html"
    file.write_text(page_of(100), encoding="utf-8")
    with browser.opened(file, scheme, width) as (page, problems):
        page.fill("#search", "conv2d")
        page.keyboard.press("Enter")
        page.wait_for_selector("#detail h3")
        said = page.inner_text("#detail")
        assert "before: nn.conv2d" in said and "after: nn.conv2d" in said
        assert "History" in said and "i8" in said and "Values of" in said
        page.focus("svg")
        page.keyboard.press("ArrowDown")
        assert page.inner_text("#detail") != said
        page.get_by_role("button", name="code").first.click()
        page.locator("th[aria-sort]").wait_for()
        # Nothing is wider than the window but what scrolls by itself.
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert violations(page) == []
        assert problems == []


def violations(page: Any) -> list[tuple[str, str, str]]:
    """What axe finds wrong for people who do not see the page, or use no mouse."""
    if find_spec("axe_playwright_python") is None:
        return []
    from axe_playwright_python.sync_playwright import Axe

    found: Any = Axe().run(page).response["violations"]
    return [(v["id"], v["impact"], v["nodes"][0]["html"]) for v in found]


@needs_layout
@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_groups_open_and_close(tmp_path: Path, scheme: str) -> None:
    file = tmp_path / "r.html"
    file.write_text(page_of(700), encoding="utf-8")
    with browser.opened(file, scheme) as (page, problems):
        before = page.locator("svg").first
        closed = before.locator(".node.group")
        count = closed.count()
        assert 0 < count < 60 and before.locator(".node").count() < 80
        # With the mouse: a group, then its heading.
        frames = before.locator(".frame-of").count()
        # A box in the middle of the window, wherever its label is.
        box = closed.first.bounding_box()
        page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        page.wait_for_function(
            "n => document.querySelector('svg').querySelectorAll('.frame-of').length > n",
            arg=frames,
        )
        assert "ops" in page.inner_text("#detail")
        # With keys: close it again, and open another.
        page.focus("svg")
        page.keyboard.press("Escape")
        page.wait_for_function(
            "n => document.querySelector('svg').querySelectorAll('.frame-of').length <= n",
            arg=frames,
        )
        page.keyboard.press("Enter")
        page.keyboard.press("ArrowDown")
        # An op that is chosen is shown, whatever it is in.
        page.fill("#search", "nn.conv2d")
        page.keyboard.press("Enter")
        page.keyboard.press("Enter")
        assert "before: nn.conv2d" in page.inner_text("#detail")
        before.locator(".node.hit").first.wait_for(state="attached")
        assert violations(page) == []
        assert problems == []


@needs_layout
@needs_browser
@pytest.mark.parametrize("ops", [2000, 20000])
def test_a_large_graph_is_quick(tmp_path: Path, ops: int) -> None:
    """Opened in seconds, with few elements; all of it open at 2 000 ops."""
    file = tmp_path / "r.html"
    file.write_text(inspected(ops) if ops > 2000 else page_of(ops), encoding="utf-8")
    assert file.stat().st_size < 1200 * ops + 200_000
    with browser.opened(file) as (page, problems):
        assert float(page.get_attribute("html", "data-ready")) < 20_000
        assert page.evaluate("document.querySelectorAll('svg *').length") < 1000
        buttons = page.get_by_role("button", name="Open all groups").all()
        for button in buttons if ops <= 2000 else ():
            button.evaluate("button => button.click()")
        page.wait_for_timeout(300)
        assert page.evaluate("document.querySelectorAll('svg *').length") < 2000
        assert problems == []


def inspected(ops: int) -> str:
    """The page of a network alone."""
    ctx = new_context()
    return report_page(Contents("large", "", (GRAPHS["residual"](ops, "qdq"), ctx)))
