"""The language server, started as a process and asked by a client over standard streams."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls", reason="no pygls: pip install 'qdialect[lsp]'")

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

import qdialect
from qdialect.ir.context import new_context
from qdialect.pipeline.plugins import Plugins
from qdialect.plugins.mlir.lsp import checks, vocabulary
from qdialect.plugins.mlir.write import module_text
from tests.generators.sized import chain
from tests.support.language_client import Client

TEXT = """!q = !quant.uniform<i8:f32, 0.5:3>
!r = !quant.uniform<i8:f32, 0.25:3>
func.func private @leaf(!q) -> !q
func.func @main(%x: tensor<4x!q>) -> tensor<4x!r> {
  %0 = quant.rescale %x {nn.key = "𝄞é"} : tensor<4x!q> to tensor<4x!r> loc("𝄞":1:1)
  %1 = nn.relu %0 {nn.key = "act"} : (tensor<4x!r>) -> tensor<4x!r>
  return %1 : tensor<4x!r>
}
"""
FLOATS = """func.func @main(%x: tensor<1x4x!quant.uniform<i8:f32, 0.5>>) -> tensor<1x4xf32> {
  %0 = quant.dcast %x : tensor<1x4x!quant.uniform<i8:f32, 0.5>> to tensor<1x4xf32>
  %1 = nn.relu %0 : (tensor<1x4xf32>) -> tensor<1x4xf32>
  return %1 : tensor<1x4xf32>
}
"""
URI = "untitled:a.mlir"


@pytest.fixture(name="client", scope="module")
def _client() -> Iterator[Client]:
    client = Client()
    client.initialize({"delay": 0.02})
    yield client
    assert client.stop() == 0


@pytest.fixture(name="uri")
def _uri(client: Client) -> str:
    """The text, open and read."""
    assert client.open(URI, TEXT) == []
    return URI


def markdown(hover: lsp.Hover | None) -> str:
    assert hover is not None
    assert isinstance(hover.contents, lsp.MarkupContent)
    return hover.contents.value


def hover(client: Client, uri: str, words: str) -> str:
    params = lsp.HoverParams(**client.at(uri, words))
    return markdown(client.run(client.lsp.text_document_hover_async(params)))


def test_hover_of_a_value_has_type_grid_range_and_users(client: Client, uri: str) -> None:
    found = hover(client, uri, "nn.relu ^%0")
    assert "tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>" in found
    assert "scale: 0.25" in found
    assert "zero point: 3" in found
    assert "holds: -32.75 to 31" in found
    assert "from `quant.rescale` (𝄞é); used once by `nn.relu`" in found
    assert "known range: codes 3 to 127, values 0 to 31" in hover(client, uri, "return ^%1")


def test_hover_of_an_op_has_its_documentation_key_and_declaration(client: Client, uri: str) -> None:
    found = hover(client, uri, "^nn.relu")
    assert "max(x, 0)" in found
    assert "key: act" in found
    assert "location: 𝄞:1:1" in hover(client, uri, "^quant.rescale %x")


def test_hover_of_an_alias_says_what_it_stands_for(client: Client, uri: str) -> None:
    found = hover(client, uri, "to tensor<4x^!r>")
    assert "!quant.uniform<i8:f32, 2.500000e-01:3>" in found
    assert "scale: 0.25" in found


def test_hover_of_a_pass_in_a_run_line(client: Client) -> None:
    client.open("untitled:run.mlir", "// RUN: qopt-opt %s -p 'cse,sink-rescale{numerics=ties}'\n")
    found = hover(client, "untitled:run.mlir", "cse,^sink-rescale")
    assert "move rescales below movement" in found
    assert "`numerics=<str>`" in found


def test_definition_and_references(client: Client, uri: str) -> None:
    where = client.at(uri, "nn.relu ^%0")
    found = client.run(client.lsp.text_document_definition_async(lsp.DefinitionParams(**where)))
    assert isinstance(found, lsp.Location)
    assert found.range == lsp.Range(lsp.Position(4, 2), lsp.Position(4, 4))
    params = lsp.ReferenceParams(lsp.ReferenceContext(True), **where)
    uses = client.run(client.lsp.text_document_references_async(params))
    assert uses is not None
    assert [each.range.start.line for each in uses] == [4, 5]


def test_columns_behind_a_letter_of_two_units(client: Client, uri: str) -> None:
    """`𝄞` is two units of UTF-16, so that the alias behind it is at 52 and not 51."""
    where = client.at(uri, '"𝄞é"} : tensor<4x^!q>')
    assert where["position"] == lsp.Position(4, 52)
    params = lsp.DocumentHighlightParams(**where)
    found = client.run(client.lsp.text_document_document_highlight_async(params))
    assert found is not None
    shown = [client.lines(uri, each.range) for each in found]
    assert shown == ["!q"] * 5


def completions(client: Client, uri: str, words: str) -> dict[str, lsp.CompletionItem]:
    params = lsp.CompletionParams(**client.at(uri, words))
    found = client.run(client.lsp.text_document_completion_async(params))
    assert isinstance(found, lsp.CompletionList)
    return {item.label: item for item in found.items}


def test_completion(client: Client) -> None:
    uri = "untitled:new.mlir"
    client.open(uri, TEXT)
    client.replace(uri, "  return", "  %2 = nn.re\n  return")
    ops = completions(client, uri, "%2 = nn.re^")
    assert {"nn.relu", "nn.reshape"} <= ops.keys()
    assert "func.func" not in ops
    client.replace(uri, "%2 = nn.re", "%2 = nn.relu %")
    assert "tensor" in hover(client, uri, "nn.relu ^%0")
    values = completions(client, uri, "nn.relu %^\n")
    assert values["%1"].detail == "tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>"
    assert set(values) == {"%x", "%0", "%1"}
    client.replace(uri, "nn.relu %\n", "nn.relu %1 : (tensor<4x!\n")
    types = completions(client, uri, "(tensor<4x!^\n")
    assert {"!q", "!r", "!quant.uniform per axis"} <= types.keys()
    assert types["!quant.any"].insert_text_format == lsp.InsertTextFormat.Snippet
    client.replace(uri, "nn.relu %1 : (tensor<4x!\n", "nn.conv2d %1, %1 {\n")
    assert {"strides", "pads", "nn.key"} <= completions(client, uri, "nn.conv2d %1, %1 {^").keys()


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("-p 'cse,sink-^'", "sink-rescale"),
        ("--pass-pipeline='sink-rescale{^}'", "numerics"),
        ("-p 'sink-rescale{numerics=^}'", "bounded"),
        ("-p 'reencode-storage,move-casts{boundary=^}'", "maximize-integer"),
    ],
)
def test_completion_of_pipelines(client: Client, line: str, expected: str) -> None:
    uri = f"untitled:{expected}.mlir"
    client.open(uri, f"// RUN: qopt-opt %s {line.replace('^', '')}\n")
    assert expected in completions(client, uri, line)


def test_completion_of_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ops and passes of a plug-in, and the options of a pass that is not in our table."""
    monkeypatch.syspath_prepend(str(Path(qdialect.__file__).parent / "templates" / "target"))
    monkeypatch.setattr(checks, "plugins", lambda: Plugins(["acme.plugin"]))
    monkeypatch.setattr(vocabulary, "plugins", checks.plugins)
    assert dict(vocabulary.passes())["acme-fuse"] == "(from a plug-in)"
    assert ("assume", "nothing|profile", "") in vocabulary.pass_options("acme-fuse")
    assert vocabulary.pass_options("no-such-pass") == []
    vocabulary.op_names.cache_clear()
    assert "acme.conv_relu" in dict(vocabulary.op_names())
    vocabulary.op_names.cache_clear()


