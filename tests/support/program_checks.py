"""What must hold of every pass on any program, judged by the interpreter and its own contract.

For each random program some passes and one pipeline are drawn, and checked:

    text         parse(print(x)) prints as x again, and verifies
    numerics     results change by no more than the rewrites that fired allow
    twice        the pass does nothing on what it has left
    order        the same program with its ops in another order becomes the same program
    engines      what is exported runs in engines as here (`--engines`; see `engine_checks.py`)

A failure is reduced to a few ops and written to a folder. `python -m tools.fuzz programs` does it
for as many programs as there is time for.
"""

# pyright: basic
from __future__ import annotations

import random
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from qdialect.analysis.functions import is_private
from qdialect.errors import InputError, QError, UnsupportedError
from qdialect.ir.context import QContext, new_context
from qdialect.ir.quant import ARITHMETIC_KEY, IN_FLOATS
from qdialect.ir.verify.verifier import verify_module
from qdialect.passes import PASSES
from qdialect.passes.pipelines import optimize_pipeline
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline
from qdialect.plugins.mlir.read import read_module
from qdialect.plugins.mlir.write import module_text
from qdialect.rewrite.summary import summarize
from qdialect.targets.base import Target
from qdialect.targets.installed import get_target
from qdialect.workflows.validation.numerics_check import Reducer
from qdialect.workflows.validation.translation import compared, drawn
from tests.generators.orders import shuffle, structure
from tests.generators.programs import REQUANTIZING, random_program, with_call
from tests.support.engine_checks import check_engine, run_on_numbers

LEVELS = ("exact", "ties", "bounded", "saturation", "relaxed")
TARGETS = ("generic", "onnxruntime", "integer", "tosa", "stablehlo")
NOT_FUNCTIONS = {
    # what they need is no program, or what they leave is no nn program
    "apply-profile", "assert-all-quantized", "convert-nn-to-tosa", "convert-nn-to-linalg",
    # what it rounds anew is constants of float ops, whose results no level speaks of
    "equalize-channels",
    "convert-nn-to-stablehlo", "lower-quant-ops", "expand-rescale", "strip-func-quant-types",
    "preflight", "quantization-boundary", "fold-interface", "normalize-quant-types",
    # what they are for is a dialect, which their exports choose, and no target
    "compute-in-floats", "require-integers",
}  # fmt: skip
SAMPLES = 3
EXTENTS = (3, 1, 4, 2, 6)
"""Tried for unknown extents."""
CHECKS = ("text", "numerics", "twice", "order")


@dataclass
class Tally:
    """What a run did."""

    programs: int = 0
    runs: int = 0
    compared: int = 0
    refused: int = 0
    seconds: float = 0.0
    #: results compared with those of engines
    in_engines: Counter[str] = field(default_factory=Counter)
    #: of results: exact, bounded or open (no bound), and how many of these differ
    claimed: Counter[str] = field(default_factory=Counter)
    fired: Counter[str] = field(default_factory=Counter)
    ops: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, str]] = field(default_factory=list)

    def as_json(self) -> dict[str, object]:
        return {n: dict(v) if isinstance(v, Counter) else v for n, v in vars(self).items()}

    def add(self, other: Tally) -> None:
        self.programs += other.programs
        self.runs += other.runs
        self.compared += other.compared
        self.refused += other.refused
        self.claimed += other.claimed
        self.fired += other.fired
        self.in_engines += other.in_engines
        self.ops += other.ops
        self.failures += other.failures


class Failed(Exception):
    """A property does not hold: which, and how."""

    def __init__(self, check: str, told: str) -> None:
        super().__init__(told)
        self.check = check


def passes_on(name: str, level: str) -> str:
    """The pass as pipeline text, at a level where it has one."""
    having = {option[0] for option in PASSES[name].options}
    return f"{name}{{numerics={level}}}" if "numerics" in having else name


def pipelines(seed: int, only: Sequence[str] | None, count: int) -> list[tuple[str, str]]:
    """Some passes, and one whole pipeline, as (pipeline, target)."""
    draw = random.Random(seed)
    names = only or [name for name in PASSES if name not in NOT_FUNCTIONS]
    chosen = [
        (passes_on(name, draw.choice(LEVELS)), draw.choice(TARGETS))
        for name in draw.sample(list(names), min(count, len(names)))
    ]
    if only is None:
        target = draw.choice(TARGETS)
        chosen.append((optimize_pipeline(get_target(target), draw.choice(LEVELS)), target))
        chosen.append(
            ("lower-composites{numerics=relaxed},raise-composites{numerics=ties}", target)
        )
    return chosen


#: passes that move or merge rescales and casts: drawn more often in an order of passes
MOVING = (
    *("fold-rescale", "combine-rescale", "place-rescales") * 3, "sink-rescale", "hoist-rescale",
    "fold-affine", "form-tables", "move-casts", "integerize", "cse", "dce", "canonicalize",
    "fold-constants", "fold-interface", "split-rescale", "type-accumulators",
)  # fmt: skip


