"""The models that quantizing one float model can give, and the fastest of them.

A runtime may run an op faster on floats than on codes, and fuses ops in either form in ways that
no table foresees. So the whole model is built twice, with all ops on floats and with all that can
be on codes, and the runtime times each node of both. By these times the states of least total
are found (`quantization.precision`), and what is built of them races against the others and the
float model. What is written is never slower than the float model: where nothing is faster, it is
the float model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.dialects.onnx import OUTPUTS, string_list
from qdialect.errors import QError
from qdialect.ops import keys_of
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.quantization.apply_profile import apply_profile
from qdialect.quantization.coverage import Coverage, left_float
from qdialect.quantization.dynamic import dynamic_refusal
from qdialect.quantization.grids import assign
from qdialect.quantization.output_parts import parts_of
from qdialect.quantization.precision import Plan, Rate, Rates, Time, Times, plan
from qdialect.quantization.quality import Judge, Quality
from qdialect.quantization.recipe import Precision, Recipe
from qdialect.quantization.selection import Selection, concerns, select
from qdialect.quantization.values import Values, float_value
from qdialect.reference import Interpreter, output_names
from qdialect.workflows.model import Model, run_passes
from qdialect.workflows.race import Race, race, winner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.formats.onnx.write import OrtEngine
    from qdialect.formats.onnx.write.executed import Executed
    from qdialect.formats.onnx.write.node_times import NodeTime
    from qdialect.profile.record import Profile
    from qdialect.quantization.apply_profile import Correct
    from qdialect.targets.base import Target

    Arrays = Mapping[str, NDArray[Any]]

FLOAT, FLOAT_OPTIMIZED = "float", "float, optimized"
RULES, CODES, DYNAMIC, MIXED = "by rules", "all on codes", "all dynamic", "by times"
"""Names of candidates: quantized as without times; all that can be, in two ways; as the times
say."""
_HOPELESS = 1.3
"""A model in one state whose nodes take so many times as long as those of the fastest does not
race."""


@dataclass(frozen=True)
class Candidate:
    """A model that may be written, and what of it is quantized."""

    name: str
    model: Model
    coverage: Coverage


@dataclass
class Builder:
    """Makes candidates of a float model that was prepared; `prepared` stays as it is."""

    prepared: Model
    profile: Profile
    recipe: Recipe
    target: Target
    numerics: str
    correct: Correct | None = None
    require_all: bool = False
    removed: Collection[str] = ()
    whole: Mapping[str, str] = field(default_factory=dict[str, str])

    def quantized(self, name: str, states: Mapping[int, Precision] | None = None) -> Candidate:
        """Quantized, with ops in these states, by number (others on codes where they can be);
        None: as rules say. InputError."""
        model = self._copy()
        coverage = apply_profile(
            model.module,
            model.ctx,
            self.profile,
            replace(self.recipe, plan=states),
            require_all=self.require_all,
            correct=self.correct,
            removed=self.removed,
            whole=self.whole,
        )
        return Candidate(name, self._optimized(model), coverage)

    def floats(self) -> Candidate:
        """The float model, with what fuses in it fused."""
        model = self._copy()
        ops = filter(concerns, Interpreter(model.ctx, model.module).function().body.block.ops)
        reason = "nothing that was quantized was faster"
        left = [left_float(op, "faster-float", reason) for op in ops]
        return Candidate(FLOAT_OPTIMIZED, self._optimized(model), Coverage(left=left))

    def selection(self) -> Selection:
        """What can be on codes, of a copy of the model."""
        model = self._copy()
        recipe = replace(self.recipe, plan={})
        function = Interpreter(model.ctx, model.module).function()
        selection = select(Values(function, model.ctx, self.profile, recipe))
        assign(selection)
        return selection

    def all_dynamic(self, selection: Selection) -> Mapping[int, Precision]:
        """The states in which all products quantize their input as they run that can."""
        values, states = selection.values, dict[int, Precision]()
        for number, op in enumerate(values.block.ops):
            states[number], behavior = Precision.FLOAT, values.ctx.behaviors.get(op)
            if behavior is not None and dynamic_refusal(values, op, behavior) is None:
                states[number] = Precision.DYNAMIC
        return states

    def _copy(self) -> Model:
        model = Model(self.prepared.module.clone(), self.prepared.ctx.clone())
        model.ctx.target = self.target
        return model

    def _optimized(self, model: Model) -> Model:
        remarks = [*self.prepared.ctx.remarks.remarks, *model.ctx.remarks.remarks]
        pipeline = optimize_pipeline(self.target, self.numerics)
        optimized = run_passes(model, pipeline, target=self.target, verify_each=False)
        optimized.ctx.remarks.remarks[:0] = remarks
        return optimized


@dataclass
class Raced:
    """The candidate to write, how long each that is sound took, and how near each is to the float
    model."""

    chosen: Candidate
    race: Race
    quality: Mapping[str, Quality]
    executed: Mapping[str, Executed]
    plan: Plan
    notes: list[str] = field(default_factory=list[str])

    def as_json(self) -> dict[str, Any]:
        """As plain data; what a plan costs is in nanoseconds of the runtime's nodes."""
        return {
            "chosen": self.chosen.name,
            "plan": {"cost": self.plan.parts.cost, "bound": self.plan.parts.bound},
            "raced": {
                name: {**lap.as_json(), "worst_db": _finite(self.quality[name].worst_db)}
                for name, lap in self.race.laps.items()
            },
            "notes": self.notes,
        }


