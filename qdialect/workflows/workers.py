"""Processes that do a part of the work each: on this machine, or those of a scheduler of Dask."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any

from qdialect.children import python_child
from qdialect.errors import InputError, UsageError


@contextmanager
def client_of(workers: str) -> Generator[tuple[Any, Any]]:
    """A client of local processes or of a scheduler, and `as_completed`."""
    distributed = _distributed()
    with ExitStack() as stack:
        if workers.isdecimal():
            client = stack.enter_context(_local_client(distributed, int(workers)))
        else:
            try:
                client = stack.enter_context(distributed.Client(workers, timeout=20))
            except (OSError, TimeoutError, ValueError) as error:
                raise InputError(
                    f"no scheduler at '{workers}': {error}", code="no-scheduler"
                ) from None
        try:
            yield client, distributed.as_completed
        except (distributed.KilledWorker, distributed.CancelledError) as error:
            raise InputError(
                "the workers died, of too little memory or of what the model makes a runtime do",
                code="no-workers",
                notes=(str(error),),
            ) from None


@contextmanager
def _local_client(distributed: Any, count: int) -> Generator[Any]:
    """A client of so many processes of this machine, which end with it."""
    if count < 1:
        raise UsageError("--workers takes a number of processes or an address")
    cluster = distributed.LocalCluster(
        n_workers=0,
        dashboard_address=":0",  # any free port: others may run a cluster, too
        silence_logs=logging.CRITICAL,
    )
    with cluster, distributed.Client(cluster) as client:
        command, environment = python_child(
            "distributed.cli.dask_worker",
            cluster.scheduler_address,
            *("--nworkers", str(count), "--nthreads", "1", "--no-dashboard"),
            *("--death-timeout", "60"),
        )
        environment["DASK_LOGGING__DISTRIBUTED"] = "critical"
        # In a session of their own they do not see Ctrl-C: stopping is for this process.
        process = subprocess.Popen(command, env=environment, start_new_session=True)
        # What waits for a process that is gone would wait without end.
        ending = Thread(target=lambda: (process.wait(), client.close()), daemon=True)
        ending.start()
        try:
            client.wait_for_workers(count, timeout=60)
            yield client
        finally:
            process.terminate()
            ending.join()


def _distributed() -> Any:
    try:
        return import_module("distributed")
    except ImportError:
        raise UsageError(
            "workers need dask.distributed",
            code="missing-package",
            notes=(f"{Path(sys.executable).name} -m pip install 'qdialect[dask]'",),
        ) from None
