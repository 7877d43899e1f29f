"""The models that quantizing one float model can give, and the fastest of them.

A runtime may run an op faster on floats than on codes, and fuses ops in either form in ways that
no table foresees. So the whole model is built twice, with all ops on floats and with all that can
be on codes, and the runtime times each node of both. By these times the states of least total
are found (`quantizer.precision`), and what is built of them races against the others and the
float model. What is written is quantized: where nothing is faster than the float model, its weights
are codes that are dequantized as it is loaded (`stored_weights`), unless the float model itself may
be written (`Builder.or_float`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from xdsl.ir import Operation

from qdialect.errors import InputError, QError, UsageError
from qdialect.interpreter import Interpreter, output_names
from qdialect.ir.dialects.attributes import string_list
from qdialect.ir.dialects.interface import OUTPUTS
from qdialect.ir.ops import keys_of
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.quantizer.apply_profile import apply_profile
from qdialect.quantizer.blocks import weights_refusal
from qdialect.quantizer.coverage import Coverage, left_float
from qdialect.quantizer.dynamic import dynamic_refusal
from qdialect.quantizer.grids import assign
from qdialect.quantizer.output_parts import parts_of
from qdialect.quantizer.precision import Losses, Plan, Rate, Rates, Time, Times, corrected, plan
from qdialect.quantizer.quality import Judge, Quality, finite_db
from qdialect.quantizer.recipe import Precision, Recipe
from qdialect.quantizer.selection import ALL, FASTER_FLOAT, Selection, concerns, select
from qdialect.quantizer.stored_weights import store_weights
from qdialect.quantizer.values import Values, float_value
from qdialect.workflows.interface_codes import InterfaceCodes
from qdialect.workflows.model import Model, run_passes
from qdialect.workflows.quantize_bodies import dynamic_bodies
from qdialect.workflows.race import Lap, Race, race, winner

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from xdsl.dialects.func import FuncOp

    from qdialect.ir.context import QContext
    from qdialect.plugins.onnx.write import OrtEngine
    from qdialect.plugins.onnx.write.executed import Executed
    from qdialect.plugins.onnx.write.node_times import NodeTime
    from qdialect.quantizer.apply_profile import Correct
    from qdialect.quantizer.profile.record import Profile
    from qdialect.targets.base import Target
    from qdialect.workflows.model import Form

    Arrays = Mapping[str, NDArray[Any]]

FLOAT, FLOAT_OPTIMIZED = "float", "float, optimized"
FLOATS = frozenset({FLOAT, FLOAT_OPTIMIZED})
STORED = "weights at load"
PRICES = "by prices"
RULES = "by rules"
EXTREMES = {
    Precision.FLOAT: STORED,
    Precision.CODES: "all on codes",
    Precision.DYNAMIC: "all dynamic",
    Precision.WEIGHTS: "all weights alone",
}
STEADY = {*FLOATS, PRICES, RULES, *EXTREMES.values()}
MIXED = ("by times", "by times, again", "by times, a third time")
"""Names of candidates: with weights in codes that are dequantized as it is loaded, which is as fast
as the float model; quantized as without times; all that can be, in each state; those that do not
depend on times; as the times say, the second with what was measured of the first."""
_BETWEEN_FLOATS = {Precision.DYNAMIC: dynamic_refusal, Precision.WEIGHTS: weights_refusal}
"""States that take and give floats, and why an op cannot be in them."""
CACHES_ON_CODES = ",fold-interface{caches=true},canonicalize,cse,dce"
_NEARLY = 0.03
"""So much more time is not felt; what it saves in loss may be: several dB in a sentence encoder."""
NOISE_PRICE = 2.0
"""What noise is worth in time, where nobody says: so many times the time for noise as large as the
signal (20 % at 20 dB, 6 % at 30 dB)."""
Able = Mapping[Precision, Collection[int]]
"""The numbers of ops that can be in a state."""
_CASTS, _COUNTS = ("qcast", "dcast"), (1, 100_000)
_UNSTEADY = 0.08
"""Times of nodes vary by so much from run to run, and plans with them: to be written, a plan saves
more."""
_HOPELESS = 2.0
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
    """Makes candidates of a float model that was prepared; `prepared` stays as it is. What a plan
    leaves on floats `stores` its weights as codes."""

    prepared: Model
    profile: Profile
    recipe: Recipe
    target: Target
    numerics: str
    rounding: Correct | None = None
    correct: Correct | None = None
    require_all: bool = False
    removed: Collection[str] = ()
    whole: Mapping[str, str] = field(default_factory=dict[str, str])
    stores: bool = False
    or_float: bool = True

    def quantized(self, name: str, states: Mapping[int, Precision] | None = None) -> Candidate:
        """Quantized, with ops in these states, by number (others on codes where they can be);
        None: as rules say. InputError."""
        model = self.prepared.copied(self.target)
        coverage = apply_profile(
            model.module,
            model.ctx,
            self.profile,
            replace(self.recipe, plan=states),
            require_all=self.require_all,
            rounding=self.rounding,
            correct=self.correct,
            removed=self.removed,
            whole=self.whole,
        )
        if states and (self.stores or name == STORED):
            function = Interpreter(model.ctx, model.module).function()
            coverage = store_weights(function, model.ctx, self.recipe, coverage)
        if ALL in self.recipe.dynamic:
            changed = dynamic_bodies(model, self.recipe)
            model = changed.model
            model.ctx.remarks.remarks += changed.remarks
        return Candidate(name, self._optimized(model), coverage)

    def floats(self) -> Candidate:
        """The float model, with what fuses in it fused."""
        model = self.prepared.copied(self.target)
        ops = filter(concerns, Interpreter(model.ctx, model.module).function().body.block.ops)
        reason = "nothing that was quantized was faster"
        left = [left_float(op, FASTER_FLOAT, reason) for op in ops]
        return Candidate(FLOAT_OPTIMIZED, self._optimized(model), Coverage(left=left))

    def selection(self) -> Selection:
        """What can be on codes, of a copy of the model."""
        model = self.prepared.copied(self.target)
        recipe = replace(self.recipe, plan={})
        function = Interpreter(model.ctx, model.module).function()
        selection = select(Values(function, model.ctx, self.profile, recipe))
        assign(selection)
        return selection

    def able(self, selection: Selection) -> Able:
        """The numbers of the ops that can be in each state that is no float; of states in which
        none can be, only codes are there."""
        values = selection.values
        ops = {op: number for number, op in enumerate(values.block.ops)}
        found = {Precision.CODES: {ops[op] for op in selection.ops}}
        known = [(op, behavior) for op in ops if (behavior := values.ctx.behaviors.get(op))]
        for state, refusal in _BETWEEN_FLOATS.items():
            able = {ops[op] for op, each in known if refusal(values, op, each) is None}
            if able:
                found[state] = able
        return found

    def extreme(self, state: Precision, able: Able) -> Candidate:
        """The model in which all ops that can be in a state are in it, and others on floats; of
        codes, whatever can be."""
        states: dict[int, Precision] = {}
        if state is not Precision.CODES:
            count = len(self.prepared.function().body.block.ops)
            states = {
                n: state if n in able.get(state, ()) else Precision.FLOAT for n in range(count)
            }
        return self.quantized(EXTREMES[state], states)

    def by_prices(self) -> Candidate:
        """Quantized as the prices of the target say; UsageError (`no-prices`)."""
        selection = self.selection()
        function, ctx = selection.values.function, selection.values.ctx
        times = priced_times(function, ctx, self.able(selection), self.recipe)
        return self.quantized(PRICES, plan(function, ctx, times).states)

    def _optimized(self, model: Model) -> Model:
        remarks = [*self.prepared.ctx.remarks.remarks, *model.ctx.remarks.remarks]
        pipeline = optimize_pipeline(self.target, self.numerics)
        if self.recipe.caches:
            pipeline += CACHES_ON_CODES
        optimized = run_passes(model, pipeline, target=self.target, verify_each=False)
        optimized.ctx.remarks.remarks[:0] = remarks
        return optimized


@dataclass(frozen=True)
class Tried:
    """A candidate as the runtime executes it, and how near it is to the float model; what its
    interface has in codes."""

    candidate: Candidate
    engine: OrtEngine
    executed: Executed
    quality: Quality
    interface: InterfaceCodes

    @property
    def runs(self) -> tuple[OrtEngine, InterfaceCodes]:
        """What answers in floats are of."""
        return self.engine, self.interface


@dataclass
class Raced:
    """The candidate to write, how long each that is sound took, and how near each is to the float
    model."""

    chosen: Candidate
    race: Race
    tried: Mapping[str, Tried]
    plan: Plan
    notes: list[str] = field(default_factory=list[str])

    def as_json(self) -> dict[str, Any]:
        """As plain data; what a plan costs is in nanoseconds of the runtime's nodes."""
        return {
            "chosen": self.chosen.name,
            "plan": {"cost": self.plan.parts.cost, "bound": self.plan.parts.bound},
            "raced": {
                name: {**lap.as_json(), "worst_db": finite_db(self.tried[name].quality.worst_db)}
                for name, lap in self.race.laps.items()
            },
            "notes": self.notes,
        }


