"""Cutting and repeating, against what they promise."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from qdialect.report.blocks import cut, repeating


@st.composite
def graphs(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    count = draw(st.integers(1, 30))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    edges = [(min(e), max(e)) for e in draw(st.lists(pairs, max_size=40)) if e[0] != e[1]]
    return count, edges


@given(graphs())
def test_pieces_are_all_nodes_in_order_and_only_the_last_leads_on(
    graph: tuple[int, list[tuple[int, int]]],
) -> None:
    count, edges = graph
    pieces = cut(count, edges)
    assert [n for a, b in pieces for n in range(a, b)] == list(range(count))
    for source, use in edges:
        end = next(b for a, b in pieces if a <= source < b)
        assert use < end or source == end - 1


@given(st.lists(st.sampled_from("abc"), max_size=40))
def test_blocks_are_all_pieces_and_repeat_what_they_say(labels: list[str]) -> None:
    blocks = repeating(labels, [(n, n + 1) for n in range(len(labels))])
    assert [n for b in blocks for n in range(b.start, b.end)] == list(range(len(labels)))
    for block in blocks:
        length, rest = divmod(block.end - block.start, block.repeats)
        assert rest == 0
        pattern = labels[block.start : block.start + length]
        assert labels[block.start : block.end] == pattern * block.repeats


def test_a_residual_network_is_one_block_many_times() -> None:
    """conv, relu, conv, add with a skip around them, ten times."""
    labels = ["input"] + ["conv", "relu", "conv", "add"] * 10
    edges = [(n, n + 1) for n in range(40)] + [(n, n + 4) for n in range(0, 40, 4)]
    blocks = repeating(labels, cut(41, edges))
    assert [(b.end - b.start, b.repeats) for b in blocks] == [(1, 1), (40, 10)]
