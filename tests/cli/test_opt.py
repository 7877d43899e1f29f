"""`qopt-opt`: flags, exit codes, diagnostics."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from qdialect.passes import PASSES
from tests.support.commands import Result, call, qopt_opt

TEXT = """\
!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25>
func.func @main(%x: tensor<2x!a>) -> tensor<2x!b> {
  %0 = quant.rescale %x : tensor<2x!a> to tensor<2x!b>
  %1 = nn.relu %0 : (tensor<2x!b>) -> tensor<2x!b>
  return %1 : tensor<2x!b>
}
"""

PLUGIN = """
from dataclasses import dataclass
from xdsl.dialects.builtin import StringAttr
from xdsl.passes import ModulePass
from xdsl.universe import Universe

@dataclass(frozen=True)
class Crash(ModulePass):
    name = "crash-now"
    def apply(self, ctx, op):
        raise RuntimeError("boom")

@dataclass(frozen=True)
class Zero(ModulePass):
    name = "change-numbers"
    def apply(self, ctx, op):
        from qdialect.ir.ops import ReluOp
        for inner in list(op.walk()):
            if isinstance(inner, ReluOp):
                inner.results[0].replace_all_uses_with(inner.operands[0])
                inner.detach()
                inner.erase()

UNIVERSE = Universe(all_passes={"crash-now": lambda: Crash, "change-numbers": lambda: Zero})
sessions = []

def register(ctx):
    sessions.append(ctx)
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"plugin_{tmp_path.name}".replace("-", "_").replace("[", "_").replace("]", "_")
    (tmp_path / f"{name}.py").write_text(PLUGIN)
    monkeypatch.syspath_prepend(str(tmp_path))
    return name


def opt(*argv: str, stdin: str = TEXT) -> Result:
    return call(qopt_opt, *argv, stdin=stdin)


def test_standard_input_to_standard_output() -> None:
    result = opt()
    assert (result.code, result.err) == (0, "")
    assert opt("-", stdin=result.out).out == result.out


@pytest.mark.parametrize(
    "pipeline",
    ["sink-rescale,canonicalize", "builtin.module(func.func(sink-rescale),canonicalize)"],
)
@pytest.mark.parametrize("flag", ["-p", "--pass-pipeline", "-pass-pipeline", "--passes"])
def test_pipelines(flag: str, pipeline: str) -> None:
    result = opt(flag, pipeline, "--dump-pass-pipeline")
    assert result.code == 0
    named = re.sub(r"\s", "", result.err).removeprefix("PassManagerwith2passes:")
    assert pipeline in (named, named[len("builtin.module(") : -1])
    assert result.out.index("nn.relu") < result.out.index("quant.rescale")


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--verify-diagnostic"], "did you mean '--verify-diagnostics'?"),
        (["--canonicalise"], "did you mean '--canonicalize'?"),
        (["--cse", "-p", "cse"], "'-pass-pipeline' option can't be used with individual pass"),
        (["--canonicalize=x=1"], "<Pass-Options-Parser>: no such option x"),
        (["-p", "sink-rescal"], "pass pipeline; did you mean 'sink-rescale'?"),
        (["-p", "sink-rescale{num=1}"], "<Pass-Options-Parser>: no such option num"),
        (["-p", "a,,b"], "1:3: error: '' does not refer to a registered pass"),
        (["-p"], "-p needs a value (PIPELINE)"),
        (["--target=onnxruntim"], "unknown target 'onnxruntim'; did you mean 'onnxruntime'?"),
        (["--load-plugin=no.such"], "cannot load plug-in 'no.such'"),
        (["--load-plugin=json"], "'json' is not a plug-in"),
        (["a.mlir", "b.mlir"], "unexpected argument 'b.mlir'"),
        (["--verify-numerics=x", "-p", "cse"], "--verify-numerics takes an integer"),
    ],
)
def test_wrong_usage(argv: list[str], message: str) -> None:
    result = opt(*argv)
    assert result.code == 2
    assert result.out == ""
    assert message in result.err
    assert "error: " in result.err.split("\n")[0]


@pytest.mark.parametrize("level", ["exat", ""])
def test_a_wrong_level_is_wrong_usage(level: str) -> None:
    assert opt("-p", f"sink-rescale{{numerics='{level}'}}").code == 2


def test_an_error_shows_its_place(tmp_path: Path) -> None:
    path, out = tmp_path / "x.mlir", tmp_path / "y.mlir"
    path.write_text("func.func @f(%x: tensor<3xf32>) {\n\t%0 = nn.rellu %x\n  return\n}")
    result = opt(str(path), "-o", str(out))
    assert result.code == 1
    first, line, caret = result.err.splitlines()[:3]
    assert first == f"{path}:2:7: error: Operation nn.rellu is not registered" or re.match(
        rf"{re.escape(str(path))}:2:\d+: error: ", first
    )
    assert line == "\t%0 = nn.rellu %x"
    assert caret.startswith("\t") and caret.strip() == "^"
    assert not out.exists()


