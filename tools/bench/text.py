"""`text`: building, reading, printing and verifying, against stock xDSL and mlir-opt.

Ours and stock xDSL's read and print the same text, custom and generic. What mlir-opt 22 takes for
the generic text, without its start, is divided as `--mlir-timing` says; its reader verifies as it
reads. MLIR bytecode (`.mlirbc`) is compared with our own text.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from io import StringIO
from pathlib import Path

from xdsl.parser import Parser
from xdsl.printer import Printer

from qdialect.ir.context import new_context
from qdialect.ir.verify.verifier import verify_module
from qdialect.plugins.mlir.read import bytecode_module, read_module
from qdialect.plugins.mlir.write import bytecode, module_text
from tools.bench.cases import Case, count
from tools.bench.rows import FAINT, Rounds, Row, Spread, alone, growth_of_peak, in_turns, ratios
from tools.bench.startup import used

SECTION = "text"
XDSL, MLIR_OPT = "stock xDSL", "mlir-opt"
BASELINES = {"xdsl": XDSL, "verify": "stock verify", "text": "our text"}


def mlir_opt() -> str | None:
    """Where mlir-opt is."""
    return os.environ.get("QDIALECT_MLIR_OPT") or shutil.which("mlir-opt")


def mlir_times(path: Path) -> tuple[float, float] | None:
    """Processor time that mlir-opt takes to read a file and to print it, in seconds.

    That of the process beyond what an empty module takes, divided as mlir-opt says that its
    time on the clock was.
    """
    command = mlir_opt()
    if command is None:
        return None
    flags = ("--allow-unregistered-dialect", "--mlir-disable-threading", "--mlir-timing")
    arguments = [command, *flags, "--mlir-timing-display=list", "-o", os.devnull]
    start, _ = used([*arguments, os.devnull])
    whole, report = used([*arguments, str(path)])
    said = {name: float(s) for s, name in re.findall(r"(\S+) \([ .\d]+%\)\s+(\w+)", report)}
    shares = said["Parser"], said["Output"]
    reading, printing = (max(whole - start, 0.0) * share / sum(shares) for share in shares)
    return reading, printing


def _stock_text(module: object, generic: bool) -> str:
    stream = StringIO()
    Printer(stream, print_generic_format=generic).print_op(module)  # type: ignore[arg-type]
    return stream.getvalue()


def measured(case: Case, rounds: Rounds) -> list[Row]:
    """All times on one graph."""
    ctx = new_context()
    module = case.build()
    ops = count(module)
    text, generic = module_text(module, ctx), module_text(module, ctx, generic=True)
    data = b"".join(bytes(piece) for piece in bytecode(module, ctx))
    rows: list[Row] = []

    def row(name: str, times: Sequence[float], **theirs: Sequence[float]) -> None:
        against = ratios(times, {BASELINES[what]: other for what, other in theirs.items()})
        rows.append(Row(SECTION, case.name, case.size, name, Spread.of(times), ops, against))

    times = in_turns(
        {
            "build": lambda: case.build(),
            "verify": lambda: verify_module(module),
            "stock": lambda: module.verify(),
        },
        rounds,
    )
    row("build", times["build"], verify=times["stock"])
    row("verify", times["verify"], xdsl=times["stock"])
    times = in_turns(
        {
            "ours": lambda: module_text(module, ctx),
            "stock": lambda: _stock_text(module, False),
            "write": lambda: bytecode(module, ctx),
        },
        rounds,
    )
    row("print", times["ours"], xdsl=times["stock"])
    row("write .mlirbc", times["write"], text=times["ours"], xdsl=times["stock"])
    times = in_turns(
        {
            "ours": lambda: read_module(text, new_context()),
            "stock": lambda: Parser(new_context(), text).parse_module(),
            "read": lambda: bytecode_module(data, new_context(), "module"),
        },
        rounds,
    )
    row("parse", times["ours"], xdsl=times["stock"])
    row("read .mlirbc", times["read"], text=times["ours"], xdsl=times["stock"])
    rows += _generic(case, ops, generic, rounds)
    return rows


def _generic(case: Case, ops: int, text: str, rounds: Rounds) -> Iterator[Row]:
    """Reading and printing the generic form; mlir-opt in the same rounds."""
    ctx = new_context()
    module = read_module(text, ctx)
    # To mlir-opt our ops are unknown, which it does not allow in its own dialect.
    known = module_text(module, ctx, generic=True, text_version="v22")
    known = known.replace('"quant.rescale"', '"quant_rescale"')
    names = ("parse", "parse stock", "print", "print stock")
    works = (
        lambda: read_module(text, new_context()),
        lambda: Parser(new_context(), text).parse_module(),
        lambda: module_text(module, ctx, generic=True),
        lambda: _stock_text(module, True),
    )
    times: dict[str, list[float]] = {name: [] for name in names}
    theirs: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "graph.mlir"
        path.write_text(known, encoding="utf-8")
        for _ in rounds:
            for name, found in in_turns(dict(zip(names, works, strict=True)), Rounds(1, 0)).items():
                times[name] += found
            if (said := mlir_times(path)) is not None:
                theirs.append(said)
    for index, name in enumerate(("parse", "print")):
        others = {XDSL: times[f"{name} stock"]}
        said = [both[index] for both in theirs]
        note = "" if said else "no mlir-opt here (QDIALECT_MLIR_OPT)"
        if said and min(said) < FAINT:
            note = "too little for mlir-opt's time to be seen"
        elif said:
            others[MLIR_OPT] = said
        against, value = ratios(times[name], others), Spread.of(times[name])
        yield Row(SECTION, case.name, case.size, f"{name} generic", value, ops, against, note=note)


def memory(case: Case, text: str, reader: str) -> int:
    """What reading a text takes, in bytes; to be called in a process of its own."""
    if reader == XDSL:
        return growth_of_peak(lambda: Parser(new_context(), text).parse_module())
    return growth_of_peak(lambda: read_module(text, new_context()))


def rows(cases: Sequence[Case], rounds: Rounds) -> Iterator[Row]:
    """Everything about every case."""
    for case in cases:
        yield from alone(measured, case, rounds)
        module = case.build()
        text, ops = module_text(module, new_context()), count(module)
        del module
        ours, stock = (Spread.of([alone(memory, case, text, who)]) for who in ("ours", XDSL))
        against = {XDSL: Spread.of([ours.median / max(stock.median, 1)])}
        yield Row(SECTION, case.name, case.size, "parse, memory", ours, ops, against, "bytes")
