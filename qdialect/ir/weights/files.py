"""Files written whole or not at all, and what processes that were killed left behind."""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from qdialect.errors import unwritable

_STAMP = re.compile(r"([0-9a-f]{8})-([1-9][0-9]{0,9})-[0-9a-f]{32}")

Load = Callable[[Path], object]
"""Loads a file that was written, in what it is for; it raises what keeps it from its name."""


@contextmanager
def replacing(path: Path, load: Load | None = None) -> Generator[Path]:
    """A temporary path beside `path`; renamed to it at the end if it can be loaded, removed on
    failure.

    Whoever creates the file gives it the permissions of any new file.  A device or a
    pipe is written directly; a link stays a link.  What a process that was killed left
    of such a file goes.  InputError (`unwritable-file`) for an OSError on the way.
    """
    try:
        with _replacing(path.resolve(), load) as temporary:
            yield temporary
    except OSError as error:
        raise unwritable(path, error) from None


@contextmanager
def _replacing(target: Path, load: Load | None) -> Generator[Path]:
    if target.exists() and not target.is_file():
        yield target
        return
    prefix = hidden_prefix(target)
    remove_abandoned(target.parent, prefix, ".tmp")
    temporary = target.with_name(f"{prefix}{stamp()}.tmp")
    try:
        yield temporary
        if load is not None:
            load(temporary)
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def within(folder: Path, location: str) -> Path | None:
    """The file that is called `location` in a file of `folder`, which is resolved; None where that
    is not in the folder or below it, links followed."""
    if not location or "\0" in location:
        return None
    try:
        path = (folder / location).resolve()
    except (OSError, RuntimeError):  # a circle of links
        return None
    return path if path.is_relative_to(folder) else None


def save_text(path: Path, text: str, load: Load | None = None) -> None:
    """Write a file, whole or not at all; InputError (`unwritable-file`)."""
    with replacing(path, load) as temporary:
        temporary.write_text(text, encoding="utf-8")


@contextmanager
def alone(folder: Path) -> Generator[Callable[[], None]]:
    """From the call of what this gives to its end, nobody else who asks for the same is: for
    files in `folder` that belong together, whose names two processes would give in turns.

    Where the system or the file system has no such locks, there is nothing.
    """
    try:
        from fcntl import LOCK_EX, flock
    except ImportError:
        yield lambda: None
        return

    def begin() -> None:
        # What is wrong with the folder is said by whoever writes to it.
        with suppress(OSError):
            if not descriptors:
                descriptors.append(os.open(folder, os.O_RDONLY))
                flock(descriptors[0], LOCK_EX)

    descriptors: list[int] = []
    try:
        yield begin
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def hidden_prefix(path: Path) -> str:
    """How the names of temporary files begin that belong to the file at `path`."""
    return f".{zlib.crc32(path.name.encode(errors='surrogatepass')):08x}-"


def stamp() -> str:
    """A new name that says which process of which machine gave it."""
    return f"{_machine()}-{os.getpid()}-{os.urandom(16).hex()}"


def abandoned(folder: Path, prefix: str, suffix: str = "") -> list[Path]:
    """The files and folders called prefix, `stamp`, suffix of processes of this machine
    that are no more."""
    if os.name != "posix":
        return []  # elsewhere asking after a process is not free of effects
    left: list[Path] = []
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith(prefix) or not entry.name.endswith(suffix):
                continue
            found = _STAMP.fullmatch(entry.name[len(prefix) : len(entry.name) - len(suffix)])
            if found is not None and found[1] == _machine() and not _runs(int(found[2])):
                left.append(Path(entry.path))
    return left


def remove_abandoned(folder: Path, prefix: str, suffix: str = "") -> None:
    """Remove what is `abandoned`."""
    for path in abandoned(folder, prefix, suffix):
        with suppress(OSError):
            if path.is_dir() and not path.is_symlink():
                from shutil import rmtree

                rmtree(path)
            else:
                path.unlink()


def _machine() -> str:
    name = os.uname().nodename if os.name == "posix" else ""
    return f"{zlib.crc32(name.encode(errors='replace')):08x}"


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # somebody else's
    return True
