"""Guards that are broken are noticed (`tools/fuzz/mutants.py` breaks them all)."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from qdialect.passes.rescale.fold_rescale import IdentityRescale
from tools.fuzz import mutants as mutate_rules
from tools.fuzz.mutants import Mutant, broken, guards, main, mutants, rules, table, try_rule
from tools.fuzz.mutations import changes, signature

KILLED = {
    "identity-rescale": [
        "IdentityRescale.match: negate: op if same",
        "IdentityRescale.match: logic: same_type(op.input.type, op.result.type) and",
        "IdentityRescale.check: drop: if not inside_bounds",
        "IdentityRescale.check: negate: if not inside_bounds",
        "IdentityRescale.check: weaker: return EXACT",
    ],
    "identity-movement": [
        "IdentityMovement.match: negate: op if same",
        "IdentityMovement.match: logic: behavior.is_identity",
        "IdentityMovement.match: compare: op.operands[0].type ==",
    ],
    "redundant-clamp": [
        "RedundantClamp.check: negate: if self._proved",
        "RedundantClamp.match: drop: if params is None",
        "RedundantClamp._proved: drop: if low != -inf",
        "RedundantClamp._proved: drop: if high != inf",
        "RedundantClamp._proved: compare: codes.low <",
        "RedundantClamp._proved: compare: codes.high >",
        "RedundantClamp._proved: answer: return True",
    ],
    "repeated-clamp": [
        "RepeatedClamp.match: drop: if not isinstance(owner, Operation)",
        "RepeatedClamp.match: drop: if inner is None",
        "RepeatedClamp.match: clamp: max(low, inner_low)",
        "RepeatedClamp.match: clamp: min(high, inner_high)",
        "RepeatedClamp.match: compare: owner.operands[0].type !=",
    ],
}


def told(mutant: Mutant) -> str:
    """Without the module and the number, which another change may shift."""
    return f"{mutant.function.partition('.')[2]}: {mutant.kind}: {mutant.before}"


@pytest.mark.parametrize("rule", KILLED)
def test_broken_guards_are_noticed(rule: str) -> None:
    made, passes = rules()[rule]

    def wanted(given: list[Mutant]) -> list[Mutant]:
        return [next(m for m in given if told(m).startswith(start)) for start in KILLED[rule]]

    verdicts = list(try_rule(rule, made, passes, wanted))
    assert len(verdicts) == len(KILLED[rule])
    assert all(v.killer in ("families", "lit", "fuzz") for v in verdicts), table(verdicts)


def test_there_are_twenty() -> None:
    assert sum(map(len, KILLED.values())) == 20


def test_a_function_is_as_before_afterwards() -> None:
    check = IdentityRescale.check
    code = check.__code__
    with broken(check, 0):
        assert check.__code__ is not code
    assert check.__code__ is code
    assert IdentityRescale.match in guards(IdentityRescale)
    kinds = {"negate", "drop", "logic", "weaker", "stronger"}
    assert {m.kind for m in mutants(check)} == kinds


def test_every_kind_of_change() -> None:
    text = '''
def check(a, b, c):
    """Words."""
    assert a < b
    if a < b and min(a, b) > abs(c):
        return Refusal("code", f"{a < b}", a < b)
    if any(n in b for n in c):
        return EXACT
    if not (a + b == c):
        return False
    return Contract(Numerics.BOUNDED, 1, note=a < b)
'''
    (function,) = ast.parse(text).body
    assert isinstance(function, ast.FunctionDef)
    before = ast.unparse(function)
    shown = [(c.kind, *signature(c)) for c in changes(function)]
    assert ast.unparse(function) == before
    assert {kind for kind, *_ in shown} == {
        "negate", "drop", "logic", "compare", "clamp", "sign", "stronger", "weaker", "answer",
    }  # fmt: skip
    assert ("compare", "a < b", "a <= b") in shown
    assert ("logic", "any((n in b for n in c))", "all((n in b for n in c))") in shown
    assert ("stronger", "Contract(Numerics.BOUNDED, 1, note=a < b)",
            "Contract(Numerics.EXACT, 1, note=a < b)") in shown  # fmt: skip
    assert sum(kind == "compare" for kind, *_ in shown) == 4


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    given = ["--rules", "repeated-clamp", "--most", "2", "--fuzz", "0", "--json", str(path)]
    assert main(given) == 0
    out = capsys.readouterr().out
    assert "| `repeated-clamp` | 2 |" in out
    assert len(json.loads(path.read_text())) == 2
    assert main([*given, "--known", str(path)]) == 0
    assert "| `repeated-clamp` | 4 |" in capsys.readouterr().out


def test_equivalent_mutants_are_there() -> None:
    """What is said to change nothing is a mutant still, and a reason is given."""
    names = {m.name for made, _ in rules().values() for f in guards(made) for m in mutants(f)}
    listed = json.loads(mutate_rules.EQUIVALENT.read_text("utf-8"))
    assert set(listed) <= names, sorted(set(listed) - names)
    assert all(len(reason) > 10 for reason in listed.values())
