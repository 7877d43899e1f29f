"""Calibration over many workers: the same profile, byte for byte, as one process gives.

Workers read the model and the data by path, so on several machines both must be on a
disk that all of them see.  Each task is a run of consecutive samples; what comes back is
the text of its profile.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qdialect.cli.calibration import Interrupted, calibrate, open_data
from qdialect.errors import InputError, QError, UsageError
from qdialect.profile.file import parse_profile, profile_text
from qdialect.profile.record import Profile, Settings

if TYPE_CHECKING:
    from qdialect.api import Model
    from qdialect.cli.calibration import Watch

_TASKS_PER_WORKER = 4


def calibrate_on_workers(
    model_path: Path,
    data_path: Path,
    whole: bool,
    start: Profile,
    numbers: Sequence[int],
    first: int,
    *,
    workers: str = "2",
    watch: Watch = lambda numbers, total: numbers,
) -> Profile:
    """`start` with the samples `numbers` added; see `calibrate`.

    `workers` is how many local processes to start, or the address of a scheduler.
    UsageError (`missing-package`) without dask.distributed; Interrupted on Ctrl-C.
    """
    distributed = _distributed()
    cluster: Any = None
    if workers.isdecimal():
        if int(workers) < 1:
            raise UsageError("--workers takes a number of processes or an address")
        cluster = distributed.LocalCluster(
            n_workers=int(workers), threads_per_worker=1, dashboard_address=None
        )
    profile = start
    try:
        with distributed.Client(cluster or workers, timeout=20) as client:
            count = max(len(client.scheduler_info()["workers"]), 1)
            parts = _parts(numbers, count * _TASKS_PER_WORKER)
            plan = str(model_path.resolve()), str(data_path.resolve()), whole
            futures = [
                client.submit(
                    _profile_part, *plan, part, first, start.digest, start.settings, pure=False
                )
                for part in parts
            ]
            done = distributed.as_completed(futures)
            try:
                for _ in watch(range(len(parts)), len(parts)):
                    profile = profile.merge(_result(next(done)))
            except KeyboardInterrupt:
                client.cancel(futures, force=True)
                raise Interrupted(profile) from None
    except (OSError, TimeoutError) as error:
        raise InputError(f"no scheduler at '{workers}': {error}", code="no-scheduler") from None
    finally:
        if cluster is not None:
            cluster.close()
    return profile


def _parts(numbers: Sequence[int], count: int) -> list[list[int]]:
    size = max(-(-len(numbers) // count), 1)
    return [list(numbers[i : i + size]) for i in range(0, len(numbers), size)]


def _result(future: Any) -> Profile:
    """The profile of one task; what was wrong there is an error here."""
    text, refusal = future.result()
    if refusal is not None:
        message, where, code, notes = refusal
        raise InputError(message, where=where, code=code, notes=notes)
    return parse_profile(text)


def _profile_part(
    model_path: str,
    data_path: str,
    whole: bool,
    numbers: list[int],
    first: int,
    digest: str,
    settings: Settings,
) -> tuple[str, Any]:
    """On a worker: the text of the profile of some samples, or what is wrong."""
    try:
        model = _model(model_path, Path(model_path).stat().st_mtime_ns)
        data = open_data(model, Path(data_path), whole)
        profile = calibrate(model, data, Profile(digest, settings), numbers, first)
    except QError as error:
        return "", (error.message, error.where, error.code, error.notes)
    return profile_text(profile), None


@lru_cache(maxsize=1)
def _model(path: str, changed: int) -> Model:
    from qdialect import api

    return api.load(path)


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError:
        raise UsageError(
            "the engine dask needs dask.distributed",
            code="missing-package",
            notes=(f"{Path(sys.executable).name} -m pip install 'qdialect[dask]'",),
        ) from None
