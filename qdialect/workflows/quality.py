"""What a quantized model is, as it is executed, beside the float model: latency, size, nodes, and
the loss of each part of its outputs.

Loss is measured on samples that no range is of, where there are enough; else the samples are
those that ranges are of, and that is said. Both models run as their user runs them: in ONNX
Runtime with its optimizations on; for LiteRT what is written in LiteRT, and for a target that is no
runtime of ours in the reference interpreter, where nothing is said of latency.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from qdialect.errors import InputError, QError, Where
from qdialect.interpreter import output_names
from qdialect.packages import package
from qdialect.plugins.tflite.files import litert_installed
from qdialect.quantizer.output_parts import parts_of
from qdialect.quantizer.quality import Judge, PartQuality, Quality, db_text
from qdialect.workflows.candidates import FLOAT as RACED_FLOAT
from qdialect.workflows.inputs import drawn_inputs
from qdialect.workflows.interface_codes import InterfaceCodes
from qdialect.workflows.race import Lap, race
from qdialect.workflows.run import open_engine

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from qdialect.plugins.onnx.write import OrtEngine
    from qdialect.plugins.onnx.write.executed import Executed
    from qdialect.plugins.onnx.write.written import Written
    from qdialect.targets.base import Target
    from qdialect.workflows.candidates import Raced
    from qdialect.workflows.model import Form, Model

    Arrays = Mapping[str, NDArray[Any]]
    Run = Callable[[Arrays], Mapping[str, NDArray[Any]]]

HELD_OUT = 16
"""At most so many samples are held out."""
FEWEST = 16
"""Of fewer samples none is held out: ranges of what is left would be of too few."""
IN_REFERENCE = 2
"""So many samples at most are judged where the reference interpreter runs, which takes its time."""
SECONDS = 0.5
"""How long the two models run in turns for their latency."""


def held_out(count: int) -> list[int]:
    """Which of so many samples ranges are not taken from: an eighth, spread evenly."""
    if count < FEWEST:
        return []
    most = min(HELD_OUT, count // 8)
    return [(2 * number + 1) * count // (2 * most) for number in range(most)]


@dataclass(frozen=True)
class Samples:
    """What is judged on: `inputs`, which are `numbers` of the `total` samples that there are;
    `held_out`: no range is of them."""

    inputs: Sequence[Arrays]
    numbers: Sequence[int]
    total: int
    held_out: bool

    def __str__(self) -> str:
        what = f"{len(self.inputs)} of {self.total} samples"
        if self.held_out:
            return f"{what}, held out (no range is of them)"
        if self.total >= FEWEST:
            return f"{what}, which the profile may be of: other data may lose more"
        return f"{what}, too few to hold some out ({FEWEST} are needed): other data may lose more"


def unfit(samples: Sequence[Arrays], total: int) -> list[str]:
    """Why samples, of `total` that there are, cannot calibrate, or cannot be held out: all are
    equal, a float input holds one number only, or they are few."""
    import numpy as np

    found: list[str] = []
    if total < FEWEST:
        found.append(
            f"{total} samples are too few to hold some out ({FEWEST} are needed): the loss on "
            "others is not known"
        )
    first: Arrays = samples[0] if samples else {}
    same = {n: all(np.array_equal(a, other[n]) for other in samples[1:]) for n, a in first.items()}
    if len(samples) > 1 and all(same.values()):
        found.append("all samples that were looked at are equal: ranges of others will be larger")
    for name, array in first.items():
        is_one = array.dtype.kind == "f" and array.size > 1 and bool((array == array.flat[0]).all())
        if is_one and same[name]:
            found.append(
                f"input '{name}' is {array.flat[0]:g} everywhere: its range is of one number"
            )
    return found


@dataclass(frozen=True)
class Side:
    """One of the two models: how it is executed (None: in the reference interpreter)."""

    run: Run
    interface: InterfaceCodes
    engine: OrtEngine | None = None
    executed: Executed | None = None
    written: Written | None = None


@dataclass
class Measured:
    """What was measured; `problem` says why there is no `quality`, `where` in what both ran.

    `written` is the quantized model as it was executed, None where it was not exported.
    """

    samples: Samples | None = None
    where: str = ""
    quality: Quality | None = None
    executed: Mapping[str, Executed] = field(default_factory=dict[str, "Executed"])
    laps: Mapping[str, Lap] = field(default_factory=dict[str, Lap])
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    problem: str = ""
    written: Written | None = None

    def refuse_dead(self) -> None:
        """InputError (`dead-output`) where something in the outputs was alive and is constant."""
        dead = [] if self.quality is None else self.quality.dead
        if not dead:
            return
        shown = "; ".join(map(str, dead[:3]))
        more = f" and {len(dead) - 3} more" if len(dead) > 3 else ""
        key = dead[0].part.key
        raise InputError(
            "the quantized model gives one number, whatever its input, where the float model does "
            f"not: {shown}{more}",
            where=Where(node=key) if key else None,
            code="dead-output",
            notes=(
                "leave the ops float that lose most (--keep-float auto=3) where the target has "
                "floats, take 16 bits (--activations u16), or write it as it is with --allow-dead",
            ),
        )

    def refuse_lossy(self, least: float, costliest: Callable[[], str | None]) -> None:
        """InputError (`lossy-output`) where a part of the outputs that is not dead keeps less than
        `least` dB; `costliest` says which op loses most."""
        parts: Sequence[PartQuality] = () if self.quality is None else self.quality.parts
        alive = (part for part in parts if part.is_real and not part.is_dead)
        worst = min(alive, key=lambda part: part.judged_db, default=None)
        if worst is None or worst.judged_db >= least:
            return
        named = costliest()
        raise InputError(
            f"of '{worst.part}' {db_text(worst.judged_db)} are left on {self.samples}; at least "
            f"{least:g} dB are wanted",
            where=Where(node=worst.part.key) if worst.part.key else None,
            code="lossy-output",
            notes=(
                *([] if named is None else [named]),
                "leave the ops float that lose most (--keep-float auto=3) where the target has "
                "floats, or take 16 bits (--activations u16)",
                "nothing was written; --best-effort writes it, --budget 'sqnr>=N' asks for N dB",
            ),
        )

    def weigh(self, source: Path | None, written: Path) -> None:
        """Note the sizes of the float model's file, where it is from one, and of what was
        written."""
        if source is not None:
            self.sizes = {FLOAT: size_of(source), WRITTEN: size_of(written)}

    def as_json(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "where": self.where or None,
            "samples": None if self.samples is None else len(self.samples.inputs),
            "sample_numbers": None if self.samples is None else list(self.samples.numbers),
            "held_out": None if self.samples is None else self.samples.held_out,
            "problem": self.problem or None,
            "latency": {name: lap.as_json() for name, lap in self.laps.items()},
            "bytes": dict(self.sizes),
            "executed": {name: one.as_json() for name, one in self.executed.items()},
            "loss": None if self.quality is None else self.quality.as_json(),
        }

    def rows(self) -> list[tuple[str, ...]]:
        """Latency, size and what is executed, of both models, under a heading."""
        names = FLOAT, WRITTEN
        rows: list[tuple[str, ...]] = [("", *names, "ratio")]
        if self.laps:
            one, other = (self.laps[name] for name in names)
            times = (f"{lap.milliseconds:.3g} ms" for lap in (one, other))
            rows.append(("latency, one thread", *times, f"{other.ratio:.2f}"))
        if self.sizes:
            sizes = [self.sizes[name] for name in names]
            rows.append(("file", *map(size_text, sizes), f"{sizes[1] / max(sizes[0], 1):.2f}"))
        if self.executed:
            both = [self.executed[name] for name in names]
            rows.append(("nodes executed", *(str(one.nodes) for one in both), ""))
            rows.append(("  with a float result", *(str(one.float_nodes) for one in both), ""))
            rows.append(("  quantize, dequantize", *(str(one.casts) for one in both), ""))
        return rows if len(rows) > 1 else []


FLOAT, WRITTEN = "float", "written"


def size_text(size: int) -> str:
    """`3.4 MB`: bytes for people, in powers of ten."""
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size} bytes"


def size_of(path: Path) -> int:
    """Bytes of a model file and of the files that it says its weights are in."""
    names: set[str] = set()
    if path.suffix == ".onnx":
        tensors = package("onnx").load(str(path), load_external_data=False).graph.initializer
        names = {e.value for t in tensors for e in t.external_data if e.key == "location"}
    elif path.suffix == ".mlir":
        name = path.with_suffix(".safetensors").name
        names = {name} if name.encode() in path.read_bytes() else set()
    return sum(one.stat().st_size for one in {path, *(path.parent / name for name in names)})


def measure(
    model: Model,
    quantized: Model,
    samples: Samples | None,
    target: Target,
    form: Form = "qdq",
    raced: Raced | None = None,
    *,
    seconds: float = SECONDS,
) -> Measured:
    """The quantized model, written in `form`, beside the float `model`, as the target executes
    them. Latency is that of the race where they `raced`, else of turns of about so many `seconds`.

    What does not run is a `problem` of what was measured, and no error. InputError (`float-nan`)
    where the float model gives no numbers on the samples: nothing was calibrated then.
    """
    in_litert, is_ort = target.name == "litert" and litert_installed(), target.name == "onnxruntime"
    float_runs = find_spec("onnxruntime") is not None and (in_litert or is_ort)
    in_runtime = float_runs and not in_litert
    where = "ONNX Runtime with its optimizations" if float_runs else "the reference interpreter"
    where = f"LiteRT, the float model in {where}" if in_litert else where
    if samples is not None and not float_runs:
        first = slice(IN_REFERENCE)
        samples = replace(samples, inputs=samples.inputs[first], numbers=samples.numbers[first])
    found, undefined = Measured(samples, where), None
    try:
        sides = {
            FLOAT: _side(model, float_runs, form, "numpy"),
            WRITTEN: _side(quantized, in_runtime, form, "litert" if in_litert else "numpy"),
        }
        found.written = sides[WRITTEN].written
        found.executed = {n: s.executed for n, s in sides.items() if in_runtime and s.executed}
        if samples is None:
            found.problem = "there is no data to judge the outputs on"
            inputs = drawn_inputs(model, 1, sides[FLOAT].run)
        else:
            inputs = samples.inputs
            judge = Judge(parts_of(model.module, model.ctx), map(sides[FLOAT].run, inputs))
            undefined = judge.no_number()
            if undefined is None:
                found.quality = judge.judge(map(sides[WRITTEN].run, inputs))
        engines = {n: s.engine for n, s in sides.items() if in_runtime and s.engine is not None}
        if raced is not None and RACED_FLOAT in raced.race.laps:
            laps = raced.race.laps
            found.laps = {FLOAT: laps[RACED_FLOAT], WRITTEN: laps[raced.chosen.name]}
        elif engines and seconds > 0:
            own = {name: sides[name].interface.codes(inputs[0]) for name in engines}
            turns = race(engines, own, seconds)
            if turns.failed:
                raise InputError("; ".join(turns.failed.values()), code="engine-failed")
            found.laps = turns.laps
    except QError as error:
        found.problem = error.message
    if undefined is not None:
        raise InputError(
            f"the float model itself gives NaN in '{undefined}' on this data", code="float-nan"
        )
    return found


def costliest(model: Model, quantized: Model, inputs: Arrays, in_runtime: bool) -> str | None:
    """The op of the quantized model that alone, on the values of the float model, loses most; None
    where that cannot be found."""
    from qdialect.plugins.onnx.alone import Alone
    from qdialect.workflows.compare_values import compare_layers, keyed_values, worst_layers

    engine = "onnxruntime" if in_runtime else "numpy"
    try:
        one, other = (keyed_values(each, engine, inputs) for each in (model, quantized))
        alone = Alone(quantized, engine).values(one, other, inputs)
        (worst, *_) = worst_layers(compare_layers([(one, other, alone)]), 1)
    except QError:
        return None
    db = worst.sqnr_db if worst.alone_db is None else worst.alone_db
    return f"'{worst.key}' loses most: {db_text(db)} are left of it alone"


def _side(model: Model, in_runtime: bool, form: Form, other: str) -> Side:
    interface = InterfaceCodes(model)
    if not in_runtime:
        run = open_engine(model, other)
        names = output_names(model.function())

        def in_floats(inputs: Arrays) -> Mapping[str, NDArray[Any]]:
            outputs = run(interface.codes(inputs))
            return dict(zip(names, interface.floats([outputs[n] for n in names]), strict=True))

        return Side(in_floats, interface)
    from qdialect.plugins.onnx.write import write_model
    from qdialect.plugins.onnx.write.executed import optimized_engine

    written = None
    if model.source is not None and model.source.suffix == ".onnx":
        engine, executed = optimized_engine(model.source)
    else:
        written = write_model(model.module, model.ctx, form=form)
        engine, executed = optimized_engine(written.whole())
    return Side(by_name(model, engine), interface, engine, executed, written)


def by_name(model: Model, engine: OrtEngine) -> Run:
    """A function to the outputs of a model, in floats, by their names in it, which a file may spell
    in another way."""
    names, interface = output_names(model.function()), InterfaceCodes(model)

    def run(inputs: Arrays) -> Mapping[str, NDArray[Any]]:
        outputs = list(engine.run(interface.codes(inputs)).values())
        return dict(zip(names, interface.floats(outputs), strict=True))

    return run
