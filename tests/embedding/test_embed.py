"""The script of docs/howto/embed.md: typed, 60 lines, and its C gives the interpreter's codes."""

from __future__ import annotations

import ast
import ctypes
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qdialect as qd
from qdialect.interpreter import Interpreter, random_inputs

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "docs" / "examples" / "embed.py"


@pytest.fixture(scope="module")
def embed() -> Any:
    """The script as a module."""
    spec = spec_from_file_location("embed", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_its_c_computes_what_the_interpreter_says(embed: Any, tmp_path: Path) -> None:
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    (tmp_path / "net.c").write_text(done.stdout)
    flags = ["-O2", "-Wall", "-Werror", "-shared", "-fPIC"]
    subprocess.run(["cc", *flags, "-o", "net.so", "net.c"], cwd=tmp_path, check=True)
    run = ctypes.CDLL(str(tmp_path / "net.so")).run
    model = embed.lower(embed.build())
    interpreter, results = Interpreter(model.ctx, model.module), set[int]()
    for seed in range(20):
        (x,) = random_inputs(interpreter.function(), seed, boundary=seed % 2 == 1)
        (expected,) = interpreter.run([x])
        found = np.zeros(expected.shape, np.int32)
        wide = x.astype(np.int32)
        run(*(ctypes.c_void_p(array.ctypes.data) for array in (wide, found)))
        np.testing.assert_array_equal(found, expected)
        results |= set(expected.reshape(-1).tolist())
    assert len(results) > 50


def test_its_passes_change_no_code(embed: Any) -> None:
    built = embed.build()
    lowered = embed.lower(built)
    before, after = (Interpreter(m.ctx, m.module) for m in (built, lowered))
    for seed in range(20):
        inputs = random_inputs(before.function(), seed, boundary=seed % 2 == 1)
        np.testing.assert_array_equal(before.run(inputs)[0], after.run(inputs)[0])


def test_an_op_without_a_case_is_refused(embed: Any) -> None:
    # Before the passes, it rounds.
    with pytest.raises(qd.UnsupportedError, match=r"there is no code for 'nn.fully_connected'"):
        embed.emit(embed.build())


def test_it_has_sixty_lines() -> None:
    source = SCRIPT.read_text("utf-8")
    uncounted = {0}
    for node in ast.walk(ast.parse(source)):
        text = getattr(node, "value", None)
        is_text = isinstance(node, ast.Expr) and isinstance(text, ast.Constant)
        if is_text or isinstance(node, ast.Import | ast.ImportFrom):
            uncounted |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = [n for n, line in enumerate(source.splitlines(), 1) if line.strip()]
    assert len(set(lines) - uncounted) <= 60


@pytest.mark.skipif(find_spec("pyright") is None, reason="no pyright: pip install pyright")
@pytest.mark.skipif(not os.environ.get("CI"), reason="takes a while: set CI=true")
def test_it_has_types(tmp_path: Path) -> None:
    shutil.copy(SCRIPT, tmp_path)
    (tmp_path / "pyrightconfig.json").write_text('{"typeCheckingMode": "strict"}')
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, SCRIPT.name]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True)
    assert done.returncode == 0, done.stdout
