"""`qopt new-target`: what it writes, and what it refuses; tests/targets runs the package."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qdialect.cli.command_new_target import TEMPLATE
from tests.support.commands import call, qopt


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def files(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def test_a_package_of_the_name(empty: Path) -> None:
    done = call(qopt, "new-target", "edge_npu")
    assert done.code == 0 and done.err == ""
    written = files(empty / "edge_npu")
    assert "edge_npu/target.py" in written and "tests/test_edge_npu.py" in written
    assert [line for line in done.out.splitlines() if line.startswith("edge_npu/")] == [
        f"edge_npu/{file}" for file in written
    ]
    assert [path.name for path in empty.iterdir()] == ["edge_npu"]
    texts = {file: (empty / "edge_npu" / file).read_text("utf-8") for file in written}
    assert not [file for file, text in texts.items() if "acme" in text.lower()]
    assert "class EdgeNpuFuse(RulePass)" in texts["edge_npu/passes.py"]
    assert 'edge_npu = "edge_npu.target:TARGET"' in texts["pyproject.toml"]


def test_the_template_is_the_package_of_its_own_name(empty: Path) -> None:
    assert call(qopt, "new-target", "acme", "-o", "here").code == 0
    for file in files(empty / "here"):
        assert (empty / "here" / file).read_bytes() == (TEMPLATE / file).read_bytes(), file


def test_json(empty: Path) -> None:
    found = json.loads(call(qopt, "new-target", "npu", "--json").out)
    assert found["folder"] == "npu" and sorted(found["files"]) == files(empty / "npu")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("my-npu", "small letters, digits and _"),
        ("9lives", "begins with a letter"),
        ("Npu", "small letters"),
        ("../up", "small letters"),
        ("class", "no keyword"),
        ("a" * 17, "up to 16 letters"),
        ("numpy", "a module of Python"),
        ("tests", "a module of Python"),
        ("quant", "a dialect"),
        ("arith", "a dialect"),
        ("integer", "a target"),
    ],
)
def test_names_that_cannot_be(name: str, why: str, empty: Path) -> None:
    done = call(qopt, "new-target", name)
    assert done.code == 2 and done.out == ""
    assert done.err.startswith(f"error: '{name}' cannot be the name of a target: ")
    assert why in done.err and len(done.err.splitlines()) == 1
    assert files(empty) == []


def test_what_exists_is_left_as_it_is(empty: Path) -> None:
    (empty / "npu").mkdir()
    (empty / "npu" / "mine").write_text("x")
    done = call(qopt, "new-target", "npu")
    assert (done.code, done.err) == (1, "npu: error: exists already\n")
    assert files(empty) == ["npu/mine"]


def test_a_folder_that_cannot_be_written(empty: Path) -> None:
    done = call(qopt, "new-target", "npu", "-o", "no/npu")
    assert (done.code, done.err) == (1, "no: error: no such folder\n")


def test_nothing_is_left_of_a_write_that_failed(
    empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, written = Path.write_text, list[str]()

    def full(self: Path, text: str, encoding: str | None = None) -> int:
        if len(written) == 3:
            raise OSError(28, "No space left on device")
        written.append(self.name)
        return write(self, text, encoding=encoding)

    monkeypatch.setattr(Path, "write_text", full)
    done = call(qopt, "new-target", "npu")
    assert (done.code, done.err) == (1, "npu: error: cannot write here: No space left on device\n")
    assert len(written) == 3 and [*empty.iterdir()] == []
