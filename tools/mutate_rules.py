"""Are the guards of the rewrites tested?  Break them one at a time, and see who notices.

A mutant is `match`, `check` or a helper they call in `qdialect.passes` with one change:

    negate    a condition is turned around          drop     a refusal falls through
    logic     and <-> or, any <-> all               compare  < <-> <=, == <-> !=, in <-> not in
    clamp     min, max or abs is gone               sign     + <-> -
    stronger  a weaker contract is claimed exact    weaker   an exact one is claimed relaxed
    answer    True <-> False is returned

A mutant is killed if a program of a family of the rule (`tests/passes/families_*.py`) breaks
its contract, no longer verifies, raises, or never sees the rule fire; or if a lit test that names
the rule, a short fuzz with its pass alone, or a unit test of its module fails.  Those that survive
and change nothing are listed in `equivalent_mutants.json`, with the reason.

    python tools/mutate_rules.py --rules identity-rescale redundant-clamp
    python tools/mutate_rules.py --most 10 --seed 1 --json mutants.json
"""

# pyright: basic
from __future__ import annotations

import argparse
import ast
import copy
import functools
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from types import FunctionType
from typing import Any

from document import put
from mutant_judges import FAMILIES, by_families, by_fuzz, by_lit, by_unit, cases, codes_of
from mutations import changes, signature
from qdialect.context import new_context
from qdialect.passes import PASSES
from qdialect.pipeline.registry import PassRegistry
from qdialect.pipeline.text import parse_pipeline

EQUIVALENT = Path(__file__).with_name("equivalent_mutants.json")
OWN = "qdialect.passes"
NOT_GUARDS = {"rewrite", "roots", "prepare", "__init__"}


@dataclass(frozen=True)
class Mutant:
    """One change in one function; `number` counts the changes of that function."""

    function: str
    line: int
    kind: str
    before: str
    after: str
    number: int
    #: the last line of the expression
    last: int

    @property
    def name(self) -> str:
        return f"{self.function} #{self.number}: {self.kind}: {self.before} -> {self.after}"


@dataclass
class Verdict:
    """What became of a mutant of a rule."""

    rule: str
    mutant: Mutant
    killer: str = ""
    why: str = ""


# -- what is there to break ------------------------------------------------------------


@functools.cache
def rules() -> dict[str, tuple[type, list[str]]]:
    """Rule name -> its class, and the passes it is in."""
    found: dict[str, tuple[type, list[str]]] = {}
    for name, entry in PASSES.items():
        if any(option[0] == "file" for option in entry.options):
            continue
        ((_, instance),) = PassRegistry().build(parse_pipeline(name))
        made = getattr(instance, "rules", None)
        for rule in made(new_context()) if made is not None else ():
            found.setdefault(rule.name, (type(rule), []))[1].append(name)
    return found


@functools.cache
def guards(rule: type) -> list[FunctionType]:
    """`match` and `check`, and what they call in passes."""
    found: dict[FunctionType, None] = {}
    waiting = [each for name in ("match", "check") for each in _named(rule, name)]
    while waiting:
        function = waiting.pop()
        if not isinstance(function, FunctionType) or function in found:
            continue
        if not function.__module__.startswith(OWN) or function.__name__ in NOT_GUARDS:
            continue
        found[function] = None
        for code in codes_of(function.__code__):
            for name in code.co_names:
                waiting += _named(rule, name) or [function.__globals__.get(name)]
    return list(found)


def _named(rule: type, name: str) -> list[Any]:
    """The method of that name, and those that its `super()` finds."""
    found: list[Any] = []
    for each in (base.__dict__[name] for base in rule.__mro__ if name in base.__dict__):
        found.append(getattr(each, "fget", None) or getattr(each, "func", None) or each)
        if "super" not in getattr(getattr(found[-1], "__code__", None), "co_names", ()):
            break
    return found


@functools.cache
def _tree(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text("utf-8"))


def _node(function: FunctionType) -> ast.FunctionDef:
    first = function.__code__.co_firstlineno
    for node in ast.walk(_tree(function.__code__.co_filename)):
        if isinstance(node, ast.FunctionDef) and node.name == function.__name__:
            starts = [node.lineno, *(each.lineno for each in node.decorator_list)]
            if min(starts) == first:
                return node
    raise LookupError(f"no source of {function.__qualname__}")


def mutants(function: FunctionType) -> list[Mutant]:
    """All changes of one function."""
    place = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
    return [
        Mutant(place, change.line, change.kind, *signature(change), number, change.last)
        for number, change in enumerate(changes(_node(function)))
    ]


@contextmanager
def broken(function: FunctionType, number: int) -> Iterator[None]:
    """The function with one change, in this process."""
    original = function.__code__
    tree = _tree(original.co_filename)
    change = changes(_node(function))[number]
    with change.made():
        other = copy.deepcopy(tree)
    code = compile(ast.fix_missing_locations(other), original.co_filename, "exec")
    (made,) = (
        each
        for each in codes_of(code)
        if (each.co_name, each.co_firstlineno) == (original.co_name, original.co_firstlineno)
    )
    function.__code__ = made
    try:
        yield
    finally:
        function.__code__ = original


