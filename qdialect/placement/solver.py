"""Solving a placement problem, each connected component in the cheapest sufficient way."""

from __future__ import annotations

from collections.abc import Sequence

from qdialect.placement import highs
from qdialect.placement.elimination import eliminate, improve
from qdialect.placement.mincut import cut, is_cuttable
from qdialect.placement.problem import Part, Parts, Problem, Solution

#: entries of the largest table of the cheap elimination, which settles most components
NARROW = 256
#: entries of the largest table that is tried before giving up exactness
WIDE = 1 << 16
_ROUNDS = 64
#: tables up to which an integer program is worth its while
_PROGRAM = 4000


def solve(problem: Problem, start: Sequence[int], *, use_solver: bool = True) -> Solution:
    """States of least cost found; never costlier than `start`.

    Components are independent.  Each is solved exactly by elimination if its structure is
    narrow, else by a minimum cut if its tables allow, else by elimination with larger
    tables, else by HiGHS where that is installed and `use_solver`, else by improving on
    `start`, with a lower bound from mini-buckets.
    """
    states = list(start)
    inside: dict[int, list[tuple[int, int]]] = {}
    components = problem.components()
    owner = {v: n for n, component in enumerate(components) for v in component}
    for pair in problem.pairs:
        inside.setdefault(owner[pair[0]], []).append(pair)
    parts: list[Part] = []
    for n, component in enumerate(components):
        part = problem.restricted(component, inside.get(n, ()))
        before = [states[v] for v in component]
        found, least, method = _solve_component(part, before, use_solver)
        reached, kept = part.cost(found), part.cost(before)
        if reached >= kept:
            found, reached = before, kept
        for v, state in zip(component, found, strict=True):
            states[v] = state
        parts.append(Part(component, reached, min(least, reached), method))
    return Solution(tuple(states), Parts(parts))


def _solve_component(
    problem: Problem, start: list[int], use_solver: bool
) -> tuple[list[int], int, str]:
    """States, a lower bound on the cost, and the name of the method."""
    narrow = eliminate(problem, NARROW)
    if narrow.exact:
        return narrow.states, narrow.bound, "elimination"
    if is_cuttable(problem):
        states = cut(problem)
        return states, problem.cost(states), "min-cut"
    wide = eliminate(problem, WIDE)
    if wide.exact:
        return wide.states, wide.bound, "elimination"
    bound = max(narrow.bound, wide.bound)
    starts = [start, narrow.states, wide.states]
    states = min((improve(problem, WIDE, s, _ROUNDS) for s in starts), key=problem.cost)
    worth_it = problem.cost(states) > bound and len(problem.pairs) <= _PROGRAM
    if worth_it and use_solver and highs.is_available():
        answer = highs.minimize(problem, problem.cost(states))
        if answer is not None and problem.cost(answer[0]) <= problem.cost(states):
            states, optimal = answer
            return states, problem.cost(states) if optimal else bound, "highs"
    return states, bound, "search"
