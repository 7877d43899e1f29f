"""States of least cost, held against every assignment of small graphs."""

from __future__ import annotations

from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from qdialect.placement.formats import Formats, State, Value

COSTS = st.integers(0, 20)


@st.composite
def graphs(draw: st.DrawFn, formats: int = 2) -> Formats:
    """A graph of up to six ops, whose values have users below them only."""
    count = draw(st.integers(1, 6))
    ops = [
        [State(draw(COSTS), 0)]
        + [
            State(draw(COSTS), draw(st.integers(0, formats - 1)))
            for _ in range(draw(st.integers(0, 2)))
        ]
        for _ in range(count)
    ]
    values: list[Value] = []
    for producer in [None, *range(count)]:
        below = range(0 if producer is None else producer + 1, count)
        users = draw(st.lists(st.sampled_from(below), max_size=3)) if below else []
        convert = [[0 if f == g else draw(COSTS) for g in range(formats)] for f in range(formats)]
        values.append(Value(producer, users, convert, draw(st.booleans())))
    graph = Formats(ops, values)
    if count > 1 and draw(st.booleans()):
        graph.pairs.append((0, 1, [[draw(COSTS) for _ in ops[1]] for _ in ops[0]]))
    return graph


def brute(graph: Formats) -> int:
    return min(graph.cost(states) for states in product(*(range(len(o)) for o in graph.ops)))


@settings(max_examples=150, deadline=None)
@given(graphs())
def test_the_least_cost_is_found_and_proven(graph: Formats) -> None:
    states, parts = graph.solve([0] * len(graph.ops))
    assert graph.cost(states) == brute(graph) == parts.bound


@settings(max_examples=60, deadline=None)
@given(graphs(formats=3))
def test_three_formats(graph: Formats) -> None:
    states, parts = graph.solve([len(options) - 1 for options in graph.ops])
    assert graph.cost(states) == brute(graph) == parts.cost


def test_a_conversion_is_paid_once_for_all_users() -> None:
    cheap = [State(10, 0), State(1, 1)]
    graph = Formats([list(cheap), list(cheap)], [Value(None, [0, 1], [[0, 15], [15, 0]])])
    states, parts = graph.solve([0, 0])
    assert states == [1, 1]
    assert parts.cost == 17


def test_what_is_returned_exists_in_the_first_format() -> None:
    graph = Formats([[State(10, 0), State(1, 1)]], [Value(0, [], [[0, 5], [12, 0]], True)])
    assert graph.solve([1])[0] == [0]
    graph = Formats([[State(10, 0), State(1, 1)]], [Value(0, [], [[0, 5], [12, 0]])])
    assert graph.solve([0])[0] == [1]


def test_a_start_that_is_as_good_stays() -> None:
    graph = Formats([[State(3, 0), State(3, 0)]])
    assert graph.solve([1])[0] == [1]
