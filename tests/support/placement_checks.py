"""What must hold of `place-rescales` on any program, against the greedy rules.

The rules of `sink-rescale`, `hoist-rescale`, `combine-rescale`, `fold-rescale` and `move-casts` are
applied in many random orders, each to some of the ops that it fits. What is left is priced by what
runs: elements converted, counted once for each call.

    worse     a sequence converts fewer elements than placement
    bound     a sequence converts fewer elements than the lower bound that placement states
    told      placement converts another number of elements than it states
"""

# pyright: basic
from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import CallOp, FuncOp

from qdialect.analysis.cost import elements
from qdialect.analysis.functions import is_private
from qdialect.errors import InputError, QError
from qdialect.ir.context import QContext
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp
from qdialect.ir.verify.verifier import verify_module
from qdialect.passes.casts.move_casts import MoveCasts
from qdialect.passes.rescale.combine_rescale import CombineRescale
from qdialect.passes.rescale.fold_rescale import FoldRescale
from qdialect.passes.rescale.hoist_rescale import HoistRescale
from qdialect.passes.rescale.place.costs import elements_cost
from qdialect.passes.rescale.place_rescales import PlaceRescales
from qdialect.passes.rescale.sink_rescale import SinkRescale
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.rewrite import Driver
from tests.generators.programs import MOVING, random_program, with_call

GREEDY = (
    SinkRescale(),
    HoistRescale(),
    CombineRescale(),
    FoldRescale(),
    MoveCasts(),
    MoveCasts(boundary="maximize-integer"),
)


def placement_program(seed: int, ops: int = 12) -> tuple[ModuleOp, QContext]:
    """A program of ops that rescales may pass; two of three have functions called several times,
    one of them inside the other."""
    alike = seed % 4 == 1
    try:
        module, ctx = random_program(
            seed, ops, wild=False, names=MOVING, alike=alike, blocks=seed % 2 == 0
        )
    except InputError:  # blocks that do not fit a shape
        module, ctx = random_program(seed, ops, wild=False, names=MOVING, alike=alike)
    run("cse,dce", module, ctx)
    called = module.clone()
    if seed % 3:
        called = with_call(called, seed, "inner", times=1 + seed % 4)
    if seed % 3 == 2:
        called = with_call(called, seed, "outer", times=1 + seed % 2)
    run("dce", called, ctx)
    try:
        verify_module(called, ctx.blobs, behaviors=ctx.behaviors)
    except InputError:
        return module, ctx  # indices of a gather are no constants in the function
    return called, ctx


def run(pipeline: str, module: ModuleOp, ctx: QContext) -> None:
    for _, instance in PassRegistry().build(parse_pipeline(pipeline)):
        instance.apply(ctx, module)


def converted(module: ModuleOp) -> int:
    """The elements that conversions make when each function that others may call runs once."""
    functions = {f.sym_name.data: f for f in module.ops if isinstance(f, FuncOp)}
    known: dict[str, int] = {}

    def of(name: str) -> int:
        if name not in known:
            known[name] = sum(
                of(op.callee.string_value()) if isinstance(op, CallOp) else elements(op.results[0])
                for op in functions[name].walk()
                if isinstance(op, CallOp | RescaleOp | QCastOp | DCastOp)
            )
        return known[name]

    return sum(of(name) for name, f in functions.items() if not is_private(f))


class _Some:
    """A rule that matches at some of the ops that it fits."""

    def __init__(self, rule: Any, draw: random.Random, share: float) -> None:
        self._rule, self._draw, self._share = rule, draw, share

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rule, name)

    def match(self, op: Any) -> Any:
        return self._rule.match(op) if self._draw.random() < self._share else None


def greedy(module: ModuleOp, ctx: QContext, draw: random.Random) -> int:
    """What is converted after a random sequence of greedy rules."""
    after, session = module.clone(), ctx.clone()
    for _ in range(draw.randint(1, 5)):
        chosen, share = draw.choice(GREEDY), draw.choice((0.3, 0.6, 1.0, 1.0))
        rules: list[Any] = [_Some(rule, draw, share) for rule in chosen.rules(session)]
        draw.shuffle(rules)
        try:
            Driver(session, rules, pass_name=chosen.name).run(after)
        except QError as error:
            if error.code != "no-termination":
                raise
    run("dce", after, session)
    return converted(after)


@dataclass(frozen=True)
class Compared:
    """What a program converts: before, placed, as placement states it, and after the cheapest of
    the sequences; the bound is None where placement states none."""

    seed: int
    before: int
    placed: int
    told: float
    bound: float | None
    cheapest: int

    @property
    def failures(self) -> list[str]:
        """What does not hold, in words."""
        found = ["worse"] if self.placed > self.cheapest else []
        found += ["bound"] if self.bound is not None and self.bound > self.cheapest else []
        return found + (["told"] if self.told != self.placed else [])


def compared(seed: int, ops: int, sequences: int) -> Compared:
    """Place the conversions of one program, and let `sequences` random sequences try."""
    module, ctx = placement_program(seed, ops)
    draw, after, session = random.Random(seed), module.clone(), ctx.clone()
    placement = PlaceRescales().place(session, after)
    placed = converted(after)
    run("dce", after, session)
    verify_module(after, session.blobs, behaviors=session.behaviors)
    bound = None if placement.estimated else elements_cost(placement.parts.bound)
    least = min((greedy(module, ctx, draw) for _ in range(sequences)), default=placed)
    told = elements_cost(placement.parts.cost)
    return Compared(seed, converted(module), placed, told, bound, least)
