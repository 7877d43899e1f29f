"""Names of results, where the model gives a dict of them: its keys.

The archive has the tree of results as JSON in a text: nodes with a type, a context (the keys of a
dict, as JSON again) and children; leaves are the results in order.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, cast

_DICTS = frozenset({"builtins.dict", "collections.OrderedDict", "collections.defaultdict"})


def result_names(spec: str | None) -> list[str]:
    """The name of each result, "" for one without; none for a tree that cannot be read."""
    try:
        _, tree = json.loads(spec or "")
        return list(_names(tree, ""))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return []


def _names(tree: dict[str, Any], path: str) -> Iterator[str]:
    kind, children = tree["type"], cast("list[dict[str, Any]]", tree["children_spec"])
    if kind is None:
        yield path
        return
    keys: list[Any] = [str(index) if path else "" for index in range(len(children))]
    if kind in _DICTS:
        keys = json.loads(tree["context"])
        keys = keys if all(isinstance(key, str) for key in keys) else [""] * len(children)
    for key, child in zip(keys, children, strict=True):
        yield from _names(child, ".".join(part for part in (path, key) if part))
