"""The tools measure what they say, and their graphs are sound."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from qdialect.ir.context import new_context
from qdialect.ir.verify.verifier import verify_module
from qdialect.plugins.mlir.write import module_text
from tests.generators.sized import FORMS, GRAPHS
from tests.support.tables import table
from tools.bench import __main__ as bench
from tools.bench import placement as bench_placement
from tools.command import run
from tools.docs import __main__ as docs
from tools.fuzz import __main__ as fuzz

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / "tools"
PROGRAMS = {"tools.bench": bench, "tools.fuzz": fuzz, "tools.docs": docs}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_generated_graph_is_valid_and_reproducible(graph: str, form: str) -> None:
    module = GRAPHS[graph](100, form)
    verify_module(module)
    assert sum(1 for _ in module.walk()) >= 100
    texts = [module_text(each, new_context()) for each in (module, GRAPHS[graph](100, form))]
    assert texts[0] == texts[1]


def test_generated_graph_of_unknown_form() -> None:
    with pytest.raises(ValueError, match="qdq, quantized"):
        GRAPHS["chain"](10, "float")


def test_placement_is_never_costlier_than_greedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "placement.json"
    options = ["--sizes", "20", "--numerics", "exact", "saturation", "--json", str(figures)]
    assert bench_placement.main(options) == 0
    said = json.loads(figures.read_text())
    cases = 2 * len(FORMS) * len(GRAPHS)
    assert len(said["results"]) == cases and said["worse"] == []
    for result in said["results"]:
        before, greedy, placed = (
            result[key]["cast"] + result[key]["rescaled"] for key in ("before", "greedy", "placed")
        )
        assert result["bound"] <= placed <= min(greedy, before)
        assert result["exact"] == result["components"] == sum(result["methods"].values())
    assert f"more than greedy in 0 of {cases} cases" in capsys.readouterr().out


def test_placement_that_is_costlier_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = bench_placement.Count(0, 0, 0), 0.0
    monkeypatch.setattr(bench_placement, "greedy", lambda case: nothing)
    options = ["--graphs", "residual", "--forms", "quantized", "--sizes", "60"]
    assert bench_placement.main(options) == 1
    assert "more than greedy in 2 of 4 cases" in capsys.readouterr().out


def test_table_is_markdown() -> None:
    assert table(("a", "b"), [("long", "10")]) == ("| a    |  b |\n| ---- | -: |\n| long | 10 |")


def run_setup(**environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", str(TOOLS / "setup.sh")],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_setup_says_that_python_is_missing(tmp_path: Path) -> None:
    done = run_setup(QDIALECT_VENV=str(tmp_path / "env"), QDIALECT_PYTHON="no-such-python")
    assert done.returncode == 1
    assert "no Python 3.10 or newer found" in done.stderr


def test_setup_leaves_other_folders_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("mine")
    done = run_setup(QDIALECT_VENV=str(tmp_path))
    assert done.returncode == 1
    assert "is not a Python environment" in done.stderr
    assert (tmp_path / "precious.txt").read_text() == "mine"


class TestMeasurements:
    """`measure` needs onnx and ONNX Runtime, `text_images` needs Pillow."""

    @pytest.fixture(autouse=True)
    def _needs(self) -> None:
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")

    def test_counts(self) -> None:
        from onnx import parser

        from tools.bench.measure import OpCounts, count_ops, output_steps

        model = parser.parse_model("""
            <ir_version: 8, opset_import: ["" : 13, "com.microsoft" : 1]>
            main (float[1,4] x) => (float[1,4] y)
            <float s = {0.5}, uint8 z = {3}, float s2 = {0.25}> {
              a = QuantizeLinear(x, s, z)
              b = Relu(x)
              c = DequantizeLinear(a, s, z)
              d = QuantizeLinear(c, s2, z)
              e = com.microsoft.QLinearAdd(a, s, z, d, s2, z, s2, z)
              f = Reshape(e, shape)
              y = DequantizeLinear(f, s2, z)
              shape = Constant <value_ints: ints = [1, 4]> ()
            }
        """)
        assert count_ops(model) == OpCounts(
            nodes=7, quantizes=2, dequantizes=2, rescales=1, float_ops=1
        )
        assert output_steps(model) == [0.25]

    def test_agreement_is_in_steps(self) -> None:
        from tools.bench.measure import agreement, sqnr

        reference = [np.array([0.0, 0.5, 1.0, 1.5])]
        found = agreement(reference, [np.array([0.0, 1.0, 1.0, 0.5])], [0.5])
        assert (found.elements, found.differing, found.max_steps) == (4, 2, 2.0)
        assert str(agreement(reference, reference, [0.5])) == "none"
        assert sqnr([np.array([3.0, 1.0])], [np.array([3.0, 0.0])]) == pytest.approx(10.0)

    def test_text_images_follow_from_the_seed(self) -> None:
        pytest.importorskip("PIL")
        from tools.bench.text_images import classifier_input, text_lines

        first, second = text_lines(3, seed=7), text_lines(3, seed=7)
        for line, same in zip(first, second, strict=True):
            assert line.rotated == same.rotated
            assert np.array_equal(line.pixels, same.pixels)
            tensor = classifier_input(line)
            assert tensor.shape == (1, 3, 48, 192)
            assert tensor.dtype == np.float32
            assert np.abs(tensor).max() <= 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_names_its_commands(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = PROGRAMS[name].COMMANDS
    assert run(name, "What it does.", commands, ["--help"]) == 0
    said = capsys.readouterr().out
    assert all(f"  {command} " in said for command in commands)
    assert run(name, "What it does.", commands, ["nothing"]) == 2
    assert f"usage: python -m {name} COMMAND" in capsys.readouterr().err
    for command in commands.values():
        path = ROOT / Path(*command.module.split(".")).with_suffix(".py")
        known = [path, *(ROOT / "tests").glob(f"*/{command.module}.py")]
        (path,) = (path for path in known if path.is_file())
        assert "\ndef main(" in path.read_text(encoding="utf-8"), command


def test_commands_on_pages_are_there() -> None:
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        for program, command in re.findall(r"python -m (tools(?:\.\w+)+)(?: +([a-z-]+))?", text):
            if program in PROGRAMS:
                assert command in PROGRAMS[program].COMMANDS, (page.name, program, command)
            else:
                place = ROOT / Path(*program.split("."))
                programs = (place.with_suffix(".py"), place / "__main__.py")
                assert any(path.is_file() for path in programs), page.name
        for path in re.findall(r"\btools/[\w/]+\.(?:py|sh|json)\b", text):
            assert (ROOT / path).is_file(), (page.name, path)


def test_only_tests_of_the_tools_import_them() -> None:
    """What other tests need is in `tests/support` or `tests/generators`."""
    imports = re.compile(r"^\s*(?:from|import) tools\b", re.M)
    found = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests").rglob("*.py")
        if imports.search(path.read_text(encoding="utf-8")) and path.parent.name != "tools"
    ]
    assert found == []