def test_missing_file() -> None:
    result = opt("no/such.mlir")
    assert result.code == 1
    assert result.err == "no/such.mlir: error: cannot open input file: No such file or directory\n"


def test_output_folder_is_missing(tmp_path: Path) -> None:
    result = opt("-o", str(tmp_path / "no" / "x.mlir"))
    assert result.code == 1
    assert "cannot write" in result.err


def test_pieces_keep_their_lines() -> None:
    text = "module {}\n// -----\n\nfoo\n// -----\nmodule {}\n"
    result = opt("--split-input-file", stdin=text)
    assert result.code == 1
    assert result.err.startswith("<stdin>:4:1: error: ")
    assert "\nfoo\n^\n" in result.err
    assert result.out.count("module {") == 2
    assert "// -----" in result.out


def test_pieces_do_not_share_aliases_or_weights() -> None:
    text = "!a = i8\nmodule {}\n// -----\n!a = i9\nmodule {}\n"
    assert opt("--split-input-file", stdin=text).code == 0


@pytest.mark.parametrize(
    ("text", "code", "complaint"),
    [
        ("// expected-error @+1 {{not registered}}\nfoo.bar\n", 0, ""),
        ("foo.bar // expected-error {{Operation foo.bar is not}}\n", 0, ""),
        ("foo.bar\n// expected-error @-1 {{not registered}}\n", 0, ""),
        ("foo.bar\n// c\n", 1, "<stdin>:1:1: error: unexpected error: Operation foo.bar"),
        ("// expected-error @below {{not}}\n// expected-note @below {{x}}\nfoo.bar\n", 1, "note"),
        ("// expected-error-re @+1 {{Operation {{[a-z.]+}} is}}\nfoo.bar\n", 0, ""),
        (
            "// expected-error @+1 {{other}}\nfoo.bar\n",
            1,
            'expected error "other" was not produced',
        ),
        ("// expected-remark @+1 {{x}}\nmodule {}\n", 1, "expected remark"),
        ("foo.bar\n// expected-error @above {{not registered}}\n", 0, ""),
        ("// expected-error @+1 {{not}}\n// expected-error @+0 {{x}}\n", 1, "was not produced"),
    ],
)
def test_expected_diagnostics(text: str, code: int, complaint: str) -> None:
    result = opt("--verify-diagnostics", stdin=text)
    assert result.code == code, result.err
    assert complaint in result.err


