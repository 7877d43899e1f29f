"""Gathering: (key, array) pairs of one sample after another into a profile.

Knows neither models nor engines. A sample counts as a whole or not at all, so that a run
that is interrupted leaves a profile of the samples it finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from qdialect.errors import InputError
from qdialect.profile.record import Entry, Profile, Settings
from qdialect.profile.sketch import Sketch, observe, observe_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PENDING = 16

Observation = tuple[Sequence[str], "NDArray[Any]"]
"""The keys of a value and what it was."""


class Collector:
    """The profile of a model being gathered; `start` is one to go on from."""

    def __init__(self, start: Profile) -> None:
        self._profile = start
        self._pending: list[Profile] = []

    def add(self, index: int, observations: Iterable[Observation]) -> None:
        """Sample number `index` of the whole data set: every key once.

        InputError if the sample was counted before, or its channels are not those of
        other samples.
        """
        if any(start <= index < end for start, end in self._profile.samples):
            raise InputError(f"sample {index} would count twice", code="samples-overlap")
        settings, entries = self._profile.settings, dict[str, Entry]()
        for keys, array in observations:
            entry = observe_sample(index, array, settings)
            entries.update((key, entry) for key in keys)
        sample = Profile(self._profile.digest, settings, ((index, index + 1),), entries)
        self._pending.append(sample)
        if len(self._pending) == _PENDING:
            self.profile()

    def profile(self) -> Profile:
        """The profile of the samples so far."""
        while len(self._pending) > 1:
            # Pairs of equal size: the work does not grow with what is already there.
            pairs = zip(self._pending[::2], self._pending[1::2], strict=False)
            odd = self._pending[-1:] if len(self._pending) % 2 else []
            self._pending = [a.merge(b) for a, b in pairs] + odd
        if self._pending:
            self._profile = self._profile.merge(self._pending.pop())
        return self._profile


def observe_sample(index: int, array: NDArray[Any], settings: Settings) -> Entry:
    """The statistics of one value in one sample."""
    tensor = observe(array)
    low, high = float(tensor.minimum[0]), float(tensor.maximum[0])
    samples = {index: (low, high)} if low <= high else {}
    return Entry(tensor, _channels(array, settings), samples)


def _channels(array: NDArray[Any], settings: Settings) -> Sketch | None:
    """By index of dimension 1, or 0 of a vector; a scalar has no channels."""
    if settings.channels == "none" or array.ndim == 0:
        return None
    rows = np.moveaxis(array, min(1, array.ndim - 1), 0)
    matrix = rows.reshape(len(rows), -1 if len(rows) else 0)
    return observe_rows(matrix, bins=settings.channels == "bins")
