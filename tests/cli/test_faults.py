"""Disks that are full, folders that cannot be written, processes that are killed, two at once.

Whatever happens to a command that writes: each of its files is the old one or the new one, what
it reads stays as it is, and what is temporary goes, at the latest at the next run.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest

import qdialect as qd
from qdialect.cli import opt, qopt, translate
from qdialect.plugins.onnx.write import OrtEngine

Main = Callable[[Sequence[str]], int]
MAINS: Mapping[str, tuple[Main, str]] = {
    "qopt": (qopt.main, "qdialect"),
    "qopt-opt": (opt.main, "qdialect.cli.opt"),
    "qopt-translate": (translate.main, "qdialect.cli.translate"),
}


@dataclass(frozen=True)
class Writes:
    """A command, and the files it writes; `OUT` stands for their folder."""

    command: str
    files: tuple[str, ...]

    @property
    def argv(self) -> list[str]:
        return self.command.split()

    @property
    def main(self) -> Main:
        return MAINS[self.argv[0]][0]

    @property
    def process(self) -> list[str]:
        return [sys.executable, "-m", MAINS[self.argv[0]][1], *self.argv[1:]]


QUIET = "--check=0 -q"
COMMANDS = {
    "optimize-mlir": Writes(
        f"qopt optimize net.mlir -o out/o.mlir {QUIET}", ("o.mlir", "o.safetensors")
    ),
    "optimize-onnx": Writes(f"qopt optimize net.onnx -o out/o.onnx {QUIET}", ("o.onnx",)),
    "optimize-beside": Writes(
        f"qopt optimize beside/net.onnx -o out/o.onnx {QUIET}", ("o.onnx", "o.onnx.data")
    ),
    "optimize-remarks": Writes(
        f"qopt optimize net.mlir -o out/o.mlir --inline-weights --remarks=out/r.json {QUIET}",
        ("o.mlir", "r.json"),
    ),
    "quantize": Writes(
        "qopt quantize float.onnx --data=x.npz --engine=numpy -q -o out/o.onnx", ("o.onnx",)
    ),
    "profile": Writes("qopt profile net.mlir --data=x.npz -q -o out/p.json", ("p.json",)),
    "profile-merge": Writes("qopt profile merge p1.json p2.json -o out/p.json", ("p.json",)),
    "run": Writes("qopt run net.mlir -i x.npz -o out/y.npz", ("y.npz",)),
    "opt": Writes(
        "qopt-opt net.mlir --pass-pipeline=canonicalize -o out/o.mlir", ("o.mlir", "o.safetensors")
    ),
    "import": Writes(
        "qopt-translate --import-onnx net.onnx -o out/o.mlir", ("o.mlir", "o.safetensors")
    ),
    "export": Writes("qopt-translate --export-onnx net.mlir -o out/o.onnx", ("o.onnx",)),
    "export-tosa": Writes("qopt-translate --export-tosa net.mlir -o out/o.mlir", ("o.mlir",)),
}


def _model(quantized: bool, seed: int = 0) -> onnx.ModelProto:
    helper, rng = onnx.helper, np.random.default_rng(seed)
    values = {"w": rng.normal(size=(40, 40)).astype(np.float32)}
    nodes = [helper.make_node("MatMul", ["a", "w_d" if quantized else "w"], ["m"], name="product")]
    if quantized:
        values = {
            "w": rng.integers(-100, 100, (40, 40)).astype(np.int8),
            "s": np.float32(0.05 + seed / 100),
            "z": np.int8(3),
            "o": np.int8(0),
        }
        pair = ("QuantizeLinear", ["s", "z"]), ("DequantizeLinear", ["s", "z"])

        def cast(source: str, result: str) -> list[onnx.NodeProto]:
            (first, more), (second, _) = pair
            return [
                helper.make_node(first, [source, *more], [f"{result}_q"], name=f"{result}_q"),
                helper.make_node(second, [f"{result}_q", *more], [result], name=result),
            ]

        weight = helper.make_node("DequantizeLinear", ["w", "s", "o"], ["w_d"], name="w_d")
        nodes = [*cast("x", "a"), weight, *nodes, *cast("m", "y")]
    else:
        nodes = [helper.make_node("Relu", ["x"], ["a"], name="relu"), *nodes]
        nodes.append(helper.make_node("Relu", ["m"], ["y"], name="last"))
    ports = [helper.make_tensor_value_info(n, 1, [1, 40]) for n in ("x", "y")]
    tensors = [onnx.numpy_helper.from_array(np.asarray(v), n) for n, v in values.items()]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


@dataclass(frozen=True)
class Made:
    """Folders with what the commands read, of two models, and what each command wrote there."""

    folders: tuple[Path, Path]
    #: by command, of the first model and of the second
    outputs: Mapping[str, tuple[dict[str, bytes], dict[str, bytes]]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """What is imported on the way needs no importing in children."""
    folders = tuple(tmp_path_factory.mktemp(f"model{seed}") for seed in (0, 1))
    found: dict[str, list[dict[str, bytes]]] = {name: [] for name in COMMANDS}
    for seed, folder in enumerate(folders):
        with _inside(folder):
            _inputs(seed)
            for name, writes in COMMANDS.items():
                assert writes.main(writes.argv[1:]) == 0
                found[name].append(contents(folder / "out"))
                assert set(found[name][-1]) == set(writes.files)
                _lay(folder / "out", {})
    outputs = {name: (one, two) for name, (one, two) in found.items()}
    assert all(one != two for one, two in outputs.values())
    return Made((folders[0], folders[1]), outputs)


def _inputs(seed: int) -> None:
    """Everything that the commands read, in this folder."""
    os.mkdir("out")
    os.mkdir("beside")
    onnx.save(_model(True, seed), "net.onnx")
    onnx.save(_model(False, seed), "float.onnx")
    onnx.save(_model(True, seed), "beside/net.onnx", save_as_external_data=True, location="w.bin")
    qd.save(qd.load("net.onnx"), "net.mlir")
    x = np.random.default_rng(seed).normal(size=(2, 40)).astype(np.float32)
    np.savez("x.npz", x=x[:1])
    np.savez("all.npz", x=x)
    for name, samples in (("p1.json", "0:1"), ("p2.json", "1:2")):
        argv = ["profile", "net.mlir", "--data=all.npz", f"--samples={samples}", "-q", "-o", name]
        assert qopt.main(argv) == 0


@contextlib.contextmanager
def _inside(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


@pytest.fixture
def work(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all that the commands read."""
    shutil.copytree(made.folders[0], tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def digest_of_inputs(folder: Path) -> str:
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and "out" not in path.parts:
            found.update(path.read_bytes())
    return found.hexdigest()


def in_child(run: Callable[[], int], prepare: Callable[[], None]) -> tuple[int, str]:
    """The exit code and the words of what runs in a child of ours."""
    said = Path("said.txt")
    child = os.fork()
    if child == 0:
        code = 99
        try:
            descriptor = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(descriptor, 1)
            os.dup2(descriptor, 2)
            sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
            prepare()
            code = run()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    text = said.read_text()
    said.unlink()
    return os.waitstatus_to_exitcode(status), text


def call(writes: Writes, prepare: Callable[[], None] = lambda: None) -> tuple[int, str]:
    return in_child(lambda: writes.main(writes.argv[1:]), prepare)


# -- nothing can be written ---------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_no_room(name: str, work: Path, made: Made) -> None:
    """Files of at most so many bytes: the old ones stay, and nothing else is left."""
    writes, (new, old) = COMMANDS[name], made.outputs[name]
    _lay(work / "out", old)
    inputs = digest_of_inputs(work)
    for limit in (400, len(new[writes.files[0]]) - 1):

        def prepare(limit: int = limit) -> None:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        code, said = call(writes, prepare)
        assert code == 1, said
        assert said.count("error: ") == 1 and "File too large" in said
        assert meaning(work / "out", writes) == _meaning_of(old, work / "out", writes)
        assert set(os.listdir(work / "out")) == set(old)
        assert digest_of_inputs(work) == inputs


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_device(name: str, work: Path) -> None:
    """/dev/full takes nothing; a link to it stays one."""
    writes = COMMANDS[name]
    (work / "out" / writes.files[0]).symlink_to("/dev/full")
    inputs = digest_of_inputs(work)
    code, said = call(writes)
    assert code == 1, said
    assert said.count("error: ") == 1 and "No space left" in said
    assert (work / "out" / writes.files[0]).is_symlink()
    left = set(os.listdir(work / "out")) - {writes.files[0]}
    assert left <= set(writes.files[1:])
    assert digest_of_inputs(work) == inputs


def _without_privileges() -> None:
    """Not even root may write where the mode of a folder forbids it."""
    drop, override, search = 24, 1, 2
    for capability in (override, search):
        ctypes.CDLL(None).prctl(drop, capability, 0, 0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux to be bound by modes")
@pytest.mark.parametrize("name", ["optimize-mlir", "quantize", "run", "opt", "export-tosa"])
def test_a_folder_that_cannot_be_written(name: str, work: Path) -> None:
    writes = COMMANDS[name]
    (work / "out").chmod(0o555)
    found = subprocess.run(
        writes.process, capture_output=True, text=True, preexec_fn=_without_privileges, check=False
    )
    (work / "out").chmod(0o755)
    assert found.returncode == 1, found.stderr
    assert found.stderr.count("error: cannot write") == 1
    assert not os.listdir(work / "out")


@pytest.mark.parametrize("argv", [["-m", "qdialect", "inspect"], ["-m", "qdialect.cli.opt"]])
def test_output_that_nobody_can_take(argv: list[str], work: Path) -> None:
    with open("/dev/full", "w") as full:
        found = subprocess.run(
            [sys.executable, *argv, "net.mlir"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (found.returncode, found.stderr) == (
        1,
        "<stdout>: error: cannot write: No space left on device\n",
    )


# -- killed -------------------------------------------------------------------------------

EVENTS = {"open", "os.rename", "os.remove", "os.link", "shutil.copyfile"}


def _killed_at(number: int, folder: Path) -> Callable[[], None]:
    """The process is killed before it does the `number`th thing to files in `folder`."""

    def prepare() -> None:
        left = [number]

        def watch(event: str, arguments: tuple[object, ...]) -> None:
            if event not in EVENTS or not str(arguments[0]).startswith((str(folder), "out/")):
                return
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(watch)

    return prepare


@pytest.mark.parametrize("name", COMMANDS)
def test_killed_at_any_step(name: str, work: Path, made: Made) -> None:
    """Before each opening, renaming and removing of a file, over what there was before."""
    writes, (new, old), out = COMMANDS[name], made.outputs[name], work / "out"
    inputs = digest_of_inputs(work)
    either = {_meaning_of(files, out, writes) for files in (old, new)}
    killed = 0
    for number in range(1, 100):
        _lay(out, old)
        code, said = call(writes, _killed_at(number, out))
        if code == 0:
            break
        assert code == -signal.SIGKILL, said
        killed += 1
        assert meaning(out, writes) in either
        assert digest_of_inputs(work) == inputs
        if killed % 3 == 0:  # what is left goes at the next run, which makes the same
            assert call(writes)[0] == 0
            assert contents(out) == new
    assert killed >= 2 * len(writes.files)
    assert call(writes)[0] == 0
    assert contents(out) == new


@pytest.mark.parametrize("name", ["optimize-mlir", "optimize-beside", "export"])
def test_killed_at_any_step_where_there_was_nothing(name: str, work: Path, made: Made) -> None:
    writes, (new, _), out = COMMANDS[name], made.outputs[name], work / "out"
    meant = _meaning_of(new, out, writes)
    for number in range(1, 100):
        _lay(out, {})
        code, _ = call(writes, _killed_at(number, out))
        if code == 0:
            break
        first = out / writes.files[0]
        assert not first.exists() or meaning(out, writes) == meant
        code, said = call(writes)
        assert code == 0, said
        assert contents(out) == new
    else:
        pytest.fail("it never came to an end")


def _lay(folder: Path, files: Mapping[str, bytes]) -> None:
    for path in folder.iterdir():
        path.unlink()
    for name, data in files.items():
        (folder / name).write_bytes(data)


def _meaning_of(files: Mapping[str, bytes], folder: Path, writes: Writes) -> str:
    now = contents(folder)
    _lay(folder, files)
    found = meaning(folder, writes)
    _lay(folder, now)
    return found


def meaning(folder: Path, writes: Writes) -> str:
    """What a reader makes of the files: a model with its weights, run; else their bytes."""
    path = folder / writes.files[0]
    given = {"x": np.linspace(-3, 3, 40, dtype=np.float32)[None]}
    if path.suffix == ".onnx":
        return str(OrtEngine(path, optimize=False).run(given)["y"].tobytes())
    if path.suffix == ".mlir" and writes.files[-1].endswith(".safetensors"):
        model = qd.load(path)
        return str([array.tobytes() for array in qd.run(model, given).values()])
    return str(path.read_bytes())


@pytest.mark.parametrize("name", ["optimize-mlir", "optimize-beside"])
def test_killed_at_any_time(name: str, work: Path, made: Made) -> None:
    """As processes, at random moments."""
    writes, (new, old), out = COMMANDS[name], made.outputs[name], work / "out"
    draw, inputs = random.Random(name), digest_of_inputs(work)
    either = {_meaning_of(files, out, writes) for files in (old, new)}
    began = time.monotonic()
    subprocess.run(writes.process, check=True)
    whole = time.monotonic() - began
    _lay(out, old)
    for _ in range(2):
        process = subprocess.Popen(writes.process)
        time.sleep(draw.uniform(0.5, 1.0) * whole)
        process.kill()
        process.wait()
        assert meaning(out, writes) in either
        assert digest_of_inputs(work) == inputs
    assert call(writes)[0] == 0
    assert contents(out) == new


# -- at once ------------------------------------------------------------------------------


def test_several_on_the_same_weights(work: Path, made: Made) -> None:
    """Runs that read one store, and two that write the same file."""
    inputs, (new, _) = digest_of_inputs(work), made.outputs["optimize-mlir"]
    writes = COMMANDS["optimize-mlir"]
    processes = [
        subprocess.Popen([word.replace("o.mlir", f"{name}.mlir") for word in writes.process])
        for name in ("a", "b", "b")
    ]
    assert [process.wait() for process in processes] == [0, 0, 0]
    found = contents(work / "out")
    assert set(found) == {"a.mlir", "a.safetensors", "b.mlir", "b.safetensors"}
    assert found["a.safetensors"] == found["b.safetensors"] == new["o.safetensors"]
    assert found["b.mlir"].replace(b"b.safe", b"o.safe") == new["o.mlir"]
    assert digest_of_inputs(work) == inputs


# -- stopped ------------------------------------------------------------------------------


@pytest.mark.parametrize("module", ["qdialect.cli.terminal", "qdialect.workflows.model"])
@pytest.mark.parametrize("name", ["optimize-onnx", "quantize", "run"])
def test_ctrl_c(name: str, module: str, work: Path) -> None:
    """While modules are imported, and later: at most one line, 130, and nothing is left."""
    writes = COMMANDS[name]
    code = (
        "import os, signal, sys\nclass Stop:\n    def find_spec(self, name, *_):\n"
        f"        if name == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Stop())\n"
    )
    (work / "at").mkdir()
    (work / "at" / "sitecustomize.py").write_text(code)
    path = os.pathsep.join([str(work / "at"), *filter(None, sys.path)])
    found = subprocess.run(
        writes.process,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert found.returncode == 130, found.stderr
    assert found.stderr in ("", "interrupted\n") and not found.stdout
    assert not os.listdir(work / "out")


def test_ctrl_c_ends_the_processes_of_a_folder(work: Path) -> None:
    (work / "many").mkdir()
    for number in range(3):
        shutil.copy("net.onnx", f"many/{number}.onnx")
    words = ["optimize", "many", "-o", "out/many", "--race", "60"]
    process = subprocess.Popen(
        [sys.executable, "-m", "qdialect", *words],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not (children := _children(process.pid)):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 130 and said == "interrupted\n"
    for child in children:
        state = Path(f"/proc/{child}/stat")
        assert not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z"
    assert not list((work / "out").rglob("*.tmp"))


def _children(pid: int) -> list[str]:
    """The processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [child for path in tasks for child in path.read_text().split()]


def test_workers_that_die(work: Path) -> None:
    pytest.importorskip("distributed")
    (work / "at").mkdir()
    (work / "at" / "sitecustomize.py").write_text(
        "import os, sys\nclass Stop:\n    def find_spec(self, name, *_):\n"
        "        if name == 'qdialect.workflows.calibrate':\n"
        "            from multiprocessing import parent_process\n"
        "            if parent_process() is not None: os._exit(1)\n"
        "sys.meta_path.insert(0, Stop())\n"
    )
    writes = COMMANDS["profile"]
    path = os.pathsep.join([str(work / "at"), *filter(None, sys.path)])
    found = subprocess.run(
        [*writes.process, "--engine=dask", "--workers=1"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert found.returncode == 1 and found.stderr.count("error: ") == 1, found.stderr
    assert "error: the workers died" in found.stderr
    assert not os.listdir(work / "out")


# -- names --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["optimize-mlir", "optimize-onnx", "quantize", "import"])
def test_names_of_files_that_are_not_utf8(name: str, work: Path) -> None:
    strange = os.fsdecode(b"caf\xe9")
    words = [word.replace("o.", f"{strange}.") for word in COMMANDS[name].process]
    for source in ("net.onnx", "float.onnx"):
        shutil.copy(source, f"{strange}-{source}")
        words = [f"{strange}-{word}" if word == source else word for word in words]
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    if COMMANDS[name].files[-1].endswith(".safetensors"):
        assert found.returncode == 1 and "not UTF-8" in found.stderr
        found = subprocess.run([*words, "--inline-weights"], capture_output=True, check=False)
    assert found.returncode == 0, found.stderr
    assert os.listdir(work / "out") == [f"{strange}.{COMMANDS[name].files[0][2:]}"]


def test_a_folder_with_names_that_are_not_utf8(work: Path) -> None:
    strange = os.fsdecode(b"caf\xe9.onnx")
    (work / "many").mkdir()
    shutil.copy("net.onnx", f"many/{strange}")
    for line in ("1 optimized", "1 as they were"):
        argv = [sys.executable, "-m", "qdialect", "optimize", "many", "-o", "out/to", "--race=0"]
        found = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert found.returncode == 0 and line in found.stderr, found.stderr
    assert (work / "out" / "to" / strange).exists()


def test_output_that_cannot_spell_a_name(work: Path) -> None:
    onnx.save(_named("☃"), "named.onnx")
    found = subprocess.run(
        [sys.executable, "-m", "qdialect", "inspect", "named.onnx"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        check=False,
    )
    assert found.returncode == 0 and "\\u2603" in found.stdout, found.stderr


def _named(name: str) -> onnx.ModelProto:
    model = _model(True)
    model.graph.input[0].name = model.graph.node[0].input[0] = name
    return model
