"""`qopt profile`, `qopt profile merge` and `qopt profile show`."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from profile_models import images

from qdialect.cli import terminal
from qdialect.cli.qopt import main
from qdialect.quantizer.profile.collector import Collector
from qdialect.quantizer.profile.file import load_profile
from qdialect.workflows import calibrate


def test_profile_merge_show(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "net.mlir", "--data", "data.npz", "--engine", "onnxruntime"]) == 0
    assert "6 samples" in capsys.readouterr().err
    whole = Path("net.profile.json").read_bytes()
    flags = ["profile", "net.mlir", "--data=data.npz", "--engine=onnxruntime", "-q"]
    assert main([*flags, "--samples=:2", "-o", "a.json"]) == 0
    np.savez("rest.npz", x=images()[2:])
    flags[2] = "--data=rest.npz"
    assert main([*flags, "--first=2", "-o", "b.json"]) == 0
    assert main(["profile", "merge", "b.json", "a.json", "-o", "m.json"]) == 0
    assert Path("m.json").read_bytes() == whole
    assert capsys.readouterr() == ("", "")
    assert main(["profile", "show", "m.json", "--key=fc/matmul", "--key=fc"]) == 0
    shown = capsys.readouterr().out
    assert "fc/matmul" in shown
    assert "conv" not in shown
    assert main(["profile", "show", "m.json", "--method=entropy", "--json"]) == 0
    values = {row["key"]: row for row in json.loads(capsys.readouterr().out)["values"]}
    assert values["conv"]["low"] <= 0 <= values["conv"]["high"]


def test_show_says_what_is_derived(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "net.mlir", "--data", "data.npz", "-q", "-o", "p.json"]) == 0
    derived = load_profile(Path("p.json")).derived
    assert derived
    assert main(["profile", "show", "p.json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    shown = {line.split()[0]: line for line in lines if "  of " in line}
    assert set(shown) == set(derived)
    for key, rule in derived.items():
        assert f"of {' and '.join(rule.of)}" in shown[key]
        assert ("clamped to [0, " in shown[key]) == (rule.low == 0)
    assert main(["profile", "show", "p.json", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["values"]
    assert {row["key"] for row in rows if row["derived"]} == set(derived)


def test_dask_gives_the_same_bytes(net: Path) -> None:
    pytest.importorskip("distributed", reason="dask.distributed is not installed")
    assert main(["profile", "net.mlir", "--data", "data.npz", "-q", "-o", "one.json"]) == 0
    flags = ["profile", "net.mlir", "--data", "data.npz", "-q", "--engine=dask"]
    assert main([*flags, "--workers=2", "-o", "many.json"]) == 0
    assert Path("many.json").read_bytes() == Path("one.json").read_bytes()
    assert main([*flags, "--workers=nowhere:x", "-o", "bad.json"]) == 1
    assert main([*flags, "--workers=0", "-o", "bad.json"]) == 2
    array = images()
    array[3, 0, 0, 0] = np.nan
    np.savez("data.npz", x=array)
    assert main([*flags, "--workers=1", "-o", "bad.json"]) == 1
    assert not Path("bad.json").exists()


def test_dask_that_is_not_there(
    net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert main(["profile", "net.mlir", "--data=data.npz", "--engine=dask"]) == 2
    assert "pip install 'qdialect[dask]'" in capsys.readouterr().err


def test_interrupted_and_resumed(
    net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["profile", "net.mlir", "--data", "data.npz", "-q", "-o"]
    assert main([*flags, "whole.json"]) == 0
    add = Collector.add

    def stopped(self: Collector, index: int, observations: Any) -> None:
        if index == 4:
            raise KeyboardInterrupt
        add(self, index, observations)

    monkeypatch.setattr(Collector, "add", stopped)
    assert main([*flags, "p.json"]) == 130
    assert "interrupted after 4 of 6 samples" in capsys.readouterr().err
    assert not Path("p.json").exists()
    assert load_profile(Path("p.json.partial")).samples == ((0, 4),)
    monkeypatch.undo()
    monkeypatch.chdir(net.parent)
    assert main([*flags, "p.json", "--resume", "--channels=range"]) == 1
    assert "other settings" in capsys.readouterr().err
    assert main([*flags, "p.json", "--resume"]) == 0
    assert Path("p.json").read_bytes() == Path("whole.json").read_bytes()
    assert not Path("p.json.partial").exists()


def test_saved_once_in_a_while(net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "SAVE_SECONDS", -1.0)
    np.savez("bad.npz", x=np.concatenate((images(3), np.full((1, 3, 6, 6), np.nan, np.float32))))
    assert main(["profile", "net.mlir", "--data=bad.npz", "-q", "-o", "p.json"]) == 1
    assert not Path("p.json").exists()
    assert load_profile(Path("p.json.partial")).samples == ((0, 3),)


WRONG: dict[str, tuple[list[str], int, str]] = {
    "no data": (["profile", "net.mlir"], 2, "--data DIR|NPZ is missing"),
    "engine": (["profile", "net.mlir", "--data=data.npz", "--engine=x"], 2, "--engine is one of"),
    "workers": (["profile", "net.mlir", "--data=data.npz", "--workers=2"], 2, "are for --engine"),
    "suffix": (["profile", "net.mlir", "--data=data.npz", "-o", "p.txt"], 2, "must end in .json"),
    "samples": (["profile", "net.mlir", "--data=data.npz", "--samples=9:"], 1, "the data has 6"),
    "samples text": (["profile", "net.mlir", "--data=data.npz", "--samples=x"], 2, "takes A:B"),
    "merge": (["profile", "merge", "p.json", "p.json", "-o", "m.json"], 1, "sample 0 is in both"),
    "merge output": (["profile", "merge", "p.json"], 2, "-o P.json is missing"),
    "merge model": (
        ["profile", "merge", "p.json", "q.json", "-o", "m.json"],
        1,
        "different models",
    ),
    "show key": (["profile", "show", "p.json", "--key=swich"], 1, "did you mean 'swish'"),
    "show percent": (["profile", "show", "p.json", "--percentile=0"], 2, "percentile must be in"),
    "show channels": (["profile", "show", "p.json", "--max-of-channel"], 1, "has no channels"),
    "show file": (["profile", "show", "data.npz"], 1, "not text in UTF-8"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_said(name: str, net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "net.mlir", "--data=data.npz", "-q", "-o", "p.json"]) == 0
    text = Path("p.json").read_text()
    digest = json.loads(text)["model"]["digest"]
    Path("q.json").write_text(text.replace(digest, "sha256:0").replace("[[0, 6]]", "[[10, 16]]"))
    argv, code, words = WRONG[name]
    capsys.readouterr()
    if name == "merge model":
        Path("q.json").write_text(text.replace(digest, "sha256:0"))
    assert main(argv) == code
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error
    assert not Path("m.json").exists()


def test_infinities_and_nan_inside_are_told(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    array = images()
    array[2] = 3e38
    np.savez("data.npz", x=array)
    assert main(["profile", "net.mlir", "--data=data.npz"]) == 0
    told = capsys.readouterr().err
    assert "warning: infinity in" in told
    assert "warning: NaN in" in told


def test_degenerate_values_are_told(net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("data.npz", x=np.zeros((1, 3, 6, 6), np.float32))
    assert main(["profile", "net.mlir", "--data=data.npz"]) == 0
    told = capsys.readouterr().err
    assert "warning: nothing but zeros in 'input:x', 'conv/conv'" in told


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    assert list(terminal.progress(range(3), 3, "profiling")) == [0, 1, 2]
    shown = sys.stderr.getvalue()
    assert "profiling" in shown
    assert "3/3" in shown and "0:00:00" in shown
    assert shown.endswith("\033[2K")


def test_times_for_people() -> None:
    shown = [terminal.duration(s) for s in (0.4, 59, 60, 185, 3599, 3723)]
    assert shown == ["0 s", "59 s", "1:00", "3:05", "59:59", "1:02:03"]


# -- bad input, through the command line ---------------------------------------------------


def edit(change: Any) -> Any:
    """Rewrites p.json, with its data changed in place."""

    def done() -> None:
        data = json.loads(Path("p.json").read_text())
        change(data)
        Path("p.json").write_text(json.dumps(data))

    return done


def tensor(data: Any, key: str = "conv") -> Any:
    return data["entries"][key]["tensor"]


def cut() -> None:
    text = Path("p.json").read_text()
    Path("p.json").write_text(text[: len(text) // 2])


def older(data: Any) -> None:
    data["version"] = 1


EDITED: dict[str, tuple[Any, str]] = {
    "older schema": (edit(older), "the schema is 1, which is older (this reads 4)"),
    "unknown field": (edit(lambda d: d["entries"]["conv"].update(mean=1)), "'conv': 'mean' is not"),
    "wrong number": (edit(lambda d: tensor(d).update(count=3)), "'conv': tensor: the bins"),
    "negative count": (edit(lambda d: tensor(d).update(nan=-1)), "'conv': nan: -1 is not a count"),
    "NaN": (edit(lambda d: tensor(d).update(min=float("nan"))), "NaN is not a number"),
    "text": (edit(lambda d: tensor(d).update(max="big")), "'conv': min, max: \"big\""),
    "no source": (edit(lambda d: d["entries"].pop("sigmoid")), "'flat': of: there is no entry"),
    "truncated": (cut, "not a whole JSON file"),
    "empty": (lambda: Path("p.json").write_text(""), "not a whole JSON file"),
    "a folder": (lambda: (Path("p.json").unlink(), Path("p.json").mkdir()), "cannot read"),
}


@pytest.mark.parametrize("name", EDITED)
def test_profiles_nobody_wrote(name: str, net: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["profile", "net.mlir", "--data=data.npz", "-q", "-o", "p.json", "--samples=:1"]
    assert main(flags) == 0
    break_it, words = EDITED[name]
    break_it()
    for argv in (
        ["profile", "show", "p.json"],
        ["profile", "merge", "p.json", "p.json", "-o", "m.json"],
        ["quantize", "net.mlir", "--profile=p.json", "-o", "out.onnx"],
    ):
        assert main(argv) == 1, argv
        told = capsys.readouterr().err
        assert words in told, argv
        assert told.startswith("p.json"), argv
    assert not Path("m.json").exists()
    assert not Path("out.onnx").exists()


BAD_DATA: dict[str, tuple[dict[str, Any], str]] = {
    "shape": ({"x": np.zeros((2, 3, 6, 7), np.float32)}, "input 'x' has shape [2, 3, 6, 7]"),
    "type": ({"x": np.zeros((2, 3, 6, 6))}, "input 'x' has dtype float64"),
    "missing": ({"y": np.zeros((2, 3, 6, 6), np.float32)}, "missing: x"),
    "empty": ({"x": np.zeros((0, 3, 6, 6), np.float32)}, "there are no samples"),
    "NaN": ({"x": np.full((1, 3, 6, 6), np.nan, np.float32)}, "input 'x' has NaN in sample 0"),
}


@pytest.mark.parametrize("name", BAD_DATA)
@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_data_that_does_not_fit(
    name: str, engine: str, net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays, words = BAD_DATA[name]
    np.savez("bad.npz", **arrays)
    flags = ["profile", "net.mlir", "--data=bad.npz", "-q", f"--engine={engine}", "-o", "p.json"]
    assert main(flags) == 1
    told = capsys.readouterr().err
    assert words in told
    assert told.startswith("bad.npz")
    assert {path.name for path in Path().iterdir()} & {"p.json", "p.json.partial"} == set()


def test_a_full_disk(
    net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An error, and neither half a profile nor the remains of one; an old one stays."""
    import errno

    def full(self: Path, text: str, **more: Any) -> int:
        self.write_bytes(text.encode()[:100])
        raise OSError(errno.ENOSPC, "No space left on device")

    Path("p.json").write_text("before")
    before = {path.name for path in Path().iterdir()}
    monkeypatch.setattr(Path, "write_text", full)
    flags = ["profile", "net.mlir", "--data=data.npz", "-q", "--samples=:1", "-o"]
    assert main([*flags, "p.json"]) == 1
    assert "p.json: error: cannot write: No space left" in capsys.readouterr().err
    assert Path("p.json").read_text() == "before"
    assert {path.name for path in Path().iterdir()} == before
    monkeypatch.undo()


def test_nowhere_to_write_is_said_before_the_work(
    net: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ["profile", "net.mlir", "--data=none.npz", "-o"]
    assert main([*flags, "no/such/p.json"]) == 1
    assert "no/such" in capsys.readouterr().err
