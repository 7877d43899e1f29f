"""Nothing in the current folder, nor beside a model, is ever imported.

Both folders have a module for every name that Python or an installed package has. One that is
imported says so in a file. Each command runs there, as its script and by `python -m`.
"""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path

import numpy as np
import onnx
import pytest

import qdialect as qd
from qdialect.cli import qopt
from qdialect.cli.commands import COMMANDS
from qdialect.engines.installed import missing
from tests.support.qdq_models import conv_relu
from tests.support.source import all_imports, trees

pytest.importorskip("onnxruntime")

ROOT = Path(__file__).parents[2]
SCRIPTS = {
    point.name: point.module
    for point in metadata.distribution("qdialect").entry_points.select(group="console_scripts")
}
PACKAGES = frozenset(metadata.packages_distributions()) - {"qdialect"}
EVERYTHING = sys.stdlib_module_names | PACKAGES | {"sitecustomize", "usercustomize"}
LATE = {name for name in PACKAGES if not name.startswith("_")}
LATE |= {"difflib", "hashlib", "json", "random", "runpy", "subprocess", "tempfile"}
"""What Python itself imports before our code runs is not in our hands."""

QOPT: Mapping[str, Sequence[str]] = {
    "optimize": (
        "m/net.onnx -o out/o.onnx --race 0.1s --report out/r.html --verify-numerics=1",
        "m -o folder --race 0",
        "m/net.mlir -o out/o.mlir --remarks=out/o.json",
        *(["m/net.onnx -o out/o.tflite --race 0.1s"] if not missing("litert-xnn") else []),
    ),
    "inspect": ("m/net.onnx m/net.mlir --target onnxruntime", "m/net.onnx --json"),
    "explain": ("m/net.onnx", "m/net.onnx --op conv --json"),
    "run": ("m/net.mlir -i x.npz -o out/y.npz --engine numpy --engine onnxruntime",),
    "diff": ("m/net.onnx m/net.mlir --engine onnxruntime --engine numpy --layers --alone",),
    "engines": ("",),
    "engines install": ("iree",),
    "new-target": ("vendor -o out/vendor",),
    "completion": ("bash",),
    "profile": ("f/float.onnx --data x.npz -o out/a.json --engine dask --workers 1",),
    "profile merge": ("p.json p2.json -o out/c.json",),
    "profile show": ("p.json",),
    "quantize": ("f/float.onnx --data x.npz -o out/q.onnx --race 0.1s",),
}
OTHERS: Mapping[str, Sequence[str]] = {
    "qopt-opt": ("m/net.mlir -p canonicalize --verify-numerics=2 --mlir-timing -o out/o.mlir",),
    "qopt-translate": ("--import-onnx m/net.onnx -o out/o.mlir", "--export-tosa m/net.mlir"),
}
RUNS = [
    *(("qopt", f"{name} {rest}") for name, runs in QOPT.items() for rest in runs),
    *((script, line) for script, lines in OTHERS.items() for line in lines),
]


