"""Least-cost states of a problem: elimination of variables, and HiGHS where that is too wide.

Removing a variable x replaces every factor on x by one factor on x's neighbors, its least
cost over the states of x (nonserial dynamic programming; Bertele and Brioschi, 1972).  On a
tree or a series-parallel graph no factor ever has more than two variables, so the work is
linear in the number of variables.

Where a factor would have more than `LIMIT` entries, the factors on x are split into groups,
each minimized on its own (mini-buckets; Dechter and Rish, J. ACM 50(2), 2003).  The result
is then a lower bound on the cost, and the states found while going back are only a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import prod
from operator import add
from typing import Any

import numpy as np

from qdialect.placement import highs
from qdialect.placement.problem import Part, Parts, Problem, Solution

#: entries of the largest table that elimination builds
LIMIT = 1 << 16
#: tables up to which an integer program is tried
_PROGRAM = 4000


def solve(problem: Problem, start: Sequence[int], *, use_solver: bool = True) -> Solution:
    """States of least cost found; never costlier than `start`, and `start` if that is as good.

    Components are independent.  Each is solved exactly by elimination if that stays within
    `LIMIT`, else by HiGHS where that is installed and `use_solver`, else it gets the better
    of `start` and what mini-buckets guess, with their lower bound.
    """
    states = list(start)
    pairs: dict[int, list[tuple[int, int]]] = {}
    components = problem.components()
    owner = {v: n for n, component in enumerate(components) for v in component}
    for pair in problem.pairs:
        pairs.setdefault(owner[pair[0]], []).append(pair)
    parts: list[Part] = []
    for n, component in enumerate(components):
        part = problem.restricted(component, pairs.get(n, ()))
        before = [states[v] for v in component]
        found, bound, method = _solve_component(part, before, use_solver)
        cost, cost_before = part.cost(found), part.cost(before)
        if cost >= cost_before:
            found, cost = before, cost_before
        for v, state in zip(component, found, strict=True):
            states[v] = state
        parts.append(Part(component, cost, min(bound, cost), method))
    return Solution(tuple(states), Parts(parts))


def _solve_component(
    problem: Problem, start: list[int], use_solver: bool
) -> tuple[list[int], int, str]:
    """States, a lower bound on the cost, and the name of the method."""
    found = eliminate(problem, LIMIT)
    if found.exact:
        return found.states, found.bound, "elimination"
    states = min(start, found.states, key=problem.cost)
    cost = problem.cost(states)
    worth_it = cost > found.bound and len(problem.pairs) <= _PROGRAM
    if worth_it and use_solver and highs.is_available():
        answer = highs.minimize(problem, cost)
        if answer is not None and problem.cost(answer[0]) <= cost:
            states, optimal = answer
            return states, problem.cost(states) if optimal else found.bound, "highs"
    return states, found.bound, "mini-buckets"


@dataclass
class Elimination:
    """`bound` is a lower bound on the cost; if `exact`, it is the least, and that of `states`."""

    states: list[int]
    bound: int
    exact: bool


@dataclass
class _Factor:
    """Costs of joint states of the variables in `scope`, row-major."""

    scope: tuple[int, ...]
    costs: list[int]


def eliminate(problem: Problem, limit: int) -> Elimination:
    """Eliminate all variables, the least connected first, with factors up to `limit` entries."""
    return _Eliminator(problem, limit).run()


class _Eliminator:
    def __init__(self, problem: Problem, limit: int) -> None:
        self._problem = problem
        self._limit = limit
        self._constant = 0
        self._sizes = [len(costs) for costs in problem.unary]
        #: by variable, the factors on it by number, so that one is removed without a search
        self._factors: list[dict[int, _Factor]] = [{} for _ in problem.unary]
        self._count = 0
        self._neighbors: list[set[int]] = [set() for _ in problem.unary]
        for (u, v), table in problem.pairs.items():
            self._add(_Factor((u, v), [cost for row in table for cost in row]))
        self._exact = True
        self._order: list[tuple[int, list[_Factor]]] = []

    def run(self) -> Elimination:
        done = [False] * len(self._sizes)
        waiting = [(len(near), x) for x, near in enumerate(self._neighbors)]
        heapify(waiting)
        while waiting:
            degree, x = heappop(waiting)
            if done[x] or degree != len(self._neighbors[x]):
                continue
            done[x] = True
            for y in self._eliminate(x):
                heappush(waiting, (len(self._neighbors[y]), y))
        return Elimination(self._states(), self._constant, self._exact)

    def _eliminate(self, x: int) -> set[int]:
        """Replace x by factors on its neighbors, which are returned."""
        factors = [_Factor((x,), self._problem.unary[x]), *self._factors[x].values()]
        self._order.append((x, factors))
        for number, factor in self._factors[x].items():
            for y in factor.scope:
                if y != x:
                    del self._factors[y][number]
        neighbors = self._neighbors[x]
        for y in neighbors:
            self._neighbors[y].discard(x)
        for group in self._groups(factors):
            self._add(_minimized(x, group, self._sizes))
        return neighbors

    def _groups(self, factors: list[_Factor]) -> list[list[_Factor]]:
        """All in one group if its factor stays within the limit, else greedily."""
        scope = {y for f in factors for y in f.scope}
        if prod(self._sizes[y] for y in scope) <= self._limit:
            return [factors]
        self._exact = False
        groups: list[tuple[set[int], list[_Factor]]] = []
        for factor in sorted(factors, key=lambda f: (-len(f.scope), f.scope)):
            for group_scope, group in groups:
                joint = group_scope | set(factor.scope)
                if prod(self._sizes[y] for y in joint) <= self._limit:
                    group_scope |= joint
                    group.append(factor)
                    break
            else:
                groups.append((set(factor.scope), [factor]))
        return [group for _, group in groups]

    def _add(self, factor: _Factor) -> None:
        if not factor.scope:
            self._constant += factor.costs[0]
            return
        self._count += 1
        for y in factor.scope:
            self._factors[y][self._count] = factor
            self._neighbors[y].update(z for z in factor.scope if z != y)

    def _states(self) -> list[int]:
        """States in reverse order of elimination, each the lowest of the best."""
        states = [0] * len(self._sizes)
        for x, factors in reversed(self._order):
            costs = [0] * self._sizes[x]
            for factor in factors:
                stride, offset, stride_of_x = 1, 0, 0
                for y in reversed(factor.scope):
                    if y == x:
                        stride_of_x = stride
                    else:
                        offset += stride * states[y]
                    stride *= self._sizes[y]
                for state in range(self._sizes[x]):
                    costs[state] += factor.costs[offset + stride_of_x * state]
            states[x] = costs.index(min(costs))
        return states


def _minimized(x: int, factors: list[_Factor], sizes: list[int]) -> _Factor:
    """The least sum of `factors` over the states of x."""
    count = sizes[x]
    others = sorted({y for f in factors for y in f.scope if y != x})
    if not others:
        sums = [sum(f.costs[s] for f in factors) for s in range(count)]
        return _Factor((), [min(sums)])
    if len(others) == 1:
        return _Factor((others[0],), _minimized_on_one(x, factors, count, sizes[others[0]]))
    axes = {y: n for n, y in enumerate((x, *others))}
    total: Any = 0
    for factor in factors:
        # Costs are integers of any size, so arrays of objects.
        table = np.empty(len(factor.costs), object)
        table[:] = factor.costs
        order = sorted(range(len(factor.scope)), key=lambda n: axes[factor.scope[n]])
        table = table.reshape([sizes[y] for y in factor.scope]).transpose(order)
        shape = [sizes[y] if y in factor.scope else 1 for y in (x, *others)]
        total = total + table.reshape(shape)
    return _Factor(tuple(others), list(total.min(axis=0).ravel()))


def _minimized_on_one(x: int, factors: list[_Factor], count: int, size: int) -> list[int]:
    """`_minimized` with one other variable, of `size` states: chains and trees, most of all
    networks."""
    unary = [0] * count
    rows: list[Sequence[int]] = [unary] * size
    for factor in factors:
        costs = factor.costs
        if len(factor.scope) == 1:
            unary = list(map(add, unary, costs))
            continue
        if factor.scope[0] == x:
            columns = [costs[j::size] for j in range(size)]
        else:
            columns = [costs[j : j + count] for j in range(0, size * count, count)]
        rows = [list(map(add, row, column)) for row, column in zip(rows, columns, strict=True)]
    return [min(map(add, unary, row)) for row in rows]
