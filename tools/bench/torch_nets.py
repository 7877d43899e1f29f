"""Networks of PyTorch, quantized by PT2E, in every engine.

A network in floats is exported, prepared by a quantizer of torchao, calibrated, converted and
exported again.  That program is run by PyTorch itself (eager, and compiled by inductor with
frozen weights), as `torch.onnx.export` writes it in ONNX Runtime, and as `qopt optimize` writes
it at each level; the float network beside it.  All run in turns in one process, on one thread;
ratios are medians over turns.  Scores are those of each network's own task, on samples that were
not calibrated on.  "Codes" are the stored integers of all quantizes of activations, in our
interpreter and in PyTorch's.

    python -m tools.bench torch --nets mobilenetv2 minilm --quantizers x86 --json torch.json
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch.fx import Interpreter, Node

import qdialect as qd
from qdialect.errors import QError
from qdialect.interpreter.machine import argument_names
from qdialect.plugins.onnx.write.executed import Executed, optimized_engine
from qdialect.workflows.optimize_file import FileOptimization
from tests.support.tables import put, step, table
from tools.bench.torch_models import NETS, Array, Inputs, Net, Sample

LEVELS = ("default", "ties", "relaxed")
"""Of `qopt optimize`; the default is exact but for quantizes: they divide where PyTorch multiplies
by a rounded reciprocal."""
QUANTIZERS = ("x86", "xnnpack")
CALIBRATION_SEED, EVALUATION_SEED = 1, 2
FEWEST = 15
"""Turns of engines, however slow they are."""

Engine = Callable[[Inputs], Sequence[Array]]


@dataclass
class Measured:
    """One engine on one program."""

    ms: float = 0.0
    score: float = 0.0
    why: str = ""
    """Why there are no figures."""
    nodes: int = 0
    floats: str = ""
    casts: int = 0
    seconds: float = 0.0
    """To make the file, or to compile."""


@dataclass
class Row:
    """One network and quantizer; `ratios` are of ours to others, by names of both."""

    net: str
    quantizer: str
    engines: dict[str, Measured] = field(default_factory=dict)
    ratios: dict[str, float] = field(default_factory=dict)
    codes: int = 0
    differing: int = 0
    largest: int = 0
    why: str = ""


# -- programs --------------------------------------------------------------------------------


def _quantizer(name: str) -> Any:
    if name == "x86":
        from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

        return x86.X86InductorQuantizer().set_global(
            x86.get_default_x86_inductor_quantization_config()
        )
    from torchao.testing.pt2e import _xnnpack_quantizer as xnnpack

    return xnnpack.XNNPACKQuantizer().set_global(
        xnnpack.get_symmetric_quantization_config(is_per_channel=True)
    )


def exported(module: torch.nn.Module, inputs: Inputs) -> Any:
    """The float program."""
    return torch.export.export(module.eval(), inputs)


def quantized(module: torch.nn.Module, samples: Sequence[Sample], quantizer: str) -> Any:
    """The program that a quantizer makes of a network, calibrated on samples."""
    from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

    inputs = samples[0].inputs
    prepared = prepare_pt2e(exported(module, inputs).module(), _quantizer(quantizer))
    with torch.no_grad():
        for sample in samples:
            prepared(*sample.inputs)
    return torch.export.export(convert_pt2e(prepared), inputs)


# -- engines -----------------------------------------------------------------------------------


def _of_torch(module: Callable[..., Any]) -> Engine:
    def run(inputs: Inputs) -> Sequence[Array]:
        with torch.no_grad():
            outputs = module(*inputs)
        outputs = outputs if isinstance(outputs, tuple | list) else (outputs,)
        return [output.numpy() for output in outputs]

    return run


def _of_file(path: Path) -> tuple[Engine, Executed]:
    engine, executed = optimized_engine(path)

    def run(inputs: Inputs) -> Sequence[Array]:
        pairs = zip(engine.inputs, inputs, strict=True)
        return list(engine.run({name: tensor.numpy() for name, tensor in pairs}).values())

    return run, executed


def compiled(program: Any, inputs: Inputs) -> Engine:
    """By inductor, with weights that are constants, as PyTorch's tutorial on PT2E has it; with
    weights that are not where that fails (it has kernels for uint8 activations only)."""
    import torch._inductor.config as settings

    for settings.freezing in (True, False):
        torch._dynamo.reset()
        run = _of_torch(torch.compile(program.module()))
        try:
            run(inputs)
        except Exception:
            if not settings.freezing:
                raise
        else:
            break
    return run


def written_by_torch(program: Any, inputs: Inputs, path: Path) -> None:
    """`torch.onnx.export` of it."""
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing), redirect_stderr(nothing):
        made = torch.onnx.export(program, inputs, dynamo=True, verbose=False)
    assert made is not None
    made.save(str(path))


def written_by_us(source: Path, path: Path, level: str) -> None:
    """What `qopt optimize` writes, with `--numerics LEVEL` unless that is the default."""
    numerics = None if level == "default" else level
    target = qd.get_target("onnxruntime")
    work = FileOptimization(source, path, target, numerics, samples=1, seconds=1)
    work.run()
    if work.dropped:
        print(*(f"{source.stem}: left out {each}" for each in work.dropped), file=sys.stderr)


def _makers(
    net: Net, programs: Mapping[str, Any], name: str, inputs: Inputs, folder: Path
) -> dict[str, Callable[[], tuple[Engine, Executed | None]]]:
    """How each engine is made, by its name."""
    program, floats = programs[name], programs["float"]

    def exporter(what: Any, path: Path) -> tuple[Engine, Executed]:
        written_by_torch(what, inputs, path)
        return _of_file(path)

    def ours(level: str) -> tuple[Engine, Executed]:
        source, path = folder / f"{net.name}-{name}.pt2", folder / f"{net.name}-{name}-{level}.onnx"
        if not source.exists():
            torch.export.save(program, source)
        written_by_us(source, path, level)
        return _of_file(path)

    def by_level(level: str) -> Callable[[], tuple[Engine, Executed]]:
        return lambda: ours(level)

    return {
        "float eager": lambda: (_of_torch(floats.module()), None),
        "float inductor": lambda: (compiled(floats, inputs), None),
        "float ort": lambda: exporter(floats, folder / "float.onnx"),
        "eager": lambda: (_of_torch(program.module()), None),
        "inductor": lambda: (compiled(program, inputs), None),
        "torch.onnx": lambda: exporter(program, folder / "exported.onnx"),
        **{f"ours {level}": by_level(level) for level in LEVELS},
    }


def said(error: Exception) -> str:
    """An error in a line."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    text = error.message if isinstance(error, QError) else lines[0] if lines else ""
    return f"{type(error).__name__}: {text}"[:200]