def _finite(db: float) -> float | None:
    return db if isfinite(db) else None


@dataclass
class Loop:
    """Finds the fastest candidate in ONNX Runtime, by about so many seconds of timing.

    `samples` are inputs that the candidates are judged on; the first is what is timed.
    """

    builder: Builder
    samples: Sequence[Arrays]
    seconds: float
    original: Model
    form: Any = "qdq"
    notes: list[str] = field(default_factory=list[str])

    def run(self, first: Candidate) -> Raced:
        """The fastest of `first` and of what the times of nodes say."""
        floats, selection = self.builder.floats(), self.builder.selection()
        extremes = {Precision.CODES: self.builder.quantized(CODES, {})}
        dynamic = self.builder.all_dynamic(selection)
        if Precision.DYNAMIC in dynamic.values():
            extremes[Precision.DYNAMIC] = self.builder.quantized(DYNAMIC, dynamic)
        times = self._times(selection, floats, extremes, dynamic)
        planned = plan(selection, times)
        mixed = self.builder.quantized(MIXED, planned.states)
        limit = _HOPELESS * min(map(times.total, times.ops))
        found = [first, *(each for s, each in extremes.items() if times.total(s) < limit), mixed]
        engines, executed = self._loaded([floats, *found])
        original = self.original
        judge = Judge(parts_of(original.module, original.ctx), self._answers(engines[FLOAT]))
        quality = {name: judge.judge(self._answers(engine)) for name, engine in engines.items()}
        order = sorted(engines, key=lambda name: (name != FLOAT, -quality[name].worst_db))
        alive = [name for name in order if not quality[name].dead]
        if set(alive) <= {FLOAT, FLOAT_OPTIMIZED}:
            alive = order  # what is then chosen is an error, if it is no float model
        for name in [name for name in order if name not in alive]:
            self.notes.append(f"{name} is no candidate: dead output {quality[name].dead[0]}")
        raced = race(
            {name: e for name, e in engines.items() if name in alive}, self.samples[0], self.seconds
        )
        chosen = winner(raced.laps, alive)
        kept = {each.name: each for each in (floats, *found)}
        kept[FLOAT] = replace(floats, name=FLOAT, model=self.original)
        return Raced(kept[chosen], raced, quality, executed, planned, self.notes)

    def _times(
        self,
        selection: Selection,
        floats: Candidate,
        extremes: Mapping[Precision, Candidate],
        dynamic: Mapping[int, Precision],
    ) -> Times:
        """What the runtime says of models with all ops in one state, as far as they can be."""
        from qdialect.formats.onnx.write.node_times import node_times

        models = {Precision.FLOAT: floats, **extremes}
        files = [self._file(each.model) for each in models.values()]
        nodes = node_times(files, self.samples[0], self.seconds / 2)
        measured = {
            state: attributed(selection, each) for state, each in zip(models, nodes, strict=True)
        }
        places = {op: place for place, op in enumerate(selection.values.block.ops)}
        able: dict[Precision, Collection[int]] = {
            Precision.CODES: {places[op] for op in selection.ops}
        }
        if Precision.DYNAMIC in extremes:
            able[Precision.DYNAMIC] = {n for n, s in dynamic.items() if s is Precision.DYNAMIC}
        return Times(measured, able, conversion_rates())

    def _file(self, model: Model) -> Any:
        from qdialect.formats.onnx.write import write_model

        return write_model(model.module, model.ctx, form=self.form).whole()

    def _loaded(
        self, candidates: Sequence[Candidate]
    ) -> tuple[dict[str, OrtEngine], dict[str, Executed]]:
        """Those that the runtime loads, the float model first, and what it executes of each."""
        from qdialect.formats.onnx.write.executed import optimized_engine

        engines: dict[str, OrtEngine] = {}
        executed: dict[str, Executed] = {}
        source = self.original.source
        is_file = source is not None and source.suffix == ".onnx"
        engines[FLOAT], executed[FLOAT] = optimized_engine(
            source if is_file and source is not None else self._file(self.original)
        )
        for each in candidates:
            try:
                engines[each.name], executed[each.name] = optimized_engine(self._file(each.model))
            except QError as error:
                self.notes.append(f"{each.name} is no candidate: {error.message}")
        return engines, executed

    def _answers(self, engine: OrtEngine) -> Iterator[Arrays]:
        """What it gives on all samples, by the names that the float model has for outputs."""
        names = output_names(self.original.function())
        for inputs in self.samples:
            yield dict(zip(names, engine.run(inputs).values(), strict=True))


