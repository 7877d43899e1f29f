"""Every float op on every engine, within the bound that is stated for it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from engine_support import READS, converted, model
from float_operators import GROUPS, Array, FloatProgram

from qdialect.engines.installed import engine_named
from qdialect.interpreter import Interpreter
from qdialect.plugins.common.program import Program

PATHS = [
    (to, engine)
    for to, engines in READS.items()
    for engine in engines
    # IREE compiles for long, so it reads one path only.
    if engine != "iree" or to == "stablehlo"
]


@pytest.mark.parametrize(("to", "engine"), PATHS, ids=lambda p: str(p))
def test_floats_keep_their_bounds(to: str, engine: str) -> None:
    runner = engine_named(engine)
    if missing := runner.missing():
        pytest.skip(f"{engine} is not installed: {missing} (qopt engines install)")
    program = FloatProgram()
    for group in GROUPS:
        group(program)
    inputs = program.inputs(seed=1)
    lowered = converted(model(program.text("f32")), to)
    (found,) = runner.run(Program.of(lowered.module, lowered.ctx), [inputs])
    check(program, inputs, found)


def test_the_interpreter_keeps_them_too() -> None:
    program = FloatProgram()
    for group in GROUPS:
        group(program)
    inputs = program.inputs(seed=2)
    check(program, inputs, _run(program.text("f32"), inputs))


@pytest.mark.parametrize("group", GROUPS, ids=lambda g: g.__name__)
def test_a_wrong_number_is_found(group: Callable[[FloatProgram], None]) -> None:
    program = FloatProgram()
    group(program)
    inputs = program.inputs(seed=3)
    found = _run(program.text("f32"), inputs)
    found[-1] = found[-1] + (1 if found[-1].dtype.kind == "i" else np.float32(1e-3))
    with pytest.raises(AssertionError):
        check(program, inputs, found)


def _run(text: str, inputs: list[Array]) -> list[Array]:
    given = model(text)
    return list(Interpreter(given.ctx, given.module).run(inputs))


def check(program: FloatProgram, inputs: list[Array], found: list[Array]) -> None:
    """Hold every result against the program in f64, and against it on absolute values."""
    wide = [array.astype(np.float64) for array in inputs]
    exact = _run(program.text("f64"), wide)
    sizes = _run(program.text("f64"), [np.abs(array) for array in wide])
    assert len(found) == len(program.results)
    for (name, _, bound), wanted, size, given in zip(
        program.results, exact, sizes, found, strict=True
    ):
        line = next(line for line in program.lines if line.startswith(f"{name} = "))
        off = np.abs(given.reshape(wanted.shape).astype(np.float64) - wanted)
        most = bound.on(wanted, size)
        assert (off <= most).all(), f"{line}: off by {(off - most).max():.3g} too much"
