"""`qopt engines`, models in engines, and what is said when an engine is missing or fails."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pytest

import qdialect as qd
from qdialect.engines.installed import how_to_install, missing
from qdialect.engines.table import ENGINES, PACKAGES
from qdialect.plugins.common import tools
from tests.support.commands import call, qopt, qopt_translate

PROGRAMS = [name for name, entry in ENGINES.items() if entry.environment]

WEIGHT = "[[[[64]], [[-32]]], [[[127]], [[64]]], [[[-128]], [[96]]]]"
FLOATS = f"""
!x = tensor<1x2x4x4xf32>
!w = tensor<3x2x1x1xf32>
!y = tensor<1x3x4x4xf32>
func.func @main(%x: !x {{nn.name = "x"}}) -> !y {{
  %i = nn.constant dense<{WEIGHT}> : tensor<3x2x1x1xi8> : tensor<3x2x1x1x!quant.uniform<i8:f32, 0.0078125>>
  %w = quant.dcast %i : tensor<3x2x1x1x!quant.uniform<i8:f32, 0.0078125>> to !w
  %c = nn.conv2d %x, %w {{nn.key = "conv"}} : (!x, !w) -> !y
  %r = nn.tanh %c {{nn.key = "tanh"}} : (!y) -> !y
  func.return %r : !y
}}
"""  # noqa: E501
CODES = f"""
!f = tensor<1x2x4x4xf32>
!y = tensor<1x3x4x4xf32>
!x = tensor<1x2x4x4x!quant.uniform<i8:f32, 0.03125:3>>
!w = tensor<3x2x1x1x!quant.uniform<i8:f32, 0.0078125>>
!c = tensor<1x3x4x4x!quant.uniform<i8:f32, 0.0625:-5>>
!t = tensor<1x3x4x4x!quant.uniform<i8:f32, 0.0078125>>
func.func @main(%x: !f {{nn.name = "x"}}) -> !y {{
  %q = quant.qcast %x : !f to !x
  %w = nn.constant dense<{WEIGHT}> : tensor<3x2x1x1xi8> : !w
  %c = nn.conv2d %q, %w {{nn.key = "conv"}} : (!x, !w) -> !c
  %r = nn.tanh %c {{nn.key = "tanh"}} : (!c) -> !t
  %d = quant.dcast %r : !t to !y
  func.return %d : !y
}}
"""


@pytest.fixture
def models(tmp_path: Path) -> tuple[str, str, str]:
    """A float model, the same on codes, and inputs."""
    (tmp_path / "f.mlir").write_text(FLOATS)
    (tmp_path / "q.mlir").write_text(CODES)
    x = np.random.default_rng(0).uniform(-3, 3, (1, 2, 4, 4)).astype(np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    return str(tmp_path / "f.mlir"), str(tmp_path / "q.mlir"), str(tmp_path / "x.npz")


def needs(engine: str) -> None:
    if missing(engine):
        pytest.skip(f"{engine} is not installed: {how_to_install(engine)}")


@pytest.fixture
def broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An iree-compile of which every test says what it does, and where temporary files go."""
    script = tmp_path / "iree-compile"
    monkeypatch.setenv("QDIALECT_IREE_COMPILE", str(script))
    monkeypatch.setenv("QDIALECT_IREE_RUN_MODULE", str(script))
    monkeypatch.delenv("QDIALECT_ENGINE_FILES", raising=False)
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return script


def behave(script: Path, body: str) -> None:
    script.write_text(f"#!{sys.executable}\n{body}")
    script.chmod(0o755)


def run(models: tuple[str, str, str], tmp_path: Path, *engines: str) -> tuple[int, str]:
    chosen = [f"--engine={engine}" for engine in engines]
    result = call(qopt, "run", models[1], "-i", models[2], "-o", str(tmp_path / "y.npz"), *chosen)
    assert result.out == ""
    return result.code, result.err


def test_all_engines_are_listed() -> None:
    result = call(qopt, "engines")
    assert result.code == 0
    rows = result.out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == list(ENGINES)
    assert all("ready" in row or "install" in row for row in rows)


