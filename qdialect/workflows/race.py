"""The files that could be written for an optimized model, as ONNX Runtime executes them.

With its optimizations on, the runtime rewrites a file before it runs it: it fuses casts into
integer kernels that round ties in another way, folds two quantizations into one, or fails.
Each candidate is therefore loaded and run as a user will run it, beside the input file: one
that does not load, or that is then further from the float model than the input, is not written.

Of the rest the fastest is written, by short runs in turns, on this machine. The order in which
candidates stand is the order of preference: the first wins that no other beats beyond the quartiles
of their times, so that noise does not choose the file.  Without a race (a budget of 0) it is the
first, so that the same command writes the same file anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite, log10, sqrt
from pathlib import Path
from random import Random
from statistics import stdev
from time import monotonic
from typing import TYPE_CHECKING, Any

from qdialect.errors import InputError, QError, Where

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.builtin import ModuleOp

    from qdialect.plugins.onnx.write import OrtEngine
    from qdialect.plugins.onnx.write.executed import Executed
    from qdialect.plugins.onnx.write.written import Written
    from qdialect.plugins.tflite.files import ExecutedTflite, WrittenTflite
    from qdialect.targets.base import Target
    from qdialect.workflows.model import Form

    Array = NDArray[Any]
    Arrays = Mapping[str, Array]
    Samples = Sequence[tuple[Arrays, list[Array]]]

INPUT, FLOAT = "the input", "the float model"
_WORTH = 0.95
"""QDQ runs anywhere, so another form has to be cheaper by more than measurements differ."""

SECONDS = 3.0
"""How long candidates are timed in turns, unless said."""
FEWEST = 5
"""Turns that are needed to tell a spread."""
_CLEAR = 50
"""After so many turns, and twice, four times as many, it is looked whether the spread is small
enough to end before the time is up."""
_NOISE = 0.01
"""Medians of ratios that are as close are the same, however narrow their spread is."""
SLACK_DB = 0.2
"""By how much a result, as it is executed, may be further from the float model than the input
file as it is written."""
_RANDOM_DB, _SEVERAL = 1.0, 4
"""What random inputs tell of noise at best, and how many samples tell a spread."""
_WRONG_DB = 20.0
"""An input that is executed as so little of what is written, and a result that is closer by so
much: integer kernels that move single steps leave more."""
_SAME_DB = 60.0
"""Noise this far below an output (a thousandth of its size) is not compared."""


@dataclass(frozen=True)
class Candidate:
    """One file: a path as it is, or a model of ours in `form`; how the runtime executes it, and
    what it answers so."""

    name: str
    model: Written | WrittenTflite | Path
    form: Form | None
    engine: Any
    executed: Executed | ExecutedTflite
    answers: Sequence[Sequence[Array]] = ()


@dataclass(frozen=True)
class Apart:
    """The share of elements that differ in the output in which most do, and dB of the output of
    floats that differs most (infinite: none does)."""

    share: float
    db: float

    @classmethod
    def of(cls, expected: Sequence[Sequence[Array]], answers: Sequence[Sequence[Array]]) -> Apart:
        """Of answers on the same samples."""
        import numpy as np

        counts = [[0, 0] for _ in expected[0]]
        for one, other in zip(expected, answers, strict=True):
            for count, a, b in zip(counts, one, other, strict=True):
                same = np.asarray(a) == np.asarray(b)
                if getattr(a, "dtype", np.dtype("O")).kind == "f" and np.shape(a) == np.shape(b):
                    same = same | (np.isnan(a) & np.isnan(b))
                count[0] += np.size(same) - int(np.sum(same))
                count[1] += np.size(same)
        share = max((differ / max(size, 1) for differ, size in counts), default=0.0)
        return cls(share, signal_to_noise(expected, answers))

    def __str__(self) -> str:
        if not self.share:
            return "has the bits of the source"
        db = f" ({self.db:.1f} dB)" if isfinite(self.db) else ""
        return f"differs from the source in {self.share:.2%} of an output{db}"

    def as_json(self) -> dict[str, float | None]:
        """As plain data; `db` is None where it is infinite."""
        return {"share_differing": self.share, "db": self.db if isfinite(self.db) else None}


@dataclass
class Choice:
    """The candidate to write, and what the others were; `expected` is what the source answers as it
    is written, on each sample."""

    chosen: Candidate
    candidates: Sequence[Candidate]
    race: Race
    expected: Sequence[Sequence[Array]] = ()

    def named(self, name: str) -> Candidate | None:
        """The candidate of a name; None where it could not take part."""
        return next((c for c in self.candidates if c.name == name), None)

    def by_default(self) -> dict[str, Apart]:
        """How far what is written, and the input, as the runtime executes them by default, are from
        the source as it is written; empty where nothing was compared."""
        sides = {"written": self.chosen, "input": self.named(INPUT)}
        return {
            name: Apart.of(self.expected, one.answers)
            for name, one in sides.items()
            if one is not None and one.answers and self.expected
        }


@dataclass
class Selection:
    """Builds candidates and chooses one.

    `samples` are inputs, and what the input file answers as it is written (optimizations off);
    they are `given`, or random; `floats` runs the float model, or what stands for it.
    """

    source: Written | Path | None
    samples: Samples
    floats: Reference | None
    given: bool = False
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
        from qdialect.plugins.onnx.write.executed import optimized_engine

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
                if (expected := getattr(other.engine, kind)) != found:
                    raise InputError(
                        f"the {kind} of the float model are {', '.join(found)}, those of the "
                        f"quantized one {', '.join(expected)}",
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
        wrong = self._input_is_wrong(sound)
        order = [n for n in (*preferred, INPUT, FLOAT) if n in sound and not (wrong and n == INPUT)]
        if not order:
            return None
        chosen, raced = order[0], Race()
        if seconds > 0 and inputs is not None and len(order) + wrong > 1:
            first = [INPUT] if INPUT in sound else []
            entrants = [*first, *(name for name in order if name != INPUT)]
            engines = {name: sound[name].engine for name in entrants}
            raced = race(engines, dict.fromkeys(engines, inputs), seconds)
            self.notes += [f"{n} is no candidate: {why}" for n, why in raced.failed.items()]
            order = [name for name in order if name in raced.laps]
            if not order:
                return None
            chosen = winner({name: raced.laps[name] for name in order}, order)
        # Free the sessions: each holds all weights, and packed ones twice.
        bare = [replace(candidate, engine=None) for candidate in self.candidates]
        written = [answers for _, answers in self.samples]
        return Choice(next(c for c in bare if c.name == chosen), bare, raced, written)

    def _input_is_wrong(self, sound: Mapping[str, Candidate]) -> bool:
        """Whether the runtime, with its optimizations on, makes something else of the input file
        than is written there, where a candidate of ours keeps it."""
        others = [c for name, c in sound.items() if name not in (INPUT, FLOAT)]
        if INPUT not in sound or not others or not self.samples:
            return False
        written = [answers for _, answers in self.samples]
        found = signal_to_noise(written, sound[INPUT].answers)
        kept = max(signal_to_noise(written, other.answers) for other in others)
        if found >= _WRONG_DB or kept < found + _WRONG_DB:
            return False
        self.notes.append(
            f"with the runtime's optimizations on, the input is {found:.2f} dB from what it is as "
            f"it is written, a result {kept:.2f} dB: the input is no candidate"
        )
        return True

    def _sound(self) -> dict[str, Candidate]:
        """Those that, as executed, are as close to the float model as the input is."""
        found = {candidate.name: candidate for candidate in self.candidates}
        original = found.get(INPUT)
        if original is None or self.floats is None or not self.samples:
            return found
        written = [answers for _, answers in self.samples]
        floats = self.floats
        as_written = signal_to_noise(floats.answers, written)
        executed = signal_to_noise(floats.answers, original.answers)
        least = min(as_written, executed) - SLACK_DB
        for name, candidate in list(found.items()):
            if name in (INPUT, FLOAT) or signal_to_noise(written, candidate.answers) > _SAME_DB:
                continue
            db = signal_to_noise(floats.answers, candidate.answers)
            text = (
                f"with the runtime's optimizations on, {name} is {db:.2f} dB from {floats.name}, "
                f"the input {executed:.2f} dB ({as_written:.2f} dB with them off)"
            )
            chance = self._chance_db(floats, original, candidate)
            if db < least - chance:
                self.notes.append(f"{name} is no candidate: {text}")
                del found[name]
            elif db < least and not self.given:
                self.notes.append(f"{text}, on random inputs: -i X.npz judges it on real ones")
            else:
                self.notes.append(text)
        return found

    def _chance_db(self, floats: Reference, original: Candidate, candidate: Candidate) -> float:
        """By how many dB a candidate may seem worse than the input by chance: two standard errors
        of the mean difference over samples, and of random ones, which are unlike real ones, at
        least `_RANDOM_DB`."""
        answers = zip(floats.answers, original.answers, candidate.answers, strict=True)
        each = [signal_to_noise([f], [c]) - signal_to_noise([f], [o]) for f, o, c in answers]
        sound = [db for db in each if isfinite(db)]
        error = 2 * stdev(sound) / sqrt(len(sound)) if len(sound) >= _SEVERAL else 0.0
        return error if self.given else max(error, _RANDOM_DB)


@dataclass(frozen=True)
class Reference:
    """What a model without rounding answers on the samples."""

    name: str
    answers: Sequence[Sequence[Array]]


def unrounded(source: Written | Path, samples: Samples) -> Reference | None:
    """The model without the rounding of activations, on all samples; None where it does
    not run."""
    from qdialect.plugins.onnx.write import OrtEngine
    from qdialect.plugins.onnx.write.unrounded import model_without_rounding

    try:
        model = source if isinstance(source, Path) else source.whole()
        engine = OrtEngine(model_without_rounding(model), optimize=False)
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


def cheapest_form(module: ModuleOp, target: Target) -> Form:
    """The form in which the kernels of the module's ops cost less."""
    qdq = kernels = 0.0
    for op in module.walk():
        prices = target.form_prices(op)
        if prices is not None:
            qdq, kernels = qdq + prices[0], kernels + prices[1]
    return "qoperator" if kernels < _WORTH * qdq else "qdq"


