"""The placement problem solved in several ways, against all assignments."""

from __future__ import annotations

import itertools
import random

import pytest

from qdialect.placement import INFINITE, Problem, highs, solve
from qdialect.placement.solver import eliminate


def everything(problem: Problem) -> list[tuple[int, list[int]]]:
    states = itertools.product(*(range(len(costs)) for costs in problem.unary))
    return [(problem.cost(s), list(s)) for s in states]


def random_problem(seed: int, *, monge: bool, variables: int = 7) -> Problem:
    chooser = random.Random(seed)
    problem = Problem()
    count = chooser.randrange(2, variables + 1)
    for _ in range(count):
        costs = [chooser.randrange(-3, 10) for _ in range(chooser.randrange(1, 4))]
        if len(costs) > 1 and chooser.random() < 0.3:
            costs[chooser.randrange(len(costs))] = INFINITE
        problem.variable(costs)
    for _ in range(chooser.randrange(0, 12)):
        u, v = chooser.sample(range(count), 2)
        rows, columns = len(problem.unary[u]), len(problem.unary[v])
        if not monge:
            table = [[chooser.randrange(-5, 10) for _ in range(columns)] for _ in range(rows)]
        else:
            price, shift = chooser.randrange(1, 9), chooser.randrange(-1, 2)
            hard = INFINITE if chooser.random() < 0.5 else 0
            table = [
                [price * max(j - i + shift, 0) + hard * max(i - j, 0) for j in range(columns)]
                for i in range(rows)
            ]
        problem.add(u, v, table)
    return problem


@pytest.mark.parametrize("monge", [False, True])
def test_every_method_against_all_assignments(monge: bool) -> None:
    for seed in range(400):
        problem = random_problem(seed, monge=monge)
        assignments = everything(problem)
        least = min(cost for cost, _ in assignments)
        whole = eliminate(problem, limit=10**9)
        assert whole.exact
        assert whole.bound == least == problem.cost(whole.states)
        split = eliminate(problem, limit=4)
        assert split.bound <= least
        assert not split.exact or split.bound == least
        start = [0] * len(problem.unary)
        parts = solve(problem, start).parts
        assert parts.cost == parts.bound == least
        assert parts.exact == len(parts)


def grid(side: int, seed: int) -> Problem:
    """A grid is as wide as it is long: no narrow elimination."""
    chooser = random.Random(seed)
    problem = Problem()
    for _ in range(side * side):
        problem.variable([chooser.randrange(-9, 10), 0, chooser.randrange(-9, 10)])
    for x, y in itertools.product(range(side), range(side)):
        for dx, dy in ((0, 1), (1, 0)):
            if x + dx < side and y + dy < side:
                table = [[chooser.randrange(0, 9) for _ in range(3)] for _ in range(3)]
                problem.add(x * side + y, (x + dx) * side + y + dy, table)
    return problem


@pytest.mark.parametrize("seed", range(4))
def test_what_is_too_wide_is_guessed_and_bounded(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = grid(8, seed)
    least = eliminate(problem, 10**6).bound
    monkeypatch.setattr("qdialect.placement.solver.LIMIT", 3**6)
    parts = solve(problem, [1] * 64, use_solver=False).parts
    assert parts.methods == (("mini-buckets", 1),)
    assert parts.bound <= least <= parts.cost <= problem.cost([1] * 64)


@pytest.mark.skipif(not highs.is_available(), reason="highspy (extra 'solver') is not installed")
def test_highs_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = grid(8, 0)
    least = eliminate(problem, 10**6).bound
    monkeypatch.setattr("qdialect.placement.solver.LIMIT", 3**5)
    parts = solve(problem, [1] * 64).parts
    assert (parts.cost, parts.bound) == (least, least)
    assert parts.methods == (("highs", 1),)
    for seed in range(0, 60, 3):
        problem = random_problem(seed, monge=False)
        least = min(cost for cost, _ in everything(problem))
        found = highs.minimize(problem, max(least, 1))
        assert (found is None) == (least > INFINITE // 2)
        if found is not None:
            assert found[1] and problem.cost(found[0]) == least


def test_the_order_of_variables_does_not_matter() -> None:
    for seed in range(200):
        problem = random_problem(seed, monge=True)
        count = len(problem.unary)
        order = random.Random(seed).sample(range(count), count)
        other = Problem([problem.unary[v] for v in order])
        place = {v: n for n, v in enumerate(order)}
        for (u, v), table in problem.pairs.items():
            other.add(place[u], place[v], table)
        states = solve(problem, [0] * count).states
        permuted = solve(other, [0] * count).states
        if problem.cost(states) < INFINITE // 2:
            assert permuted == tuple(states[v] for v in order)


def test_a_chain_of_many_is_linear_and_not_recursive() -> None:
    problem = Problem()
    ends = [problem.variable([0, 0]) for _ in range(20_000)]
    problem.unary[0], problem.unary[-1] = [0, INFINITE], [INFINITE, 0]
    for a, b in itertools.pairwise(ends):
        problem.add(a, b, [[0, a * 7919 % 1000 + 1], [INFINITE, 0]])
    start = [0] * 19_999 + [1]
    parts = solve(problem, start).parts
    assert parts.cost == 1 == parts.bound


def test_infeasible_stays_where_it_is() -> None:
    problem = Problem()
    u, v = problem.variable([0, INFINITE]), problem.variable([INFINITE, 0])
    problem.add(u, v, [[0, INFINITE], [0, 0]])
    assert solve(problem, [0, 0]).parts.cost >= INFINITE
