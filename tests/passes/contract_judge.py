"""What a rule of a family claims, held against the interpreter before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import families_casts  # noqa: F401
import families_choices  # noqa: F401
import families_combine  # noqa: F401
import families_depthwise  # noqa: F401
import families_dynamic  # noqa: F401
import families_float_regions  # noqa: F401
import families_fold  # noqa: F401
import families_integerize  # noqa: F401
import families_kernels  # noqa: F401
import families_layouts  # noqa: F401
import families_lower  # noqa: F401
import families_move  # noqa: F401
import families_order  # noqa: F401
import families_other  # noqa: F401
import families_passage  # noqa: F401
import families_raise  # noqa: F401
import families_reciprocal  # noqa: F401
import families_spatial  # noqa: F401
import families_split  # noqa: F401
import families_tables  # noqa: F401
import numpy as np
from families import Family
from rewrite_support import (
    EXECUTED,
    Array,
    Program,
    apply,
    evaluate,
    fired,
    level_of,
    parse,
)
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from qdialect.algebra.contract import Numerics
from qdialect.errors import InputError
from qdialect.ir.context import QContext
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.rewrite import Remark
from qdialect.rewrite.summary import summarize
from qdialect.workflows.validation.translation import compared
from tests.support.engine_checks import run_on_numbers


def distance(a: Array, b: Array) -> float:
    """Largest difference; 0 for equal bits (NaN equals NaN), infinite for other floats."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.inf
    if a.dtype.kind == "f":
        bits = f"u{a.dtype.itemsize}"
        both = np.isnan(a) & np.isnan(b)
        return 0.0 if (both | (a.view(bits) == b.view(bits))).all() else np.inf
    return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0))


def judge(program: Program, family: Family, ctx: QContext) -> list[Remark] | None:
    """Run the family's pass on a program and hold it to what it claims; None if it is not
    a program, as the family says some are."""
    try:
        module, ctx = parse(program.text, ctx)
    except InputError as error:
        if error.code != "invalid-ir" or not family.invalid or family.invalid not in str(error):
            raise
        EXECUTED.setdefault("(invalid programs)", Counter())["programs"] += 1
        return None
    before = evaluate(module, ctx, program.inputs, family.floats)
    ieee = before if family.floats == "ieee" else evaluate(module, ctx, program.inputs)
    done = fired(apply(module, ctx, family.pipeline))
    if not done:
        return done
    after = evaluate(module, ctx, program.inputs, family.floats)
    worst = max(map(level_of, done))
    differing = "differ" if family.floats == "ieee" else "differ in f32"
    unequal = [(a != b).sum() for a, b in zip(ieee, after, strict=True) if a.dtype == b.dtype]
    for rule in {remark.rule for remark in done}:
        counts = EXECUTED.setdefault(rule, Counter())
        counts["programs"] += 1
        counts["elements"] += sum(a.size for a in before)
        counts[differing] += int(sum(unequal))
        counts[str(worst)] += 1
    hold(before, after, done, f"{program.label}\n{program.text}")
    return done


def hold(
    before: Sequence[Array], after: Sequence[Array], done: Sequence[Remark], program: str
) -> None:
    """Results must differ by no more than what fired allows."""
    worst = max(map(level_of, done))
    # A tie that rounds the other way is one step away.
    steps = sum(max(r.steps, level_of(r) is Numerics.TIES) for r in done)
    far = max(distance(a, b) for a, b in zip(before, after, strict=True))
    told = f"{[(r.rule, r.contract, r.reason) for r in done]}: {program}"
    if worst is Numerics.EXACT:
        assert far == 0, told
    elif worst <= Numerics.BOUNDED:
        assert far <= steps, f"{far} steps, {told}"


def judge_extreme(
    text: str, program: Program, family: Family, ctx: QContext
) -> list[Remark] | None:
    """The same for a program on an extreme grid, where floats may be no numbers (nothing is
    said of these: None, as for what is no program) and sums of doubles round: what rewrites
    allow together is compared as `--verify-numerics` does, and judged again in reals."""
    try:
        before, _ = parse(text, ctx)
    except InputError as error:
        if error.code != "invalid-ir":
            raise
        return None
    session = ctx.clone()
    with np.errstate(all="ignore"):
        kept = _has_nodes(before)
        if not kept and not run_on_numbers(session, before, program.inputs)[1]:
            return None
        module = before.clone()
        done = fired(apply(module, session, family.pipeline))
        if not done:
            return done
        if kept or _has_nodes(module):
            first, second = (evaluate(m, session, program.inputs) for m in (before, module))
            hold(first, second, done, text)
            return _counted(program, done)
        function = next(op for op in module.ops if isinstance(op, FuncOp))
        bounds = summarize(session, module)
        found = compared(session, before, module, function, bounds, [program.inputs])
    for one in found:
        told = f"{one.worst.max_steps:g} steps, {one.worst.max_abs:g} in reals"
        rules = [(r.rule, r.contract, r.reason) for r in done]
        if one.worst.max_steps <= 1 and "quant.dcast" in text:
            continue  # the reference is in doubles: a term 2**-53 of another decides no tie
        assert not one.is_wrong, f"{told}, allowed {one.allowed:g}: {rules}\n{text}"
    return _counted(program, done)


def _has_nodes(module: ModuleOp) -> bool:
    return any(isinstance(op, NodeOp) for op in module.walk())


def _counted(program: Program, done: list[Remark]) -> list[Remark]:
    worst = max(map(level_of, done))
    for rule in {remark.rule for remark in done}:
        counts = EXECUTED.setdefault(rule, Counter())
        counts["extreme"] += 1
        counts["elements"] += sum(x.size for x in program.inputs)
        counts[str(worst)] += 1
    return done