@pytest.mark.parametrize("engine", PROGRAMS)
def test_a_missing_engine_says_how_to_get_it(
    models: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setattr(tools, "find", lambda *_: None)
    code, said = run(models, tmp_path, engine)
    assert code == 1 and f"error: engine {engine} needs " in said
    assert f"note: install it with: qopt engines install {ENGINES[engine].environment}" in said
    assert not (tmp_path / "y.npz").exists()


def test_a_failing_engine_keeps_what_it_said(
    models: tuple[str, str, str], tmp_path: Path, broken: Path
) -> None:
    lines = "; ".join(f"print('line {n}', file=sys.stderr)" for n in range(40))
    behave(broken, f"import sys; {lines}; sys.exit(3)")
    code, said = run(models, tmp_path, "iree")
    assert code == 1 and "error: engine iree failed (exit code 3)" in said
    assert f"command: {broken} m.mlir --iree-hal-target-device=local" in said
    assert "line 11" in said and "line 12\n" not in said
    (log,) = (tmp_path / "temporary").iterdir()  # and the folder it ran in is gone
    assert f"all it said: {log}" in said and "line 39" in log.read_text()
    assert not (tmp_path / "y.npz").exists()


def test_what_an_engine_was_given_can_be_kept(
    models: tuple[str, str, str], tmp_path: Path, broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    behave(broken, "import sys; sys.exit('no')")
    code, said = run(models, tmp_path, "iree")
    assert code == 1 and "QDIALECT_ENGINE_FILES=FOLDER keeps what it was given" in said
    assert not list((tmp_path / "temporary").iterdir())
    monkeypatch.setenv("QDIALECT_ENGINE_FILES", str(tmp_path / "kept"))
    assert run(models, tmp_path, "iree")[0] == 1
    (kept,) = (tmp_path / "kept").iterdir()
    assert "tosa.conv2d" in (kept / "m.mlir").read_text()


def test_an_engine_that_hangs_is_ended_with_all_it_started(
    models: tuple[str, str, str], tmp_path: Path, broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = tmp_path / "pid"
    behave(
        broken,
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(mark)!r}, 'w').write(str(child.pid))\ntime.sleep(600)\n",
    )
    monkeypatch.setenv("QDIALECT_ENGINE_TIMEOUT", "3")
    code, said = run(models, tmp_path, "iree")
    assert code == 1 and "error: engine iree did not finish in 3 s" in said
    assert "QDIALECT_ENGINE_TIMEOUT=SECONDS gives it more time" in said
    assert not list((tmp_path / "temporary").iterdir())
    # Ended, and perhaps not yet collected by whoever adopts orphans.
    state = Path(f"/proc/{mark.read_text()}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopping_us_stops_the_engine(
    models: tuple[str, str, str], tmp_path: Path, broken: Path, number: signal.Signals, code: int
) -> None:
    """With all that it started, also what does not listen; nothing temporary stays."""
    mark, deaf = tmp_path / "pid", "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    behave(
        broken,
        f"import os, subprocess, sys, time\n{deaf}\n"
        f"code = {deaf + '; import time; time.sleep(600)'!r}\n"
        "child = subprocess.Popen([sys.executable, '-c', code])\n"
        f"with open({str(mark) + '.new'!r}, 'w') as file:\n"
        "    file.write(f'{os.getpid()} {child.pid}')\n"
        f"os.rename({str(mark) + '.new'!r}, {str(mark)!r})\ntime.sleep(600)\n",
    )
    place = tmp_path / "temporary"
    words = ["run", models[1], "-i", models[2], "-o", str(tmp_path / "y.npz"), "--engine=iree"]
    process = subprocess.Popen(
        [sys.executable, "-m", "qdialect.cli.qopt", *words],
        env={**os.environ, "TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    began = time.monotonic()
    while not mark.exists():
        assert process.poll() is None and time.monotonic() - began < 60, process.communicate()
        time.sleep(0.05)
    assert list(place.iterdir())
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == code, err
    assert "Traceback" not in err and out == ""
    assert not list(place.iterdir()) and not (tmp_path / "y.npz").exists()
    for pid in mark.read_text().split():
        state = Path(f"/proc/{pid}/stat")
        assert not state.exists() or state.read_text().split()[2] == "Z"


def test_the_embedding_api_names_them_all(models: tuple[str, str, str]) -> None:
    model, inputs = qd.load(models[1]), dict(np.load(models[2]))
    (first,) = qd.run(model, inputs).values()
    for engine in ENGINES:
        if not missing(engine):
            (other,) = qd.run(model, inputs, engine).values()
            # Two of LiteRT's round halves otherwise, by a step of the convolution.
            halves = engine in ("litert-opt", "litert-ref")
            assert np.abs(other - first).max() <= (0.0625 if halves else 0.0078125)
            assert qd.diff(model, model, inputs, engine=engine)[0].share_differing == 0
    with pytest.raises(qd.UsageError, match="no engine 'ire'"):
        qd.run(model, inputs, "ire")


def test_bad_settings_and_names(
    models: tuple[str, str, str], tmp_path: Path, broken: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, said = run(models, tmp_path, "iree")  # there is no such file
    assert code == 1 and "error: engine iree cannot be started: No such file" in said
    behave(broken, "")
    monkeypatch.setenv("QDIALECT_ENGINE_TIMEOUT", "soon")
    code, said = run(models, tmp_path, "iree")
    assert code == 2 and "QDIALECT_ENGINE_TIMEOUT is a number of seconds, not 'soon'" in said
    code, said = run(models, tmp_path, "ire")
    assert code == 2 and "did you mean 'iree'?" in said
    result = call(qopt, "engines", "install", "numpy")
    assert result.code == 2 and "nothing to install for 'numpy' (iree, mlir, " in result.err
    result = call(qopt, "diff", models[1])
    assert result.code == 2 and "B is missing, or a second --engine" in result.err


def test_one_model_in_two_engines(models: tuple[str, str, str], tmp_path: Path) -> None:
    code, said = run(models, tmp_path, "numpy", "onnxruntime")
    assert code == 0 and "numpy and onnxruntime:\n" in said and "0.0000%" in said
    assert np.load(tmp_path / "y.npz")["result0"].shape == (1, 3, 4, 4)
    flags = ("--engine=numpy", "--engine=onnxruntime")
    result = call(qopt, "diff", models[1], "-i", models[2], *flags)
    assert result.code == 0, result.err


def test_where_engines_part_is_said_by_key(
    models: tuple[str, str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from qdialect.plugins.onnx.write import OrtEngine

    sound = OrtEngine.run

    def off_by_one(self: OrtEngine, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        wrong = {name: array.copy() for name, array in sound(self, inputs).items()}
        next(reversed(wrong.values())).flat[0] += 0.0078125
        return wrong

    monkeypatch.setattr(OrtEngine, "run", off_by_one)
    code, said = run(models, tmp_path, "numpy", "onnxruntime")
    assert code == 1 and "note: they part at 'tanh', by up to 1 steps" in said


def test_by_layer_against_the_float_model(models: tuple[str, str, str]) -> None:
    result = call(qopt, "diff", models[0], models[1], "--layers", "-i", models[2])
    assert result.code == 0, result.err
    assert [row.split()[0] for row in result.out.splitlines()] == ["value", "conv", "tanh"]
    result = call(qopt, "diff", models[0], models[1], "--by-layer", "--json", "-i", models[2])
    layers = json.loads(result.out)["layers"]
    assert [layer["key"] for layer in layers] == ["conv", "tanh"]
    assert all(15 < layer["sqnr_db"] < 60 and 0 < layer["max_steps"] < 32 for layer in layers)


def test_nothing_to_compare_by_layer(models: tuple[str, str, str], tmp_path: Path) -> None:
    other = tmp_path / "o.mlir"
    other.write_text(CODES.replace('"conv"', '"a"').replace('"tanh"', '"b"'))
    result = call(qopt, "diff", models[0], str(other), "--layers", "-n", "1")
    assert result.code == 1 and "the models have no value of one key and shape" in result.err


@pytest.mark.parametrize("engine", PROGRAMS)
def test_real_values_are_read_from_tosa_that_mlir_opt_wrote(
    models: tuple[str, str, str], tmp_path: Path, engine: str
) -> None:
    needs(engine)
    needs("mlir-runner")
    tosa, again = tmp_path / "t.mlir", tmp_path / "u.mlir"
    result = call(qopt_translate, "--export-tosa", models[1], "-o", str(tosa))
    assert result.code == 0, result.err
    opt = tools.command("mlir-opt", "mlir")
    flags = ["--canonicalize", "--mlir-print-op-generic", "--mlir-print-local-scope"]
    subprocess.run([opt, str(tosa), *flags, "-o", str(again)], check=True)
    expected = call(qopt, "diff", *models[:2], "--layers", "--json", "-i", models[2])
    flags = [f"--engine={e}" for e in ("numpy", engine)]
    result = call(
        qopt, "diff", models[0], str(again), "--layers", "--json", "-i", models[2], *flags
    )
    assert result.code == 0, result.err
    assert json.loads(result.out)["layers"] == json.loads(expected.out)["layers"]


@pytest.mark.skipif(
    not os.environ.get("QDIALECT_TEST_INSTALL"),
    reason="takes minutes and a package index: QDIALECT_TEST_INSTALL=1 (or names of engines)",
)
@pytest.mark.parametrize("name", PACKAGES)
def test_an_engine_is_installed_into_a_fresh_folder(
    name: str, models: tuple[str, str, str], tmp_path: Path
) -> None:
    asked = os.environ["QDIALECT_TEST_INSTALL"]
    if asked != "1" and name not in asked.split(","):
        pytest.skip("not asked for")
    plain = {k: v for k, v in os.environ.items() if not k.startswith("QDIALECT_")}
    environment = {**plain, "QDIALECT_ENGINES": str(tmp_path / "engines"), "PATH": "/usr/bin:/bin"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])

    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, "-m", "qdialect.cli.qopt", *arguments]
        return subprocess.run(words, capture_output=True, text=True, env=environment, check=False)

    done = command("engines", "install", name)
    assert done.returncode == 0, done.stderr
    (engine,) = (e for e in PROGRAMS if ENGINES[e].environment == name)
    done = command(
        *("run", models[1], "-i", models[2], "-o", str(tmp_path / "y.npz"), f"--engine={engine}")
    )
    assert done.returncode == 0, done.stderr
