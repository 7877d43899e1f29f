"""Which TFLite file to write: the fastest that LiteRT loads, the input among them.

Every file is loaded as a user will run it, in a process of its own; one that LiteRT refuses is not
written. They run in turns for some seconds, and of those that are as fast as the fastest the first
in the order of preference is written. Without a race a result is written unless it has more ops
than the input. An ONNX input takes part in ONNX Runtime, to be told, as it cannot be written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from statistics import median
from time import monotonic
from typing import TYPE_CHECKING, Any

from qdialect.errors import QError
from qdialect.plugins.tflite.check import InLitert
from qdialect.plugins.tflite.files import Kernels, WrittenTflite, count
from qdialect.workflows.race import FEWEST, INPUT, Candidate, Choice, Race, laps_of, winner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Timed = InLitert

_A_TURN = 2e6
"""Nanoseconds that a file runs in a turn, if one run takes less."""


@dataclass
class LitertSelection:
    """Builds candidates, by name, and chooses one; `names` are those of the inputs in the order of
    the files."""

    kernels: Kernels
    names: Sequence[str]
    notes: list[str] = field(default_factory=list[str])
    candidates: list[Candidate] = field(default_factory=list[Candidate])
    _timed: dict[str, InLitert] = field(default_factory=dict[str, InLitert])

    def add_input(self, path: Path) -> None:
        """Let a TFLite file take part as it is."""
        from qdialect.plugins.tflite.file.read import read_file

        try:
            loaded = InLitert.of_file(path, self.kernels)
            executed = count(read_file(path), loaded.delegated())
        except QError as error:
            self.notes.append(f"{INPUT} is no candidate: {error.message}")
            return
        self._add(Candidate(INPUT, path, None, loaded, executed))

    def add(self, name: str, written: WrittenTflite) -> None:
        """Load one of ours; one that LiteRT refuses is only noted."""
        from qdialect.plugins.tflite.engine import InChild

        try:
            loaded = InLitert(InChild(written.for_litert, self.kernels, name=f"'{name}'"))
            executed = count(written.file, loaded.delegated())
        except QError as error:
            self.notes.append(f"{name} is no candidate: {error.message}")
            return
        self._add(Candidate(name, written, None, loaded, executed))

    def add_onnx(self, path: Path) -> None:
        """Time an ONNX file in ONNX Runtime beside them."""
        from qdialect.plugins.tflite.engine import InChild

        try:
            self._timed[INPUT] = InLitert(InChild(path, "onnxruntime"))
        except QError as error:
            self.notes.append(f"the input is not timed in ONNX Runtime: {error.message}")

    def choose(self, seconds: float, inputs: Mapping[str, Array] | None) -> Choice | None:
        """The fastest in a race of so many seconds; None where LiteRT loads none of them."""
        preferred = [c.name for c in self.candidates if c.name != INPUT]
        found = {c.name: c for c in self.candidates}
        order = [*preferred, *([INPUT] if INPUT in found else [])]
        try:
            raced = self._raced(seconds, inputs) if len(self._timed) > 1 else Race()
        except QError as error:
            self.notes.append(f"not raced: {error.message}")
            raced = Race()
        finally:
            for each in self._timed.values():
                each.close()
        if not order:
            return None
        if raced.laps:
            chosen = winner({name: raced.laps[name] for name in order}, order)
        else:
            most = found[INPUT].executed.nodes if INPUT in found else None
            chosen = next(n for n in order if most is None or found[n].executed.nodes <= most)
        return Choice(found[chosen], self.candidates, raced)

    def _add(self, candidate: Candidate) -> None:
        self.candidates.append(candidate)
        self._timed[candidate.name] = candidate.engine

    def _raced(self, seconds: float, inputs: Mapping[str, Array] | None) -> Race:
        if seconds <= 0 or inputs is None:
            return Race()
        times: dict[str, list[float]] = {name: [] for name in self._timed}
        arrays = [inputs[name] for name in self.names]
        for each in self._timed.values():
            each.model.nanoseconds(arrays, warm=1)
        order, random, began, turn = list(times), Random(0), monotonic(), 0
        while turn < FEWEST or monotonic() - began < seconds:
            for name in order:
                spent = self._timed[name].model.nanoseconds(warm=1, at_least=_A_TURN)
                times[name].append(median(spent) / 1e6)
            random.shuffle(order)
            turn += 1
            if turn >= FEWEST and monotonic() - began > 4 * seconds:
                break
        where = f"LiteRT ({self.kernels})"
        if INPUT in self._timed and INPUT not in {c.name for c in self.candidates}:
            where += ", the input in ONNX Runtime"
        return Race(laps_of(times), runtime=where)