def in_turns(engines: Mapping[str, Engine], inputs: Inputs, seconds: float) -> dict[str, Array]:
    """Milliseconds of processor time of each engine, turn by turn."""
    random = np.random.default_rng(0)
    times: dict[str, list[float]] = {name: [] for name in engines}
    names, began, turn = list(engines), time.monotonic(), 0
    while turn < FEWEST or time.monotonic() - began < seconds:
        for index in random.permutation(len(names)):
            start = time.thread_time()
            engines[names[index]](inputs)
            times[names[index]].append(1e3 * (time.thread_time() - start))
        turn += 1
    return {name: np.array(laps) for name, laps in times.items()}


# -- codes -------------------------------------------------------------------------------------


class _Recorder(Interpreter):
    """PyTorch's own interpreter of a graph, which keeps what quantizes give."""

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.codes: dict[str, Array] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if "quantized_decomposed.quantize_per_tensor" in str(n.target):
            self.codes[n.name] = result.numpy().copy()
        return result


def differing_codes(program: Any, inputs: Inputs) -> tuple[int, int, int]:
    """How many codes of activations there are, how many differ between our interpreter and
    PyTorch's, and by how many steps at most.

    What reads codes is given those of PyTorch, so that each quantize is judged by itself: one
    that is on the other side of a tie would else change everything behind it.
    """
    from qdialect.plugins.torch.live import read_exported
    from qdialect.plugins.torch.program import Input, Output, Ref
    from qdialect.plugins.torch.read import import_program

    recorder = _Recorder(program.module())
    with torch.no_grad():
        recorder.run(*inputs)
    plain, ctx = read_exported(program), qd.QContext()
    codes = recorder.codes
    if not codes:
        return 0, 0, 0
    for node in plain.graph.nodes:
        for key, value in node.arguments.items():
            if isinstance(value, Ref) and value.name in codes:
                cast("dict[str, Any]", node.arguments)[key] = Ref(f"{value.name}_given")
    for name in codes:
        given = f"{name}_given"
        plain.inputs.append(Input("input", given, given))
        plain.graph.inputs.append(Ref(given))
        plain.graph.tensors[given] = plain.graph.tensors[name]
        plain.outputs.append(Output("output", Ref(name), name))
        plain.graph.outputs.append(Ref(name))
    model = qd.Model(import_program(plain, ctx), ctx)
    fed = [*(tensor.numpy() for tensor in inputs), *codes.values()]
    feeds = dict(zip(argument_names(model.function()), fed, strict=True))
    found = list(qd.run(model, feeds).values())[-len(codes) :]
    apart = [
        np.abs(ours.astype(np.int64) - theirs.astype(np.int64))
        for ours, theirs in zip(found, codes.values(), strict=True)
    ]
    return (
        sum(each.size for each in apart),
        sum(int(np.count_nonzero(each)) for each in apart),
        max((int(each.max()) for each in apart if each.size), default=0),
    )


