"""Whatever ends ONNX Runtime on a model does not end a command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

from qdialect.errors import InputError
from qdialect.plugins.onnx.write import engine as engines
from qdialect.plugins.onnx.write.engine import OrtEngine
from tests.support.commands import Result, call, qopt

FAKE = Path(__file__).parents[1] / "support" / "broken_runtime"
ZERO_STEPS = Path(__file__).parents[1] / "formats" / "onnx" / "models" / "zero_steps_gru.onnx"
ABORTS = "ONNX Runtime aborts on this model"
WAYS = {
    "abort": "SIGABRT",
    "segfault": "SIGSEGV",
    "exit": "exit code 3",
    "hang": "no end after 3 s",
    "memory": "out of memory: 1 GB",
}
X = {"x": np.linspace(-3, 3, 192, dtype=np.float32).reshape(1, 3, 8, 8)}

Break = Callable[..., None]


@pytest.fixture(name="broken")
def _broken(monkeypatch: pytest.MonkeyPatch) -> Iterator[Break]:
    """Breaks the runtime: how, when a session is loaded or run, and for which models."""
    monkeypatch.setattr(engines, "_CHILDREN", {})
    monkeypatch.syspath_prepend(FAKE)  # type: ignore[no-untyped-call]

    def broken(how: str = "abort", at: str = "run", models: str = "all") -> None:
        for name, value in (("HOW", how), ("AT", at), ("FOR", models)):
            monkeypatch.setenv(f"BROKEN_{name}", value)
        monkeypatch.setenv("QDIALECT_ENGINE_MEMORY", "1")
        if how == "hang":
            monkeypatch.setenv("QDIALECT_ENGINE_TIMEOUT", "3")

    yield broken
    for child in engines._CHILDREN.values():  # pyright: ignore[reportPrivateUsage]
        child.close()


def run(*arguments: Any) -> Result:
    return call(qopt, *map(str, arguments))


def float_net(path: Path) -> Path:
    """A convolution on floats, and four samples beside it."""
    rng = np.random.default_rng(0)
    weight = onnx.numpy_helper.from_array(rng.normal(size=(4, 3, 3, 3)).astype("f4"), "w")
    nodes = [helper.make_node("Conv", ["x", "w"], ["c"], name="conv")]
    nodes += [helper.make_node("Relu", ["c"], ["y"], name="relu")]
    entry = [helper.make_tensor_value_info(n, 1, s) for n, s in (("x", [1, 3, 8, 8]), ("y", None))]
    graph = helper.make_graph(nodes, "g", entry[:1], entry[1:], [weight])
    imports = [helper.make_opsetid("", 13)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)
    data = rng.normal(size=(4, 1, 3, 8, 8)).astype("f4")
    np.savez(path.with_suffix(".npz"), allow_pickle=False, x=data)
    return path


# -- engines ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "at"), [*((how, "run") for how in WAYS), ("abort", "load"), ("memory", "load")]
)
def test_an_end_is_one_error_and_others_go_on(how: str, at: str, net: Path, broken: Break) -> None:
    broken(how, at, "original")
    other = OrtEngine(net.read_bytes(), optimize=False)
    expected = other.run(X)["y"]
    for _ in range(2):
        with pytest.raises(InputError) as error:
            OrtEngine(net, optimize=False).run(X)
        assert error.value.message.startswith(f"{ABORTS} ({WAYS[how]}, ")
        assert "net.onnx" in error.value.message and "\n" not in error.value.message
        assert error.value.code == "engine-failed" and str(error.value.where) == str(net)
        if how != "memory":
            assert "the last words of the runtime" in error.value.notes
        # It was loaded in the process that is no more.
        np.testing.assert_array_equal(other.run(X)["y"], expected)


def test_limits_are_told(net: Path, broken: Break) -> None:
    for how, variable in (("hang", "TIMEOUT=SECONDS"), ("memory", "MEMORY=GB")):
        broken(how)
        with pytest.raises(InputError) as error:
            OrtEngine(net, optimize=True).run(X)
        assert any(f"QDIALECT_ENGINE_{variable}" in note for note in error.value.notes)


def test_a_model_that_ended_the_runtime_is_not_run_again(net: Path, broken: Break) -> None:
    broken()
    engine = OrtEngine(net, optimize=False)
    for _ in range(2):
        with pytest.raises(InputError, match=ABORTS):
            engine.run(X)
    assert not engines._child().alive  # pyright: ignore[reportPrivateUsage]


def test_engines_share_a_process_that_ends_with_them(net: Path) -> None:
    first, second = (OrtEngine(net, optimize=flag) for flag in (False, True))
    child = engines._child()  # pyright: ignore[reportPrivateUsage]
    process = child._process  # pyright: ignore[reportPrivateUsage]
    assert process is not None
    first.run(X)
    second.run(X)
    assert engines._child()._process is process  # pyright: ignore[reportPrivateUsage]
    child.close()
    assert process.poll() is not None
    assert first.run(X)["y"].shape == second.run(X)["y"].shape  # in a new one


def test_a_fork_has_a_process_of_its_own(net: Path) -> None:
    engine = OrtEngine(net, optimize=False)
    expected = engine.run(X)["y"].tobytes()
    reading, writing = os.pipe()
    forked = os.fork()
    if not forked:
        try:
            os.write(writing, engine.run(X)["y"].tobytes())
        finally:
            for child in engines._CHILDREN.values():  # pyright: ignore[reportPrivateUsage]
                child.close()
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        assert file.read() == expected
    os.waitpid(forked, 0)
    assert engine.run(X)["y"].tobytes() == expected


@pytest.mark.parametrize("setting", ["much", "0", "inf"])
def test_a_limit_that_is_none(setting: str, net: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDIALECT_ENGINE_MEMORY", setting)
    result = run("diff", net, net, "--engine=onnxruntime")
    assert result.code == 2
    assert f"QDIALECT_ENGINE_MEMORY is a number of gigabytes, not '{setting}'" in result.err


# -- optimize -----------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "at"), [("abort", "load"), ("exit", "run"), ("memory", "run")])
def test_the_original_ends_it(how: str, at: str, net: Path, tmp_path: Path, broken: Break) -> None:
    """The interpreter judges, and what is written is ours."""
    broken(how, at, "original")
    result = run("optimize", net, "-o", tmp_path / "o.onnx", "--race=20ms")
    assert result.code == 0, result.err
    assert "in the reference interpreter: 1 of 1 outputs have the same bits" in result.err
    assert "not compared with the source file in ONNX Runtime" in result.err
    assert f"optimizations off: {ABORTS} ({WAYS[how]}" in result.err
    if at == "load":
        assert f"the input is no candidate: {ABORTS}" in result.err
    onnx.checker.check_model(tmp_path / "o.onnx")
    assert (tmp_path / "o.onnx").read_bytes() != net.read_bytes()


@pytest.mark.parametrize("models", ["written", "written+optimized"])
@pytest.mark.parametrize("at", ["load", "run"])
def test_a_result_that_ends_it_is_no_result(
    models: str, at: str, net: Path, tmp_path: Path, broken: Break
) -> None:
    broken("abort", at, models)
    result = run("optimize", net, "-o", tmp_path / "o.onnx", "--race=20ms")
    assert result.code == 0 and ABORTS in result.err, result.err
    assert (tmp_path / "o.onnx").read_bytes() == net.read_bytes()


@pytest.mark.parametrize("at", ["load", "run"])
def test_all_that_is_executed_by_default_ends_it(
    at: str, net: Path, tmp_path: Path, broken: Break
) -> None:
    """As it is written, it runs: the result has the bits of the original."""
    broken("segfault", at, "optimized")
    result = run("optimize", net, "-o", tmp_path / "o.onnx", "--race=20ms")
    assert result.code == 0, result.err
    assert "in ONNX Runtime with its optimizations off: 1 of 1 outputs have the" in result.err
    for name in ("the input", "qdq"):
        assert f"{name} is no candidate: {ABORTS} (SIGSEGV" in result.err
    onnx.checker.check_model(tmp_path / "o.onnx")


def test_everything_ends_it(net: Path, tmp_path: Path, broken: Break) -> None:
    broken()
    result = run("optimize", net, "-o", tmp_path / "o.onnx", "--race=20ms")
    assert result.code == 0 and "in the reference interpreter" in result.err, result.err
    onnx.checker.check_model(tmp_path / "o.onnx")


# -- other commands -----------------------------------------------------------------------


@pytest.mark.parametrize("how", ["segfault", "memory"])
def test_commands_that_run_it(how: str, net: Path, tmp_path: Path, broken: Break) -> None:
    """`run` and `diff` say so in one line, and what they say next is how to go on."""
    broken(how)
    np.savez(tmp_path / "x.npz", allow_pickle=False, **X)
    for command in (
        ("run", net, "--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz"),
        ("diff", net, net),
    ):
        result = run(*command, "--engine=onnxruntime")
        first, *rest = result.err.splitlines()
        assert result.code == 1 and f"{net}: error: {ABORTS} ({WAYS[how]}, " in first
        assert rest and all(line.startswith("note: ") for line in rest)
    assert not (tmp_path / "y.npz").exists()


def test_commands_that_need_no_runtime(net: Path, broken: Break) -> None:
    broken(at="load")
    assert run("inspect", net).code == run("explain", net).code == run("diff", net, net).code == 0


def test_profile(tmp_path: Path, broken: Break) -> None:
    broken()
    net, out = float_net(tmp_path / "f.onnx"), tmp_path / "p.json"
    arguments = ("profile", net, "--data", net.with_suffix(".npz"), "-o", out)
    result = run(*arguments, "--engine=onnxruntime")
    assert result.code == 1 and ABORTS in result.err and "note: try --engine numpy" in result.err
    assert run(*arguments, "--engine=numpy").code == 0


@pytest.mark.parametrize("time", ["0", "50ms"])
@pytest.mark.parametrize("at", ["load", "run"])
@pytest.mark.parametrize("models", ["optimized", "written+optimized"])
def test_quantize(models: str, at: str, time: str, tmp_path: Path, broken: Break) -> None:
    """What does not run by default is neither raced nor measured; ranges are known without it."""
    broken("abort", at, models)
    net, out = float_net(tmp_path / "f.onnx"), tmp_path / "q.onnx"
    data = net.with_suffix(".npz")
    result = run("quantize", net, "--data", data, "-o", out, f"--time={time}")
    assert result.code == 0 and ABORTS in result.err, result.err
    if time != "0" and models != "written+optimized":
        assert f"not raced: {ABORTS}" in result.err
    onnx.checker.check_model(out)


def test_quantize_without_ranges(tmp_path: Path, broken: Break) -> None:
    """The runtime is what finds ranges, unless another engine is asked for."""
    broken()
    net, out = float_net(tmp_path / "f.onnx"), tmp_path / "q.onnx"
    arguments = ("quantize", net, "--data", net.with_suffix(".npz"), "-o", out, "--time=0")
    result = run(*arguments)
    assert result.code == 1 and ABORTS in result.err and not out.exists()
    assert run(*arguments, "--engine=numpy").code == 0 and out.exists()


# -- models on which the runtime really ends ----------------------------------------------


def test_an_endless_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit ends the run, also of the kept node that an interpreter evaluates."""
    monkeypatch.setenv("QDIALECT_ENGINE_TIMEOUT", "2")
    scalars = [helper.make_tensor_value_info(n, t, []) for n, t in (("i", 7), ("c", 9), ("a", 1))]
    gives = [helper.make_tensor_value_info(n, t, []) for n, t in (("d", 9), ("b", 1))]
    nodes = [helper.make_node("Identity", ["c"], ["d"]), helper.make_node("Abs", ["a"], ["b"])]
    body = helper.make_graph(nodes, "body", scalars, gives)
    trips = onnx.numpy_helper.from_array(np.array(1 << 50, "i8"), "n")
    entry = [helper.make_tensor_value_info(n, 1, []) for n in "xy"]
    loop = helper.make_node("Loop", ["n", "", "x"], ["y"], name="loop", body=body)
    graph = helper.make_graph([loop], "g", entry[:1], entry[1:], [trips])
    net = tmp_path / "loop.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), net)
    np.savez(tmp_path / "x.npz", allow_pickle=False, x=np.float32(1))
    result = run("optimize", net, "-o", tmp_path / "o.onnx", "--race=20ms")
    assert result.code == 0 and f"{ABORTS} (no end after 2 s" in result.err, result.err
    for engine in ("onnxruntime", "numpy"):
        inputs = ("--input", tmp_path / "x.npz", "--output", tmp_path / "y.npz")
        result = run("run", net, *inputs, f"--engine={engine}")
        assert result.code == 1 and f"{ABORTS} (no end after 2 s" in result.err, result.err
    assert not (tmp_path / "y.npz").exists()