def conversion_rates(seconds: float = 0.1) -> Rates:
    """What casts and transposes cost in ONNX Runtime on this machine."""
    from qdialect.formats.onnx.write.node_times import conversion_times

    found = conversion_times(seconds)

    def rate(kind: str) -> Rate:
        (few, short), (many, long) = sorted(found[kind])
        element = max(long - short, 0.0) / (many - few)
        return Rate(max(short - element * few, 0.0), element)

    return Rates(rate("QuantizeLinear"), rate("DequantizeLinear"), rate("Transpose"))


def attributed(selection: Selection, nodes: Sequence[NodeTime]) -> dict[int, Time]:
    """The times of executed nodes by the number of the op that they are for.

    A node that stands for several ops, of which it has the name of one, is for the product with
    weights among those above that have no node; one that has no name of an op, for the op of what
    takes its result. Casts and changes of layout are for none.
    """
    from qdialect.formats.onnx.write.node_times import CONVERSIONS

    ops = list(selection.values.block.ops)
    numbers = {op: number for number, op in enumerate(ops)}
    names: dict[str, Operation] = {}
    for op in ops:
        names.update((name, op) for name in string_list(op.attributes.get(OUTPUTS)) or ())
    for op in ops:
        names.update((key, op) for key in keys_of(op))
    matched: list[tuple[Operation, NodeTime]] = []
    for node in nodes:
        known = (each for name in (*node.names, *node.users) for each in (name, _whole(name)))
        op = next((names[name] for name in known if name in names), None)
        if op is not None and (node.kind not in CONVERSIONS or node.names[0] in names):
            matched.append((op, node))
    timed = {op for op, _ in matched}
    found: dict[int, Time] = {}
    for op, node in matched:
        number = numbers[_heaviest(op, selection, timed)]
        before = found.get(number)
        total = node.nanoseconds + (before.nanoseconds if before else 0.0)
        found[number] = Time(total, node.takes_floats, node.gives_floats)
    return found


def _whole(name: str) -> str:
    """The key of the op that a piece is of."""
    return name.rpartition("/")[0]


def _heaviest(op: Operation, selection: Selection, timed: Collection[Operation]) -> Operation:
    """Of an op and those above without a time, the first product with weights; else the op."""
    behaviors = selection.values.ctx.behaviors
    group, seen = [op], {op}
    for each in group:
        behavior = behaviors.get(each)
        if behavior is not None and behavior.accumulator is not None:
            return each
        for value in filter(float_value, each.operands):
            above = value.owner
            if isinstance(above, Operation) and above not in timed and above not in seen:
                seen.add(above)
                group.append(above)
    return op
