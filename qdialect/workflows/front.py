"""The front between two goals: which plans no other is better than in both, and how to find them.

A plan has a time and a loss. A solver gives the plan of least time + weight * loss for any weight.
The plans that it gives for some weight are the corners of the lower left hull of all (time, loss);
between two of them, the weight at which both are equally good finds a corner below their chord, or
shows that there is none (Aneja and Nair, 1979).  So no weight has to be guessed, and no steps:

    loss
     |*  fast                weight = (time of safe - time of fast) / (loss of fast - loss of safe)
     |  \\ *  a corner below the chord, if the solver finds one at this weight
     |     \\
     |        *  safe
     +------------- time
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple, TypeVar

T = TypeVar("T")
P = TypeVar("P", bound=Hashable)


class Point(NamedTuple):
    """Two numbers that should both be small: time, and loss."""

    time: float
    loss: float


def non_dominated(items: Iterable[T], point: Callable[[T], Point]) -> list[T]:
    """The items that no other is better than in one number and as good in the other, the fastest
    first; of those with equal numbers the first."""
    found: list[T] = []
    least = float("inf")
    for item in sorted(items, key=point):
        if not found or point(item).loss < least:
            found.append(item)
            least = point(item).loss
    return found


def weight_between(a: Point, b: Point) -> float | None:
    """The weight of loss at which two points are equally good; None where one is not worse than
    the other in anything."""
    fast, safe = sorted((a, b))
    if not (fast.time < safe.time and fast.loss > safe.loss):
        return None
    return (safe.time - fast.time) / (fast.loss - safe.loss)


def nearest_that_meets(
    good: P,
    bad: P,
    plan: Callable[[float], P],
    point: Callable[[P], Point],
    meets: Callable[[P], bool],
    most: int,
) -> P:
    """The last plan that meets a goal on the way from one that does (`good`) to one that does not
    (`bad`), after at most so many trials.

    Every trial replaces one of the two by a corner between them.  `point` is asked anew each time,
    since a trial may correct what is foretold of others.
    """
    tried = {good, bad}
    for _ in range(most):
        weight = weight_between(point(good), point(bad))
        if weight is None:
            break
        found = plan(weight)
        if found in tried:
            break
        tried.add(found)
        good, bad = (found, bad) if meets(found) else (good, found)
    return good


def corners(
    ends: Sequence[P],
    plan: Callable[[float], P],
    point: Callable[[P], Point],
    most: int,
) -> list[P]:
    """The corners of the hull between two plans of least time and of least loss, these among them;
    at most so many, the widest gaps first."""
    found = list(dict.fromkeys(ends))
    first, last = point(ends[0]), point(ends[-1])
    gaps: list[tuple[float, int, P, P]] = []

    def add(a: P, b: P) -> None:
        """A gap: its area as a share of the whole."""
        one, other = point(a), point(b)
        width = abs(other.time - one.time) / max(abs(last.time - first.time), 1e-300)
        height = abs(other.loss - one.loss) / max(abs(last.loss - first.loss), 1e-300)
        heappush(gaps, (-width * height, len(gaps) + len(found), a, b))

    add(ends[0], ends[-1])
    while gaps and len(found) < most:
        _, _, a, b = heappop(gaps)
        weight = weight_between(point(a), point(b))
        corner = None if weight is None else plan(weight)
        if corner is None or corner in found:
            continue
        found.append(corner)
        add(a, corner)
        add(corner, b)
    return sorted(found, key=point)
