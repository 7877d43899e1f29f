"""Which release of MLIR the text of quant types is for."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum


class TextVersion(Enum):
    """The MLIR release whose spelling is printed."""

    V22 = "v22"
    V24 = "v24"


_version: ContextVar[TextVersion | None] = ContextVar("quant_text_version", default=None)


@contextmanager
def printing_for(version: TextVersion | None) -> Generator[None, None, None]:
    """Print quant types for `version` within the `with` block."""
    token = _version.set(version)
    try:
        yield
    finally:
        _version.reset(token)


def current_version() -> TextVersion | None:
    """What is printed for, if something has been said."""
    return _version.get()