# -- rows ----------------------------------------------------------------------------------------


def measured(net: Net, quantizers: Sequence[str], options: argparse.Namespace) -> Iterator[Row]:
    """All about one network, row by row."""
    torch.manual_seed(0)
    module = net.module().eval()
    calibration = net.samples(options.calibration, CALIBRATION_SEED)
    samples = net.samples(options.samples, EVALUATION_SEED)
    programs: dict[str, Any] = {"float": exported(module, samples[0].inputs)}
    floats: dict[str, Any] = {}
    for quantizer in quantizers:
        with step(f"{net.name} {quantizer}"):
            row = Row(net.name, quantizer)
            try:
                programs[quantizer] = quantized(module, calibration, quantizer)
            except Exception as error:  # whatever a quantizer cannot do
                row.why = said(error)
                yield row
                continue
            _fill(row, net, programs, floats, samples, options)
        yield row


def _fill(
    row: Row,
    net: Net,
    programs: Mapping[str, Any],
    floats: dict[str, Any],
    samples: list[Sample],
    options: argparse.Namespace,
) -> None:
    """Engines, scores and times of one row; `floats` are engines of the float network, which all
    rows share."""
    inputs, engines = samples[0].inputs, {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        makers = _makers(net, programs, row.quantizer, inputs, folder)
        for name, make in makers.items():
            if name in options.without:
                continue
            if name in floats:
                row.engines[name], engines[name] = replace(floats[name][0]), floats[name][1]
                continue
            found = row.engines[name] = Measured()
            began = time.perf_counter()
            try:
                engine, executed = make()
                found.seconds = round(time.perf_counter() - began, 2)
                outputs = [engine(sample.inputs) for sample in samples]
            except Exception as error:  # each engine has its own
                found.why = said(error)
                continue
            found.score = net.score(outputs, [sample.label for sample in samples])
            if executed is not None:
                found.nodes, found.casts = executed.nodes, executed.casts
                found.floats = executed.kinds()
            engines[name] = engine
            if name.startswith("float"):
                floats[name] = found, engine
        laps = in_turns(engines, inputs, options.seconds)
        for name, times in laps.items():
            row.engines[name].ms = round(float(np.median(times)), 3)
        for level in LEVELS:
            for other in ("inductor", "torch.onnx", "float ort", "float inductor", "float eager"):
                mine = f"ours {level}"
                if mine in laps and other in laps:
                    ratio = float(np.median(laps[mine] / laps[other]))
                    row.ratios[f"{level}/{other}"] = round(ratio, 3)
        try:
            row.codes, row.differing, row.largest = differing_codes(programs[row.quantizer], inputs)
        except Exception as error:  # so that the other figures stand
            row.why = f"codes: {said(error)}"


def _times(rows: Sequence[Row]) -> str:
    names = ("float eager", "float inductor", "float ort", "inductor", "torch.onnx")
    ours = tuple(f"ours {level}" for level in LEVELS)

    def cell(found: Measured | None) -> str:
        return "" if found is None else "fails" if found.why else f"{found.ms:.2f}"

    header = ("network", "quantizer", *names, *ours, "to inductor", "to torch.onnx", "to float ort")
    lines = []
    for row in rows:
        last = [
            row.ratios.get(f"default/{other}") for other in ("inductor", "torch.onnx", "float ort")
        ]
        lines.append(
            (
                row.net,
                row.quantizer,
                *(cell(row.engines.get(name)) for name in (*names, *ours)),
                *("" if ratio is None else f"{ratio:.2f}" for ratio in last),
            )
        )
    return table(header, lines)


def _scores(rows: Sequence[Row]) -> str:
    names = ("float eager", "eager", "inductor", "torch.onnx", *(f"ours {v}" for v in LEVELS))

    def cell(found: Measured | None) -> str:
        return "" if found is None or found.why else f"{found.score:.4f}"

    header = ("network", "quantizer", "task", *names, "codes", "differing")
    lines = [
        (
            row.net,
            row.quantizer,
            NETS[row.net].measures,
            *(cell(row.engines.get(name)) for name in names),
            str(row.codes),
            f"{row.differing}" + (f" (by up to {row.largest})" if row.differing else ""),
        )
        for row in rows
    ]
    return table(header, lines)


def _counts(rows: Sequence[Row]) -> str:
    lines = [
        (
            f"{row.net} {row.quantizer}",
            name,
            str(found.nodes),
            str(found.casts),
            found.floats or "none",
        )
        for row in rows
        for name in ("torch.onnx", "ours default")
        if (found := row.engines.get(name)) is not None and not found.why
    ]
    return table(("network", "file of", "nodes run", "casts", "with float results"), lines)


def _failures(rows: Sequence[Row]) -> str:
    lines = [
        f"- {row.net}, {row.quantizer}, {name}: {found.why}"
        for row in rows
        for name, found in (*row.engines.items(), ("all", Measured(why=row.why)))
        if found.why
    ]
    return "\n".join(lines)


def report(rows: Sequence[Row]) -> str:
    """The tables."""
    kinds = [
        (net.name, net.kind, net.wheel, net.measures)
        for net in NETS.values()
        if any(row.net == net.name for row in rows)
    ]
    parts = [
        table(("network", "from what to what", "wheel", "task"), kinds),
        _times(rows),
        _scores(rows),
        _counts(rows),
        _failures(rows),
    ]
    return "\n\n".join(part for part in parts if part)


def main(arguments: Sequence[str] | None = None) -> int:
    """The tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nets", nargs="+", choices=NETS, default=list(NETS))
    parser.add_argument("--quantizers", nargs="+", choices=QUANTIZERS, default=list(QUANTIZERS))
    parser.add_argument("--calibration", type=int, default=16, help="samples (default: 16)")
    parser.add_argument("--samples", type=int, default=64, help="of the task (default: 64)")
    parser.add_argument("--seconds", type=float, default=10, help="of turns (default: 10)")
    parser.add_argument("--without", nargs="+", default=[], help="engines to leave out")
    parser.add_argument("--keep", type=Path, help="keep the programs and files there")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--known", type=Path, help="figures to add rows of")
    parser.add_argument("--document", type=Path, help="put the tables there, between marks")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    rows: list[Row] = []
    if options.known is not None:
        for entry in json.loads(options.known.read_text()):
            engines = {name: Measured(**found) for name, found in entry.pop("engines").items()}
            rows.append(Row(engines=engines, **entry))
    for name in options.nets:
        if any(row.net == name for row in rows):
            continue
        for row in measured(NETS[name], options.quantizers, options):
            rows.append(row)
            if options.json is not None:
                options.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    print(report(rows))
    if options.document is not None:
        put(options.document, "torch_networks", report(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