def orders(seed: int, count: int) -> list[tuple[str, str]]:
    """`count` random orders of two to seven passes at random levels, as (pipeline, target)."""
    draw = random.Random(seed)
    others = [name for name in PASSES if name not in NOT_FUNCTIONS]
    found: list[tuple[str, str]] = []
    for _ in range(count):
        level = draw.choice((*LEVELS[1:], "bounded", "bounded"))
        names = [
            draw.choice(MOVING if draw.random() < 0.8 else others)
            for _ in range(draw.randint(2, 7))
        ]
        passes = [
            passes_on(n, level if draw.random() < 0.7 else draw.choice(LEVELS)) for n in names
        ]
        found.append((",".join(passes), draw.choice((*TARGETS[:1] * 3, *TARGETS[1:]))))
    return found


def claims_program(seed: int, ops: int) -> tuple[ModuleOp, QContext]:
    """A program of any ops, or mostly of ops that requantize; one in five calls a function, and
    one in seven is defined in floats, as an ONNX file is."""
    names = None if seed % 3 == 0 else REQUANTIZING
    module, ctx = random_program(
        seed, ops, wild=seed % 6 == 0, names=names, alike=seed % 3 > 0 and seed % 4 > 0
    )
    if seed % 7 == 0:
        module.attributes[ARITHMETIC_KEY] = IN_FLOATS
    if seed % 5 == 0:
        module = with_call(module, seed)
        verify_module(module, ctx.blobs, behaviors=ctx.behaviors)
    return module, ctx


def run(pipeline: str, target: str, module: ModuleOp, ctx: QContext) -> tuple[ModuleOp, QContext]:
    """A clone after a pipeline, verified, and its session."""
    session, after = ctx.clone(), module.clone()
    session.target = _target(target)
    for _, instance in PassRegistry().build(parse_pipeline(pipeline)):
        instance.apply(session, after)
    verify_module(after, session.blobs, behaviors=session.behaviors)
    return after, session


def check_text(module: ModuleOp, ctx: QContext) -> None:
    text = module_text(module, ctx, inline_weights=True, text_version="v24")
    session = new_context()
    again = read_module(text, session)
    verify_module(again, session.blobs, behaviors=session.behaviors)
    other = module_text(again, session, inline_weights=True, text_version="v24")
    if other != text:
        lines = zip(text.splitlines(), other.splitlines(), strict=False)
        first = next(((a, b) for a, b in lines if a != b), ("", ""))
        raise Failed("text", f"{first[0].strip()!r} becomes {first[1].strip()!r}")


def check_numerics(
    module: ModuleOp, after: ModuleOp, ctx: QContext, session: QContext, samples: int = SAMPLES
) -> Counter[str]:
    """How many results were compared, by what is claimed of them (`Tally.claimed`); none if the
    program before (of `ctx`) is the same, or runs for no unknown extent."""
    bounds, counts = summarize(session, after), Counter[str]()
    if after.is_structurally_equivalent(module):
        return counts
    dynamic = _extent(module, ctx)
    if dynamic is None:
        return counts
    for function in after.ops:
        if not isinstance(function, FuncOp):
            continue
        own = [b for b in bounds if b.function == function.sym_name.data]
        was = next(
            f for f in module.ops if isinstance(f, FuncOp) and f.sym_name == function.sym_name
        )
        if is_private(function):
            continue  # judged by what calls it
        for one in compared(session, module, after, function, own, drawn(was, samples, dynamic)):
            kind = "exact" if one.bound.real == 0 else "bounded"
            kind = kind if one.bound.real < inf else "open"
            counts[kind] += 1
            counts[f"{kind}, differ"] += not one.worst.is_equal
            if one.is_wrong:
                fired = dict(session.remarks.fired())
                raise Failed(
                    "numerics",
                    f"{one.worst.max_steps:g} steps, {one.worst.max_abs:g} in reals, "
                    f"allowed {one.allowed:g}; fired {fired}",
                )
    return counts


_EXTENT: dict[ModuleOp, int | None] = {}


def _extent(module: ModuleOp, ctx: QContext) -> int | None:
    """What unknown extents of a program may be so that it runs; known of the last one asked for."""
    if module not in _EXTENT:
        _EXTENT.clear()
        _EXTENT[module] = next((n for n in EXTENTS if _runs(module, ctx, n)), None)
    return _EXTENT[module]


@lru_cache
def _target(name: str) -> Target:
    return get_target(name)


def _runs(module: ModuleOp, ctx: QContext, dynamic: int) -> bool:
    """Whether a program runs if unknown extents are so many (a window may not fit), with
    numbers only: contracts say nothing of what is infinite or no number."""
    try:
        return all(
            run_on_numbers(ctx, module, given, function.sym_name.data)[1]
            for function in module.ops
            if isinstance(function, FuncOp)
            for given in drawn(function, SAMPLES, dynamic)
        )
    except QError:
        return False


