"""`qopt run`."""

from __future__ import annotations

from qdialect import api
from qdialect.cli.execution import open_engine
from qdialect.cli.files import load_arrays, save_arrays, writable
from qdialect.cli.flags import Arguments
from qdialect.cli.terminal import OK
from qdialect.errors import UsageError


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    source, output = args.text("input"), args.text("output")
    if source is None or output is None:
        missing = "--input X.npz" if source is None else "--output Y.npz"
        raise UsageError(f"{missing} is missing")
    path = writable(output, (".npz",))
    inputs = load_arrays(source)
    model = api.load(args.positional[0])
    engine = open_engine(
        model, args.text("engine") or "numpy", optimize=args.switch("runtime-optimizations")
    )
    save_arrays(path, engine(inputs))
    return OK
