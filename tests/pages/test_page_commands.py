"""Every command of the README and the docs is run, page by page, in order; or it says why not.

A page's commands run in a folder that has the files pages speak of: a float model, or the
same quantized, images, inputs; and the files that the page shows. What one command writes, the
next may read. Tutorials are run by a shell, with what they print: test_tutorials.py.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import pytest

import qdialect as qd
from qdialect.engines.installed import missing
from qdialect.engines.table import ENGINES
from tests.support import pages as run_page
from tests.support.commands import Main, call, qopt, qopt_opt, qopt_translate
from tests.support.decoder_model import decoder, write_steps
from tests.support.page_models import float_model, quantized_model
from tests.support.public_names import unlisted

ROOT = Path(__file__).parents[2]
MAINS: dict[str, Main] = {"qopt": qopt, "qopt-opt": qopt_opt, "qopt-translate": qopt_translate}

FLOAT_PAGES = ("calibrate.md", "quantize.md")
"""Pages whose `model.onnx` is a float model."""

NOT_RUN = (
    (r"pip install", "installs; tools.check_package does it"),
    (r"(\.venv/bin/)?python ", "a tool of this repository, or an example, with a test of its own"),
    (r"xdsl-opt ", "a tool of xDSL; test_xdsl_page.py runs the page in a shell"),
    (r"git ", "changes the work tree"),
    (r"tools/", "sets up an environment; CI is made of it"),
    (r"export ", "is for a tool of this repository"),
    (r"source ", "activates the environment, which is that of the tests"),
    (r"qopt engines install", "installs; CI does it"),
    (r"\.venv/bin/lit |pytest ", "runs tests; tests/test_lit.py runs the lit tests"),
    (r"pre-commit", "installs; tests/pages/test_pre_commit.py runs the hook where it is installed"),
    (r"qopt profile .*dask", "takes a cluster; tests/profile runs one in a process"),
)
"""What is not run, by how it begins, and why."""

EXIT_CODES = {1: ("qopt diff",)}
"""What may say that something differs."""


def pages() -> list[Path]:
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if commands(page) and page.parent.name != "tutorial"]


def commands(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.M | re.S)
    return [line[2:] for block in blocks for line in block.splitlines() if line[:2] == "$ "]


ARCHIVES = ROOT / "tests/formats/torch/archives"


def why_not_run(line: str) -> str:
    """Why a command is not run here, or nothing."""
    for begins, reason in NOT_RUN:
        if re.match(begins, line):
            return reason
    for engine in re.findall(r"--engine[= ](\S+)", line):
        if engine in ENGINES and missing(engine):
            return f"no engine {engine} here"
    return ""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    float_model(folder / "float.onnx")
    float_model(folder / "plain.onnx", softmax=False)
    quantized_model(folder / "plain.onnx", folder / "quantized.onnx")
    data, profile = folder / "calibration.npz", folder / "p.json"
    command = ("profile", folder / "float.onnx", "--data", data, "-o", profile)
    assert call(qopt, *map(str, command)).code == 0
    return folder


@pytest.fixture
def workplace(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], None]:
    """Lays out the files that a page speaks of, in the folder that is current from then on."""

    def lay(page: str) -> None:
        kind = "float" if page in FLOAT_PAGES else "quantized"
        shutil.copy(models / f"{kind}.onnx", tmp_path / "model.onnx")
        shutil.copy(models / "float.onnx", tmp_path / "float.onnx")
        (tmp_path / "models").mkdir()
        shutil.copy(models / "quantized.onnx", tmp_path / "models")
        shutil.copy(models / "quantized.onnx", tmp_path / "model.dynamic.onnx")
        quantized = qd.load(models / "quantized.onnx")
        for name in ("model", "small", "between", "model.dynamic"):
            qd.save(quantized, tmp_path / f"{name}.mlir")
        integers = qd.optimize(quantized, "tosa", "bounded")
        qd.save(qd.run_passes(integers, "fold-interface"), tmp_path / "net.mlir")
        qd.save(qd.optimize(quantized), tmp_path / "faster.onnx")
        shutil.copy(ARCHIVES / "static_int8.pt2", tmp_path / "model.pt2")
        shutil.copy(ROOT / "qdialect/plugins/onnx/prices.json", tmp_path / "prices.json")
        if page == "quantize.md":
            shutil.copy(models / "p.json", tmp_path)
            onnx.save(decoder(), tmp_path / "decoder.onnx")  # pyright: ignore[reportUnknownMemberType]
            write_steps(tmp_path / "steps")
        rng = np.random.default_rng(0)
        images = rng.standard_normal((8, 3, 8, 8)).astype("f4")
        for name in ("images", "part0", "part1"):
            np.savez(tmp_path / f"{name}.npz", allow_pickle=False, x=images)
        for name in ("x", "samples"):
            np.savez(tmp_path / f"{name}.npz", allow_pickle=False, x=images[:1])
        codes = rng.integers(-128, 128, (1, 1, 1, 3)).astype("i1")
        np.savez(tmp_path / "codes.npz", allow_pickle=False, arg0=codes)
        monkeypatch.chdir(tmp_path)

    return lay


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_commands_of_a_page_run(page: Path, workplace: Callable[[str], None]) -> None:
    wanted = [line for line in commands(page) if not why_not_run(line)]
    if not wanted:
        pytest.skip("; ".join(sorted({why_not_run(line) for line in commands(page)})))
    workplace(page.name)
    run_page.write_files(page.read_text(encoding="utf-8"), Path.cwd())
    for line in wanted:
        name, *arguments = shlex.split(line, comments=True)
        done = call(MAINS[name], *arguments)
        allowed = {0, *(code for code, of in EXIT_CODES.items() if line.startswith(of))}
        assert done.code in allowed, f"{line}\n{done.err}"
        assert "Traceback" not in done.err


def blocks(page: Path) -> list[str]:
    """The blocks of Python of a page."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@cache
def sources() -> str:
    """The files that pages may show pieces of; tests of their own run them."""
    found = [*(ROOT / "qdialect").rglob("*.py"), *(ROOT / "docs" / "examples").glob("*.py")]
    return "\n".join(path.read_text(encoding="utf-8") for path in found)


def programs() -> list[tuple[Path, str]]:
    """Each page with its blocks of Python in order, but for those that are pieces of a file."""
    found: list[tuple[Path, str]] = []
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        own = [block for block in blocks(page) if block not in sources()]
        if own and page.parent.name != "tutorial":
            found.append((page, "\n".join(own)))
    return found


@pytest.mark.parametrize(
    ("page", "program"), programs(), ids=lambda given: getattr(given, "name", "")
)
def test_programs_of_a_page_run(
    page: Path,
    program: str,
    workplace: Callable[[str], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "import torch" in program:
        pytest.importorskip("torch", reason="the page is about modules of PyTorch")
    workplace(page.name)
    exec(compile(program, str(page), "exec"), {})
    assert unlisted(program) == []


def test_pages_have_programs() -> None:
    pages = {page.name for page, _ in programs()}
    expected = {"README.md", "quantize.md", "calibrate.md", "work-on-ir.md"}
    assert expected <= pages and "embed.md" not in pages


def test_most_of_the_vendors_page_is_in_the_template() -> None:
    page = ROOT / "docs" / "howto" / "add-an-op-or-a-target.md"
    assert sum(block in sources() for block in blocks(page)) >= 7
