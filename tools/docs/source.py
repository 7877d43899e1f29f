"""The source by numbers: lines by folder, the tree of imports, and what is left to do.

python -m tools.docs source                 lines and files by folder, and what is left to do
python -m tools.docs source imports [ROOM]  what each room imports, or each file of a room
python -m tools.docs source circles         files that import each other, with the imports
python -m tools.docs source callers         functions that the package mentions once
python -m tools.docs source words           retired words in names
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from tests.support import source, words
from tests.support.tables import table


def lines() -> Iterator[str]:
    """Lines by folder, and the figures that should go down."""
    folders = source.lines_by_folder()
    rows = [(name, f"{files}", f"{count:,}") for name, (files, count) in folders.items()]
    package = [counts for name, counts in folders.items() if name.startswith("qdialect")]
    files, count = (sum(column) for column in zip(*package, strict=True))
    rows.append(("the package", f"{files}", f"{count:,}"))
    yield table(("folder", "files", "lines"), rows)
    public, bare = list(source.public_definitions()), source.without_docstring()
    own = sum(not found.documented for found in public)
    yield (
        f"{sum(map(len, bare.values()))} of {len(public)} public definitions without a docstring, "
        f"{own} without one of their own"
    )
    groups = [len(group) for group in source.circles(source.import_graph())]
    yield f"{sum(groups)} files in {len(groups)} circles of imports"
    yield f"{len(source.single_callers())} functions that the package mentions once"


def imports(room: str | None) -> Iterator[str]:
    """What each room imports of others, or what each file of a room imports."""
    graph: dict[str, set[str]] = {}
    for name, found in source.import_graph().items():
        if room is None:
            one = graph.setdefault(source.part_of(name), set())
            one |= {source.part_of(other) for other in found} - {source.part_of(name)}
        elif source.part_of(name) == room:
            graph[name.removeprefix("qdialect.")] = {n.removeprefix("qdialect.") for n in found}
    for name, found in sorted(graph.items()):
        yield f"{name}: {' '.join(sorted(found)) or '-'}"


def docstrings() -> Iterator[str]:
    """Public definitions without a docstring, by room."""
    for room, places in sorted(source.without_docstring().items()):
        yield f"{room}: {len(places)}"
        yield from (f"  {place}" for place in places)


def circles() -> Iterator[str]:
    """Files that reach themselves, and the imports between them."""
    graph = source.import_graph()
    for group in source.circles(graph):
        yield f"{len(group)} files:"
        for name in group:
            yield f"  {name} -> {' '.join(sorted(graph[name] & set(group)))}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    choices = ("lines", "imports", "circles", "docstrings", "callers", "words")
    parser.add_argument("what", nargs="?", choices=choices, default="lines")
    parser.add_argument("room", nargs="?", help="a folder of qdialect/, for imports")
    options = parser.parse_args(arguments)
    found = {
        "lines": lines,
        "imports": lambda: imports(options.room),
        "circles": circles,
        "docstrings": docstrings,
        "callers": source.single_callers,
        "words": lambda: map(str, words.check()),
    }[options.what]()
    print("\n".join(found))
    return 0