def test_several_functions_each_report_one_error() -> None:
    one = """func.func @NAME(%x: tensor<3xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{result #0 has shape 4}}
  %0 = nn.relu %x : (tensor<3xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
    text = one.replace("NAME", "a") + one.replace("NAME", "b")
    assert opt("--verify-diagnostics", stdin=text).code == 0


def test_remarks_as_diagnostics() -> None:
    lines = TEXT.splitlines()
    lines[4] += " // expected-remark {{sink-through-tied fired, exact}}"
    text = "\n".join(lines)
    flags = ("-p", "sink-rescale", "--verify-diagnostics")
    assert opt(*flags, "--remarks", stdin=text).code == 0
    assert opt(*flags, stdin=text).code == 1


def test_remarks_as_text_and_as_json(tmp_path: Path) -> None:
    result = opt("-p", "sink-rescale", "--remarks")
    assert "<stdin>:5:8: remark: 'nn.relu' sink-through-tied fired, exact" in result.err
    path = tmp_path / "r.json"
    assert opt("-p", "sink-rescale", f"--remarks={path}").err == ""
    remarks = json.loads(path.read_text())["remarks"]
    assert remarks[0]["rule"] == "sink-through-tied"
    assert remarks[0]["location"] == "<stdin>:5:8"


def test_dumps_timing_and_statistics_go_to_standard_error() -> None:
    plain = opt("-p", "sink-rescale,dce")
    result = opt(
        "-p",
        "sink-rescale,dce",
        "--mlir-print-ir-before-all",
        "--mlir-print-ir-after=dce",
        "--mlir-timing",
        "--mlir-pass-statistics",
    )
    assert result.out == plain.out
    titles = re.findall(r"IR Dump (.*) //----- //", result.err)
    assert titles == ["Before sink-rescale", "Before dce", "After dce"]
    assert "Execution time report" in result.err
    assert "'sink-rescale' Pass" in result.err
    assert re.search(r"\(S\) +1 sink-through-tied fired", result.err)


def test_dump_after_change() -> None:
    err = opt("-p", "cse,sink-rescale,dce", "--mlir-print-ir-after-change").err
    assert re.findall(r"IR Dump (.*) //", err) == ["After sink-rescale //-----"]


def test_a_crash_leaves_a_reproducer(plugin: str, tmp_path: Path) -> None:
    path, out = tmp_path / "again.mlir", tmp_path / "out.mlir"
    flags = (f"--load-plugin={plugin}", f"--mlir-pass-pipeline-crash-reproducer={path}")
    result = opt("-p", "dce,crash-now", "-o", str(out), *flags, "--mlir-print-ir-after-failure")
    assert result.code == 1
    assert "error: pass 'crash-now': plug-in code failed in " in result.err
    assert ": RuntimeError: boom" in result.err
    assert "Traceback" not in result.err
    assert f"note: reproducer written to {path}" in result.err
    assert "IR Dump After crash-now Failed" in result.err
    assert not out.exists()
    assert 'pipeline: "builtin.module(dce,crash-now)"' in path.read_text()
    again = opt("--run-reproducer", str(path), f"--load-plugin={plugin}", stdin="")
    assert again.code == 1
    assert "crash-now" in again.err


def test_a_module_without_pipeline_is_no_reproducer() -> None:
    result = opt("--run-reproducer")
    assert result.code == 1
    assert "not a reproducer" in result.err


def test_numerics_are_verified(plugin: str) -> None:
    good = opt("-p", "sink-rescale,combine-rescale,dce", "--verify-numerics=4")
    assert (good.code, good.err) == (0, "")
    flags = (f"--load-plugin={plugin}", "--verify-numerics=4", "-p", "change-numbers")
    bad = opt(*flags)
    assert bad.code == 1
    assert "pass 'change-numbers' changed the results of @main" in bad.err
    assert "its rewrites allow 0" in bad.err


def test_plug_ins_get_every_session(plugin: str) -> None:
    text = "module {}\n// -----\nmodule {}\n"
    assert opt(f"--load-plugin={plugin}", "--split-input-file", stdin=text).code == 0
    assert len(sys.modules[plugin].sessions) == 2  # type: ignore[attr-defined]
    assert "crash-now" in opt(f"--load-plugin={plugin}", "--list-passes").out


def test_unregistered_ops() -> None:
    text = '"other.op"() {x = 1 : i32} : () -> ()\n'
    assert opt(stdin=text).code == 1
    result = opt("--allow-unregistered-dialect", stdin=text)
    assert result.code == 0
    assert '"other.op"() {x = 1 : i32} : () -> ()' in result.out


def test_lists() -> None:
    listed = opt("--list-passes").out
    assert all(re.search(rf"^{name}  ", listed, re.MULTILINE) for name in PASSES)
    assert re.search(r"^onnxruntime +ONNX Runtime", opt("--list-targets").out, re.M)
    shown = opt("--show-target", "integer").out
    assert re.search(r"^nn.conv2d +\(i8, i8 per-axis, i32 per-axis\) -> i8$", shown, re.M)
    dialects = opt("--show-dialects").out.split()
    assert {"nn", "quant", "onnx", "func", "builtin"} <= set(dialects)
    assert opt("--version").out.startswith("qopt-opt (qdialect ")
    assert "--mlir-print-ir-after-all" in opt("--help").out


def test_weights_on_standard_output(tmp_path: Path) -> None:
    values = ", ".join(f"{i}.0" for i in range(100))
    text = (
        "func.func @f() -> tensor<100xf32> {\n"
        f"  %0 = nn.constant dense<[{values}]> : tensor<100xf32> : tensor<100xf32>\n"
        "  return %0 : tensor<100xf32>\n}\n"
    )
    assert "dense<[0.000000e+00," in opt(stdin=text).out


@pytest.mark.parametrize("command", ["qopt-opt", "qopt-translate", "qopt"])
@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_does_not_import_xdsl(command: str, flag: str) -> None:
    module = {"qopt-opt": "opt", "qopt-translate": "translate", "qopt": "qopt"}[command]
    code = (
        "import sys\n"
        f"from qdialect.cli.{module} import main\n"
        f"assert main(['{flag}']) == 0\n"
        "loaded = {'xdsl', 'numpy', 'onnx', 'argparse'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_a_closed_pipe_is_no_error() -> None:
    done = subprocess.run(
        f"{sys.executable} -m qdialect.cli.opt --help | head -1",
        shell=True,
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert done.stderr == ""


def test_stock_xdsl_opt_knows_our_dialects(tmp_path: Path) -> None:
    path = tmp_path / "x.mlir"
    path.write_text(TEXT)
    tool = Path(sys.executable).parent / "xdsl-opt"
    done = subprocess.run(
        [tool, path, "-p", "sink-rescale"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("nn.relu") < done.stdout.index("quant.rescale")
