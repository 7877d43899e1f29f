"""Choosing a state for each op of a graph, where ops in different states take other formats.

A state has a cost and a format (floats, codes of 8 bits, ...) that all values of the op are in.
A value is made in one format and converted, once for all its users, to each other one that is
needed. So with a set of formats F(v) in which a value v exists,

    total = sum_op cost(op, state) + sum_v sum_{f in F(v)} convert(v, format of its op, f)

where every user finds its format in F(v). That is a `Problem` of pairs: one variable for each op,
and one for each value whose states are the sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, combinations

from qdialect.placement.problem import INFINITE, Parts, Problem, Table
from qdialect.placement.solver import solve


@dataclass(frozen=True)
class State:
    """What an op costs in a state (at least 0, in any one unit), and the format of its values."""

    cost: int
    format: int


@dataclass(frozen=True)
class Value:
    """A value: the number of the op that makes it, or None for one that is there in format 0;
    the ops that use it; `convert[f][g]` is what it costs in format g if it is made in f.
    With `returned`, it has to exist in format 0."""

    producer: int | None
    users: Sequence[int]
    convert: Sequence[Sequence[int]]
    returned: bool = False


@dataclass
class Formats:
    """A graph: the states each op can be in (at least one), its values, and extra costs of pairs
    of ops, `[state of the first][state of the second]`."""

    ops: list[list[State]] = field(default_factory=list[list[State]])
    values: list[Value] = field(default_factory=list[Value])
    pairs: list[tuple[int, int, Table]] = field(default_factory=list[tuple[int, int, Table]])

    def solve(self, start: Sequence[int]) -> tuple[list[int], Parts]:
        """The number of the state of each op, at least cost or as good as `start`, and what was
        proven (`Parts.bound` is a lower bound on the cost)."""
        problem = Problem()
        for states in self.ops:
            problem.variable([state.cost for state in states])
        for one, other, table in self.pairs:
            problem.add(one, other, table)
        states = list(start)
        for value in self.values:
            states.append(self._value(problem, value, start))
        solution = solve(problem, states)
        return list(solution.states[: len(self.ops)]), solution.parts

    def cost(self, states: Sequence[int]) -> int:
        """The cost of an assignment, every value converted to what its users take."""
        total = sum(options[n].cost for options, n in zip(self.ops, states, strict=True))
        total += sum(table[states[u]][states[v]] for u, v, table in self.pairs)
        for value in self.values:
            made = 0 if value.producer is None else self._format(value.producer, states)
            needed = {self._format(user, states) for user in value.users}
            needed |= {0} if value.returned else set()
            total += sum(value.convert[made][other] for other in needed - {made})
        return total

    def _format(self, op: int, states: Sequence[int]) -> int:
        return self.ops[op][states[op]].format

    def _value(self, problem: Problem, value: Value, start: Sequence[int]) -> int:
        """Add the variable of a value; the state that goes with `start`."""
        number = range(len(value.convert))
        sets = [
            frozenset(each)
            for each in chain.from_iterable(combinations(number, n + 1) for n in number)
            if not value.returned or 0 in each
        ]
        if value.producer is None:
            variable = problem.variable([self._made(value, 0, each) for each in sets])
            made = 0
        else:
            variable = problem.variable([0] * len(sets))
            formats = [state.format for state in self.ops[value.producer]]
            table = [[self._made(value, f, each) for each in sets] for f in formats]
            problem.add(value.producer, variable, table)
            made = self._format(value.producer, start)
        for user in dict.fromkeys(value.users):
            rows = [
                [0 if state.format in each else INFINITE for each in sets]
                for state in self.ops[user]
            ]
            problem.add(user, variable, rows)
        needed = frozenset({made, *(self._format(user, start) for user in value.users)})
        return sets.index(needed | {0} if value.returned else needed)

    @staticmethod
    def _made(value: Value, made: int, needed: frozenset[int]) -> int:
        """What a value made in a format costs in others; it is always there in its own."""
        if made not in needed:
            return INFINITE
        return sum(value.convert[made][other] for other in needed - {made})
