"""The models that quantizing one float model can give, and the fastest of them.

A runtime may run an op faster on floats than on codes, and fuses ops in either form in ways that
no table foresees. So the whole model is built twice, with all ops on floats and with all that can
be on codes, and the runtime times each node of both. By these times the states of least total
are found (`quantization.precision`), and what is built of them races against the others and the
float model. What is written is never slower than the float model: where nothing is faster, it is
the float model.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.dialects.onnx import OUTPUTS, string_list
from qdialect.errors import QError
from qdialect.ops import keys_of
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.quantization.apply_profile import apply_profile
from qdialect.quantization.coverage import Coverage, left_float
from qdialect.quantization.grids import assign
from qdialect.quantization.precision import Plan, Rate, Rates, Time, Times, plan
from qdialect.quantization.recipe import Precision, Recipe
from qdialect.quantization.selection import Selection, concerns, select
from qdialect.quantization.values import Values, float_value
from qdialect.reference import Interpreter
from qdialect.workflows.model import Model, run_passes
from qdialect.workflows.race import Race, race, signal_to_noise, winner

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from qdialect.formats.onnx.write import OrtEngine
    from qdialect.formats.onnx.write.executed import Executed
    from qdialect.formats.onnx.write.node_times import NodeTime
    from qdialect.profile.record import Profile
    from qdialect.quantization.apply_profile import Correct
    from qdialect.targets.base import Target

    Array = NDArray[Any]
    Arrays = Mapping[str, Array]

FLOAT, FLOAT_OPTIMIZED = "float", "float, optimized"
RULES, CODES, MIXED = "by rules", "all on codes", "by times"
"""Names of candidates: quantized as without times; all that can be; as the times say."""
ROUNDS = 2
"""How often a plan is made: the second with what was measured of the first."""


@dataclass(frozen=True)
class Candidate:
    """A model that may be written, what of it is quantized, and by which plan."""

    name: str
    model: Model
    coverage: Coverage
    plan: Plan | None = None


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

    def quantized(self, name: str, plan: Plan | None = None, *, all_ops: bool = False) -> Candidate:
        """Quantized by a plan, or without one (`all_ops`: whatever can be); InputError."""
        states: Mapping[int, Precision] | None = None if plan is None else plan.states
        if all_ops:
            states = {}
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
        return Candidate(name, self._optimized(model), coverage, plan)

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
    """The candidate to write, how long each took, and how near each is to the float model: the
    SQNR in dB of the output that differs most."""

    chosen: Candidate
    race: Race
    sqnr: Mapping[str, float]
    executed: Mapping[str, Executed]
    plan: Plan
    notes: list[str] = field(default_factory=list[str])


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
        floats, codes = self.builder.floats(), self.builder.quantized(CODES, all_ops=True)
        selection = self.builder.selection()
        found: list[Candidate] = [first, codes]
        times = self._times(selection, floats, codes)
        planned = plan(selection, times)
        mixed = self.builder.quantized(MIXED, planned)
        found.append(mixed)
        engines, executed = self._loaded([floats, *found])
        answers = {name: self._answers(engine) for name, engine in engines.items()}
        sqnr = {name: signal_to_noise(answers[FLOAT], answers[name]) for name in engines}
        raced = race(engines, self.samples[0], self.seconds)
        order = sorted(engines, key=lambda name: (name != FLOAT, -sqnr[name]))
        chosen = winner(raced.laps, order)
        kept = {each.name: each for each in (floats, *found)}
        kept[FLOAT] = replace(floats, name=FLOAT, model=self.original)
        return Raced(kept[chosen], raced, sqnr, executed, planned, self.notes)

    def _times(self, selection: Selection, floats: Candidate, codes: Candidate) -> Times:
        from qdialect.formats.onnx.write.node_times import node_times

        files = [self._file(floats.model), self._file(codes.model)]
        nodes = node_times(files, self.samples[0], self.seconds / 2)
        by_state = (Precision.FLOAT, Precision.CODES)
        measured = {
            state: attributed(selection, each) for state, each in zip(by_state, nodes, strict=True)
        }
        return Times(measured, conversion_rates())

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

    def _answers(self, engine: OrtEngine) -> list[list[Array]]:
        return [list(engine.run(inputs).values()) for inputs in self.samples]


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
    weights among those above that have no node; casts and what the runtime inserts are for none.
    """
    from qdialect.formats.onnx.write.executed import CASTS

    ops = list(selection.values.block.ops)
    numbers = {op: number for number, op in enumerate(ops)}
    names: dict[str, Operation] = {}
    for op in ops:
        names.update((name, op) for name in string_list(op.attributes.get(OUTPUTS)) or ())
    for op in ops:
        names.update((key, op) for key in keys_of(op))
    matched: list[tuple[Operation, NodeTime]] = []
    for node in nodes:
        op = next((names[name] for name in node.names if name in names), None)
        if op is not None and node.kind not in CASTS:
            matched.append((op, node))
    timed = {op for op, _ in matched}
    found: dict[int, Time] = {}
    for op, node in matched:
        number = numbers[_heaviest(op, selection, timed)]
        before = found.get(number)
        total = node.nanoseconds + (before.nanoseconds if before else 0.0)
        found[number] = Time(total, node.takes_floats, node.gives_floats)
    return found


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