def test_the_process_ends_with_a_command_that_is_killed(net: Path, tmp_path: Path) -> None:
    code = (
        "import os, signal\n"
        "from qdialect.plugins.onnx.write import engine as engines\n"
        f"engine = engines.OrtEngine({str(net)!r}, optimize=False)\n"
        "print(engines._child()._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -9, done.stderr
    for _ in range(600):
        try:
            os.kill(int(done.stdout), 0)
        except ProcessLookupError:
            return
        sleep(0.1)
    pytest.fail("it is still there")


def test_a_gru_of_no_steps(tmp_path: Path) -> None:
    """ONNX Runtime 1.32 aborts on it; a newer one may not."""
    given = {"v80": np.zeros((0, 3, 4), np.float32), "v128": np.zeros((1, 12, 4), np.float32)}
    np.savez(tmp_path / "x.npz", allow_pickle=False, **given)
    inputs = ("--input", tmp_path / "x.npz")
    code = 0
    try:
        OrtEngine(ZERO_STEPS, optimize=False).run(given)
    except InputError:
        code = 1
    out, y = tmp_path / "o.onnx", tmp_path / "y.npz"
    result = run("optimize", ZERO_STEPS, "-o", out, *inputs, "--race=20ms")
    assert result.code == 0 and out.exists(), result.err
    for command in (
        ("run", ZERO_STEPS, *inputs, "--output", y),
        ("diff", ZERO_STEPS, ZERO_STEPS, *inputs),
    ):
        result = run(*command, "--engine=onnxruntime")
        assert result.code == code and (not code or "error: ONNX Runtime" in result.err)
    for command in ("inspect", "explain"):
        assert run(command, ZERO_STEPS).code == 0
