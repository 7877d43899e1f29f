"""Programs of `nn` in the interpreter, and what engines make of what they are lowered to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from qdialect.api import Model, run_passes
from qdialect.engines.installed import engine_named
from qdialect.interpreter import Interpreter, random_inputs
from qdialect.ir.context import new_context
from qdialect.plugins.common.exports import exports
from qdialect.plugins.common.program import Program
from qdialect.plugins.mlir.read import read_module, verify_module

Array = NDArray[Any]

ENGINES = ("tosa-reference", "mlir-runner", "iree")
READS = {"tosa": ENGINES, "linalg": ("mlir-runner", "iree"), "stablehlo": ("iree",)}
"""Which engines read what."""


def model(text: str) -> Model:
    """A verified module and its session."""
    ctx = new_context()
    module = read_module(text, ctx)
    verify_module(module, ctx)
    return Model(module, ctx)


def prepared(text: str, to: str = "tosa", target: str | None = None) -> Model:
    """The module in the form of which every op is exact in what it is lowered to."""
    export = exports()[to]
    return run_passes(model(text), export.passes(codes=True), target=target or export.target)


def converted(given: Model, to: str = "tosa") -> Model:
    """The module in another dialect."""
    return run_passes(given, exports()[to].convert)


def agree(
    text: str,
    engine: str,
    samples: int = 2,
    seed: int = 0,
    to: str = "tosa",
    target: str | None = None,
) -> int:
    """Run `text` in the interpreter and what it is lowered to in `engine`, on codes of which
    some are ends of their storage; the number of elements compared. All must be equal."""
    runner = engine_named(engine)
    missing = runner.missing()
    if missing:
        pytest.skip(f"{engine} is not installed: {missing} (qopt engines install)")
    given = prepared(text, to, target)
    interpreter = Interpreter(given.ctx, given.module)
    function = interpreter.function()
    drawn = [random_inputs(function, seed + n, boundary=n % 2 == 1) for n in range(samples)]
    wanted = [interpreter.run(inputs) for inputs in drawn]
    lowered = converted(given, to)
    program = Program.of(lowered.module, lowered.ctx)
    found = runner.run(program, drawn)
    return compare(wanted, found, text)


def compare(wanted: Sequence[Sequence[Array]], found: Sequence[Sequence[Array]], text: str) -> int:
    """The number of elements, which must be equal bit for bit."""
    count = 0
    for sample, given in zip(wanted, found, strict=True):
        for index, (one, other) in enumerate(zip(sample, given, strict=True)):
            mine = np.ascontiguousarray(one)
            if mine.dtype.kind == "u":
                mine = mine.view(other.dtype)
            apart = np.flatnonzero(mine != other)
            assert not apart.size, (
                f"result #{index}: {apart.size} of {mine.size} differ, the first "
                f"{mine.reshape(-1)[apart[0]]} here and {other.reshape(-1)[apart[0]]} there\n{text}"
            )
            count += mine.size
    return count
