"""Timing files of models against each other: TFLite files in LiteRT, ONNX files in ONNX Runtime.

Each file has a process of its own, in which nothing else runs; they run in turns, in a new order
each time, so that all share what the machine does meanwhile.  What is timed is processor time of
one thread in the runtime (`model_child`): messages between processes are no part of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.engines.litert import DEFAULT, SUFFIXES, InChild, Port, loadable
from qdialect.errors import InputError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

FEWEST, MOST = 5, 1000
"""Turns, whatever the budget."""
_A_TURN = 2e6
"""Nanoseconds that a file runs in a turn, if one invocation takes less."""
_OPEN = 1
"""What an extent is that only a run tells, where no inputs are given."""


@dataclass(frozen=True)
class FileTimes:
    """What invocations of a file took: in milliseconds, of each turn the median."""

    name: str
    engine: str
    turns: tuple[float, ...]

    @property
    def milliseconds(self) -> float:
        """The median of all turns."""
        return median(self.turns)

    def ratio(self, other: FileTimes) -> float:
        """The median, over turns, of its time over that of another in the same turn."""
        pairs = zip(self.turns, other.turns, strict=True)
        return median(a / b if b else 1.0 for a, b in pairs)


def engine_of(file: Path) -> str:
    """What runs a file, by its suffix; UsageError."""
    if file.suffix == ".onnx":
        return "onnxruntime"
    if file.suffix in SUFFIXES:
        return DEFAULT
    raise UsageError(f"nothing times '{file}': use .onnx or .tflite")


def time_files(
    files: Sequence[Path],
    inputs: Mapping[str, Array] | None = None,
    *,
    seconds: float = 3.0,
    engines: Sequence[str] | None = None,
    fewest: int = FEWEST,
    most: int = MOST,
) -> list[FileTimes]:
    """What each file takes on one thread, all in turns for about so many seconds (and at least
    `fewest` turns).

    `inputs` are by name, or by position where a file has other names; without them random ones.
    `engines` replace what the suffix says, one for each file ("litert-ref", "onnxruntime").
    InputError (`engine-failed`) where a file does not load or run.
    """
    chosen = [engine_of(file) for file in files] if engines is None else engines
    if len(chosen) != len(files):
        raise UsageError(f"{len(files)} files, but {len(chosen)} engines")
    models: list[InChild] = []
    try:
        for file, engine in zip(files, chosen, strict=True):
            model = InChild(loadable(file), engine, name=f"'{file.name}'")
            models.append(model)
            model.nanoseconds(arrays_for(model, inputs), warm=1)
        turns = _turns(models, seconds, fewest, most)
    finally:
        for model in models:
            model.child.close()
    names = zip(files, chosen, turns, strict=True)
    return [FileTimes(str(file), engine, tuple(found)) for file, engine, found in names]


def _turns(models: Sequence[InChild], seconds: float, fewest: int, most: int) -> list[list[float]]:
    found: list[list[float]] = [[] for _ in models]
    order, random, began, turn = list(range(len(models))), Random(0), monotonic(), 0
    while turn < fewest or (turn < most and monotonic() - began < seconds):
        for index in order:
            times = models[index].nanoseconds(warm=1, at_least=_A_TURN)
            found[index].append(median(times) / 1e6)
        random.shuffle(order)
        turn += 1
    return found


def arrays_for(model: InChild, inputs: Mapping[str, Array] | None) -> list[Array]:
    """The arrays of a model's inputs in their order: by name, else by position, else random."""
    if inputs is None:
        return random_arrays(model.inputs)
    names = [port.name for port in model.inputs]
    if all(name in inputs for name in names):
        return [np.asarray(inputs[name]) for name in names]
    if len(inputs) != len(names):
        raise InputError(
            f"{model.name} takes {len(names)} inputs, not {len(inputs)}", code="bad-input"
        )
    return [np.asarray(array) for array in inputs.values()]


def random_arrays(ports: Sequence[Port], seed: int = 0, *, extent: int = _OPEN) -> list[Array]:
    """Random numbers for inputs: any codes of 8 and 16 bits, floats in [-1, 1], and 0 or 1 where
    integers are wide, which are indices into nearly anything. Extents that only a run tells are
    `extent`."""
    rng = np.random.default_rng(seed)
    arrays: list[Array] = []
    for port in ports:
        shape = [extent if n == -1 else n for n in port.signature]
        dtype = np.dtype("float32" if port.type == "bfloat16" else port.type)
        if dtype.kind == "f":
            array = rng.uniform(-1, 1, shape).astype(dtype)
        elif dtype.kind in "iu" and dtype.itemsize <= 2:
            limits = np.iinfo(dtype)
            array = rng.integers(limits.min, limits.max, shape, endpoint=True).astype(dtype)
        else:
            array = rng.integers(0, 1, shape, endpoint=True).astype(dtype)
        arrays.append(array)
    return arrays
