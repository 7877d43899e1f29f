"""What the compiler costs, as multiples of what others cost, in one command.

    python tools/bench.py                          all sections
    python tools/bench.py text passes --sizes 1000 10000 --json now.json
    python tools/bench.py --compare --fail         what became worse since the last stored run
    python tools/bench.py onnx                     what it gains instead: see bench_onnx.py

Sections: text (build, parse, print, verify, module files), passes (the optimizing pipeline),
table (every pass alone), startup, models (real networks, against ONNX Runtime's optimizer and
other tools), chains (ONNX models that are one long chain or one wide op), profile (where the time
goes).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import bench_history as history
import bench_page as page
from bench_rows import Absent, Rounds, Row, Spread
from progress import step

REFERENCE = Path(__file__).parents[1] / "docs" / "reference"
HISTORY = REFERENCE / "bench-history.jsonl"
PAGE = REFERENCE / "speed.md"
VERSION = 1

Section = Callable[[argparse.Namespace, Rounds], Iterator[Row]]


def _text(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    import bench_text

    return bench_text.rows(_cases("text", options, options.sizes), rounds)


def _passes(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    import bench_passes

    return bench_passes.rows(_cases("passes", options, options.sizes), rounds, _setting(options))


def _table(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    import bench_passes

    small = [size for size in options.sizes if size <= options.table_size]
    return bench_passes.table_rows(_cases("table", options, small), rounds, _setting(options))


def _startup(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    import bench_startup

    return bench_startup.rows(rounds)


def _models(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    try:
        import bench_models
    except ImportError as error:
        raise Absent(f"{error}; pip install 'qdialect[bench]'") from None
    return bench_models.rows(options.models or bench_models.DEFAULT, options.configs, rounds)


def _chains(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    import bench_chains

    names = _named(options.cases, bench_chains.NAMES) or bench_chains.DEFAULT
    chains = [bench_chains.Chain(name, size) for name in names for size in options.sizes]
    return bench_chains.rows(chains, rounds, _setting(options))


def _profile(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    import bench_profile

    return bench_profile.rows(options.profile, _setting(options))


SECTIONS: dict[str, Section] = {
    "text": _text,
    "passes": _passes,
    "table": _table,
    "startup": _startup,
    "models": _models,
    "chains": _chains,
    "profile": _profile,
}


def _cases(section: str, options: argparse.Namespace, sizes: Sequence[int]) -> list[Any]:
    from bench_cases import DEFAULT, NAMES, Case

    names = _named(options.cases, NAMES) or DEFAULT[section]
    return [Case(name, size) for name in names for size in sizes]


def _named(cases: Sequence[str], known: Sequence[str]) -> list[str]:
    """Those of the cases that are asked for that a section knows."""
    return [case for case in cases if case in known]


def _setting(options: argparse.Namespace) -> Any:
    from bench_passes import Setting

    return Setting(options.target, options.numerics)


def _figures(path: Path) -> dict[str, Any]:
    held = json.loads(path.read_text(encoding="utf-8"))
    if held.get("version") != VERSION:
        raise SystemExit(f"{path}: not figures of this benchmark (version {VERSION})")
    return held


def read_figures(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    rows: list[Row] = []
    for row in _figures(path)["rows"]:
        row["value"] = Spread(**row["value"])
        row["ratios"] = {name: Spread(**ratio) for name, ratio in row["ratios"].items()}
        rows.append(Row(**row))
    return rows


def write_figures(path: Path, rows: Sequence[Row], entry: history.Entry) -> None:
    """All figures so far: a long run that ends early has them."""
    figures = {
        "version": VERSION,
        "commit": entry.commit,
        "when": entry.when,
        "machine": entry.machine,
        "versions": entry.versions,
        "growth": entry.growth,
        "rows": [asdict(row) for row in rows],
    }
    path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _merged(known: Sequence[Row], new: Sequence[Row]) -> list[Row]:
    """Rows, the newer of each key, in the order of the sections."""
    found = {row.key: row for row in (*known, *new)}
    order = list(SECTIONS)
    return sorted(found.values(), key=lambda row: order.index(row.section))


def measured(options: argparse.Namespace, known: Sequence[Row]) -> list[Row]:
    """The rows of all sections that are asked for; every case is printed when it is done."""
    rows: list[Row] = []
    for name in options.sections:
        try:
            with step(name):
                found = SECTIONS[name](options, Rounds(options.repeat, options.seconds))
                for _, group in groupby(found, key=lambda row: (row.case, row.size)):
                    case = list(group)
                    rows += case
                    print(page.full(case), end="\n\n", flush=True)
                    if options.json:
                        merged = _merged(known, rows)
                        write_figures(options.json, merged, history.Entry.of(merged))
        except Absent as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
    return rows


def compared(now: history.Entry, path: Path) -> bool:
    """Say what became worse and better since the last run; whether something became worse."""
    then = history.last_alike(history.read(path), now)
    if then is None:
        print(f"nothing to compare with: {path} has no other run on this kind of machine")
        return False
    found = list(history.changes(then, now))
    worse = [change for change in found if change.worse]
    better = [change for change in found if change.better]
    print(f"against {then.commit} of {then.when}: {len(found)} ratios")
    for title, some in (("worse", worse), ("better", better)):
        print(f"{title}: {len(some) or 'none'}")
        for change in sorted(some, key=lambda change: change.factor, reverse=title == "worse"):
            print(f"  {change}")
    return bool(worse)


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("sections", nargs="*", metavar="SECTION", help="default: all; none if figures are --known")
    add("--cases", nargs="+", default=[], metavar="CASE", help='generated graphs, as "chain qdq"')
    add("--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000], help="of those, in ops")
    add("--table-size", type=int, default=10_000, help="largest graph for the section table")
    add("--target", default="onnxruntime", help="what the pipeline compiles for")
    add("--numerics", default="exact", help="level the passes run at")
    add("--models", nargs="+", help="of the corpus, or .onnx files (default: some of the corpus)")
    add("--configs", nargs="+", default=["s8s8"], help="how those of the corpus are quantized")
    add(
        "--profile",
        nargs="+",
        default=["residual qdq 10000", "chain quantized 10000"],
        metavar="WORK",
        help="graphs with their size, or .onnx files",
    )
    add("--repeat", type=int, default=5, help="rounds of everything")
    add("--seconds", type=float, default=20.0, help="after which no new round begins")
    add("--json", type=Path, help="write the figures to this file as well")
    add(
        "--known",
        type=Path,
        nargs="+",
        default=[],
        help="figures of earlier runs; with no SECTION nothing else",
    )
    add("--history", type=Path, nargs="?", const=HISTORY, help="store the ratios in this history")
    add("--compare", type=Path, nargs="?", const=HISTORY, help="compare with the last stored run")
    add("--document", type=Path, nargs="?", const=PAGE, help="write the page and its pictures")
    add("--before", type=Path, nargs="+", default=[], help="figures the page compares with")
    add("--fail", action="store_true", help="exit code 1 if a ratio became worse")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["onnx"]:
        import bench_onnx

        return bench_onnx.main(arguments[1:])
    parser = arguments_parser()
    options = parser.parse_args(arguments)
    _check(parser, options)
    known = [row for path in options.known for row in read_figures(path)]
    rows = _merged(known, measured(options, known))
    entry = history.Entry.of(rows)
    if not options.sections:
        # Nothing was measured here and now: it is the last of what is known.
        last = max((_figures(path) for path in options.known), key=lambda told: told["when"])
        entry = replace(entry, **{key: last[key] for key in history.TOLD})
    if options.json:
        write_figures(options.json, rows, entry)
    if exponents := page.grown(rows):
        print(f"Growth: time ~ ops ** exponent\n\n{exponents}\n")
    worse = compared(entry, options.compare) if options.compare else False
    if options.history:
        history.append(options.history, entry)
    if options.document:
        _document(options, rows, entry)
    return 1 if worse and options.fail else 0


def _document(options: argparse.Namespace, rows: list[Row], entry: history.Entry) -> None:
    import bench_document

    told = [_figures(path) for path in options.known] or [asdict(entry)]
    now = bench_document.Run(rows, told)
    old = _merged([], [row for path in options.before for row in read_figures(path)])
    before = bench_document.Run(old, [_figures(path) for path in options.before])
    runs = [each for each in history.read(options.history or HISTORY) if each.alike(entry)]
    bench_document.write(options.document, now, before, runs)


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    from bench_cases import NAMES
    from bench_chains import NAMES as CHAINS

    if not options.sections and not options.known:
        options.sections = list(SECTIONS)
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    for case in options.cases:
        if case not in NAMES and case not in CHAINS:
            parser.error(f"no case {case!r}; there are {', '.join((*NAMES, *CHAINS))}")
    if options.fail and not options.compare:
        parser.error("--fail needs --compare")


if __name__ == "__main__":
    sys.exit(main())
