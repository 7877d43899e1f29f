"""Valid or half-valid IR that no model can be made of: one error, its file, no output."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.commands import Main, call, qopt, qopt_opt, qopt_translate

F = "func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{0}  return %x : tensor<4xf32>\n}}\n"
NODE = (
    '  %0 = onnx.node "Foo" (%x) attributes {a = #onnx.proto<graph, dense<[1, 2]> : '
    "tensor<2xui8>>} : (tensor<4xf32>) -> tensor<4xf32>\n"
)
NO_MODEL = {
    "empty": "module {}\n",
    "declaration": "func.func private @f(%x: tensor<1xf32>) -> tensor<1xf32>\n",
    "no-body": (
        '"func.func"() <{sym_name = "f", function_type = () -> (), sym_visibility = "private"}> '
        "({}) : () -> ()\n"
    ),
    "two": F.format("") + F.format("").replace("@f", "@g"),
    "blocks": "func.func @f(%x: i1) -> i1 {\n  cf.br ^a\n^a:\n  return %x : i1\n}\n",
    "names": F.format("").replace(
        "%x: tensor<4xf32>",
        '%x: tensor<4xf32> {nn.name = "a"}, %y: tensor<1xf32> {nn.name = "a"}',
    ),
    "opset": 'module attributes {onnx.model = {opset = {"ai.onnx" = 99 : i64}}} {\n'
    + F.format("")
    + "}\n",
    "payload": F.format(NODE).replace("return %x", "return %0"),
    "width": F.format("").replace("%x: tensor<4xf32>", "%x: tensor<4xf32>, %a: i999999999"),
    "call": F.format("  %0 = call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>\n"),
}


@pytest.mark.parametrize("text", NO_MODEL.values(), ids=NO_MODEL.keys())
@pytest.mark.parametrize(
    ("main", "argv"),
    [(qopt, ("optimize", "--form", "qoperator")), (qopt_translate, ("--export-onnx",))],
)
def test_no_model(tmp_path: Path, text: str, main: Main, argv: tuple[str, ...]) -> None:
    source, output = tmp_path / "in.mlir", tmp_path / "out.onnx"
    source.write_text(text)
    found = call(main, *argv, str(source), "-o", str(output))
    assert found.code == 1
    assert found.err.count("error: ") == 1
    assert str(source) in found.err
    assert found.out == ""
    assert [p.name for p in tmp_path.iterdir()] == ["in.mlir"]


@pytest.mark.parametrize("text", NO_MODEL.values(), ids=NO_MODEL.keys())
def test_inspect_takes_any_module(tmp_path: Path, text: str) -> None:
    source = tmp_path / "in.mlir"
    source.write_text(text)
    assert call(qopt, "inspect", str(source)).code == 0


@pytest.mark.parametrize("name", ["empty", "two", "blocks", "call"])
def test_what_cannot_be_run(tmp_path: Path, name: str) -> None:
    source = tmp_path / "in.mlir"
    source.write_text(NO_MODEL[name])
    found = call(qopt, "diff", str(source), str(source))
    assert found.code == 1
    assert str(source) in found.err


def test_arguments_too_large_to_make_up(tmp_path: Path) -> None:
    source = tmp_path / "in.mlir"
    source.write_text(F.format("").replace("4xf32", "1000000000000x1000000xf32"))
    found = call(qopt, "diff", str(source), str(source))
    assert found.code == 1
    assert "the arguments of 'f' have 1e+18 elements" in found.err


def test_weights_that_are_nowhere(tmp_path: Path) -> None:
    source, output = tmp_path / "in.mlir", tmp_path / "out.mlir"
    value = '%0 = nn.constant #nn.blob<"abc" : tensor<4xf32>> : tensor<4xf32>'
    source.write_text(F.format(f"  {value}\n").replace("return %x", "return %0"))
    found = call(qopt_opt, str(source), "-o", str(output))
    assert found.code == 1
    assert f"{source}: error: weight 'abc' is in no open weight store" in found.err
    assert not output.exists()


UNKNOWN = """
!q = !quant.uniform<u8:f32, 0.5:3>
func.func @f(%x: tensor<4x!q>) -> tensor<4x!q> {
  %0 = quant.dcast %x : tensor<4x!q> to tensor<4xf32>
  %1 = nn.relu %0 : (tensor<4xf32>) -> tensor<4xf32>
  %2 = quant.qcast %1 : tensor<4xf32> to tensor<4x!q>
  %3 = "acme.magic"(%2) {nn.key = "m"} : (tensor<4x!q>) -> tensor<4x!q>
  return %3 : tensor<4x!q>
}
"""


def test_an_op_nobody_knows_stays_and_the_rest_is_optimized(tmp_path: Path) -> None:
    source, output = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text(UNKNOWN)
    assert call(qopt, "optimize", str(source), "-o", str(output)).code == 0
    text = output.read_text()
    assert '"acme.magic"' in text
    assert "quant.qcast" not in text
    inspected = call(qopt, "inspect", str(source))
    assert "acme.magic  1  m" in inspected.out
    found = call(qopt, "optimize", str(source), "-o", str(tmp_path / "out.onnx"))
    assert found.code == 1
    assert "'acme.magic' has no ONNX form" in found.err


@pytest.mark.parametrize("name", ["nn.magic", "quant.magic", "onnx.magic"])
def test_our_dialects_have_no_unknown_ops(tmp_path: Path, name: str) -> None:
    source = tmp_path / "in.mlir"
    source.write_text(UNKNOWN.replace("acme.magic", name))
    for main, argv in ((qopt, ("inspect",)), (qopt_opt, ("--allow-unregistered-dialect",))):
        found = call(main, *argv, str(source))
        assert found.code == 1
        assert f"{source}:7:" in found.err
        assert name in found.err
