"""A placement problem as numbers: variables with states, costs of states and of pairs of states."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

#: the cost of what is forbidden; any sum with one in it is above every sum without
INFINITE = 1 << 280

Table = list[list[int]]


@dataclass
class Problem:
    """Minimize sum_v unary[v][x_v] + sum_{(u, v)} pairs[u, v][x_u][x_v] over states x.

    Costs are integers, at most `INFINITE` in size; negative ones are allowed.
    """

    unary: list[list[int]] = field(default_factory=list[list[int]])
    #: (u, v) with u < v -> table indexed by [state of u][state of v]
    pairs: dict[tuple[int, int], Table] = field(default_factory=dict[tuple[int, int], Table])
    #: pairs whose table was copied, and may be added to
    _copied: set[tuple[int, int]] = field(default_factory=set[tuple[int, int]])

    def variable(self, costs: Sequence[int]) -> int:
        """A new variable with a state per cost; its number."""
        self.unary.append(list(costs))
        return len(self.unary) - 1

    def add(self, u: int, v: int, table: Table) -> None:
        """Add `table[state of u][state of v]`, which is left as it is; u and v differ."""
        if u > v:
            u, v = v, u
            table = [list(row) for row in zip(*table, strict=True)]
        known = self.pairs.get((u, v))
        if known is None:
            self.pairs[u, v] = table
            return
        if (u, v) not in self._copied:
            self._copied.add((u, v))
            known = self.pairs[u, v] = [list(row) for row in known]
        for row, extra in zip(known, table, strict=True):
            for j, cost in enumerate(extra):
                row[j] += cost

    def cost(self, states: Sequence[int]) -> int:
        """The cost of an assignment."""
        total = sum(costs[state] for costs, state in zip(self.unary, states, strict=True))
        return total + sum(t[states[u]][states[v]] for (u, v), t in self.pairs.items())

    def components(self) -> list[list[int]]:
        """The variables, split where no table connects them; each list is sorted."""
        root = list(range(len(self.unary)))

        def find(x: int) -> int:
            while root[x] != x:
                root[x] = root[root[x]]
                x = root[x]
            return x

        for u, v in self.pairs:
            a, b = find(u), find(v)
            root[max(a, b)] = min(a, b)
        groups: dict[int, list[int]] = {}
        for x in range(len(root)):
            groups.setdefault(find(x), []).append(x)
        return list(groups.values())

    def restricted(self, variables: Sequence[int], inside: Sequence[tuple[int, int]]) -> Problem:
        """The problem on `variables` (renumbered in that order) with the pairs `inside`."""
        number = {v: i for i, v in enumerate(variables)}
        part = Problem([self.unary[v] for v in variables])
        part.pairs = {(number[u], number[v]): self.pairs[u, v] for u, v in inside}
        return part


class Part(NamedTuple):
    """A connected component, solved: its variables, what their states cost, a lower bound on
    what any states cost, and by which method they were found."""

    variables: Sequence[int]
    cost: int
    bound: int
    method: str


class Parts(tuple[Part, ...]):
    """The components of a problem, which share no table."""

    @property
    def cost(self) -> int:
        """The cost of the states found, of all components."""
        return sum(part.cost for part in self)

    @property
    def bound(self) -> int:
        """The lower bound on the cost of any states."""
        return sum(part.bound for part in self)

    @property
    def exact(self) -> int:
        """How many are proved least."""
        return sum(part.bound >= part.cost for part in self)

    @property
    def methods(self) -> tuple[tuple[str, int], ...]:
        """How many were solved in each way."""
        return tuple(sorted(Counter(part.method for part in self).items()))


class Solution(NamedTuple):
    """The states of all variables, and each component."""

    states: tuple[int, ...]
    parts: Parts
