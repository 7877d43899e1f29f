"""How much of a corpus of MLIR text comes back from `qopt-opt` as the module that it was.

    python -m tools.upstream_text cut FOLDER.. -o functions.json
    python -m tools.upstream_text run functions.json.. [--folder NAME] [--every N] [--show TEXT]

`cut` takes `.mlir` files, which `// -----` may divide, and keeps of what mlir-opt reads every
function (or other op of the module) that it reads alone: its custom text and its generic text;
with `--locations` both with the locations of all ops.
`run` reads both texts here, writes each in custom and in generic form, and asks mlir-opt for
the generic text of all four, which must be the one of `cut`. Needs `mlir-opt`.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from xdsl.utils.exceptions import VerifyException

from qdialect.errors import QError
from qdialect.ir.context import new_context
from qdialect.plugins.mlir.read import parse_text, verify_module
from qdialect.plugins.mlir.write import module_text

#: how long a text may take
SECONDS = 5
SPLIT = "\n// -----\n"
GENERIC = "--mlir-print-op-generic"
FORMS = ("custom", "generic")
_OPTIONS = ("--split-input-file", "--allow-unregistered-dialect")
_OP = re.compile(r'^ *(?:%[^=]* = )?"?([a-z_]+\.[\w.]+)', re.MULTILINE)


def mlir_opt(texts: Sequence[str], *options: str) -> list[str | None]:
    """What mlir-opt prints for each text; None for those that it refuses."""
    if not texts:
        return []
    done = subprocess.run(
        ["mlir-opt", "-", *_OPTIONS, *options],
        input=SPLIT.join(texts),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=120,
        check=False,
    )
    printed = done.stdout.split("// -----\n")
    if done.returncode in (0, 1) and len(printed) == len(texts):
        return [text if text.strip() else None for text in printed]
    if len(texts) == 1:
        return [None]
    middle = len(texts) // 2
    return [*mlir_opt(texts[:middle], *options), *mlir_opt(texts[middle:], *options)]


def _functions(text: str) -> list[str]:
    """The ops of a module as mlir-opt prints it, each with the aliases of the text; the whole
    text where it has no module or resources behind it."""
    lines = text.rstrip().split("\n")
    start = next((n for n, line in enumerate(lines) if line.startswith("module")), None)
    if start is None or lines[-1] != "}":
        return [text]
    aliases = "\n".join(lines[:start])
    made: list[str] = []
    current: list[str] = []
    for line in lines[start + 1 : -1]:
        current.append(line)
        ends = re.match(r"  [^\s^]", line) and not line.endswith(("{", "("))
        if ends:
            made.append("\n".join([aliases, *current]) + "\n")
            current = []
    return made


def cut(folders: Sequence[Path], locations: bool) -> list[dict[str, str]]:
    """The functions of all files in `folders`, with their locations or without."""
    options = ("--mlir-print-debuginfo",) if locations else ()
    marks = {"locations": "kept"} if locations else {}
    made: list[dict[str, str]] = []
    for path in sorted(file for folder in folders for file in folder.rglob("*.mlir")):
        text = path.read_text(errors="replace")
        chunks = [chunk for chunk in re.split(r"^// -----.*$", text, flags=re.M) if chunk.strip()]
        valid = [chunk for chunk in mlir_opt(chunks) if chunk]
        pieces = [piece for chunk in valid for piece in _functions(chunk)]
        customs = [piece for piece in mlir_opt(pieces, *options) if piece]
        generics = mlir_opt(customs, GENERIC, *options)
        name = "/".join(path.parts[-2:])
        made += [
            {"file": name, "custom": custom, "generic": generic, **marks}
            for custom, generic in zip(customs, generics, strict=True)
            if generic
        ]
    return made


def limit() -> None:
    """Make an exception of a text that takes more than 4 GB, or more than `SECONDS`."""
    resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    def stop(*_: object) -> None:
        raise TimeoutError(f"more than {SECONDS} s")

    signal.signal(signal.SIGALRM, stop)


class Result(NamedTuple):
    """A function, and what we wrote for one of its texts; no texts where we refused it."""

    entry: dict[str, str]
    source: str
    """The form that was read: `custom` or `generic`."""
    texts: dict[str, str]
    reason: str


def result(entry: dict[str, str], source: str) -> Result:
    """What we write, by form, for a text of `entry`."""
    context = new_context(allow_unregistered=True)
    text = entry[source]
    try:
        signal.alarm(SECONDS)
        module = parse_text(text, context).module
        verify_module(module, context)
        texts = {
            form: module_text(
                module,
                context,
                keep_names=False,
                generic=form == "generic",
                debuginfo="locations" in entry,
            )
            for form in FORMS
        }
    except (QError, VerifyException) as error:
        return Result(entry, source, {}, f"refused: {str(error).splitlines()[0]}")
    except Exception as error:  # a defect of ours, counted as one
        return Result(entry, source, {}, f"CRASH {type(error).__name__}: {error}")
    finally:
        signal.alarm(0)
    return Result(entry, source, texts, "")


def run(entries: Sequence[dict[str, str]], show: str | None) -> int:
    """Print what share of the functions comes back, by file's folder, and why others do not."""
    limit()
    total = Counter(_folder(entry) for entry in entries)
    good = {(source, form): Counter[str]() for source in FORMS for form in FORMS}
    same = Counter[str]()
    reasons = Counter[str]()
    examples: dict[str, str] = {}

    def note(found: Result, reason: str) -> None:
        reason = re.sub(r"(refused: )\S*?:\d+:\d+: ", r"\1", reason)
        if show and show in reason:
            print("=" * 20, found.source, reason, found.entry["file"], found.entry[found.source])
            for form, text in found.texts.items():
                print("-" * 20, "written in the", form, "form\n", text)
        reason = re.sub(r"[%^]\w+|\d+", "_", f"{found.source}: {reason}")[:150]
        reasons[reason] += 1
        examples.setdefault(reason, found.entry["file"])

    for start in range(0, len(entries), 50):
        part = [result(entry, source) for entry in entries[start : start + 50] for source in FORMS]
        for found in part:
            if found.reason:
                note(found, found.reason)
        part = [found for found in part if not found.reason]
        for form in FORMS:
            options = (GENERIC, *(("--mlir-print-debuginfo",) if _has_locations(entries) else ()))
            back = mlir_opt([found.texts[form] for found in part], *options)
            for found, text in zip(part, back, strict=True):
                folder = _folder(found.entry)
                if text != found.entry["generic"]:
                    note(found, _difference(form, found, text))
                    continue
                good[found.source, form][folder] += 1
                if found.source == form == "custom":
                    same[folder] += found.texts[form].strip() == found.entry["custom"].strip()
    columns = [*good.values(), same]
    heads = [*(f"{source} to {form}" for source, form in good), "same text"]
    print(f"{'':20}", *(f"{head:>18}" for head in heads))
    for folder in [*sorted(total), "all"]:
        count = total[folder] if folder != "all" else max(total.total(), 1)
        shares = [(c.total() if folder == "all" else c[folder]) / count for c in columns]
        print(f"{folder:13} {count:6}", *(f"{share:18.1%}" for share in shares))
    for reason, number in reasons.most_common(80):
        print(f"{number:5} {reason}    ({examples[reason]})")
    return 0


