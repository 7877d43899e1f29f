"""Rounding weights on several processes: each takes rows and their moments, and gives codes.

Moments are measured here, one after another, as they come from one run of the model; most of the
time goes into the rounding, whose rows depend on nothing else. No more are on their way at once
than there are workers, and one more, since matrices may be large.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from qdialect.quantizer.weight_rounding import Problem, Solve
from qdialect.workflows.workers import client_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Codes = NDArray[np.int64]


def on_workers(workers: str) -> Solve:
    """What rounds on a number of processes of this machine, or those of the scheduler at an
    address; UsageError and InputError as `client_of`."""

    def solve(problems: Iterator[Problem]) -> Iterator[Codes]:
        first = next(problems, None)
        if first is None:
            return
        with client_of(workers) as (client, _):
            most = max(len(client.scheduler_info()["workers"]), 1) + 1
            begun: deque[Any] = deque([client.submit(_solved, first, pure=False)])
            try:
                for problem in problems:
                    begun.append(client.submit(_solved, problem, pure=False))
                    if len(begun) >= most:
                        yield begun.popleft().result()
                while begun:
                    yield begun.popleft().result()
            except KeyboardInterrupt:
                client.cancel(list(begun), force=True)
                raise

    return solve


def _solved(problem: Problem) -> Codes:
    return problem.solved()