def nearly_best(
    laps: Mapping[str, Lap],
    preferred: Sequence[str],
    noise: Mapping[str, float] = MappingProxyType({}),
    price: float = NOISE_PRICE,
) -> str:
    """The candidate of the least time * (1 + price * noise), or of those that nearly are, the first
    of the `preferred`.

    `noise` is the amplitude of what each loses over that of the worst part of the outputs.  A float
    model is written only where nothing is faster, and nothing that is slower than the float model
    and than that with its weights in codes. Times that differ by less than they are known are the
    same. Which plan is found depends on how long nodes took: plans have to save `_UNSTEADY` more.
    """
    fastest = winner({name: laps[name] for name in preferred}, preferred)
    slowest = max((laps[name].ratio for name in (FLOAT, STORED) if name in laps), default=inf)

    def cost(name: str, ratio: float) -> float:
        unsteady = 0.0 if name in STEADY else _UNSTEADY
        return ratio * (1 + price * noise.get(name, 0.0)) * (1 + unsteady)

    hopeful = [
        name
        for name in preferred
        if name == fastest or (name not in FLOATS and laps[name].ratio <= slowest)
    ]
    limit = min(cost(name, laps[name].ratio) for name in hopeful) * (1 + _NEARLY)
    # The most that the least may be, and the least that each may be.
    most = min(cost(name, laps[name].ratio + laps[name].error) for name in hopeful)
    return next(
        name
        for name in hopeful
        if cost(name, laps[name].ratio) <= limit
        or cost(name, laps[name].ratio - laps[name].error) <= most
    )


