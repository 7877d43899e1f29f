"""Python processes that this one starts, and where they and our commands find modules.

Nothing in the current folder is ever imported. Python puts it first on `sys.path` for `-m` and
`-c`, and an empty or relative entry of PYTHONPATH names it, too. This file comes before all others
of a command: it imports only what is there before any of our code runs.
"""

import os
import sys


def _relative_entries() -> frozenset[str]:
    """What Python makes of the relative entries of PYTHONPATH: it completes them when it starts."""
    try:
        return frozenset(os.path.abspath(e) for e in _ENTRIES if not os.path.isabs(e))
    except OSError:  # there is no current folder
        return frozenset()


_ENTRIES = found.split(os.pathsep) if (found := os.environ.get("PYTHONPATH")) else []
_ABSOLUTE = [entry for entry in _ENTRIES if os.path.isabs(entry)]
_UNWANTED = _relative_entries().difference(_ABSOLUTE)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def import_path() -> list[str]:
    """`sys.path` without the current folder, and with the folder of this package."""
    texts = (entry for entry in sys.path if type(entry) is str)
    found = [entry for entry in texts if os.path.isabs(entry) and entry not in _UNWANTED]
    return found if _PACKAGE in found else [*found, _PACKAGE]


def python_child(module: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """The command line and the environment of a Python process that runs `module`.

    It imports what this process imports, from wherever this process finds it. Processes that it
    starts by `multiprocessing` do, too.
    """
    code = (
        f"import sys; sys.path[:] = {import_path()!a}; import runpy; "
        f"runpy.run_module({module!a}, run_name='__main__', alter_sys=True)"
    )
    safe = "-P" if sys.version_info >= (3, 11) else "-I"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(_ABSOLUTE)}
    return [sys.executable, safe, "-c", code, *arguments], environment


def _leave_current_folder() -> None:
    """In a process of one of our commands, import nothing from the current folder."""
    is_module = sys.argv[:1] == ["-m"]  # while `python -m` looks for it
    word = sys.orig_argv[-len(sys.argv)] if is_module else ""
    named = word.partition("m")[2] if word.startswith("-") else word
    if named.partition(".")[0] == "qdialect":
        if not (sys.flags.isolated or getattr(sys.flags, "safe_path", False)):
            del sys.path[0]
    elif not os.path.basename(sys.argv[0]).startswith("qopt"):
        return
    sys.path[:] = import_path()
    import signal

    # Until `guarded` runs the command.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def _end(number: int, frame: object) -> None:
    """End at once: nothing has been done yet."""
    os._exit(130)


_leave_current_folder()
