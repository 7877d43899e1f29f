"""What the compiler costs, as multiples of what others cost for the same.

    python -m tools.bench compiler                 all sections
    python -m tools.bench compiler text passes --sizes 1000 10000 --json now.json
    python -m tools.bench compiler text --compare before.json --fail

Sections: text (build, parse, print, verify, module files), passes (the optimizing pipeline),
table (every pass alone), startup, models (real networks, against ONNX Runtime's optimizer and
other tools), chains (ONNX models that are one long chain or one wide op).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.support.tables import put, step
from tools.bench import figures
from tools.bench.rows import Absent, Rounds, Row

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "speed.md"

Section = Callable[[argparse.Namespace, Rounds], Iterator[Row]]


def _text(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    from tools.bench import text

    return text.rows(_cases("text", options, options.sizes), rounds)


def _passes(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    from tools.bench import passes

    return passes.rows(_cases("passes", options, options.sizes), rounds, _setting(options))


def _table(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    from tools.bench import passes

    small = [size for size in options.sizes if size <= options.table_size]
    return passes.table_rows(_cases("table", options, small), rounds, _setting(options))


def _startup(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    from tools.bench import startup

    return startup.rows(rounds)


def _models(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    try:
        from tools.bench import models
    except ImportError as error:
        raise Absent(f"{error}; pip install 'qdialect[bench]'") from None
    return models.rows(options.models or models.DEFAULT, options.configs, rounds)


def _chains(options: argparse.Namespace, rounds: Rounds) -> Iterator[Row]:
    from tools.bench import chains

    names = _named(options.cases, chains.NAMES) or chains.DEFAULT
    found = [chains.Chain(name, size) for name in names for size in options.sizes]
    return chains.rows(found, rounds, _setting(options))


SECTIONS: dict[str, Section] = {
    "text": _text,
    "passes": _passes,
    "table": _table,
    "startup": _startup,
    "models": _models,
    "chains": _chains,
}


def _cases(section: str, options: argparse.Namespace, sizes: Sequence[int]) -> list[Any]:
    from tools.bench.cases import DEFAULT, NAMES, Case

    names = _named(options.cases, NAMES) or DEFAULT[section]
    return [Case(name, size) for name in names for size in sizes]


def _named(cases: Sequence[str], known: Sequence[str]) -> list[str]:
    """Those of the cases that are asked for that a section knows."""
    return [case for case in cases if case in known]


def _setting(options: argparse.Namespace) -> Any:
    from tools.bench.passes import Setting

    return Setting(options.target, options.numerics)


def merged(known: Sequence[Row], new: Sequence[Row]) -> list[Row]:
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
                    print(figures.tables(case), end="\n\n", flush=True)
                    if options.json:
                        figures.write(options.json, merged(known, rows))
        except Absent as error:
            print(f"{name}: left out: {error}", file=sys.stderr)
    return rows


def arguments_parser() -> argparse.ArgumentParser:
    """The flags."""
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
    add("--repeat", type=int, default=5, help="rounds of everything")
    add("--seconds", type=float, default=20.0, help="after which no new round begins")
    add("--json", type=Path, help="write the figures to this file as well")
    add("--known", type=Path, nargs="+", default=[], help="figures of earlier runs to add")
    add("--compare", type=Path, help="figures of an earlier run: say what became worse")
    add("--document", type=Path, nargs="?", const=PAGE, help="put the tables into this page")
    add("--fail", action="store_true", help="exit code 1 if a ratio became worse")
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and write; 1 with --fail if something became worse."""
    parser = arguments_parser()
    options = parser.parse_args(arguments)
    _check(parser, options)
    known = [row for path in options.known for row in figures.load(path)["rows"]]
    rows = merged(known, measured(options, known))
    if options.json:
        figures.write(options.json, rows)
    if exponents := figures.growth_tables(rows):
        print(f"Growth: time ~ ops ** exponent\n\n{exponents}\n")
    worse = figures.report_changes(rows, options.compare) if options.compare else False
    if options.document:
        put(options.document, "bench", figures.page(rows))
    return 1 if worse and options.fail else 0


def _check(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    from tools.bench.cases import NAMES
    from tools.bench.chains import NAMES as CHAINS

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
