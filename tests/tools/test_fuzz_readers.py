"""What reads files takes damaged ones without harm; and the fuzzer sees harm where it is done."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest

from qdialect.errors import InputError
from tests.support.readers import READERS, Reader
from tools.fuzz import readers as fuzz_readers
from tools.fuzz.arc_coverage import Arcs
from tools.fuzz.readers import Runner, fuzz, minimized

EXECUTIONS = {
    "arrays": 300,
    "bytecode": 200,
    "mlir": 90,
    "onnx": 200,
    "profile": 200,
    "tflite": 300,
    "torch": 100,
    "weights": 500,
}


@pytest.mark.parametrize("name", READERS)
def test_readers_refuse_what_is_damaged(name: str, tmp_path: Path) -> None:
    count = EXECUTIONS[name]
    result = fuzz(name, seed=5, executions=count, seeds=count // 3, keep=tmp_path / "findings")
    assert result.findings == {}
    assert result.executions == count
    assert 0 < result.read < result.executions
    assert result.edges > (40 if name == "arrays" else 150)  # it is one small file
    assert result.peak < 64 << 20


def reader(read: object) -> Reader:
    """One that finds fault with inputs in its own way."""

    def change(data: bytes) -> bytes:
        return data + b"x"

    def seeds() -> list[bytes]:
        return [b"seed"]

    return Reader(".bad", ("weights/",), seeds, read, lambda draw, seeds: change)  # pyright: ignore


def crashes(path: Path) -> None:
    if b"xxx" in path.read_bytes():
        raise IndexError("out of range")


def dies(path: Path) -> None:
    if b"xxx" in path.read_bytes():
        os.kill(os.getpid(), signal.SIGUSR1)


def hangs(path: Path) -> None:
    while b"xxx" in path.read_bytes():
        time.sleep(0.01)


def eats(path: Path) -> None:
    np.zeros(len(path.read_bytes()) << 22 if b"xxx" in path.read_bytes() else 1)


@pytest.mark.parametrize(
    ("read", "kind"), [(crashes, "IndexError"), (dies, "SIGUSR1"), (hangs, "hang"), (eats, "mem")]
)
def test_harm_is_found_and_kept(
    read: object, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fuzz_readers.READERS, "bad", reader(read))
    monkeypatch.setattr(fuzz_readers, "SECONDS", 0.2)
    monkeypatch.setattr(fuzz_readers.Loop, "one", always_keep(fuzz_readers.Loop.one))
    result = fuzz("bad", executions=8, keep=tmp_path)
    assert [name for name in result.findings if name.startswith(kind)], result.findings
    kept = sorted(tmp_path.glob("*.bad"))
    assert any(b"xxx" in path.read_bytes() for path in kept)
    assert fuzz_readers.main(["--reader", "bad", "--executions", "8"]) == 1


def always_keep(one: object) -> object:
    def wrapped(loop: fuzz_readers.Loop, data: bytes, seed: bool = False) -> None:
        one(loop, data, True)  # pyright: ignore
        loop._kept[:] = loop._kept[-1:]

    return wrapped


def test_inputs_that_lead_further_are_kept(tmp_path: Path) -> None:
    result = fuzz("weights", seed=1, executions=400, corpus=tmp_path / "corpus")
    stored = list((tmp_path / "corpus").iterdir())
    seeds = len(READERS["weights"].seeds())
    assert 0 < len(stored) == result.corpus - seeds
    again = fuzz("weights", seed=2, executions=seeds + len(stored), corpus=tmp_path / "corpus")
    assert again.edges == result.edges


def test_the_same_seed_does_the_same(tmp_path: Path) -> None:
    one, two = (fuzz("profile", seed=3, executions=60) for _ in range(2))
    assert (one.edges, one.read, one.corpus) == (two.edges, two.read, two.corpus)


def test_arcs_are_of_the_watched_code_only(tmp_path: Path) -> None:
    from qdialect.ir.weights import files

    arcs = Arcs([files.__file__])
    with arcs.watched():
        files.stamp()
        Path("x").with_suffix(".y")
    assert arcs.new == len(arcs.seen) > 0
    with arcs.watched():
        files.stamp()
    assert arcs.new == 0
    with pytest.raises(KeyError), arcs.watched(), files.replacing(tmp_path / "a" / "b"):
        raise KeyError
    assert arcs.new > 0


def test_errors_and_their_kinds(tmp_path: Path) -> None:
    def refuses(path: Path) -> None:
        raise InputError("no")

    def says_nothing(path: Path) -> None:
        raise InputError("")

    assert Runner(reader(refuses), tmp_path)(b"") == "refused"
    assert Runner(reader(says_nothing), tmp_path)(b"") == "an error without words"
    assert Runner(reader(lambda path: None), tmp_path)(b"") == ""


def test_findings_are_made_smaller() -> None:
    data = bytes(range(97, 123)) * 20 + b"{!}" + b"0" * 500
    assert minimized(data, lambda d: b"{" in d and b"!" in d) == b"{!"


def test_one_input_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.mlir"
    path.write_text("module {")
    assert fuzz_readers.main(["--reader", "mlir", "--try", str(path)]) == 0
    assert "refused, peak" in capsys.readouterr().out
