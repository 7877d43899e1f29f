"""Every rule of every pass keeps its contract: interpreter before against after.

Each rule has families of generated programs (`families_*.py`). A pass that fired only
`exact` rules must leave every result bit-equal; `bounded(k)` may change results by at
most k steps. A rule without a family, or one that never fires in its families, fails.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from contract_judge import judge
from families import FAMILIES, Family
from rewrite_support import parse

from qdialect.ir.context import new_context
from qdialect.passes import PASSES, load
from qdialect.rewrite import Driver

CTX = new_context()


def _of_runtime(family: Family) -> tuple[pytest.MarkDecorator, ...]:
    """ONNX Runtime runs the sums of dynamic products."""
    return (pytest.mark.exact_sums,) if "-dynamic" in family.pipeline else ()


@pytest.mark.parametrize(
    "family",
    [pytest.param(family, marks=_of_runtime(family)) for family in FAMILIES],
    ids=lambda f: f"{f.pipeline.partition('{')[0]}:{'+'.join(f.rules)}:{f.generate.__name__}",
)
def test_contract(family: Family) -> None:
    times: Counter[str] = Counter()
    programs, invalid = 0, 0
    for program in family.generate():
        CTX.remarks.remarks.clear()
        done = judge(program, family, CTX)
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
    for source in ("qdialect.passes.rule_pass", type(instance).__module__):
        patch.setattr(f"{source}.Driver", Recording, raising=False)
    try:
        instance.apply(ctx, module)
    finally:
        patch.undo()
    return found


#: rules whose results the interpreter does not run, or that have a suite of their own
ELSEWHERE = {
    "island-to-codes": "tests/passes/test_form_delegated.py",
    "codes-to-island": "tests/passes/test_form_delegated.py",
    "fit-sums": "tests/passes/test_fit_sums.py",
    "rescale-to-arith": "tests/quant/test_lowering_runs.py",
    "lower-qcast": "tests/quant/test_lowering_runs.py",
    "lower-dcast": "tests/quant/test_lowering_runs.py",
    "fold-movement": "tests/passes/test_fold_constants.py",
    "fold-arithmetic": "tests/passes/test_fold_constants.py",
    "fold-behind-dequantize": "tests/passes/test_fold_constants.py",
    "storage-cast-of-constant": "tests/passes/test_fold_constants.py",
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
