"""Networks that were quantized by others, brought to targets: `qopt optimize --numerics relaxed`.

By network and target: how near the result is to the input and to the float network, in dB over
samples that nothing was calibrated on, and how many ops are on codes that the target takes. Where
nothing has to be quantized again, bits may be the same. `pow2_accelerator`, `dsp16` and `npu24`
are in `tests/vendors`.

    python -m tools.bench.retarget --document docs/design/012-domains.md

Files of other quantizers (.onnx, .tflite, .pt2) are given by name: `mtcnn-onet.other.tflite` is
that network of the corpus, and one that is none is compared on drawn inputs.
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from math import inf, log10
from pathlib import Path
from typing import Any

import numpy as np

import qdialect as qd
from qdialect.interpreter import argument_names
from qdialect.ir.quant import quant_element
from qdialect.passes.importing.component_matching import as_float
from qdialect.targets.base import Target
from qdialect.targets.installed import get_target
from qdialect.workflows.inputs import drawn_inputs
from qdialect.workflows.interface_codes import InterfaceCodes
from qdialect.workflows.taken import taken_of
from qdialect.workflows.target_report import refused_ops
from qdialect.workflows.validation.translation import converted
from tests.support.tables import put, step
from tools.bench import corpus

VENDORS = ("pow2_accelerator", "dsp16", "npu24")
TARGETS = (*VENDORS, "qnn-htp", "tosa", "integer", "ethos-u55", "tensorrt", "cmsis-nn")
NETWORKS = (
    *("mtcnn-onet.u8s8", "squeezenet.u8s8_qop", "ocr-cls.u8s8_pc", "wake-word.s8s8"),
    "shufflenet.u8s8",
)
SAMPLES = 4

Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """One network for one target; an `error` is why there is no result."""

    network: str
    target: str
    taken: int = 0
    total: int = 0
    refused: int = 0
    db: float = 0.0
    float_db: float | None = None
    seconds: float = 0.0
    again: bool = False
    error: str = ""


def target_named(name: str) -> Target:
    """A target that is installed, or of `tests/vendors`."""
    if name not in VENDORS:
        return get_target(name)
    sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "vendors"))
    return import_module(name).TARGET


def answers(model: qd.Model, samples: Sequence[Arrays]) -> list[list[np.ndarray]]:
    """What a model gives for floats, in floats, whatever its interface is."""
    codes, kind, found = InterfaceCodes(model), model.function().function_type, []
    names = argument_names(model.function())
    for sample in samples:
        given = dict(codes.codes(sample))
        for name, to in zip(names, kind.inputs.data, strict=True):
            if quant_element(to) is not None and given[name].dtype.kind == "f":
                given[name] = converted(model.ctx, given[name], as_float(to), to)
        made = codes.floats(list(qd.run(model, given).values()))
        for place, (each, of) in enumerate(zip(made, kind.outputs.data, strict=True)):
            if quant_element(of) is not None and each.dtype.kind != "f":
                made[place] = converted(model.ctx, each, of, as_float(of))
        found.append([np.asarray(each, np.float64) for each in made])
    return found


def floats_of(model: qd.Model, samples: Sequence[Arrays]) -> list[Arrays]:
    """Inputs with what codes stand for."""
    function = model.function()
    types = zip(argument_names(function), function.function_type.inputs.data, strict=True)
    kinds = {name: kind for name, kind in types if quant_element(kind) is not None}
    return [
        {
            name: converted(model.ctx, array, kinds[name], as_float(kinds[name]))
            if name in kinds
            else array
            for name, array in sample.items()
        }
        for sample in samples
    ]


def decibel(expected: Sequence[Sequence[Any]], found: Sequence[Sequence[Any]]) -> float:
    """The signal over the noise of all outputs together."""
    signal = noise = 0.0
    for one, other in zip(expected, found, strict=True):
        for a, b in zip(one, other, strict=True):
            signal, noise = signal + float((a * a).sum()), noise + float(((a - b) ** 2).sum())
    return inf if noise == 0 else 10 * log10(signal / noise) if signal else -inf


def rows(network: str, targets: Sequence[str], calibration: int) -> list[Row]:
    """A network for some targets."""
    floats, path = None, Path(network)
    name, _, config = path.name.partition(".")
    source = corpus.SOURCES.get(name) if path.exists() else corpus.source_named(name)
    if source is not None and not path.exists():
        path = corpus.quantized_model(source, corpus.CONFIGS[config], calibration)
    model = qd.load(path)
    if source is None:
        samples = floats_of(model, drawn_inputs(model, SAMPLES))
    else:
        samples = source.samples(SAMPLES, 7)
        floats = answers(qd.load(corpus.float_model(source)), samples)
        # A file has names of its own.
        names = argument_names(model.function())
        samples = [dict(zip(names, each.values(), strict=True)) for each in samples]
    expected, found = answers(model, samples), []
    for name in targets:
        runs_on, began = target_named(name), time.perf_counter()
        with step(f"{network} {name}"):
            try:
                made = qd.optimize(model, runs_on, "relaxed")
                got = answers(made, samples)
            except qd.QError as error:
                found.append(Row(Path(network).name, name, error=error.message))
                continue
            seconds = time.perf_counter() - began
            taken = taken_of(made.module, made.ctx, runs_on)
            found.append(
                Row(
                    *(Path(network).name, name, taken.taken, taken.total),
                    len(refused_ops(made.module, made.ctx)),
                    decibel(expected, got),
                    None if floats is None else decibel(floats, got),
                    seconds,
                    bool(made.ctx.remarks.fired().get("regrid")),
                )
            )
            print(found[-1], file=sys.stderr)
    if floats is not None:
        near = decibel(floats, expected)
        found.insert(0, Row(Path(network).name, "input", float_db=near))
    return found


def table(found: Sequence[Row]) -> str:
    """By network and target: dB to the input, to the float network, and ops that are served."""
    names = list(dict.fromkeys(row.network for row in found))
    targets = [t for t in dict.fromkeys(row.target for row in found) if t != "input"]
    cells = {(row.network, row.target): row for row in found}
    lines = [f"| network | {' | '.join(targets)} |", "|---|" + "---|" * len(targets)]
    for name in names:
        given = cells.get((name, "input"))
        own = "" if given is None or given.float_db is None else f" ({given.float_db:.1f})"
        shown = [_cell(cells.get((name, target))) for target in targets]
        lines.append(f"| {name}{own} | {' | '.join(shown)} |")
    return "\n".join(lines)


def _cell(row: Row | None) -> str:
    if row is None or row.error:
        return "" if row is None else f"error: {row.error}"
    near = "bits" if row.db == inf else f"{row.db:.1f}"
    floats = "" if row.float_db is None else f" ({row.float_db:.1f})"
    refused = f", {row.refused} refused" if row.refused else ""
    return f"{near}{floats}, {row.taken}/{row.total}{refused}{'' if row.again else ' *'}"


def main(arguments: Sequence[str] | None = None) -> int:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--networks", nargs="+", default=list(NETWORKS))
    parser.add_argument("--targets", nargs="+", default=list(TARGETS))
    parser.add_argument("--calibration", type=int, default=16, help="samples of the quantizer")
    parser.add_argument("--json", type=Path, help="write the figures there, and go on from them")
    parser.add_argument("--document", type=Path, help="put the table there, between its marks")
    options = parser.parse_args(arguments)
    found: list[Row] = []
    if options.json is not None and options.json.exists():
        found = [Row(**each) for each in json.loads(options.json.read_text())]
    known = {row.network for row in found}
    for network in options.networks:
        if Path(network).name in known:
            continue
        found += rows(network, options.targets, options.calibration)
        if options.json is not None:
            options.json.write_text(json.dumps([asdict(row) for row in found], indent=1))
    text = table(found)
    print(text)
    if options.document is not None:
        put(options.document, "retarget", text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
