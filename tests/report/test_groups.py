"""Groups have every op once, in order, and few parts; edges are where both ends are."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from qdialect.report.drawing import MOST, Group, arranged, grouped


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[str], list[str], list[tuple[int, int]]]:
    count = draw(st.integers(1, 300))
    kinds = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=6))
    labels = [kinds[n % len(kinds)] for n in range(count)]
    every = draw(st.integers(1, 90))
    names = [f"net/layer{n // every}/part{n % every // 9}/op{n}" for n in range(count)]
    if draw(st.booleans()):
        names = [""] * count
    skips = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(1, 200)), max_size=40))
    edges = [(n, n + 1) for n in range(count - 1)]
    edges += [(a, a + d) for a, d in skips if a + d < count]
    return labels, names, edges


def ops(part: Group | int) -> list[int]:
    return [part] if isinstance(part, int) else [n for each in part.parts for n in ops(each)]


@settings(deadline=None)
@given(graphs())
def test_a_tree_has_every_op_once_in_order_and_small_groups(
    graph: tuple[list[str], list[str], list[tuple[int, int]]],
) -> None:
    labels, names, edges = graph
    tree = grouped(labels, names, edges)
    assert ops(tree) == list(range(len(labels)))
    listed = arranged(tree, edges)
    for number, each in enumerate(listed):
        group = each.group
        assert 1 <= len(group.parts) <= MOST
        assert ops(group) == list(range(group.start, group.end))
        assert group.size % group.repeats == 0
        assert each.inside < number
        # Never back, and never to itself: a group can be drawn from top to bottom.
        assert all(0 <= a < b < len(group.parts) for a, b in each.edges)
    between = sum(len(each.edges) for each in listed)
    assert between <= len(set(edges))
    assert bool(between) == bool(edges)


def test_a_long_network_opens_as_a_few_boxes() -> None:
    """conv, relu, conv, add with a skip around them, five thousand times."""
    labels = ["input"] + ["conv", "relu", "conv", "add"] * 5000
    edges = [(n, n + 1) for n in range(20000)] + [(n, n + 4) for n in range(0, 20000, 4)]
    tree = grouped(labels, [""] * len(labels), edges)
    assert len(tree.parts) == 2
    block = tree.parts[1]
    assert isinstance(block, Group) and block.repeats == 5000 and len(block.parts) <= MOST


def test_names_divide_what_nothing_else_does() -> None:
    """Masks that every layer reads, and no place where only one value passes."""
    count = 2 + 4 * 30
    names = ["mask0", "mask1"] + [f"layer{n // 30}/op{n}" for n in range(count - 2)]
    edges = [(a, b) for a in range(count) for b in (a + 1, a + 2) if b < count]
    edges += [(mask, n) for n in range(2, count) for mask in (0, 1)]
    tree = grouped([f"kind{n % 7}" for n in range(count)], names, edges)
    sizes = [part.size for part in tree.parts if isinstance(part, Group)]
    assert sum(sizes) >= 4 * 30 - 2 and sizes.count(30) >= 2 and len(tree.parts) <= 8


def test_what_every_layer_reads_makes_no_nest_of_groups() -> None:
    count = 400
    labels = [f"kind{n % 5}" for n in range(count)]
    edges = [(n, n + 1) for n in range(20, count - 1)] + [(n, count - 1) for n in range(20)]
    listed = arranged(grouped(labels, [""] * count, edges), edges)
    assert max(each.depth for each in listed) <= 4
