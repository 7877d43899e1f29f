"""The files that could be written for an optimized model, as ONNX Runtime executes them.

With its optimizations on, the runtime rewrites a file before it runs it: it fuses casts into
integer kernels that round ties in another way, folds two quantizations into one, or fails.
Each candidate is therefore loaded and run as a user will run it, beside the input file: one
that does not load, or that is then further from the float model than the input, is not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import e, inf, log10, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qdialect.cli.race import Race, race, winner
from qdialect.errors import InputError, QError, Where

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from qdialect.api import Form
    from qdialect.formats.onnx.write import OrtEngine
    from qdialect.formats.onnx.write.executed import Executed
    from qdialect.formats.onnx.write.written import Written

    Array = NDArray[Any]
    Arrays = Mapping[str, Array]
    Samples = Sequence[tuple[Arrays, list[Array]]]

INPUT, FLOAT = "the input", "the float model"

SLACK_DB = 0.2
"""By how much a result, as it is executed, may be further from the float model than the input
file as it is written."""
_SAME_DB = 60.0
"""Noise this far below an output (a thousandth of its size) is not compared."""


@dataclass(frozen=True)
class Candidate:
    """One file: a path as it is, or a model of ours in `form`; how the runtime executes it, and
    what it answers so."""

    name: str
    model: Written | Path
    form: Form | None
    engine: OrtEngine
    executed: Executed
    answers: Sequence[Sequence[Array]] = ()


@dataclass
class Choice:
    """The candidate to write, and what the others were."""

    chosen: Candidate
    candidates: Sequence[Candidate]
    race: Race

    def named(self, name: str) -> Candidate | None:
        return next((c for c in self.candidates if c.name == name), None)


@dataclass
class Selection:
    """Builds candidates and chooses one.

    `samples` are inputs, and what the input file answers as it is written (optimizations off);
    `floats` runs the float model, or what stands for it.
    """

    source: Path | None
    samples: Samples
    floats: Reference | None
    notes: list[str] = field(default_factory=list[str])
    candidates: list[Candidate] = field(default_factory=list[Candidate])

    def __post_init__(self) -> None:
        if self.source is not None:
            self.add(INPUT, self.source, None)

    def add(self, name: str, model: Written | Path, form: Form | None) -> None:
        """Load one; one that the runtime refuses is only noted."""
        try:
            self.candidates.append(self._loaded(name, model, form))
        except QError as error:
            self.notes.append(f"{name} is no candidate: {error.message}")

    def _loaded(self, name: str, model: Written | Path, form: Form | None) -> Candidate:
        """A model with the runtime's optimizations on, run on all samples.

        QError where it does not load or run."""
        from qdialect.formats.onnx.write.executed import optimized_engine

        engine, executed = optimized_engine(model if isinstance(model, Path) else model.whole())
        answers = [list(engine.run(inputs).values()) for inputs, _ in self.samples]
        return Candidate(name, model, form, engine, executed, answers)

    def add_float(self, path: Path) -> None:
        """Let a float model take part; InputError (`bad-float`) where it does not run, or its
        inputs or outputs are others."""
        try:
            candidate = self._loaded(FLOAT, path, None)
        except QError as error:
            raise InputError(error.message, where=Where(str(path)), code="bad-float") from None
        for kind in ("inputs", "outputs"):
            found = getattr(candidate.engine, kind)
            for other in self.candidates[:1]:
                if (wanted := getattr(other.engine, kind)) != found:
                    raise InputError(
                        f"the {kind} of the float model are {', '.join(found)}, those of the "
                        f"quantized one {', '.join(wanted)}",
                        where=Where(str(path)),
                        code="bad-float",
                    )
        self.floats = Reference("the float model", candidate.answers)
        self.candidates.append(candidate)

    def choose(
        self, preferred: Sequence[str], seconds: float, inputs: Arrays | None
    ) -> Choice | None:
        """The fastest in a race of so many seconds (0: the first of `preferred`); None where no
        candidate runs."""
        sound = self._sound()
        order = [name for name in (*preferred, INPUT, FLOAT) if name in sound]
        if not order:
            return None
        chosen, raced = order[0], Race()
        if seconds > 0 and inputs is not None and len(order) > 1:
            entrants = sorted(order, key=lambda name: name != INPUT)
            raced = race({name: sound[name].engine for name in entrants}, inputs, seconds)
            chosen = winner(raced.laps, order)
        return Choice(sound[chosen], self.candidates, raced)

    def _sound(self) -> dict[str, Candidate]:
        """Those that, as executed, are as close to the float model as the input is."""
        found = {candidate.name: candidate for candidate in self.candidates}
        own = found.get(INPUT)
        if own is None or self.floats is None or not self.samples:
            return found
        written = [answers for _, answers in self.samples]
        floats = self.floats
        as_written = signal_to_noise(floats.answers, written)
        executed = signal_to_noise(floats.answers, own.answers)
        count = sum(getattr(array, "size", 0) for answers in written for array in answers)
        least = min(as_written - SLACK_DB - chance_db(count), executed)
        for name, candidate in list(found.items()):
            if name in (INPUT, FLOAT) or signal_to_noise(written, candidate.answers) > _SAME_DB:
                continue
            db = signal_to_noise(floats.answers, candidate.answers)
            said = (
                f"with the runtime's optimizations on, {name} is {db:.2f} dB from {floats.name}, "
                f"the input {executed:.2f} dB ({as_written:.2f} dB with them off)"
            )
            if db < least:
                self.notes.append(f"{name} is no candidate: {said}")
                del found[name]
            else:
                self.notes.append(said)
        return found


def chance_db(count: int) -> float:
    """By how many dB noise powers that are estimated on `count` numbers differ by chance: two
    standard deviations of the ratio of two chi-squared means, 10 log10(e) sqrt(4 / count)."""
    return 2 * 10 * log10(e) * sqrt(4 / max(count, 1))


@dataclass(frozen=True)
class Reference:
    """What a model without rounding answers on the samples."""

    name: str
    answers: Sequence[Sequence[Array]]


def unrounded(source: Path, samples: Samples) -> Reference | None:
    """The model file without the rounding of activations, on all samples; None where it does
    not run."""
    from qdialect.formats.onnx.write import OrtEngine
    from qdialect.formats.onnx.write.unrounded import model_without_rounding

    try:
        engine = OrtEngine(model_without_rounding(source), optimize=False)
        answers = [list(engine.run(inputs).values()) for inputs, _ in samples]
    except QError:
        return None
    return Reference("the model without rounding of activations", answers)


def signal_to_noise(
    reference: Sequence[Sequence[Array]], answers: Sequence[Sequence[Array]]
) -> float:
    """Of the output that differs most over all samples: its power over that of the difference,
    in dB."""
    import numpy as np

    if not reference:
        return inf
    worst = inf
    for index in range(len(reference[0])):
        signal = noise = 0.0
        for one, other in zip(reference, answers, strict=True):
            a, b = one[index], other[index]
            if getattr(a, "dtype", None) is None or a.dtype.kind != "f" or a.shape != b.shape:
                continue
            x, y = a.astype(np.float64), b.astype(np.float64)
            sound = np.isfinite(x) & np.isfinite(y)
            signal += float(np.square(x[sound]).sum())
            noise += float(np.square(x[sound] - y[sound]).sum())
        if noise > 0:
            worst = min(worst, 10 * log10(signal / noise) if signal else -inf)
    return worst