class Loop(ABC):
    """Finds the fastest candidate in ONNX Runtime, by about so many seconds of timing.

    `samples` are inputs that the candidates are judged on; the first is what is timed. `original`
    is the float model as it was loaded, and takes part as its user runs it. Who asks for more than
    speed attempts more candidates (`search`), and chooses among them otherwise (`choose`).
    """

    def __init__(
        self,
        builder: Builder,
        samples: Sequence[Arrays],
        seconds: float,
        original: Model,
        form: Form = "qdq",
    ) -> None:
        self.builder, self.samples, self.seconds = builder, samples, seconds
        self.notes: list[str] = []
        #: all that were tried, by name, the float model first
        self.tried: dict[str, Tried] = {}
        self._original = original
        self._form: Form = form
        source = original.source
        is_file = source is not None and source.suffix == ".onnx"
        self._floats = builder.floats()
        candidate = replace(self._floats, name=FLOAT, model=original)
        engine, executed = self._loaded(source if is_file else self._file(original))
        interface = InterfaceCodes(original)
        answers = self.answers(engine, interface)
        self._judge = Judge(parts_of(original.module, original.ctx), answers)
        self.tried[FLOAT] = self._tried(candidate, engine, executed)

    def run(self, first: Candidate) -> Raced:
        """The fastest of `first` and of what the times of nodes say; of those that are as fast,
        the nearest to the float model."""
        limit = _HOPELESS * min(map(self.times.total, self.times.ops))
        timed = (state for state in self.extremes if state in self.times.ops)
        hopeful = (self.extremes[state] for state in timed if self.times.total(state) < limit)
        recipe = self.builder.recipe
        for candidate in (self._floats, first, *hopeful):
            self.attempt(candidate)
        stored = self.builder.extreme(Precision.FLOAT, {})
        if stored.coverage.has_codes and not recipe.asks_for_codes:
            self.attempt(stored)
        name, planned = self._planned()
        self.search(name, planned)
        alive = [name for name, each in self.tried.items() if not each.quality.dead]
        if set(alive) <= FLOATS:
            alive = list(self.tried)  # what is then chosen is an error, if it is no float model
        for name in [name for name in self.tried if name not in alive]:
            self.notes.append(f"{name} is no candidate: dead output {self._of(name).dead[0]}")
        raced = self.race(alive, self.seconds)
        if not raced.laps:
            raise InputError(next(iter(raced.failed.values())), code="engine-failed")
        # What does not depend on times comes first where there is a choice.
        order = sorted(
            raced.laps,
            key=lambda name: (name != FLOAT, name not in STEADY, -self._of(name).worst_db),
        )
        if recipe.asks_for_codes or not self.builder.or_float:
            coded = [n for n in order if self.tried[n].candidate.coverage.has_codes] or order
            plain = [n for n in order if n not in {*coded, *FLOATS}]
            self.notes += [f"{name} is not written: it has nothing in codes" for name in plain]
            order = coded
        chosen = self.tried[self.choose(raced, order)].candidate
        return Raced(chosen, raced, self.tried, planned, self.notes)

    @abstractmethod
    def search(self, name: str, planned: Plan) -> None:
        """Attempt more, where more is asked for than the fastest plan, the candidate of that name
        (`budgeted`)."""

    @abstractmethod
    def choose(self, raced: Race, preferred: Sequence[str]) -> str:
        """The name of the candidate to write."""

    def _planned(self) -> tuple[str, Plan]:
        """Try the plan by what was measured, and that by what is measured of it, and so on; the
        last, and the name of its candidate."""
        planned, name = self.plan(), MIXED[0]
        known: list[Mapping[int, Precision]] = []
        for name in MIXED:
            known.append(planned.states)
            mixed = self.builder.quantized(name, planned.states)
            if self.attempt(mixed) is None or name == MIXED[-1]:
                break
            measured = self._measured([mixed.model])[0]
            self.times = corrected(self._function, self.times, planned, measured)
            again = self.plan()
            if again.states in known:
                break
            planned = again
        return name, planned

    def _measured(self, models: Sequence[Model]) -> list[dict[int, Time]]:
        """How long the ops of candidates take, in turns."""
        from qdialect.plugins.onnx.write.node_times import node_times

        files = [self._file(model) for model in models]
        inputs = [InterfaceCodes(model).codes(self.samples[0]) for model in models]
        nodes = node_times(files, inputs, self.seconds / 2)
        ctx = self.selection.values.ctx
        return [attributed(self._function, ctx, each) for each in nodes]

    def _of(self, name: str) -> Quality:
        return self.tried[name].quality

    @cached_property
    def selection(self) -> Selection:
        """What can be on codes."""
        return self.builder.selection()

    @property
    def _function(self) -> FuncOp:
        return self.selection.values.function

    @cached_property
    def _able(self) -> Able:
        return self.builder.able(self.selection)

    @cached_property
    def extremes(self) -> Mapping[Precision, Candidate]:
        """The models in which all ops that can be are in one state that is no float."""
        return {state: self.builder.extreme(state, self._able) for state in self._able}

    @cached_property
    def times(self) -> Times:
        """What the runtime says of the float model and of the extremes; corrected by what it says
        of plans."""
        models = {Precision.FLOAT: self._floats.model}
        for state, candidate in self.extremes.items():
            try:
                self._file(candidate.model)
            except QError as error:
                self.notes.append(f"{candidate.name} is no candidate: {error.message}")
            else:
                models[state] = candidate.model
        ops = dict(zip(models, self._measured(list(models.values())), strict=True))
        able = {state: numbers for state, numbers in self._able.items() if state in ops}
        return Times(ops, able, conversion_rates())

    def plan(self, weight: float = 0.0, losses: Losses | None = None) -> Plan:
        """The states of least time + weight * loss (`precision.plan`)."""
        return plan(self._function, self.selection.values.ctx, self.times, losses, weight)

    def attempt(self, candidate: Candidate) -> Tried | None:
        """Load a candidate and judge it; None where the runtime does not load or run it, which is
        noted."""
        try:
            made = self._tried(candidate, *self._loaded(self._file(candidate.model)))
        except QError as error:
            self.notes.append(f"{candidate.name} is no candidate: {error.message}")
            return None
        self.tried[candidate.name] = made
        return made

    def _loaded(self, file: Any) -> tuple[OrtEngine, Executed]:
        from qdialect.plugins.onnx.write.executed import optimized_engine

        return optimized_engine(file)

    def _tried(self, candidate: Candidate, engine: OrtEngine, executed: Executed) -> Tried:
        interface = InterfaceCodes(candidate.model)
        quality = self._judge.judge(self.answers(engine, interface))
        return Tried(candidate, engine, executed, quality, interface)

    def _file(self, model: Model) -> Any:
        from qdialect.plugins.onnx.write import write_model

        return write_model(model.module, model.ctx, form=self._form).whole()

    def answers(self, engine: OrtEngine, interface: InterfaceCodes) -> Iterator[Arrays]:
        """What it gives on all samples, in floats, by the names that the float model has for
        outputs."""
        names = output_names(self._original.function())
        for inputs in self.samples:
            given = list(engine.run(interface.codes(inputs)).values())
            yield dict(zip(names, interface.floats(given), strict=True))

    def race(self, names: Iterable[str], seconds: float) -> Race:
        """Candidates in turns on the first sample, each with what it takes; those that fail are
        candidates no more."""
        tried = {name: self.tried[name] for name in names}
        own = {name: each.interface.codes(self.samples[0]) for name, each in tried.items()}
        raced = race({name: each.engine for name, each in tried.items()}, own, seconds)
        for name, why in raced.failed.items():
            self.notes.append(f"{name} is no candidate: {why}")
            del self.tried[name]
        return raced


