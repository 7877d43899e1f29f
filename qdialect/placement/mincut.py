"""Exact minimization by a minimum cut, for tables without decreasing returns.

A table is Monge if t[i+1][j+1] + t[i][j] <= t[i+1][j] + t[i][j+1]: higher states of one
variable never get worse because the other is higher.  With all tables Monge, x_v > k for
every variable v and state k are the sides of the nodes of a network, and the least cost
is a minimum cut (Schlesinger and Flach, TU Dresden TUD-FI06-01, 2006; two states are the
classical case, Ivanescu 1965).  Of all minimum cuts the one with the lowest states is
taken: it is unique, so the order of variables does not matter.
"""

from __future__ import annotations

from collections import deque
from itertools import pairwise

from qdialect.placement.problem import INFINITE, Problem, Table


def is_monge(table: Table) -> bool:
    """Whether the table has no decreasing returns."""
    return all(
        lower[j + 1] + upper[j] <= lower[j] + upper[j + 1]
        for upper, lower in pairwise(table)
        for j in range(len(upper) - 1)
    )


def is_cuttable(problem: Problem) -> bool:
    return all(is_monge(table) for table in problem.pairs.values())


class _Network:
    """Capacities between nodes; a unit of flow on an edge is room on its reverse."""

    def __init__(self) -> None:
        self.to: list[int] = []
        self.room: list[int] = []
        self.edges: list[list[int]] = []

    def node(self) -> int:
        self.edges.append([])
        return len(self.edges) - 1

    def edge(self, a: int, b: int, capacity: int, back: int = 0) -> None:
        self.edges[a].append(len(self.to))
        self.to.append(b)
        self.room.append(capacity)
        self.edges[b].append(len(self.to))
        self.to.append(a)
        self.room.append(back)

    def saturate(self, source: int, sink: int) -> None:
        """A maximum flow (Dinic 1970: shortest paths, level by level)."""
        while True:
            level = self._levels(source, sink)
            if level is None:
                return
            self._block(source, sink, level)

    def _levels(self, source: int, sink: int) -> list[int] | None:
        level = [-1] * len(self.edges)
        level[source] = 0
        queue = deque([source])
        while queue:
            a = queue.popleft()
            for e in self.edges[a]:
                b = self.to[e]
                if self.room[e] > 0 and level[b] < 0:
                    level[b] = level[a] + 1
                    if b == sink:
                        return level
                    queue.append(b)
        return None

    def _block(self, source: int, sink: int, level: list[int]) -> None:
        following = [0] * len(self.edges)
        path: list[int] = []
        a = source
        while True:
            if a == sink:
                flow = min(self.room[e] for e in path)
                cut = len(path)
                for n, e in enumerate(path):
                    self.room[e] -= flow
                    self.room[e ^ 1] += flow
                    if self.room[e] == 0:
                        cut = min(cut, n)
                a = self.to[path[cut] ^ 1]
                del path[cut:]
                continue
            edges, n = self.edges[a], following[a]
            while n < len(edges):
                e = edges[n]
                if self.room[e] > 0 and level[self.to[e]] == level[a] + 1:
                    break
                n += 1
            following[a] = n
            if n < len(edges):
                path.append(edges[n])
                a = self.to[edges[n]]
            elif path:
                level[a] = -1
                a = self.to[path.pop() ^ 1]
            else:
                return

    def reached(self, source: int) -> list[bool]:
        """The nodes that room leads to from `source`."""
        seen = [False] * len(self.edges)
        seen[source] = True
        pending = [source]
        while pending:
            for e in self.edges[pending.pop()]:
                b = self.to[e]
                if self.room[e] > 0 and not seen[b]:
                    seen[b] = True
                    pending.append(b)
        return seen


def cut(problem: Problem) -> list[int]:
    """The lowest states of least cost; every table must be Monge."""
    network = _Network()
    high, low = network.node(), network.node()
    gains = [[b - a for a, b in pairwise(costs)] for costs in problem.unary]
    nodes = [[network.node() for _ in gain] for gain in gains]
    for steps in nodes:
        for k, after in pairwise(steps):
            network.edge(after, k, INFINITE * INFINITE)  # x > k + 1 needs x > k
    for (u, v), table in problem.pairs.items():
        _spread(network, table, nodes[u], nodes[v], gains[u], gains[v])
    # A node is on the side of `high` if its variable is above that state.
    for steps, gain in zip(nodes, gains, strict=True):
        for k, change in zip(steps, gain, strict=True):
            if change > 0:
                network.edge(k, low, change)
            elif change < 0:
                network.edge(high, k, -change)
    network.saturate(high, low)
    above = network.reached(high)
    return [sum(above[k] for k in steps) for steps in nodes]


def _spread(
    network: _Network, table: Table, us: list[int], vs: list[int], gu: list[int], gv: list[int]
) -> None:
    """table = its first row and column, plus (mixed difference) [u > i][v > j] summed; a
    mixed difference -m is what u > i saves once v > j: m[u > i][v <= j] - m[u > i]."""
    for i in range(len(us)):
        gu[i] += table[i + 1][0] - table[i][0]
    for j in range(len(vs)):
        gv[j] += table[0][j + 1] - table[0][j]
    for i, u in enumerate(us):
        for j, v in enumerate(vs):
            mixed = table[i + 1][j + 1] + table[i][j] - table[i + 1][j] - table[i][j + 1]
            if mixed:
                network.edge(u, v, -mixed)
                gu[i] += mixed
