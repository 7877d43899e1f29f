"""What the compiler costs, as multiples of what others cost, in one command.

    python tools/bench.py                          all sections
    python tools/bench.py text passes --sizes 1000 10000 --json now.json
    python tools/bench.py --compare --fail         what became worse since the last stored run
    python tools/bench.py onnx                     what it gains instead: see bench_onnx.py

Sections: text (build, parse, print, verify, module files), passes (the optimizing pipeline),
table (every pass alone), startup, models (real networks, against ONNX Runtime's optimizer and
other tools), profile (where the time goes).
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import bench_history as history
import bench_page as page
from bench_rows import Absent, Rounds, Row, Spread
from progress import step

ROOT = Path(__file__).parents[1]
HISTORY = ROOT / "docs" / "reference" / "bench-history.jsonl"
VERSION = 1

Section = Callable[[argparse.Namespace, Rounds], Iterator[Row]]


def _text(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    import bench_text

    return bench_text.rows(_cases(options, options.sizes), rounds)


def _passes(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    import bench_passes

    return bench_passes.rows(_cases(options, options.sizes), rounds, _setting(options))


def _table(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    import bench_passes

    small = [size for size in options.sizes if size <= options.table_size]
    return bench_passes.table_rows(_cases(options, small), rounds, _setting(options))


def _startup(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    import bench_startup

    return bench_startup.rows(rounds)


SECTIONS: dict[str, Section] = {
    "text": _text,
    "passes": _passes,
    "table": _table,
    "startup": _startup,
}


def _cases(options: argparse.Namespace, sizes: Sequence[int]) -> list[Any]:
    from bench_cases import Case

    return [Case(name, size) for name in options.cases for size in sizes]


def _setting(options: argparse.Namespace) -> Any:
    from bench_passes import Setting

    return Setting(options.target, options.numerics)


def read_figures(path: Path) -> list[Row]:
    """The rows of an earlier run."""
    held = json.loads(path.read_text(encoding="utf-8"))
    if held.get("version") != VERSION:
        raise SystemExit(f"{path}: not figures of this benchmark (version {VERSION})")
    rows: list[Row] = []
    for row in held["rows"]:
        row["value"] = Spread(**row["value"])
        row["ratios"] = {name: Spread(**ratio) for name, ratio in row["ratios"].items()}
        rows.append(Row(**row))
    return rows


def write_figures(path: Path, rows: Sequence[Row]) -> None:
    """All figures so far: a long run that ends early has them."""
    entry = history.Entry.of(rows)
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
                for row in SECTIONS[name](options, Rounds(options.repeat, options.seconds)):
                    rows.append(row)
                    if options.json:
                        write_figures(options.json, _merged(known, rows))
        except Absent as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
        found = [row for row in rows if row.section == name]
        print(page.full(found), end="\n\n", flush=True)
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
    add("--cases", nargs="+", metavar="CASE", help='generated graphs, as "chain qdq"')
    add("--sizes", nargs="+", type=int, default=[1_000, 10_000, 100_000], help="of those, in ops")
    add("--table-size", type=int, default=10_000, help="largest graph for the section table")
    add("--target", default="onnxruntime", help="what the pipeline compiles for")
    add("--numerics", default="exact", help="level the passes run at")
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
    if options.json:
        write_figures(options.json, rows)
    if exponents := page.grown(rows):
        print(f"Growth: time ~ ops ** exponent\n\n{exponents}\n")
    entry = history.Entry.of(rows)
    worse = compared(entry, options.compare) if options.compare else False
    if options.history:
        history.append(options.history, entry)
    return 1 if worse and options.fail else 0


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    from bench_cases import CASES, DEFAULT
    from gen_graph import FORMS

    if not options.sections and not options.known:
        options.sections = list(SECTIONS)
    unknown = [name for name in options.sections if name not in SECTIONS]
    if unknown:
        parser.error(f"no section {unknown[0]!r}; there are {', '.join(SECTIONS)}")
    options.cases = options.cases or list(DEFAULT)
    for case in options.cases:
        graph, _, form = case.partition(" ")
        if graph not in CASES or form not in FORMS:
            parser.error(
                f"no case {case!r}: GRAPH FORM, of {', '.join(CASES)} and {', '.join(FORMS)}"
            )
    if options.fail and not options.compare:
        parser.error("--fail needs --compare")


if __name__ == "__main__":
    sys.exit(main())
