"""Files written whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4


@contextmanager
def replacing(path: Path) -> Generator[Path]:
    """A temporary path beside `path`; renamed to it at the end, removed on failure.

    Whoever creates the file gives it the permissions of any new file.  A device or a
    pipe is written directly; a link stays a link.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        yield target
        return
    temporary = target.with_name(f".{uuid4().hex}.tmp")
    try:
        yield temporary
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