def try_rule(
    rule: str,
    made: type,
    passes: Sequence[str],
    wanted: Callable[[list[Mutant]], list[Mutant]],
    *,
    programs: int = 40,
    seconds: float = 15.0,
    seeds: Sequence[int] = (),
    seed: int = 0,
) -> Iterator[Verdict]:
    """The verdicts on the mutants that `wanted` chooses of a rule."""
    functions = guards(made)
    owner = {m: function for function in functions for m in mutants(function)}
    chosen = wanted(list(owner))
    if not chosen:
        return
    draw = Random(f"{seed} {rule}")
    watched = list(dict.fromkeys(owner[m] for m in chosen))
    pool = cases(rule, watched, programs, draw)
    if by_lit(rule):
        raise SystemExit(f"a lit test of {rule} fails as it is: {by_lit(rule)}")
    for mutant in chosen:
        function = owner[mutant]
        codes = set(codes_of(function.__code__))
        lines = range(mutant.line, mutant.last + 1)
        run = [c for c in pool if any(at in codes and n in lines for at, n in c.lines)]
        run.sort(key=lambda c: not c.fired[rule])
        users = _users(function)
        with broken(function, mutant.number):
            killer, why = "families", by_families(rule, run, seconds)
            if not why:
                killer, why = "lit", by_lit(rule)
            if not why:
                killer, why = "fuzz", by_fuzz(passes, seeds)
            if not why:
                killer, why = "unit", by_unit(function.__module__)
            # A helper that rules share may be tested by any of them.
            for other in () if why else users:
                killer, why = "lit", why or by_lit(other)
        if not why:
            why = _equivalent().get(mutant.name, "")
            killer = "equivalent" if why else ""
        yield Verdict(rule, mutant, killer, why or f"{len(run)} programs run the line")


@functools.cache
def _users(function: FunctionType) -> list[str]:
    """The rules that call a function, if they are several."""
    found = [name for name, (made, _) in rules().items() if function in guards(made)]
    return found if len(found) > 1 else []


@functools.cache
def _equivalent() -> dict[str, str]:
    """Mutants that change nothing, and why."""
    return json.loads(EQUIVALENT.read_text("utf-8"))


def table(found: Sequence[Verdict]) -> str:
    """Counts per rule, and who survives."""
    rows = [
        "| rule | mutants | by families | by lit | by fuzzing | by unit tests | equivalent | "
        "survive | rate |",
        "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    names = sorted({verdict.rule for verdict in found})
    for name in [*names, "all"]:
        of = [v.killer for v in found if name in ("all", v.rule)]
        counts = Counter(of)
        real = len(of) - counts["equivalent"]
        rate = f"{100 * (real - counts['']) / real:.0f} %" if real else ""
        shown = name if name == "all" else f"`{name}`"
        listed = " | ".join(
            f"{counts[each]}" for each in ("families", "lit", "fuzz", "unit", "equivalent", "")
        )
        rows.append(f"| {shown} | {len(of)} | {listed} | {rate} |")
    left = [v for v in found if not v.killer]
    if left:
        rows += ["", "Survivors:", ""]
        rows += [f"- `{v.rule}`: `{v.mutant.name}` ({v.why})" for v in left]
    return "\n".join(rows)


def main(arguments: Sequence[str] | None = None) -> int:
    """The table; 1 if a mutant survives."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n")[0])
    known = rules()
    parser.add_argument("--rules", nargs="+", choices=sorted(known), metavar="RULE")
    parser.add_argument("--most", type=int, help="mutants per rule (default: all)")
    parser.add_argument("--programs", type=int, default=40, help="per family (default: 40)")
    parser.add_argument("--seconds", type=float, default=15.0, help="of families, per mutant")
    parser.add_argument("--fuzz", type=int, default=6, help="random programs per mutant")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--list", action="store_true", help="only tell what would be broken")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--known", type=Path, nargs="*", default=[], help="verdicts to add")
    parser.add_argument("--again", action="store_true", help="only what survived in --known")
    parser.add_argument("--document", type=Path, help="put the table there, between its marks")
    options = parser.parse_args(arguments)
    found = [
        Verdict(**{**row, "mutant": Mutant(**row["mutant"])})
        for path in options.known
        for row in json.loads(path.read_text())
    ]
    # Code that was known then may be another now.
    there = {
        (r, m.name) for r, (made, _) in known.items() for f in guards(made) for m in mutants(f)
    }
    found = [verdict for verdict in found if (verdict.rule, verdict.mutant.name) in there]
    survived = {(v.rule, v.mutant.name) for v in found if not v.killer}
    if options.again:
        found = [verdict for verdict in found if verdict.killer]
    seen = {(verdict.rule, verdict.mutant.name) for verdict in found}
    seeds = range(7000 + options.seed, 7000 + options.seed + options.fuzz)
    for rule in options.rules or sorted(known):
        if not any(rule in family.rules for family in FAMILIES):
            continue  # no function that the interpreter runs

        def some(given: list[Mutant], rule: str = rule) -> list[Mutant]:
            if options.again:
                return [mutant for mutant in given if (rule, mutant.name) in survived]
            draw = Random(f"{options.seed} {rule}")
            left = [mutant for mutant in given if (rule, mutant.name) not in seen]
            most = len(left) if options.most is None else options.most
            return draw.sample(left, min(most, len(left)))

        made, passes = known[rule]
        if options.list:
            for function in guards(made):
                for mutant in mutants(function):
                    print(f"{rule}: {mutant.name}")
            continue
        for verdict in try_rule(
            rule, made, passes, some,
            programs=options.programs, seconds=options.seconds, seeds=seeds, seed=options.seed,
        ):  # fmt: skip
            found.append(verdict)
            told = f"{rule}: {verdict.mutant.name}: {verdict.killer or 'SURVIVES'} ({verdict.why})"
            print(told, file=sys.stderr, flush=True)
            if options.json is not None:
                rows = [asdict(each) for each in found]
                options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if found:
        print(table(found))
    if options.document is not None:
        put(options.document, "mutation", table(found))
    return int(any(not verdict.killer for verdict in found))


if __name__ == "__main__":
    sys.exit(main())
