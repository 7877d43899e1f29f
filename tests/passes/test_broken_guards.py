"""The tests of the rewrites notice when a guard of a rule is broken.

Each guard below is broken by a change of its source. The programs of the rule's families, the lit
tests that name the rule, or random programs with its pass must then fail: a contract does not hold,
a result does not verify, or the rule no longer fires.
"""

from __future__ import annotations

import inspect
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from contract_proofs import prove
from families import FAMILIES
from rewrite_support import EXECUTED

from qdialect.algebra.contract import Numerics
from qdialect.passes.cleanup.canonicalize import IdentityMovement, RedundantClamp, RepeatedClamp
from qdialect.passes.rescale.fold_rescale import IdentityRescale
from qdialect.testing.lit import discover, missing_features, run_file
from tests.support.program_checks import fuzz_seed

LIT_TESTS = Path(__file__).parents[2] / "lit_tests"
LEVELS = [str(level) for level in Numerics]
PASSES = {IdentityRescale: "fold-rescale"}
"""The pass of a rule, if it is not `canonicalize`."""

GUARDS: list[tuple[Any, str, str, str]] = [
    (IdentityRescale, "match", "if same else", "if not same else"),
    (IdentityRescale, "match", ") and op.fixed_point", ") or op.fixed_point"),
    (IdentityRescale, "check", "if not inside_bounds", "if False and inside_bounds"),
    (IdentityRescale, "check", "if not inside_bounds", "if inside_bounds"),
    (IdentityRescale, "check", "return EXACT", "return Contract(Numerics.RELAXED)"),
    (IdentityMovement, "match", "if same else", "if not same else"),
    (IdentityMovement, "match", "(op) and op.operands", "(op) or op.operands"),
    (IdentityMovement, "match", ".type == op.results", ".type != op.results"),
    (RedundantClamp, "check", "if self._proved", "if not self._proved"),
    (RedundantClamp, "match", "if params is None or", "if False and params is None or"),
    (RedundantClamp, "_proved", "if low != -inf and", "if False and"),
    (RedundantClamp, "_proved", "if high != inf and", "if False and"),
    (RedundantClamp, "_proved", "codes.low <", "codes.low <="),
    (RedundantClamp, "_proved", "codes.high >", "codes.high >="),
    (RedundantClamp, "_proved", "return True", "return False"),
    (RepeatedClamp, "match", "if not isinstance(owner, Operation)", "if False"),
    (RepeatedClamp, "match", "if inner is None or inner.clamp is None or", "if False and"),
    (RepeatedClamp, "match", "max(low, inner_low)", "low"),
    (RepeatedClamp, "match", "min(high, inner_high)", "high"),
    (RepeatedClamp, "match", "owner.operands[0].type !=", "owner.operands[0].type =="),
]


@contextmanager
def changed(function: FunctionType, old: str, new: str) -> Iterator[None]:
    """The function with one piece of its source replaced by another."""
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(old) == 1, f"{function.__qualname__} does not have {old!r} once"
    made: dict[str, Any] = {}
    exec(source.replace(old, new), function.__globals__, made)
    before = function.__code__
    function.__code__ = made[function.__name__].__code__
    try:
        yield
    finally:
        function.__code__ = before


def by_families(rule: Any) -> str:
    """What is wrong on programs of the rule's families; "never fires" where it did before."""
    before = Counter(EXECUTED.get(rule.name, ()))
    for family in FAMILIES:
        if rule.name in family.rules and (wrong := prove(family, 30, 30)):
            return wrong[0]
    after = Counter(EXECUTED.get(rule.name, ())) - before
    return "" if any(after[level] for level in LEVELS) else "never fires"


def by_lit(rule: Any, folder: Path) -> str:
    """The lit test that names the rule and fails."""
    for path in discover(LIT_TESTS):
        if rule.name not in path.read_text("utf-8") or missing_features(path):
            continue
        try:
            with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
                run_file(path, folder)
        except Exception:
            return path.name
    return ""


def by_random_programs(rule: Any) -> str:
    """What is wrong on random programs with the pass of the rule."""
    passes = [PASSES.get(rule, "canonicalize")]
    for seed in range(30):
        tally = fuzz_seed(seed, 12, passes, 1, ("numerics",), None, seed % 2 == 0)
        if tally.failures:
            return tally.failures[0]["error"]
    return ""


def noticed(rule: Any, folder: Path) -> str:
    """The first that notices."""
    judges: list[Callable[[], str]] = [
        lambda: by_families(rule),
        lambda: by_lit(rule, folder),
        lambda: by_random_programs(rule),
    ]
    return next((said for judge in judges if (said := judge())), "")


@pytest.mark.parametrize(
    ("rule", "method", "old", "new"), GUARDS, ids=lambda x: getattr(x, "name", x)
)
def test_a_broken_guard_is_noticed(
    rule: Any, method: str, old: str, new: str, tmp_path: Path
) -> None:
    with changed(getattr(rule, method), old, new):
        assert noticed(rule, tmp_path)


@pytest.mark.parametrize("rule", sorted({guard[0] for guard in GUARDS}, key=lambda r: r.name))
def test_whole_rules_pass_the_families(rule: Any) -> None:
    assert by_families(rule) == ""
