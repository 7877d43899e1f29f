"""Where quantize, dequantize and rescale were, and where they went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qdialect.report.graph import CASTS, Graph, Node, identity
from qdialect.rewrite.remarks import Remark


@dataclass(frozen=True)
class Moved:
    """One cast: what it was and is (empty: it was not there), and the rewrite that did it."""

    key: str
    names: tuple[str, ...]
    before: str
    after: str
    fate: str
    rewrite: str


def history(remarks: Sequence[Remark]) -> dict[str, list[int]]:
    """Numbers of the remarks at each key, or at each place where there is no key."""
    found: dict[str, list[int]] = {}
    for number, remark in enumerate(remarks):
        keys = tuple(remark.key.split(",")) if remark.key else ()
        for name in identity(keys, remark.location):
            found.setdefault(name, []).append(number)
    return found


def follow(
    before: Graph, after: Graph, remarks: Sequence[Remark], by_key: Mapping[str, list[int]]
) -> list[Moved]:
    """Every cast of `before` with what became of it, then those that only `after` has."""
    is_now = _by_name(after)
    was = _by_name(before)
    moves: list[Moved] = []
    for node in before.casts():
        names = identity(node.keys, node.location)
        now = [n for name in names for n in is_now.get(name, ())]
        same = next((n for n in now if n.name == node.name), None)
        rewrite = _last_fired(names, remarks, by_key)
        if same is not None:
            fate = "kept" if same.results == node.results else "kept, other type"
            moves.append(Moved(node.label, names, node.name, same.name, fate, rewrite))
        elif now:
            fate = "another cast now" if now[0].category in CASTS else "became part of it"
            moves.append(Moved(node.label, names, node.name, now[0].name, fate, rewrite))
        else:
            fate = "folded" if rewrite else "not needed"
            moves.append(Moved(node.label, names, node.name, "", fate, rewrite))
    for node in after.casts():
        names = identity(node.keys, node.location)
        origin = [n for name in names for n in was.get(name, ())]
        if any(n.category in CASTS for n in origin):
            continue
        source = origin[0].name if origin else ""
        rewrite = _last_fired(names, remarks, by_key)
        moves.append(Moved(node.label, names, source, node.name, "new", rewrite))
    return moves


def _by_name(graph: Graph) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for node in (*graph.nodes, *graph.hidden):
        for name in identity(node.keys, node.location):
            found.setdefault(name, []).append(node)
    return found


def _last_fired(
    names: Sequence[str], remarks: Sequence[Remark], by_key: Mapping[str, list[int]]
) -> str:
    numbers = [n for name in names for n in by_key.get(name, ()) if remarks[n].kind == "fired"]
    if not numbers:
        return ""
    last = remarks[max(numbers)]
    return f"{last.pass_name}: {last.rule}"
