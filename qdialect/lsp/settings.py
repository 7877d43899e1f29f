"""What a user may set, under `qopt` in the settings of the editor."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, cast

PIPELINES = (
    "optimize",
    "canonicalize",
    "place-rescales",
    "sink-rescale",
    "integerize",
)


@dataclass(frozen=True)
class Settings:
    """The settings; what is absent or of another type keeps its default."""

    pipelines: tuple[str, ...] = PIPELINES
    """Pipelines offered above each function; `optimize` is that of `qopt optimize`."""
    target: str = "generic"
    """What `optimize` and passes compile for."""
    preflight: str = "auto"
    """Warnings about upstream tools: auto, all, mlir-opt-22, iree-3.13 or off."""
    boundary: bool = True
    """Whether to say where integers become floats and back, with fixes."""
    unregistered: bool = False
    """Whether ops of unknown dialects are right in every file."""
    hints: bool = True
    """Whether values show the range and step of their quantized types."""
    delay: float = 0.2
    """Seconds without typing before a text is read."""
    show: bool = True
    """Whether the server opens a diff in the editor (else the client shows what it is given)."""

    @staticmethod
    def of(given: Any) -> Settings:
        """The settings in a JSON value, plain or under `qopt`."""
        if not isinstance(given, dict):
            return Settings()
        whole = cast("dict[str, Any]", given)
        inner = cast("dict[str, Any]", whole["qopt"] if _is_object(whole.get("qopt")) else whole)
        return Settings(**{f.name: _value(f.default, inner.get(f.name)) for f in fields(Settings)})


def _is_object(value: Any) -> bool:
    return isinstance(value, dict)


def _value(default: Any, given: Any) -> Any:
    if isinstance(default, tuple):
        if not isinstance(given, list):
            return cast("Any", default)
        return tuple(each for each in cast("list[Any]", given) if isinstance(each, str))
    if isinstance(default, float) and isinstance(given, int | float):
        return min(max(0.0, float(given)), 60.0)
    return given if type(given) is type(default) else default