def priced_times(function: FuncOp, ctx: QContext, able: Able, recipe: Recipe) -> Times:
    """What the target says that ops take, where nothing is measured; UsageError (`no-prices`)
    where it says nothing."""
    names = {
        Precision.FLOAT: "float",
        Precision.CODES: f"{recipe.activations} {recipe.integer_weights.spelling}",
        Precision.DYNAMIC: "dynamic",
    }
    target = ctx.target
    ops: dict[Precision, dict[int, Time]] = {state: {} for state in names}
    for place, op in enumerate(function.body.block.ops):
        if not concerns(op):
            continue
        for state, name in names.items():
            price = target.state_price(op, name)
            if price is not None:
                on_floats = state is not Precision.CODES
                ops[state][place] = Time(price, on_floats, on_floats)
    prices = [target.state_cast_price(f"quant.{kind}", n) for kind in _CASTS for n in _COUNTS]
    found = [price for price in prices if price is not None]
    if not ops[Precision.FLOAT] or len(found) < len(prices):
        raise UsageError(f"'{target.name}' has no prices of ops on floats", code="no-prices")
    quantize, dequantize = (_rate(_COUNTS, found[n : n + 2]) for n in (0, 2))
    # Changes of layout are in the prices of ops.
    rates = Rates(quantize, dequantize, Rate(0.0, 0.0))
    known = {
        state: {n for n in each if n in ops[state]} for state, each in able.items() if state in ops
    }
    return Times(ops, known, rates)