def test_every_command_is_run() -> None:
    assert QOPT.keys() == COMMANDS.keys()
    assert {"qopt", "qopt-lsp", *OTHERS} == SCRIPTS.keys()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the commands read, and modules that must not be imported."""
    folder = tmp_path_factory.mktemp("work")
    for name in ("m", "f", "out"):
        (folder / name).mkdir()
    onnx.save(conv_relu([1, 3, 8, 8]), folder / "m" / "net.onnx")
    qd.save(qd.load(folder / "m" / "net.onnx"), folder / "m" / "net.mlir")
    onnx.save(_float_model(), folder / "f" / "float.onnx")
    x = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
    np.savez(folder / "x.npz", x=x[:1])
    np.savez(folder / "x2.npz", x=x)
    for name, samples in (("p.json", "0:1"), ("p2.json", "1:2")):
        argv = f"profile {folder}/f/float.onnx --data={folder}/x2.npz --samples={samples} -q"
        assert qopt.main([*argv.split(), "-o", str(folder / name)]) == 0
    return folder


def _float_model() -> onnx.ModelProto:
    rng, helper = np.random.default_rng(0), onnx.helper
    weight = onnx.numpy_helper.from_array(rng.normal(size=(4, 3, 3, 3)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv"),
        helper.make_node("Relu", ["c"], ["y"], name="relu"),
    ]
    ports = [
        helper.make_tensor_value_info(name, 1, shape)
        for name, shape in (("x", [1, 3, 8, 8]), ("y", [1, 4, 6, 6]))
    ]
    graph = helper.make_graph(nodes, "net", ports[:1], ports[1:], [weight])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    return model


@pytest.fixture
def work(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, a copy of that one."""
    folder = tmp_path / "work"
    shutil.copytree(made, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("QDIALECT_ENGINES", str(tmp_path / "engines"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    return folder


def poison(folder: Path, names: Iterable[str]) -> Path:
    """Modules in `folder` and beside the models; the file that tells which were imported."""
    told = folder.parent / "imported.txt"
    text = (
        f"with open({str(told)!r}, 'a') as file: file.write(__file__ + chr(10))\n"
        "raise ImportError('from the current folder')\n"
    )
    for place in (folder, folder / "m", folder / "f"):
        for name in names:
            (place / f"{name}.py").write_text(text)
    return told


def script(folder: Path, name: str) -> list[str]:
    """A command as pip installs it."""
    path = folder.parent / "bin" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(
        f"import re\nimport sys\nfrom {SCRIPTS[name]} import main\n"
        "if __name__ == '__main__':\n    sys.exit(main())\n"
    )
    return [sys.executable, str(path)]


def run(command: Sequence[str], line: str) -> None:
    done = subprocess.run([*command, *line.split()], capture_output=True, text=True, check=False)
    expected = 1 if line.startswith("engines install") else 0
    assert done.returncode == expected, done.stderr
    assert "from the current folder" not in done.stdout + done.stderr


def imported(told: Path) -> list[str]:
    return told.read_text().splitlines() if told.exists() else []


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python imports runpy from this folder")
@pytest.mark.parametrize(("name", "line"), RUNS)
def test_a_module_imports_nothing(name: str, line: str, work: Path) -> None:
    told = poison(work, EVERYTHING)
    run([sys.executable, "-m", SCRIPTS[name]], line)
    assert imported(told) == []


@pytest.mark.parametrize("command", ["optimize", "quantize", "profile"])
def test_a_script_imports_nothing(command: str, work: Path) -> None:
    """What starts processes; a script has its own folder on its path."""
    told = poison(work, EVERYTHING | {"qdialect"})
    for line in QOPT[command]:
        run(script(work, "qopt"), f"{command} {line}")
    assert imported(told) == []


@pytest.mark.parametrize("entries", [("", ROOT), (".", "out/..", ROOT), (ROOT, "")])
def test_entries_of_the_path_that_mean_the_current_folder(
    entries: tuple[str | Path, ...], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, entries)))
    told = poison(work, LATE)
    for line in (f"optimize {QOPT['optimize'][1]}", "run m/net.mlir -i x.npz -o out/y.npz"):
        run(script(work, "qopt"), line)
    assert imported(told) == []


def test_a_child_of_any_program(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program that has the current folder on its path, which is not ours to change."""
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}")
    code = (
        "import pathlib, subprocess, sys\n"
        "import qdialect.children as children\n"
        "assert '' in sys.path\n"
        "for path in pathlib.Path().glob('*.poison'): path.rename(path.with_suffix('.py'))\n"
        "command, environment = children.python_child('qdialect', 'inspect', 'm/net.onnx')\n"
        "sys.exit(subprocess.run(command, env=environment).returncode)\n"
    )
    told = poison(work, EVERYTHING)
    for path in work.glob("*.py"):
        path.rename(path.with_suffix(".poison"))
    run([sys.executable, "-c", code], "")
    assert (work / "json.py").exists() and imported(told) == []


@pytest.mark.parametrize("start", ["script", "module"])
def test_the_language_server_imports_nothing(start: str, work: Path) -> None:
    pytest.importorskip("pygls")
    from tests.support.language_client import Client

    told = poison(work, EVERYTHING)
    arguments = script(work, "qopt-lsp")[1:] if start == "script" else ["-m", SCRIPTS["qopt-lsp"]]
    client = Client(tuple(arguments))
    client.initialize({"delay": 0.02, "pipelines": ["optimize"]})
    path = work / "m" / "net.mlir"
    assert client.open(path.as_uri(), path.read_text()) == []
    assert client.open(path.as_uri(), "nn.relu")[0].message
    assert client.stop() == 0
    assert imported(told) == []


def test_one_function_starts_python() -> None:
    """The other starter is for pip, isolated. Names in messages start nothing."""
    starters = {
        name
        for name, tree in trees().items()
        if ast.unparse(tree).replace("Path(sys.executable)", "").count("sys.executable")
    }
    assert starters == {"qdialect.children", "qdialect.engines.installed"}
    assert not [str(found) for found in all_imports() if "multiprocessing" in found.target]