def check_twice(after: ModuleOp, session: QContext, pipeline: str, target: str) -> None:
    again, other = run(pipeline, target, after, session)
    fired = other.remarks.fired()
    if module_text(again, other) != module_text(after, session) or fired:
        raise Failed("twice", f"a second run changes it; fired {dict(fired)}")


def check_order(
    module: ModuleOp, after: ModuleOp, ctx: QContext, pipeline: str, target: str, seed: int
) -> None:
    other = module.clone()
    shuffle(other, seed)
    shuffled, _ = run(pipeline, target, other, ctx)
    if structure(shuffled) != structure(after):
        raise Failed("order", "another order of ops ends in another program")


def check_one(
    module: ModuleOp,
    ctx: QContext,
    pipeline: str,
    target: str,
    seed: int,
    checks: Sequence[str],
    tally: Tally | None = None,
) -> None:
    """Raises Failed; QError where a pass refuses the whole program."""
    after, session = run(pipeline, target, module, ctx)
    if tally is not None:
        tally.runs += 1
        tally.fired.update(session.remarks.fired())
    single = "," not in pipeline
    if "numerics" in checks:
        counts = check_numerics(module, after, ctx, session)
        if tally is not None:
            tally.compared += sum(counts[kind] for kind in ("exact", "bounded", "open"))
            tally.claimed += counts
    if "twice" in checks and single:
        check_twice(after, session, pipeline, target)
    if "order" in checks and single:
        check_order(module, after, ctx, pipeline, target, seed)


def fuzz_seed(
    seed: int,
    ops: int,
    only: Sequence[str] | None,
    count: int,
    checks: Sequence[str],
    keep: Path | None,
    wild: bool,
    engines: Sequence[str] = (),
    in_orders: int = 0,
) -> Tally:
    tally = Tally(programs=1)
    try:
        if in_orders:
            module, ctx = claims_program(seed, ops)
        else:
            module, ctx = random_program(seed, ops, wild=wild)
    except Exception as error:
        tally.failures.append(_told(seed, "generate", "", "", error))
        return tally
    tally.ops.update({op.name for op in module.walk()})
    for engine in engines:
        try:
            tally.in_engines[engine] += check_engine(module, ctx, engine)
        except Exception as error:
            failure = _told(seed, getattr(error, "check", type(error).__name__), engine, "", error)
            tally.failures.append(failure)
    if "text" in checks:
        try:
            check_text(module, ctx)
        except Exception as error:
            tally.failures.append(_told(seed, "text", "", "", error))
    chosen = orders(seed, in_orders) if in_orders else pipelines(seed, only, count)
    for pipeline, target in chosen:
        try:
            check_one(module, ctx, pipeline, target, seed, checks, tally)
        except UnsupportedError:
            tally.refused += 1
        except Exception as error:
            if isinstance(error, InputError) and error.code in ("too-large", "bad-input"):
                tally.refused += 1
                continue
            failure = _told(
                seed, getattr(error, "check", type(error).__name__), pipeline, target, error
            )
            if keep is not None:
                failure["reduced"] = _reduced(
                    module, ctx, pipeline, target, seed, checks, error, keep
                )
            tally.failures.append(failure)
    return tally


def _told(seed: int, check: str, pipeline: str, target: str, error: Exception) -> dict[str, str]:
    told = str(error).strip().splitlines()[:1] or [type(error).__name__]
    where = ""
    if not isinstance(error, (Failed, QError)):
        frames = traceback.extract_tb(error.__traceback__)
        where = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}"
    return {
        "seed": str(seed), "check": check, "pipeline": pipeline, "target": target,
        "error": f"{type(error).__name__}: {told[0]}{where}",
    }  # fmt: skip


def _reduced(
    module: ModuleOp,
    ctx: QContext,
    pipeline: str,
    target: str,
    seed: int,
    checks: Sequence[str],
    error: Exception,
    keep: Path,
) -> str:
    """The smallest program found on which the same kind of failure happens; its file."""
    kind, check = type(error), getattr(error, "check", None)

    def fails(candidate: ModuleOp) -> bool:
        try:
            check_one(candidate, ctx, pipeline, target, seed, [check] if check else checks)
        except Exception as other:
            return type(other) is kind and getattr(other, "check", None) == check
        return False

    small = Reducer(ctx, "main", fails, seconds=20.0).reduce(module)
    keep.mkdir(parents=True, exist_ok=True)
    path = keep / f"seed-{seed}-{check or kind.__name__}-{pipeline.partition('{')[0][:30]}.mlir"
    text = module_text(small, ctx, inline_weights=True, text_version="v24")
    path.write_text(f"// {pipeline} --target {target}\n// {error}\n{text}")
    return str(path)