def _rate(counts: Sequence[int], times: Sequence[float]) -> Rate:
    (few, many), (short, long) = counts, times
    element = max(long - short, 0.0) / (many - few)
    return Rate(max(short - element * few, 0.0), element)


def conversion_rates(seconds: float = 0.1) -> Rates:
    """What casts and transposes cost in ONNX Runtime on this machine."""
    from qdialect.plugins.onnx.write.node_times import conversion_times

    found = conversion_times(seconds)

    def rate(kind: str) -> Rate:
        counts, times = zip(*sorted(found[kind]), strict=True)
        return _rate(counts, times)

    return Rates(rate("QuantizeLinear"), rate("DequantizeLinear"), rate("Transpose"))


def attributed(function: FuncOp, ctx: QContext, nodes: Sequence[NodeTime]) -> dict[int, Time]:
    """The times of executed nodes by the number of the op that they are for.

    A node that stands for several ops, of which it has the name of one, is for the product with
    weights among those above that have no node; one that has no name of an op, for the op of what
    takes its result. Casts and changes of layout are for none.
    """
    from qdialect.plugins.onnx.write.node_times import CONVERSIONS

    ops = list(function.body.block.ops)
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
        number = numbers[_heaviest(op, ctx, timed)]
        before = found.get(number)
        total = node.nanoseconds + (before.nanoseconds if before else 0.0)
        channels_last = node.kind.startswith("Nhwc")
        found[number] = Time(total, node.takes_floats, node.gives_floats, channels_last)
    return found


def _whole(name: str) -> str:
    return name.rpartition("/")[0]


def _heaviest(op: Operation, ctx: QContext, timed: Collection[Operation]) -> Operation:
    """Of an op and those above without a time, the first product with weights; else the op."""
    behaviors = ctx.behaviors
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