def _folder(entry: dict[str, str]) -> str:
    return entry["file"].split("/")[0]


def _has_locations(entries: Sequence[dict[str, str]]) -> bool:
    return any("locations" in entry for entry in entries)


def _difference(form: str, found: Result, back: str | None) -> str:
    if back is None:
        done = subprocess.run(
            ["mlir-opt", "-", "--allow-unregistered-dialect"],
            input=found.texts[form],
            capture_output=True,
            text=True,
            check=False,
        )
        first = next((line for line in done.stderr.splitlines() if "error:" in line), "no error")
        return f"{form} text refused: {first.partition('error: ')[2]}"
    for expected, text in zip(found.entry["generic"].splitlines(), back.splitlines(), strict=False):
        if expected != text:
            name = _OP.search(expected)
            return f"{form} text differs: {name[1] if name else expected.strip()[:60]}"
    return f"{form} text differs in length"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; exit code 0."""
    parser = argparse.ArgumentParser("python -m tools.upstream_text", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    cutting = commands.add_parser("cut")
    cutting.add_argument("folders", type=Path, nargs="+")
    cutting.add_argument("--locations", action="store_true", help="keep the ops' locations")
    cutting.add_argument("-o", dest="output", type=Path, required=True)
    running = commands.add_parser("run")
    running.add_argument("functions", type=Path, nargs="+")
    running.add_argument("--folder", help="only of this folder")
    running.add_argument("--every", type=int, default=1, help="only every n-th function")
    running.add_argument("--show", help="print functions whose reason has this text")
    args = parser.parse_args(arguments)
    if args.command == "cut":
        args.output.write_text(json.dumps(cut(args.folders, args.locations), indent=0))
        return 0
    entries = [entry for path in args.functions for entry in json.loads(path.read_text())]
    chosen = [e for e in entries if args.folder in (None, _folder(e))]
    return run(chosen[:: args.every], args.show)


if __name__ == "__main__":
    sys.exit(main())
