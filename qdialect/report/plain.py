"""Plain data that every reader of JSON takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, cast


def finite(data: Any) -> Any:
    """The same with null for every float that is no number, or has no end."""
    if isinstance(data, float):
        return data if isfinite(data) else None
    if isinstance(data, Mapping):
        entries = cast("Mapping[str, Any]", data)
        return {key: finite(value) for key, value in entries.items()}
    if isinstance(data, list | tuple):
        return [finite(value) for value in cast("Sequence[Any]", data)]
    return data