@dataclass(frozen=True)
class Lap:
    """How one candidate ran: the median and the quartiles of its processor time over that of the
    input in the same turn, and so many times the median milliseconds of the input."""

    milliseconds: float
    ratio: float
    low: float
    high: float
    turns: int

    @property
    def error(self) -> float:
        """How far the median of the ratios may be off: two standard errors."""
        return 2 * 0.93 * (self.high - self.low) / sqrt(self.turns)

    @property
    def noise(self) -> float:
        """The same, but no less than what is no difference."""
        return max(_NOISE, self.error)

    def as_json(self) -> dict[str, float]:
        """As plain data; `ms` are milliseconds."""
        return {"ms": self.milliseconds, "ratio": self.ratio, "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Race:
    """What a race measured, by candidate; `failed` says why others did not get to its end."""

    laps: Mapping[str, Lap] = field(default_factory=dict[str, Lap])
    failed: Mapping[str, str] = field(default_factory=dict[str, str])
    runtime: str = "ONNX Runtime"

    def __str__(self) -> str:
        if not self.laps:
            return "not raced: the prices of the target choose the form"
        rows = [
            f"{name} {lap.milliseconds:.3g} ms"
            + (f" ({lap.ratio:.2f} of the input, {lap.low:.2f} to {lap.high:.2f})" if n else "")
            for n, (name, lap) in enumerate(self.laps.items())
        ]
        turns = next(iter(self.laps.values())).turns
        return f"raced in {self.runtime}, one thread, {turns} turns: {', '.join(rows)}"


def race(engines: Mapping[str, OrtEngine], inputs: Mapping[str, Arrays], seconds: float) -> Race:
    """Run all in turns, each on its inputs, in a new order each time, for about so many seconds
    (and `FEWEST` turns, if those take no more than four times as long), or until more turns would
    tell nothing new. The first that gets to the end is what the others are compared with."""
    times: dict[str, list[float]] = {name: [] for name in engines}
    failed: dict[str, str] = {}

    def run(name: str) -> None:
        try:
            times[name].append(engines[name].nanoseconds(inputs[name])[0] / 1e6)
        except QError as error:
            failed[name] = error.message
            del times[name]

    for name in engines:
        run(name)
    for laps in times.values():
        laps.clear()
    order, names, began, turn, look = Random(0), list(engines), monotonic(), 0, _CLEAR
    while times and (
        (spent := monotonic() - began) < seconds or (turn < FEWEST and spent < 4 * seconds)
    ):
        for name in names:
            if name in times:
                run(name)
        # Whoever runs after the largest finds its own weights gone from the caches.
        order.shuffle(names)
        turn += 1
        if turn == look:
            look *= 2
            if all(lap.noise <= _NOISE for lap in laps_of(times).values()):
                break
    return Race(laps_of(times), failed)


def laps_of(times: Mapping[str, Sequence[float]]) -> dict[str, Lap]:
    """The lap of each, in milliseconds, compared with the first in the same turn."""
    first = next(iter(times.values()), ())
    return {name: _lap(laps, first) for name, laps in times.items()}


def _lap(times: Sequence[float], first: Sequence[float]) -> Lap:
    ratios = sorted(a / b if b else 1.0 for a, b in zip(times, first, strict=True))
    count = len(ratios)
    low, middle, high = (ratios[min(int(part * count), count - 1)] for part in (0.25, 0.5, 0.75))
    return Lap(middle * sorted(first)[count // 2], middle, low, high, count)


def winner(laps: Mapping[str, Lap], preferred: Sequence[str]) -> str:
    """The first of the `preferred` that nothing beats: whose quartiles lie above those of no other,
    or that is as fast as the fastest within the noise of medians."""
    fastest = min(laps.values(), key=lambda lap: lap.ratio)
    least = min(lap.high for lap in laps.values())
    limit = fastest.ratio + fastest.noise
    return next(n for n in preferred if laps[n].low <= least or laps[n].ratio <= limit)
