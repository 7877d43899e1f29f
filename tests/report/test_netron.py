"""Netron opens what we export, with the names of nodes and values."""

from __future__ import annotations

import html
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import browser
import onnx
import pytest

import qdialect as qd
from tests.support.page_models import float_model, quantized_model

NETRON = os.environ.get("QDIALECT_NETRON") or shutil.which("netron", path=str(
    Path(sys.executable).parent)) or ""  # fmt: skip
WHY_NOT = browser.missing() or ("" if NETRON else "no Netron: pip install netron")
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)
MINE = re.compile(r"^http://localhost:")


@pytest.fixture(params=["qdq", "qoperator"])
def exported(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A quantized network, optimized and written in one of the forms."""
    float_model(tmp_path / "float.onnx")
    quantized_model(tmp_path / "float.onnx", tmp_path / "quantized.onnx")
    model = qd.optimize(qd.load(tmp_path / "quantized.onnx"))
    path = tmp_path / "faster.onnx"
    qd.save(model, path, form=request.param)
    return path


@pytest.fixture
def address(exported: Path) -> Iterator[str]:
    """Where Netron serves it."""
    command = [NETRON, "--host", "localhost", "--port", "0", str(exported)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    try:
        said = ""
        for line in server.stdout:
            said += line
            if found := re.search(r"http://localhost:\d+", line):
                yield found.group(0)
                break
        else:
            pytest.fail(said)
    finally:
        server.terminate()
        server.wait(10)
        server.stdout.close()


def shown(address: str) -> str:
    """The page once the graph is in it; nothing but Netron is asked for anything."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=browser.command(), args=["--no-sandbox"]
        )
        page = chromium.new_page()
        page.route(re.compile(r"^https?://(?!localhost:)"), lambda route: route.abort())
        page.goto(address)
        ready = page.locator("#nodes, button:has-text('Accept')").first
        ready.wait_for(state="attached", timeout=60_000)
        if page.locator("#nodes").count() == 0:
            page.get_by_text("Accept", exact=True).click()
        page.locator("#nodes").wait_for(state="attached", timeout=60_000)
        page.wait_for_timeout(1000)
        text = page.content()
        chromium.close()
    return text


def test_names_are_those_of_the_file(exported: Path, address: str) -> None:
    graph = onnx.load(exported).graph
    ids = {html.unescape(found) for found in re.findall(r'id="([^"]*)"', shown(address))}
    constants = {tensor.name for tensor in graph.initializer}
    inputs = {name for node in graph.node for name in node.input if name not in constants}
    assert len(graph.node) > 8
    assert {f"node-name-{node.name}" for node in graph.node} <= ids
    assert {f"edge-{name}" for name in inputs if name} <= ids
    assert {"conv1", "conv3"} <= {node.name for node in graph.node}
