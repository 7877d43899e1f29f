"""`qopt new-target`: writes a vendor's package, from the files in `qdialect/templates/target`.

The template is a package itself, called acme: tests run it as it is, and the pages show it.
"""

from __future__ import annotations

import keyword
import re
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

from qdialect.cli.flags import Arguments, write, write_json
from qdialect.cli.terminal import OK, line
from qdialect.errors import InputError, UsageError, Where

TEMPLATE = Path(__file__).parents[1] / "templates" / "target"
_SUFFIXES = (".md", ".mlir", ".py", ".toml")
_LONGEST = 16
_FOLDERS = ("build", "dist", "tests")


def run(args: Arguments) -> int:
    """The command; returns the exit code."""
    (name,) = args.positional
    folder = Path(args.text("o") or name)
    files = write_package(check_name(name), folder)
    if args.switch("json"):
        write_json({"version": 1, "folder": str(folder), "files": files})
    else:
        write("".join(line(folder / file) for file in files))
        write("\n" + line(f"Next: cd {folder}; pip install -e '.[test]'; pytest"))
    return OK


def check_name(name: str) -> str:
    """`name`, if a package, a dialect and a target can be called so; UsageError (`bad-name`)."""
    from xdsl.dialects import get_all_dialects

    from qdialect.ir.dialects import DIALECTS
    from qdialect.targets.installed import list_targets

    problem = ""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        problem = (
            "a name is of small letters, digits and _, begins with a letter, and is no keyword"
        )
    elif len(name) > _LONGEST:
        problem = f"a name has up to {_LONGEST} letters"
    elif name in list_targets():
        problem = "a target is called so"
    elif name in DIALECTS or name in get_all_dialects():
        problem = "a dialect is called so"
    elif name in _FOLDERS or find_spec(name) is not None:
        problem = "a module of Python is called so"
    if problem:
        raise UsageError(f"'{name}' cannot be the name of a target: {problem}", code="bad-name")
    return name


def write_package(name: str, folder: Path) -> list[str]:
    """Write the package to a folder that does not exist yet; the files, relative to it.

    InputError (`unwritable-file`) where that cannot be: nothing is left then.
    """
    if folder.exists() or folder.is_symlink():
        raise InputError("exists already", where=Where(str(folder)), code="unwritable-file")
    if not folder.parent.is_dir():
        where = Where(str(folder.parent))
        raise InputError("no such folder", where=where, code="unwritable-file")
    files = {
        _renamed(path.relative_to(TEMPLATE).as_posix(), name): _renamed(
            path.read_text("utf-8"), name
        )
        for path in sorted(TEMPLATE.rglob("*"))
        if path.suffix in _SUFFIXES
    }
    try:
        beside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        beside.chmod(0o755)
        for file, text in files.items():
            (beside / file).parent.mkdir(parents=True, exist_ok=True)
            (beside / file).write_text(text, encoding="utf-8")
        beside.rename(folder)
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return list(files)


def _renamed(text: str, name: str) -> str:
    """A text of the template for another name: of modules, of classes and of constants."""
    camel = "".join(part.capitalize() for part in name.split("_"))
    return text.replace("acme", name).replace("Acme", camel).replace("ACME", name.upper())


def _unwritable(folder: Path, error: OSError) -> InputError:
    problem = f"cannot write here: {error.strerror}"
    return InputError(problem, where=Where(str(folder)), code="unwritable-file")
