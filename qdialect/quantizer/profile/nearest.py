"""Qparams for a range inside the domain that a target states: the nearest by loss.

A free scheme has one answer for a range [low, high]: the scale that just holds it. In a domain
(zero points {0, -128}, scales 2^n) the least scale that holds the range may be far above, so
both neighbors are tried for each zero point, or those that hold it, if nothing is to be clipped
(a largest logit decides). Of the candidates (s, z) the one is taken of least

    E (x - s (clamp(round(x / s) + z) - z))^2

over the distribution that the profile has of the value, or an even one on the range. Among
equals the larger scale is taken, which clips less.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from qdialect.algebra.float_text import round_to_format
from qdialect.algebra.qparams.domains import Domain, with_storages
from qdialect.algebra.qparams.parameters import QParams, Storage
from qdialect.quantizer.profile.distribution import Distribution
from qdialect.quantizer.profile.ranges import Levels, Range, mean_squared_error
from qdialect.quantizer.profile.scheme import Scheme, tensor_qparams

_EVEN = 64


def qparams_inside(
    chosen: Range,
    scheme: Scheme,
    domains: Sequence[Domain],
    data: Callable[[], Distribution | None] = lambda: None,
    *,
    clips: bool = True,
) -> QParams | None:
    """Per-tensor qparams of a range in one of some domains, or None if none has any.

    A domain that has the storage of the scheme goes before others, and what the scheme gives
    where nothing restricts it before what is near it. `data` is asked for where there is a
    choice. Unless it `clips`, only scales are tried that hold the range, if the domain has any.
    """
    found: list[QParams] = []
    for domain, storage in with_storages(domains, scheme.storage):
        own = replace(scheme, storage=storage)
        free = tensor_qparams(chosen, own)[0]
        if domain.refuses(free) is None:
            return free
        made = _candidates(chosen, own, free, domain, clips=clips)
        found += (q for q in made if domain.refuses(q) is None)
    if len(found) < 2:
        return next(iter(found), None)
    measured = data()
    if measured is None or not len(measured.counts):
        measured = _even(chosen)
    return min(found, key=lambda q: (_loss(measured, q), -q.scale))


def _candidates(
    chosen: Range, scheme: Scheme, free: QParams, domain: Domain, *, clips: bool
) -> Iterator[QParams]:
    storage = scheme.storage
    low, high = min(chosen.low, 0.0), max(chosen.high, 0.0)
    zeros = domain.zero_points(storage)
    if zeros is None and scheme.symmetry != "asymmetric":
        zeros = [free.zero_point]
    if zeros is None:
        for scale in domain.near(free.scale)[0 if clips else -1 :]:
            zero = min(max(round(storage.min - low / scale), storage.min), storage.max)
            yield _per_tensor(storage, scale, zero, scheme)
        return
    for zero in zeros:
        exact = _covering(low, high, storage, zero)
        for scale in domain.near(exact or free.scale)[0 if clips else -1 :]:
            yield _per_tensor(storage, scale, zero, scheme)


def _per_tensor(storage: Storage, scale: float, zero: int, scheme: Scheme) -> QParams:
    rounded = round_to_format(scale, scheme.expressed)
    return QParams.per_tensor(storage, rounded, zero, scheme.expressed)


def _covering(low: float, high: float, storage: Storage, zero: int) -> float:
    """The least scale on which codes reach both ends; an end that no code is on the side of
    is clipped."""
    above, below = storage.max - zero, zero - storage.min
    return max(high / above if above else 0.0, -low / below if below else 0.0)


def _loss(data: Distribution, q: QParams) -> float:
    storage, scale, zero = q.storage, q.scale, q.zero_point
    levels = Levels(storage.max - storage.min + 1)
    return mean_squared_error(
        data, (storage.min - zero) * scale, (storage.max - zero) * scale, levels
    )


def _even(chosen: Range) -> Distribution:
    """As many values everywhere in a range."""
    edges = np.linspace(chosen.low, chosen.high, _EVEN + 1)
    counts = np.ones(_EVEN, np.int64)
    return Distribution(edges[:-1], edges[1:], counts, 0, chosen.low, chosen.high, 0, 0)
