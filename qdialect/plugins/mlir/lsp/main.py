"""`qopt-lsp`: starts the language server on standard streams or on a port.

pygls is not a dependency of the package; without it the command says what to install.
"""

from __future__ import annotations

import gc
import logging
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec

from qdialect.cli.flags import (
    HELP,
    LOAD_PLUGIN,
    VERSION,
    Arguments,
    Command,
    parse,
    run_with_plugins,
    switch,
    value,
    write,
)
from qdialect.cli.terminal import OK, guarded
from qdialect.errors import QError, UsageError

COMMAND = Command(
    "qopt-lsp",
    "A language server for .mlir files: diagnostics, hover, navigation, completion, passes.",
    (
        switch("stdio", "talk on standard input and output (the default)"),
        value("tcp", "PORT", "listen on a port of this machine instead"),
        LOAD_PLUGIN,
        HELP,
        VERSION,
    ),
)


def main(argv: Sequence[str] | None = None) -> int:
    """The console script."""
    return guarded(_run, argv)


def _run(argv: Sequence[str]) -> int:
    args = parse(COMMAND, argv)
    if args.switch("help"):
        write(COMMAND.help())
        return OK
    if args.switch("version"):
        from qdialect import __version__

        write(f"qopt-lsp (qdialect {__version__})\n")
        return OK
    port = _port(args)
    if find_spec("pygls") is None or find_spec("lsprotocol") is None:
        raise QError(
            "the language server needs pygls: pip install 'qdialect[lsp]'", code="missing-package"
        )
    return run_with_plugins(lambda _: _serve(port), args)


def _serve(port: int | None) -> int:
    from qdialect.plugins.mlir.lsp.server import make_server

    # Indices of large files are many objects without cycles.
    gc.set_threshold(200_000, 20, 100)
    server = make_server()
    if port is not None:
        # pygls leaves by SystemExit in a callback, which asyncio would report as an error.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        server.start_tcp("127.0.0.1", port)
    else:
        # What anything else prints must not get among the messages.
        messages = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        server.start_io(sys.stdin.buffer, messages)
    return OK


def _port(args: Arguments) -> int | None:
    text = args.text("tcp")
    if text is None:
        return None
    if args.switch("stdio"):
        raise UsageError("--stdio and --tcp are two ways of the same")
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise UsageError(f"'{text}' is no port")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
