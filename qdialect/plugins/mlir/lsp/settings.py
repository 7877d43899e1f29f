"""What a user may set, under `qopt` in the settings of the editor."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, cast


@dataclass(frozen=True)
class Settings:
    """The settings; what is absent or of another type keeps its default."""

    preflight: str = "auto"
    """Warnings about upstream tools: auto, all, mlir-opt-22, iree-3.13 or off."""
    boundary: bool = True
    """Whether to say where integers become floats and back."""
    unregistered: bool = False
    """Whether ops of unknown dialects are right in every file."""
    delay: float = 0.2
    """Seconds without typing before a text is read."""

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
    if isinstance(default, float) and isinstance(given, int | float):
        return min(max(0.0, float(given)), 60.0)
    return given if type(given) is type(default) else default
