"""What samples are made of, where they are not to be made of what `samples.py` makes up."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Material:
    """Pictures [size, size, 3] (u8), a few words, sentences by count and seed, the bytes of a file;
    None: made up.  `part` is the part of what samplers have of their own, None: all of it."""

    scene: Callable[[np.random.Generator, int], np.ndarray] | None = None
    words: Callable[[np.random.Generator], str] | None = None
    sentences: Callable[[int, int], list[str]] | None = None
    content: Callable[[np.random.Generator], bytes] | None = None
    part: int | None = None


MADE = Material()
GIVEN: ContextVar[Material] = ContextVar("material", default=MADE)
"""What samplers take now."""
