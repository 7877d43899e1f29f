"""Integers, floats and integers again: on every path integers are equal, floats near.

The floats between two casts of a whole network would become 32-bit integers; here they are
returned, so they stay floats.
"""

from __future__ import annotations

import numpy as np
import pytest
from engine_support import READS, converted, model

from qdialect.api import run_passes
from qdialect.engines.installed import engine_named
from qdialect.interpreter import Interpreter, random_inputs
from qdialect.plugins.common.exports import exports
from qdialect.plugins.common.program import Program
from tests.generators.mixed_networks import mixed_network

PATHS = [("tosa", "tosa-reference"), ("tosa", "mlir-runner"), ("linalg", "mlir-runner")]
NEAR = 2.0**-16
"""How far floats may be off, of the largest of a value: 256 units in the last place, for up to five
ops in a row of which a layer norm multiplies what is off by up to 1 / sqrt(0.01)."""


@pytest.mark.parametrize(("to", "engine"), PATHS, ids=str)
@pytest.mark.parametrize("seed", range(2))
def test_integers_are_equal_and_floats_near(seed: int, to: str, engine: str) -> None:
    hold(seed, to, engine)


def hold(seed: int, to: str, engine: str) -> None:
    """Check one network on one path."""
    runner = engine_named(engine)
    if missing := runner.missing():
        pytest.skip(f"{engine} is not installed: {missing} (qopt engines install)")
    network, export = mixed_network(seed), exports()[to]
    given = run_passes(model(network.text), export.passes(codes=False), target=export.target)
    interpreter = Interpreter(given.ctx, given.module)
    inputs = random_inputs(interpreter.function(), seed)
    expected = interpreter.run(inputs)
    lowered = converted(given, to)
    (found,) = runner.run(Program.of(lowered.module, lowered.ctx), [inputs])
    before, floats, codes, after = found
    np.testing.assert_array_equal(before, expected[0])
    largest = np.abs(expected[1]).max()
    assert np.abs(floats - expected[1]).max() <= NEAR * largest
    # The codes are those of the very floats that the engine computed.
    steps = np.rint(floats / np.float32(network.scale)) + np.float32(network.zero)
    np.testing.assert_array_equal(codes, np.clip(steps, -128, 127).astype(np.int8))
    if np.array_equal(codes, expected[2]):
        np.testing.assert_array_equal(after, expected[3])


def test_every_path_takes_them() -> None:
    for seed in range(2, 6):
        for to in READS:
            export = exports()[to]
            text = mixed_network(seed).text
            given = run_passes(model(text), export.passes(codes=False), target=export.target)
            assert converted(given, to)
