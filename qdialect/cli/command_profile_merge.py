"""`qopt profile merge`: profiles of parts of a data set as one."""

from __future__ import annotations

from pathlib import Path

from qdialect.cli.command_profile import as_json
from qdialect.cli.files import writable
from qdialect.cli.flags import Arguments, write_json
from qdialect.cli.terminal import OK
from qdialect.errors import QError, UsageError, Where
from qdialect.profile.file import load_profile, save_profile


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    name = args.text("o")
    if name is None:
        raise UsageError("-o P.json is missing")
    output = writable(name, (".json",))
    merged = None
    for source in args.positional:
        profile = load_profile(Path(source))
        try:
            merged = profile if merged is None else merged.merge(profile)
        except QError as error:
            error.where = error.where or Where(source)
            raise
    assert merged is not None
    save_profile(merged, output)
    if args.switch("json"):
        write_json(as_json(merged, output))
    return OK
