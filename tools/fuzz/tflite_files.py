"""Damaged copies of real TFLite and Circle files: each is read, or refused with one InputError.

    python -m tools.fuzz tflite-files models/*.tflite --mutants 200 --inspect 5

Words and bytes outside of the weights are changed, and the end is cut off, in a child with little
memory beside what the file takes. With `--inspect` so many of each file go through `qopt inspect`
too, and `--raised` also raises what is read to `nn` and `quant`.
"""

# pyright: basic
from __future__ import annotations

import argparse
import os
import random
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from qdialect.errors import InputError, QError
from tests.support.readers import Words, _session

SECONDS = 20
MEGABYTES = 512
"""Address space beyond what the process has, and twelve times the file."""


class TooLong(BaseException):
    """Reading takes more time than it may."""


def places(data: bytes) -> list[int]:
    """Words that are no bytes of weights."""
    import numpy as np

    from qdialect.plugins.tflite.file.flatbuffer_read import Bytes, Decoder
    from qdialect.plugins.tflite.file.read import KINDS
    from qdialect.plugins.tflite.file.schema import schema_of

    root = Decoder(Bytes(memoryview(data), "x"), schema_of(KINDS[data[4:8]])).root("Model")
    base = np.frombuffer(data, np.uint8).ctypes.data
    inside = np.ones(len(data) // 4, bool)
    for row in root["buffers"] or ():
        start, size = row["offset"], row["size"]
        if row["data"] is not None and row["data"].size:
            start, size = row["data"].ctypes.data - base, row["data"].size
        inside[(start + 15) // 4 : max(start + size - 12, 0) // 4] = False
    return (4 * np.flatnonzero(inside)).tolist()


def mutant(draw: random.Random, data: bytes, words: Sequence[int], change: Words) -> bytes:
    """A copy with damage: windows around words that matter are changed as small files are."""
    if draw.random() < 0.05:
        return data[: draw.randrange(len(data))]
    damaged_file = bytearray(data)
    for _ in range(draw.choice((1, 1, 2, 5))):
        at = draw.choice(words)
        window = bytes(damaged_file[at : at + draw.choice((4, 8, 32))])
        damaged = change.change(window)
        if draw.random() < 0.9:
            damaged = damaged[: len(window)].ljust(len(window), b"\0")
        damaged_file[at : at + len(window)] = damaged
    return bytes(damaged_file)


def _alarm(number: int, frame: object) -> None:
    raise TooLong


def one(path: Path, raised: bool) -> str:
    """What became of a file; starts with "!" if that is a defect."""
    import qdialect as qd
    from qdialect.plugins.tflite.file.read import read_file

    signal.signal(signal.SIGALRM, _alarm)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        try:
            read_file(path)
        except InputError as error:
            wrong = error.code != "invalid-tflite" or not error.message or not error.where
            return f"!{error}" if wrong else "refused"
        try:
            qd.load(path, _session(), as_written=not raised)
        except QError as error:
            return "read, then refused" if error.message else "!an error without words"
        return "read"
    except TooLong:
        return "!more than 20 s"
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        return f"!{type(error).__name__} at {Path(at.filename).name}:{at.lineno}: {error}"[:200]
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def all_of(
    path: Path, count: int, inspected: int, seed: int, keep: Path | None, raised: bool
) -> Counter[str]:
    """What became of the damaged copies of a file, in this process."""
    data = path.read_bytes()
    words = places(data)
    draw = random.Random(f"{seed} {path.name}")
    change = Words(draw, [data[:4096]])
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / f"mutant{path.suffix}"
        copy.write_bytes(data)
        found[f"sound: {one(copy, raised)}"] += 1
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = used + (MEGABYTES << 20) + 12 * len(data)
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        for index in range(count):
            copy.unlink()
            copy.write_bytes(mutant(draw, data, words, change))
            said = one(copy, raised)
            if index < inspected and not said.startswith("!"):
                said = _inspect(copy) or said
            found[said] += 1
            if said.startswith("!") and keep is not None:
                keep.mkdir(parents=True, exist_ok=True)
                (keep / f"{path.stem}-{index}{path.suffix}").write_bytes(copy.read_bytes())
    return found


def _inspect(path: Path) -> str:
    command = [sys.executable, "-m", "qdialect", "inspect", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode not in (0, 1) or "Traceback" in done.stderr:
        return f"!qopt inspect: {done.returncode} {done.stderr.strip()[-150:]}"
    return ""


def main(arguments: Sequence[str] | None = None) -> int:
    """One line for each file; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--mutants", type=int, default=100, help="of each file")
    parser.add_argument("--inspect", type=int, default=0, help="of each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", type=Path, help="where to put files on which something is wrong")
    parser.add_argument("--raised", action="store_true", help="raise what is read")
    options = parser.parse_args(arguments)
    total: Counter[str] = Counter()
    began = time.monotonic()
    for path in options.files:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            result = all_of(
                path,
                options.mutants,
                options.inspect,
                options.seed,
                options.keep,
                options.raised,
            )
            os.write(write, repr(dict(result)).encode()[:60000])
            os._exit(0)
        os.close(write)
        with os.fdopen(read, "rb") as answer:
            text = answer.read().decode()
        _, status = os.waitpid(child, 0)
        import ast

        result = Counter(ast.literal_eval(text)) if text else Counter({f"!died: {status}": 1})
        total += result
        print(path.name, dict(result), flush=True)
    bad = {said: count for said, count in total.items() if "!" in said}
    print(f"{sum(total.values())} files, {time.monotonic() - began:.0f} s: {dict(total)}")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