def test_diagnostics_follow_what_is_typed(client: Client, uri: str) -> None:
    client.replace(uri, "nn.relu %0", "nn.rellu %0")
    (found,) = client.diagnostics(uri)
    assert client.lines(uri, found.range) == "nn.rellu"
    assert found.severity == lsp.DiagnosticSeverity.Error
    # Types are those of the text that last parsed; names are those of the text as it is.
    assert "scale: 0.25" in hover(client, uri, "nn.rellu ^%0")
    assert "did you mean nn.relu?" in found.message
    client.replace(uri, "nn.rellu %0", "nn.relu %0")
    assert client.diagnostics(uri) == []


def test_verifier_errors_are_on_their_op_in_each_chunk(client: Client) -> None:
    uri = "untitled:chunks.mlir"
    good = "func.func @f(%x: f32) -> f32 {\r\n  return %x : f32\r\n}\r\n"
    bad = good.replace("return %x : f32", "return")
    found = client.open(uri, f"{bad}// -----\r\n{good}// -----\r\n{bad}")
    assert [(each.range.start.line, client.lines(uri, each.range)) for each in found] == [
        (1, "return"),
        (9, "return"),
    ]


def test_boundaries_of_floats_are_findings(client: Client) -> None:
    uri = "untitled:floats.mlir"
    client.open(uri, FLOATS)
    (found,) = client.wait_for(uri, "B1")
    assert client.lines(uri, found.range) == "nn.relu"
    assert "fix: move-casts{boundary=maximize-integer}" in found.message


