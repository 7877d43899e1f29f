"""Exact minimization by eliminating variables one by one (nonserial dynamic programming).

Removing x replaces every factor on x by one factor on x's neighbors, its least cost over
the states of x (Bertele and Brioschi, Nonserial Dynamic Programming, 1972).  On a tree or
a series-parallel graph no factor ever has more than two variables, so the work is linear.

Where a factor would grow past `limit` entries, the factors on x are split into groups,
each minimized on its own (mini-buckets; Dechter and Rish, J. ACM 50(2), 2003): the result
is then a lower bound, and the states found while going back are only a good guess.

Or, given states to improve, a variable in the way keeps its state (cutset conditioning;
Pearl, 1988): the result is the best that changes only the others, so never worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from math import prod
from operator import add
from typing import Any

import numpy as np

from qdialect.placement.problem import Problem

Scope = tuple[int, ...]


@dataclass
class Factor:
    """Costs of joint states of `scope`, row-major."""

    scope: Scope
    costs: list[int]


@dataclass
class Elimination:
    """`bound` is least if `exact`; `states` then cost that much."""

    states: list[int]
    bound: int
    exact: bool


def eliminate(problem: Problem, limit: int) -> Elimination:
    """Eliminate all variables, the least connected first."""
    return _Eliminator(problem, limit).run()


def improve(problem: Problem, limit: int, states: list[int], rounds: int) -> list[int]:
    """States that cost no more than `states`, each round letting others keep theirs."""
    kept = [0] * len(states)
    idle, best = 0, problem.cost(states)
    for _ in range(rounds):
        eliminator = _Eliminator(problem, limit, states, kept)
        found = eliminator.run().states
        cost = problem.cost(found)
        idle = idle + 1 if cost >= best else 0
        if cost < best:
            states, best = found, cost
        if idle == 8 or eliminator.exact:
            break
    return states


class _Eliminator:
    def __init__(
        self,
        problem: Problem,
        limit: int,
        incumbent: list[int] | None = None,
        kept: list[int] | None = None,
    ) -> None:
        self.problem = problem
        self.limit = limit
        self.incumbent = incumbent
        #: how often each variable kept its state; those that did least often are next
        self.kept = kept or [0] * len(problem.unary)
        self.constant = 0
        self.sizes = [len(costs) for costs in problem.unary]
        #: by variable, the factors on it by number: one goes without a look at the others
        self.factors: list[dict[int, Factor]] = [{} for _ in problem.unary]
        self.made = 0
        self.around: list[set[int]] = [set() for _ in problem.unary]
        for (u, v), table in problem.pairs.items():
            self._add(Factor((u, v), [cost for row in table for cost in row]))
        self.done = [False] * len(self.sizes)
        self.exact = True
        self.order: list[tuple[int, list[Factor]]] = []

    def run(self) -> Elimination:
        waiting = [(len(near), x) for x, near in enumerate(self.around)]
        heapify(waiting)
        while waiting:
            degree, x = heappop(waiting)
            if self.done[x] or degree != len(self.around[x]):
                continue
            if self.incumbent is not None and self._is_wide(x):
                near = (x, *self.around[x])
                y = min(near, key=lambda y: (self.kept[y], -len(self.around[y]), y))
                touched = self._keep(y, self.incumbent[y])
                if y != x:
                    touched.add(x)
            else:
                touched = self._eliminate(x)
            for y in touched:
                heappush(waiting, (len(self.around[y]), y))
        return Elimination(self._back(), self.constant, self.exact)

    def _eliminate(self, x: int) -> set[int]:
        own = Factor((x,), self.problem.unary[x])
        mine = [own, *self.factors[x].values()]
        self.order.append((x, mine))
        touched = self._take(x)
        for group in self._groups(x, mine):
            self._add(_minimized(x, group, self.sizes))
        return touched

    def _is_wide(self, x: int) -> bool:
        return prod(self.sizes[y] for y in (x, *self.around[x])) > self.limit

    def _keep(self, x: int, state: int) -> set[int]:
        """Take x out in `state`."""
        self.exact = False
        self.kept[x] += 1
        self.order.append((x, []))
        touched = self._take(x)
        self.constant += self.problem.unary[x][state]
        for factor in self.factors[x].values():
            self._add(_sliced(factor, x, state, self.sizes))
        return touched

    def _take(self, x: int) -> set[int]:
        """Remove x and the factors on it from its neighbors, which are returned."""
        self.done[x] = True
        for number, factor in self.factors[x].items():
            for y in factor.scope:
                if y != x:
                    del self.factors[y][number]
        for y in self.around[x]:
            self.around[y].discard(x)
        return self.around[x]

    def _groups(self, x: int, factors: list[Factor]) -> list[list[Factor]]:
        """All in one group if its factor stays within the limit, else greedily."""
        scope = {y for f in factors for y in f.scope}
        if prod(self.sizes[y] for y in scope) <= self.limit:
            return [factors]
        self.exact = False
        groups: list[tuple[set[int], list[Factor]]] = []
        for factor in sorted(factors, key=lambda f: (-len(f.scope), f.scope)):
            for group_scope, group in groups:
                joint = group_scope | set(factor.scope)
                if prod(self.sizes[y] for y in joint) <= self.limit:
                    group_scope |= joint
                    group.append(factor)
                    break
            else:
                groups.append((set(factor.scope), [factor]))
        return [group for _, group in groups]

    def _add(self, factor: Factor) -> None:
        if not factor.scope:
            self.constant += factor.costs[0]
            return
        self.made += 1
        for y in factor.scope:
            self.factors[y][self.made] = factor
            self.around[y].update(z for z in factor.scope if z != y)

    def _back(self) -> list[int]:
        """States in reverse order of elimination, each the lowest of the best."""
        states = [0] * len(self.sizes)
        for x, factors in reversed(self.order):
            if not factors:
                assert self.incumbent is not None
                states[x] = self.incumbent[x]
        for x, factors in reversed(self.order):
            if not factors:
                continue
            costs = [0] * self.sizes[x]
            for factor in factors:
                stride, offset = 1, 0
                own = 0
                for y in reversed(factor.scope):
                    if y == x:
                        own = stride
                    else:
                        offset += stride * states[y]
                    stride *= self.sizes[y]
                for state in range(self.sizes[x]):
                    costs[state] += factor.costs[offset + own * state]
            states[x] = costs.index(min(costs))
        return states


def _sliced(factor: Factor, x: int, state: int, sizes: list[int]) -> Factor:
    """The factor with x in `state`."""
    stride = _strides(factor.scope, sizes)[x]
    block = stride * sizes[x]
    costs = [
        cost
        for start in range(stride * state, len(factor.costs), block)
        for cost in factor.costs[start : start + stride]
    ]
    return Factor(tuple(y for y in factor.scope if y != x), costs)


def _minimized(x: int, factors: list[Factor], sizes: list[int]) -> Factor:
    """The least sum of `factors` over the states of x."""
    count = sizes[x]
    others = sorted({y for f in factors for y in f.scope if y != x})
    if not others:
        sums = [sum(f.costs[s] for f in factors) for s in range(count)]
        return Factor((), [min(sums)])
    if len(others) == 1:
        return Factor((others[0],), _on_one(x, factors, count, sizes[others[0]]))
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
    return Factor(tuple(others), list(total.min(axis=0).ravel()))


def _on_one(x: int, factors: list[Factor], count: int, size: int) -> list[int]:
    """`_minimized` with one other variable: chains and trees, most of all models."""
    own = [0] * count
    rows: list[Sequence[int]] = [own] * size
    for factor in factors:
        costs = factor.costs
        if len(factor.scope) == 1:
            own = list(map(add, own, costs))
            continue
        if factor.scope[0] == x:
            more = [costs[j::size] for j in range(size)]
        else:
            more = [costs[j : j + count] for j in range(0, size * count, count)]
        rows = [list(map(add, row, extra)) for row, extra in zip(rows, more, strict=True)]
    return [min(map(add, own, row)) for row in rows]


def _strides(scope: Scope, sizes: list[int]) -> dict[int, int]:
    strides: dict[int, int] = {}
    stride = 1
    for y in reversed(scope):
        strides[y] = stride
        stride *= sizes[y]
    return strides
