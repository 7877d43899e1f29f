"""What is kept of a program without being understood."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qdialect.formats.torch.program import Node
from qdialect.formats.torch.read.rows import Results

if TYPE_CHECKING:
    from qdialect.formats.torch.read.importer import Importer


def keep(imp: Importer, node: Node) -> Results:
    """The node as it is."""
    results = [n for e in node.results for n in (e if isinstance(e, list) else [e])]
    if all(name is None or name in imp.numbers for name in results):
        return [None] * len(results)
    raise imp.unsupported(f"'{node.target}' has no op yet")
