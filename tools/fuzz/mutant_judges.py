"""Who notices that a guard of a rewrite is broken: families, lit tests, fuzzing, unit tests."""

# pyright: basic
from __future__ import annotations

import functools
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from io import StringIO
from pathlib import Path
from random import Random
from types import CodeType, FunctionType
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "passes"))
from contract_judge import hold, judge_extreme
from extreme_grids import extremes_of
from families import FAMILIES, Family
from rewrite_support import Program, apply, evaluate, fired, parse

from qdialect.context import new_context
from qdialect.targets.installed import get_target
from tests.lit_runner import LIT_TESTS, discover, missing_features, run_file
from tests.support.program_checks import NOT_FUNCTIONS, TARGETS, fuzz_seed

TESTS = Path(__file__).parents[2] / "tests"
SECONDS = 20
"""A program on which a mutant takes longer has caught it."""


@dataclass
class Case:
    """A program of a family that the rule as it is passes, and the lines of guards it runs."""

    family: Family
    program: Program
    module: Any
    ctx: Any
    before: list[Any]
    fired: Counter[str]
    lines: set[tuple[CodeType, int]] = field(default_factory=set)
    #: the program on an extreme grid
    text: str = ""


class TooLong(BaseException):
    """Not an Exception: no handler on the way takes it."""


def codes_of(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_of(constant)


@contextmanager
def limited(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TooLong(f"more than {seconds:g} s")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def cases(rule: str, watched: Sequence[FunctionType], most: int, draw: Random) -> list[Case]:
    """Programs of the families of a rule, with what of its guards they run."""
    found: list[Case] = []
    codes = {each for function in watched for each in codes_of(function.__code__)}
    for family in FAMILIES:
        if rule not in family.rules:
            continue
        programs = list(family.generate())
        for program in draw.sample(programs, min(most, len(programs))):
            try:
                module, ctx = parse(program.text)
            except Exception:
                continue  # as families say
            before = evaluate(module, ctx, program.inputs, family.floats)
            case = Case(family, program, module, ctx, before, Counter())
            with _traced(codes, case.lines):
                done = fired(apply(module.clone(), ctx.clone(), family.pipeline))
            case.fired.update(remark.rule for remark in done)
            found.append(case)
        extremes = [(p, text) for p in programs for _, text in extremes_of(p.text)]
        for program, text in draw.sample(extremes, min(most // 2, len(extremes))):
            case = Case(family, program, None, new_context(), [], Counter(), text=text)
            case.ctx.target = get_target(draw.choice(TARGETS))
            try:
                with _traced(codes, case.lines):
                    judged(case)
            except (Exception, TooLong):
                continue
            found.append(case)
    return found


@contextmanager
def _traced(codes: set[CodeType], lines: set[tuple[CodeType, int]]) -> Iterator[None]:
    def each_line(frame: Any, event: str, _: Any) -> Any:
        lines.add((frame.f_code, frame.f_lineno))
        return each_line

    sys.settrace(lambda frame, *_: each_line if frame.f_code in codes else None)
    try:
        yield
    finally:
        sys.settrace(None)


def judged(case: Case) -> Counter[str]:
    """What fires in a program with the rules as they are now; raises if that is wrong."""
    if case.text:
        case.ctx.remarks.remarks.clear()
        with limited(SECONDS):
            done = judge_extreme(case.text, case.program, case.family, case.ctx)
        return Counter(remark.rule for remark in done or ())
    module, session = case.module.clone(), case.ctx.clone()
    with limited(SECONDS):
        done = fired(apply(module, session, case.family.pipeline))
        if done:
            after = evaluate(module, session, case.program.inputs, case.family.floats)
            hold(case.before, after, done, case.program.label)
    return Counter(remark.rule for remark in done)


def by_families(rule: str, given: Sequence[Case], seconds: float) -> str:
    """What is wrong with some program, or ''."""
    until, times, once = time.monotonic() + seconds, 0, False
    for case in given:
        try:
            now = judged(case)
        except (Exception, TooLong) as error:
            return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"
        times, once = times + now[rule], once or case.fired[rule] > 0
        if time.monotonic() > until:
            return ""
    return "it never fires" if once and not times else ""


@functools.cache
def _lit(rule: str) -> list[Path]:
    return [p for p in discover(LIT_TESTS) if rule in p.read_text("utf-8")]


def by_lit(rule: str) -> str:
    """The lit test that fails, or ''."""
    quiet = StringIO()
    for path in _lit(rule):
        if missing_features(path):
            continue
        with tempfile.TemporaryDirectory() as to, redirect_stdout(quiet), redirect_stderr(quiet):
            try:
                with limited(SECONDS):
                    run_file(path, Path(to))
            except (Exception, TooLong):
                return path.name
    return ""


@functools.cache
def _unit(module: str) -> list[str]:
    """Test files that import from a module, but for the one of this tool."""
    found = [path for path in TESTS.rglob("test_*.py") if path.stem != "test_mutate_rules"]
    return sorted(str(p) for p in found if f"from {module} import" in p.read_text("utf-8"))


def by_unit(module: str) -> str:
    """That a unit test fails, or ''."""
    import pytest

    files, quiet = _unit(module), StringIO()
    if not files:
        return ""
    with redirect_stdout(quiet), redirect_stderr(quiet):
        try:
            with limited(6 * SECONDS):
                code = pytest.main(["-x", "-q", "-p", "no:cacheprovider", "--capture=no", *files])
        except TooLong:
            return "unit tests take too long"
    lines = [line for line in quiet.getvalue().splitlines() if line.startswith("FAILED")]
    return (lines or ["a unit test fails"])[0] if code == pytest.ExitCode.TESTS_FAILED else ""


def by_fuzz(passes: Sequence[str], seeds: Sequence[int]) -> str:
    """The failure of a random program, or ''."""
    chosen = [name for name in passes if name not in NOT_FUNCTIONS]
    for seed in seeds if chosen else ():
        try:
            with limited(SECONDS):
                tally = fuzz_seed(seed, 12, chosen, 1, ("numerics",), None, seed % 2 == 0)
        except (Exception, TooLong) as error:
            return f"{type(error).__name__}: {error}"
        if tally.failures:
            return tally.failures[0]["error"]
    return ""
