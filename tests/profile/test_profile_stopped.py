"""`qopt profile` that is interrupted, ended, killed, or runs twice at once, as processes."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from profile_models import images, saved

from qdialect.cli.qopt import main
from qdialect.ir.weights import replacing, stamp
from qdialect.plugins.onnx.write import external_data as beside
from qdialect.quantizer.profile.file import load_profile

SAMPLES = 150
COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
DONE = re.compile(r"profiling \S+ +(\d+)/150")
PROFILE = ["profile", "net.mlir", "--data=data.npz", "-q", "-o"]


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", x=np.concatenate([images()] * (SAMPLES // 6)))
    return saved(tmp_path)


def started(output: str, stderr: int | None = None) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "qdialect", *PROFILE, output]
    return subprocess.Popen(command, stderr=stderr)


def stopped(output: str, number: signal.Signals) -> tuple[int, str]:
    """The exit code and what was on the terminal, of a run that got a signal once it had
    finished some samples."""
    ours, theirs = pty.openpty()
    process = started(output, stderr=theirs)
    os.close(theirs)
    shown = ""
    while not any(done > 4 for done in counts(shown)):
        more = read(ours)
        assert more, f"it ended by itself: {shown}"
        shown += more
    process.send_signal(number)
    code = process.wait()
    while more := read(ours):
        shown += more
    os.close(ours)
    return code, shown


def read(terminal: int) -> str:
    try:
        return os.read(terminal, 1 << 16).decode(errors="replace")
    except OSError:
        return ""  # the other end is closed


def counts(shown: str) -> list[int]:
    """How many samples were done, whenever that was drawn."""
    return [int(done) for done in DONE.findall(COLOURS.sub("", shown))]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_and_resumed(net: Path, number: signal.Signals, code: int) -> None:
    found, shown = stopped("p.json", number)
    assert found == code, shown
    kept = load_profile(Path("p.json.partial"))
    assert re.search(rf"interrupted after {kept.sample_count} of 150 samples", shown)
    assert set(os.listdir()) == {"data.npz", "net.mlir", "net.safetensors", "p.json.partial"}
    assert counts(shown) == sorted(counts(shown)), shown
    assert main([*PROFILE, "p.json", "--resume"]) == 0
    assert main([*PROFILE, "whole.json"]) == 0
    assert Path("p.json").read_text() == Path("whole.json").read_text()


def test_killed_leaves_no_half_written_profile(net: Path) -> None:
    code, _ = stopped("p.json", signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert not Path("p.json").exists()
    assert main([*PROFILE, "p.json", "--resume", "--samples=:4"]) == 0
    assert load_profile(Path("p.json")).samples == ((0, 4),)


def test_two_at_once(net: Path) -> None:
    both = [started("p.json"), started("p.json"), started("q.json")]
    assert [process.wait() for process in both] == [0, 0, 0]
    assert Path("p.json").read_bytes() == Path("q.json").read_bytes()
    assert not [name for name in os.listdir() if name.endswith((".tmp", ".partial"))]


def test_where_nothing_can_be_written(
    net: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    assert main([*PROFILE, "p.json"]) == 1
    assert "p.json: error: cannot write here" in capsys.readouterr().err


CHILD = """
import os, signal, sys
from pathlib import Path
from onnx import ModelProto
from qdialect.plugins.onnx.write import external_data as beside
from qdialect.ir.weights import replacing
beside.LARGE = 0
with replacing(Path("file")) as temporary, beside.loadable(ModelProto()) as folder:
    temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_kill_leaves_goes_at_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from onnx import ModelProto

    monkeypatch.chdir(tmp_path)
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", CHILD], env=environment, check=False)
    left = os.listdir()
    assert len(left) == 2
    (folder,) = (name for name in left if name.startswith("qdialect-model-"))
    (file,) = (name for name in left if name.endswith(".tmp"))
    others = [f"qdialect-model-{stamp()}", "qdialect-model-1", f".{file[1:10]}x.tmp", ".y.tmp"]
    for name in others:
        Path(name).mkdir()
    with replacing(Path("another")) as temporary:
        temporary.write_text("whole")
    assert {folder, file} < set(os.listdir())
    with replacing(Path("file")) as temporary:
        temporary.write_text("whole")
    monkeypatch.setattr(beside, "LARGE", 0)
    monkeypatch.setattr(beside, "gettempdir", lambda: str(tmp_path))
    with beside.loadable(ModelProto()) as path:
        assert Path(str(path)).is_file()
    assert sorted(os.listdir()) == sorted(["another", "file", *others])