def test_symbols_and_folds(client: Client, uri: str) -> None:
    document = lsp.TextDocumentIdentifier(uri)
    found = client.run(
        client.lsp.text_document_document_symbol_async(lsp.DocumentSymbolParams(document))
    )
    assert found is not None
    assert [each.name for each in found] == ["@leaf", "@main"]
    main = found[1]
    assert isinstance(main, lsp.DocumentSymbol)
    assert [each.name for each in main.children or ()] == ["𝄞é", "act"]
    folds = client.run(
        client.lsp.text_document_folding_range_async(lsp.FoldingRangeParams(document))
    )
    assert folds is not None
    assert [(each.start_line, each.end_line) for each in folds] == [(3, 6)]


def test_malformed_requests_get_errors_and_the_server_goes_on(client: Client, uri: str) -> None:
    with pytest.raises(JsonRpcException):
        client.send("textDocument/hover", {"position": "nowhere"})
    where = client.at(uri, "nn.relu ^%0")
    where["text_document"] = lsp.TextDocumentIdentifier("untitled:unknown")
    with pytest.raises(JsonRpcException, match="is not open"):
        client.run(client.lsp.text_document_hover_async(lsp.HoverParams(**where)))
    with pytest.raises(JsonRpcException, match="Method Not Found"):
        client.send("textDocument/nothing", {})
    for body in ("{", "[]", '"text"', '{"jsonrpc": "2.0"}', '{"id": 1}', '{"jsonrpc": "1.0"}'):
        client.write(body)
    far = lsp.HoverParams(lsp.TextDocumentIdentifier(uri), lsp.Position(9_000, 9_000))
    assert client.run(client.lsp.text_document_hover_async(far)) is None
    assert "scale: 0.25" in hover(client, uri, "nn.relu ^%0")


def test_a_large_file_does_not_keep_the_server_from_answering(client: Client) -> None:
    """While 600 ops are read again and again, what needs no types is answered at once."""
    uri, small = "untitled:large.mlir", "untitled:small.mlir"
    client.open(small, TEXT)
    text = module_text(chain(600, "quantized"), new_context())
    client.open(uri, text)
    slowest = 0.0
    for number in range(3):
        client.replace(uri, "{\n", f"{{\n// {number}\n")
        client.run(asyncio.sleep(0.05))
        where = client.at(small, "nn.relu ^%0")
        began = time.perf_counter()
        found = client.run(client.lsp.text_document_definition_async(lsp.DefinitionParams(**where)))
        slowest = max(slowest, time.perf_counter() - began)
        assert isinstance(found, lsp.Location)
    assert slowest < 2.0
    assert client.diagnostics(uri) == []


def test_without_pygls_the_command_says_what_to_install() -> None:
    code = (
        "import importlib.util as u, sys\n"
        "u.find_spec = lambda name, find=u.find_spec: None if name == 'pygls' else find(name)\n"
        "from qdialect.plugins.mlir.lsp.main import main\n"
        "sys.exit(main([]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr == ("error: the language server needs pygls: pip install 'qdialect[lsp]'\n")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--help"], 0, "--tcp=PORT"),
        (["--version"], 0, "qopt-lsp (qdialect "),
        (["--tcp=x"], 2, "'x' is no port"),
        (["--stdio", "--tcp=1"], 2, "two ways"),
    ],
)
def test_the_command_line(arguments: list[str], code: int, said: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "qdialect.plugins.mlir.lsp.main", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == code
    assert said in done.stdout + done.stderr


INITIALIZE = {
    "id": 1,
    "method": "initialize",
    "params": {"capabilities": {}, "processId": None, "rootUri": None},
}
SHUTDOWN = {"id": 2, "method": "shutdown"}
EXIT = {"method": "exit"}


def framed(body: dict[str, Any]) -> bytes:
    """A message as it is sent."""
    data = json.dumps({"jsonrpc": "2.0", **body}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(data), data)


def test_on_a_port() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "qdialect.plugins.mlir.lsp.main", f"--tcp={port}"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        answer = b""
        for _ in range(300):
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
                    connection.sendall(framed(INITIALIZE) + framed(SHUTDOWN))
                    while b'"id": 2' not in answer:
                        answer += connection.recv(1 << 16)
                    connection.sendall(framed(EXIT))
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        _, errors = server.communicate(timeout=60)
    assert b'"hoverProvider":' in answer
    assert (server.returncode, errors) == (0, "")


def test_it_ends_when_the_client_is_gone() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "qdialect.plugins.mlir.lsp.main"],
        input=framed(INITIALIZE),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert b'"hoverProvider":' in done.stdout
