"""How much of a corpus of MLIR text comes back from `qopt-opt` as the module that it was.

    python -m tools.upstream_text cut FOLDER.. -o functions.json
    python -m tools.upstream_text run functions.json [--dialect NAME] [--limit N] [--show TEXT]

`cut` takes `.mlir` files, which `// -----` may divide, and keeps of what mlir-opt reads every
function (or other op of the module) that it reads alone: its custom text and its generic text.
`run` reads each custom text here, writes it in custom and in generic form, and asks mlir-opt for
the generic text of both, which must be the one of `cut`. Needs `mlir-opt`.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from xdsl.utils.exceptions import VerifyException

from qdialect.context import new_context
from qdialect.errors import QError
from qdialect.formats.mlir.read import parse_text, verify_module
from qdialect.formats.mlir.write import module_text

SPLIT = "\n// -----\n"
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
    if done.returncode == 0 and len(printed) == len(texts):
        return list(printed)
    if len(texts) == 1:
        return [None]
    middle = len(texts) // 2
    return [*mlir_opt(texts[:middle], *options), *mlir_opt(texts[middle:], *options)]


def _functions(text: str) -> list[str]:
    """The ops of a module as mlir-opt prints it, each with the aliases of the text."""
    lines = text.rstrip().split("\n")
    start = next((n for n, line in enumerate(lines) if line.startswith("module")), None)
    if start is None or lines[-1] != "}":
        return [text]
    aliases = "\n".join(lines[:start])
    made: list[str] = []
    current: list[str] = []
    for line in lines[start + 1 : -1]:
        current.append(line)
        if re.match(r"  \S", line) and (not line.endswith(("{", "(")) or line.startswith("  }")):
            made.append("\n".join([aliases, *current]) + "\n")
            current = []
    return made


def cut(folders: Sequence[Path]) -> list[dict[str, str]]:
    """The functions of all files in `folders`."""
    made: list[dict[str, str]] = []
    for path in sorted(file for folder in folders for file in folder.rglob("*.mlir")):
        text = path.read_text(errors="replace")
        chunks = [chunk for chunk in re.split(r"^// -----.*$", text, flags=re.M) if chunk.strip()]
        valid = [chunk for chunk in mlir_opt(chunks) if chunk]
        pieces = [piece for chunk in valid for piece in _functions(chunk)]
        customs = [piece for piece in mlir_opt(pieces) if piece]
        generics = mlir_opt(customs, "--mlir-print-op-generic")
        name = "/".join(path.parts[-2:])
        made += [
            {"file": name, "custom": custom, "generic": generic}
            for custom, generic in zip(customs, generics, strict=True)
            if generic
        ]
    return made


def ours(text: str) -> tuple[str, str]:
    """The custom and the generic text that we write for a text; QError when we refuse it."""
    context = new_context(allow_unregistered=True)
    module = parse_text(text, context).module
    verify_module(module, context)
    return (
        module_text(module, context, keep_names=False),
        module_text(module, context, keep_names=False, generic=True),
    )


def run(entries: Sequence[dict[str, str]], show: str | None) -> int:
    """Print what share of the functions comes back, by file's folder, and why others do not."""
    good: Counter[str] = Counter()
    generic_good: Counter[str] = Counter()
    same: Counter[str] = Counter()
    total: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    examples: dict[str, str] = {}
    written: list[tuple[dict[str, str], str, str]] = []
    for entry in entries:
        total[entry["file"].split("/")[0]] += 1
        try:
            custom, generic = ours(entry["custom"])
        except (QError, VerifyException) as error:
            _note(reasons, examples, f"read: {str(error).splitlines()[0]}", entry, show)
        except Exception as error:  # a defect of ours, counted as one
            _note(reasons, examples, f"CRASH {type(error).__name__}: {error}", entry, show)
        else:
            written.append((entry, custom, generic))
    for start in range(0, len(written), 50):
        part = written[start : start + 50]
        back = mlir_opt([custom for _, custom, _ in part], "--mlir-print-op-generic")
        again = mlir_opt([generic for _, _, generic in part], "--mlir-print-op-generic")
        for (entry, custom, generic), first, second in zip(part, back, again, strict=True):
            folder = entry["file"].split("/")[0]
            if first == entry["generic"]:
                good[folder] += 1
                same[folder] += custom.strip() == entry["custom"].strip()
            else:
                _note(reasons, examples, _difference("custom", entry, custom, first), entry, show)
            if second == entry["generic"]:
                generic_good[folder] += 1
            else:
                _note(reasons, examples, _difference("generic", entry, generic, second), entry, show)
    for folder in sorted(total):
        count = total[folder]
        print(
            f"{folder:16} {count:5}  custom {good[folder] / count:6.1%}  "
            f"generic {generic_good[folder] / count:6.1%}  same text {same[folder] / count:6.1%}"
        )
    count = max(total.total(), 1)
    print(
        f"{'all':16} {count:5}  custom {good.total() / count:6.1%}  "
        f"generic {generic_good.total() / count:6.1%}  same text {same.total() / count:6.1%}"
    )
    for reason, number in reasons.most_common(60):
        print(f"{number:5} {reason}    ({examples[reason]})")
    return 0


def _note(
    reasons: Counter[str], examples: dict[str, str], text: str, entry: dict[str, str], show: str | None
) -> None:
    text = re.sub(r"^(read: )\S*?:\d+:\d+: ", r"\1", text)
    reason = re.sub(r"[%^]\w+|\d+", "_", text)[:150]
    reasons[reason] += 1
    examples.setdefault(reason, entry["file"])
    if show and show in text:
        print("=" * 20, text, entry["file"], "\n", entry["custom"])


def _difference(kind: str, entry: dict[str, str], written: str, back: str | None) -> str:
    if back is None:
        done = subprocess.run(
            ["mlir-opt", "-", "--allow-unregistered-dialect"],
            input=written, capture_output=True, text=True, check=False,
        )
        first = next((line for line in done.stderr.splitlines() if "error:" in line), "no error")
        return f"{kind} refused: {first.partition('error: ')[2]}"
    pairs = zip(entry["generic"].splitlines(), back.splitlines(), strict=False)
    for expected, found in pairs:
        if expected != found:
            name = _OP.search(expected)
            return f"{kind} differs: {name[1] if name else expected.strip()[:60]}"
    return f"{kind} differs in length"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; exit code 0."""
    parser = argparse.ArgumentParser("python -m tools.upstream_text", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    cutting = commands.add_parser("cut")
    cutting.add_argument("folders", type=Path, nargs="+")
    cutting.add_argument("-o", dest="output", type=Path, required=True)
    running = commands.add_parser("run")
    running.add_argument("functions", type=Path, nargs="+")
    running.add_argument("--folder", help="only of this folder")
    running.add_argument("--every", type=int, default=1, help="only every n-th function")
    running.add_argument("--show", help="print functions whose reason has this text")
    args = parser.parse_args(arguments)
    if args.command == "cut":
        args.output.write_text(json.dumps(cut(args.folders), indent=0))
        return 0
    entries = [entry for path in args.functions for entry in json.loads(path.read_text())]
    chosen = [e for e in entries if args.folder in (None, e["file"].split("/")[0])]
    return run(chosen[:: args.every], args.show)


if __name__ == "__main__":
    sys.exit(main())
