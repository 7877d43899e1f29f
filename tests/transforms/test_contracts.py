"""Every rule of every pass keeps its contract: interpreter before against after.

Each rule has families of generated programs (`families_*.py`). A pass that fired only
`exact` rules must leave every result bit-equal; `bounded(k)` may change results by at
most k steps. A rule without a family, or one that never fires in its families, fails.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import families_casts  # noqa: F401
import families_choices  # noqa: F401
import families_combine  # noqa: F401
import families_depthwise  # noqa: F401
import families_dynamic  # noqa: F401
import families_fold  # noqa: F401
import families_integerize  # noqa: F401
import families_islands  # noqa: F401
import families_lower  # noqa: F401
import families_move  # noqa: F401
import families_order  # noqa: F401
import families_other  # noqa: F401
import families_passage  # noqa: F401
import families_raise  # noqa: F401
import families_spatial  # noqa: F401
import families_split  # noqa: F401
import families_tables  # noqa: F401
import numpy as np
import pytest
from families import FAMILIES, Family
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

from qdialect.context import new_context
from qdialect.errors import InputError
from qdialect.numerics.contract import Numerics
from qdialect.rewrite import Driver, Remark
from qdialect.transforms import PASSES, load


def distance(a: Array, b: Array) -> float:
    """Largest difference; 0 for equal bits (NaN equals NaN), infinite for other floats."""
    if a.shape != b.shape or a.dtype != b.dtype:
        return np.inf
    if a.dtype.kind == "f":
        bits = f"u{a.dtype.itemsize}"
        both = np.isnan(a) & np.isnan(b)
        return 0.0 if (both | (a.view(bits) == b.view(bits))).all() else np.inf
    return float(np.abs(a.astype(np.float64) - b.astype(np.float64)).max(initial=0))


def judge(program: Program, family: Family) -> list[Remark] | None:
    """Run the family's pass on a program and hold it to what it claims; None if it is not
    a program, as the family says some are."""
    try:
        module, ctx = parse(program.text, CTX)
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
    # A tie that rounds the other way is one step away.
    steps = sum(max(r.steps, level_of(r) is Numerics.TIES) for r in done)
    differing = "differ" if family.floats == "ieee" else "differ in f32"
    unequal = [(a != b).sum() for a, b in zip(ieee, after, strict=True) if a.dtype == b.dtype]
    for rule in {remark.rule for remark in done}:
        counts = EXECUTED.setdefault(rule, Counter())
        counts["programs"] += 1
        counts["elements"] += sum(a.size for a in before)
        counts[differing] += int(sum(unequal))
        counts[str(worst)] += 1
    far = max(distance(a, b) for a, b in zip(before, after, strict=True))
    told = f"{program.label}: {[(r.rule, r.contract, r.reason) for r in done]}\n{program.text}"
    if worst is Numerics.EXACT:
        assert far == 0, told
    elif worst <= Numerics.BOUNDED:
        assert far <= steps, f"{far} steps, {told}"
    return done


CTX = new_context()


@pytest.mark.parametrize(
    "family",
    FAMILIES,
    ids=lambda f: f"{f.pipeline.partition('{')[0]}:{'+'.join(f.rules)}:{f.generate.__name__}",
)
def test_contract(family: Family) -> None:
    times: Counter[str] = Counter()
    programs, invalid = 0, 0
    for program in family.generate():
        CTX.remarks.remarks.clear()
        done = judge(program, family)
        programs, invalid = programs + 1, invalid + (done is None)
        times.update({remark.rule for remark in done or ()})
    assert 10 * invalid <= programs, f"{invalid} of {programs} programs are invalid"
    for rule in family.rules:
        assert times[rule], f"'{rule}' never fired"


def rules_of(name: str) -> list[str]:
    """The names of the rules a pass gives its driver."""
    found: list[str] = []
    instance = load(name)()()

    class Recording(Driver):
        def __init__(self, session, rules, **options) -> None:
            super().__init__(session, rules, **options)
            found.extend(rule.name for rule in rules)

    module, ctx = parse("builtin.module {}")
    patch = pytest.MonkeyPatch()
    for source in ("qdialect.transforms.rule_pass", type(instance).__module__):
        patch.setattr(f"{source}.Driver", Recording, raising=False)
    try:
        instance.apply(ctx, module)
    finally:
        patch.undo()
    return found


#: rules whose results the interpreter does not run, or that have a suite of their own
ELSEWHERE = {
    "rescale-to-arith": "tests/quant/test_lowering_runs.py",
    "lower-qcast": "tests/quant/test_lowering_runs.py",
    "lower-dcast": "tests/quant/test_lowering_runs.py",
    "fold-movement": "tests/transforms/test_fold_constants.py",
    "fold-arithmetic": "tests/transforms/test_fold_constants.py",
    "fold-behind-dequantize": "tests/transforms/test_fold_constants.py",
    "storage-cast-of-constant": "tests/transforms/test_fold_constants.py",
}


#: a pass that reads a file decides by that, not by rules
OF_RULES = [n for n, entry in PASSES.items() if all(o[0] != "file" for o in entry.options)]


@pytest.mark.parametrize("name", OF_RULES)
def test_every_rule_has_a_family(name: str) -> None:
    having = {rule for f in FAMILIES for rule in f.rules}
    root = Path(__file__).parents[2]
    having |= {rule for rule, suite in ELSEWHERE.items() if (root / suite).is_file()}
    missing = set(rules_of(name)) - having
    assert not missing, f"no family of programs for {', '.join(sorted(missing))}"
