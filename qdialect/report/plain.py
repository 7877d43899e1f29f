"""Plain data that every reader of JSON takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, cast


def finite(told: Any) -> Any:
    """The same with null for every float that is no number, or has no end."""
    if isinstance(told, float):
        return told if isfinite(told) else None
    if isinstance(told, Mapping):
        entries = cast("Mapping[str, Any]", told)
        return {key: finite(value) for key, value in entries.items()}
    if isinstance(told, list | tuple):
        return [finite(value) for value in cast("Sequence[Any]", told)]
    return told
