"""Where LiteRT's three sets of kernels disagree, what XNNPACK leaves out, and what files take.

Of every builtin op some random models run in all three (`tests.support.tflite_cases`), and every
file of FOLDER, on random codes: the share of elements of outputs on codes that differ between two
of them, and by how many steps at most.  Of files also the ops that XNNPACK does not take, why not,
the latency in each, and what the price table of target `litert` says of the default one.

    python -m tools.bench litert-resolvers FOLDER --json r.json --document docs/reference/litert.md
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import combinations
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from qdialect.errors import QError
from qdialect.plugins.tflite.engine import InChild, loadable, new_child
from qdialect.plugins.tflite.file.model import File, Operator, Subgraph
from qdialect.plugins.tflite.file.read import read_file
from qdialect.targets.price_table import shipped_prices
from tests.support.model_inputs import random_arrays
from tests.support.tables import put, step, table
from tools.bench.litert_works import predicted

ENGINES = ("litert-ref", "litert-opt", "litert-xnn")
PAIRS = tuple(combinations(ENGINES, 2))
SEEDS = 8
EXTENTS = (1, 2, 16, 128, 1280)
"""What extents that a file leaves open are tried as."""
_MOST = 1 << 22
"""Elements of an input that are too many."""
_CODES = "iu"


@dataclass
class Found:
    """Of a model: outputs compared by pair (elements, differing, steps), engines that refuse it
    and why, ops and those that XNNPACK runs, ops that it leaves, milliseconds by engine."""

    name: str
    kind: str = ""
    elements: int = 0
    differing: dict[str, int] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    ops: int = 0
    delegated: int = 0
    left: dict[str, int] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)
    predicted: float = 0.0
    unpriced: list[str] = field(default_factory=list)


# -- one op -------------------------------------------------------------------------------


def ops_apart(seeds: int) -> list[Found]:
    """Every op of the cases on each kind of codes."""
    from tests.support.tflite_cases import CASES, KINDS, Maker

    children = {engine: new_child(engine) for engine in ENGINES}
    found: list[Found] = []
    for name, make in CASES.items():
        for kind in KINDS:
            entry = Found(name, kind)
            for seed in range(seeds):
                try:
                    case = make(Maker(np.random.default_rng(seed), kind))
                except (ValueError, KeyError, AssertionError):
                    case = None
                if case is None:
                    break
                outputs = _run_all(entry, case.data, case.inputs, children)
                _compare(entry, outputs)
            if entry.elements or entry.refused:
                found.append(entry)
    return found


def _run_all(
    entry: Found, data: Any, inputs: Sequence[Any] | None, children: dict[str, Any]
) -> dict[str, list[np.ndarray]]:
    outputs: dict[str, list[np.ndarray]] = {}
    for engine in ENGINES:
        if not children[engine].alive:
            children[engine] = new_child(engine)
        try:
            model = InChild(data, engine, child=children[engine])
            arrays = random_arrays(model.inputs) if inputs is None else inputs
            outputs[engine] = model.run([np.asarray(a) for a in arrays])
            if engine == "litert-xnn" and (nodes := model.nodes()):
                entry.ops, entry.delegated = len(nodes), sum(n.delegated for n in nodes)
            model.close()
        except QError as error:
            entry.refused.setdefault(engine, error.message)
    return outputs


def _compare(entry: Found, outputs: dict[str, list[np.ndarray]]) -> None:
    """Count elements that differ; floats where there are no codes, in no steps."""
    counted = False
    for a, b in PAIRS:
        if a not in outputs or b not in outputs:
            continue
        key = f"{a[7:]}-{b[7:]}"
        for one, other in zip(outputs[a], outputs[b], strict=True):
            if one.shape != other.shape:
                continue
            same = (one == other) | (one != one) & (other != other)
            entry.differing[key] = entry.differing.get(key, 0) + int((~same).sum())
            if one.dtype.kind in _CODES and one.size:
                apart = np.abs(one.astype(np.int64) - other.astype(np.int64)).max()
                entry.steps[key] = max(entry.steps.get(key, 0), int(apart))
        if not counted:
            entry.elements += sum(array.size for array in outputs[a])
            counted = True


# -- files --------------------------------------------------------------------------------


def files_apart(folder: Path, runs: int) -> list[Found]:
    """Every file of a folder."""
    found: list[Found] = []
    for path in sorted((*folder.rglob("*.tflite"), *folder.rglob("*.circle"))):
        with step(path.name):
            found.append(_file(path, runs))
    return found


def _file(path: Path, runs: int) -> Found:
    entry, outputs = Found(path.stem), {}
    try:
        file: File | None = read_file(path)
    except QError:
        file = None
    for engine in ENGINES:
        try:
            model = InChild(loadable(path), engine, name=path.name)
            arrays = _arrays(model)
            outputs[engine] = model.run(arrays)
            times = model.nanoseconds(warm=2, runs=3 if engine == "litert-ref" else runs)
            entry.milliseconds[engine] = median(times) / 1e6
            if engine == "litert-xnn" and (nodes := model.nodes()):
                entry.ops, entry.delegated = len(nodes), sum(n.delegated for n in nodes)
                if file is not None:
                    flags = [node.delegated for node in nodes]
                    entry.left = dict(_left(file.subgraphs[0], flags))
                    if not any(-1 in port.signature for port in model.inputs):
                        total, unknown = predicted(file, shipped_prices("litert"), flags)
                        entry.predicted, entry.unpriced = total / 1e6, sorted(unknown)
            model.child.close()
        except QError as error:
            entry.refused[engine] = error.message
    _compare(entry, outputs)
    kinds = {array.dtype.name for arrays in outputs.values() for array in arrays}
    entry.kind = ", ".join(sorted(kinds))
    return entry


def _arrays(model: InChild) -> list[np.ndarray]:
    """Random inputs, with the first extents that LiteRT runs."""
    last: QError | None = None
    for extent in EXTENTS:
        sizes = [math.prod(extent if n == -1 else n for n in p.signature) for p in model.inputs]
        if extent > 1 and max(sizes, default=0) > _MOST:
            break
        arrays = random_arrays(model.inputs, extent=extent)
        try:
            model.run(arrays)
        except QError as error:
            last = error
            if not any(-1 in port.signature for port in model.inputs):
                break
        else:
            return arrays
    assert last is not None
    raise last


_ON_CODES = frozenset(
    {
        *("AVERAGE_POOL_2D", "SOFTMAX", "HARD_SWISH", "MAXIMUM", "MINIMUM", "PRELU", "RELU"),
        *("RELU6", "RELU_0_TO_1", "GELU", "EXP", "ABS", "RSQRT", "SQUARED_DIFFERENCE", "POW"),
    }
)
_STATE = frozenset({"VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE", "IF", "WHILE"})


def _left(graph: Subgraph, delegated: Sequence[bool]) -> Counter[str]:
    """Ops that XNNPACK does not take, each with what may be the reason."""
    found: Counter[str] = Counter()
    for op, taken in zip(graph.operators, delegated, strict=False):
        if not taken:
            found[f"{op.op}: {reason(graph, op)}"] += 1
    return found


def reason(graph: Subgraph, op: Operator) -> str:
    """What of an op XNNPACK has no kernel for, as far as its types and options tell."""
    types = [graph.tensors[n].type for n in (*op.inputs, *op.outputs) if n >= 0]
    first = types[0] if types else ""
    if op.op == "TRANSPOSE_CONV":
        first = graph.tensors[op.inputs[2]].type
    qparams = [graph.tensors[n].quantization for n in (*op.inputs, *op.outputs) if n >= 0]
    if op.op in _STATE:
        return "state or control flow"
    if "INT16" in types:
        return "codes of 16 bits"
    if op.op == "STRIDED_SLICE":
        steps = graph.tensors[op.inputs[3]].data
        if steps is None or (np.asarray(steps) != 1).any():
            return "steps other than 1"
    if "INT4" in types:
        return "weights of 4 bits"
    if first == "FLOAT32" and "INT8" in types and op.op not in ("QUANTIZE", "DEQUANTIZE"):
        return "floats with weights of 8 bits"
    if first in ("INT8", "UINT8") and op.op in _ON_CODES:
        return "no kernel on codes"
    if op.op == "BATCH_MATMUL" and (b := qparams[1]) is not None and b.zero_points.any():
        return "a zero point of the second operand"
    scaled = [q for q in qparams if q is not None and len(q.scales)]
    if op.op in ("ADD", "SUB") and len(scaled) == len(qparams):
        a, b, y = (float(q.scales[0]) for q in scaled)
        return f"ratios of scales {a / y:.3g}, {b / y:.3g}"
    if op.op == "QUANTIZE":
        scales = [graph.tensors[n].quantization for n in (op.inputs[0], op.outputs[0])]
        if scales[0] is not None and scales[1] is not None:
            if not len(scales[0].scales) or not len(scales[1].scales):
                return "no scale"
            ratio = float(scales[0].scales[0] / scales[1].scales[0])
            return f"ratio of scales {ratio:.3g}, {types[0]} to {types[1]}".lower()
    if (
        len(op.inputs) > 1
        and graph.tensors[op.inputs[1]].data is None
        and _made_of(graph, op) == "INT4"
    ):
        return "weights of 4 bits behind a DEQUANTIZE"
    if first in ("INT32", "INT64", "BOOL"):
        return f"on {first.lower()}"
    return f"no kernel ({first.lower()})"


def _made_of(graph: Subgraph, op: Operator) -> str:
    """The type of the constant that the weights of an op are dequantized from."""
    for maker in graph.operators:
        if maker.op == "DEQUANTIZE" and op.inputs[1] in maker.outputs:
            return graph.tensors[maker.inputs[0]].type
    return ""


# -- tables -------------------------------------------------------------------------------


def _share(entry: Found, key: str) -> str:
    if key not in entry.differing:
        return "-"
    count = entry.differing[key]
    if not count:
        return "0"
    part = 100 * count / max(entry.elements, 1)
    share = f"{part:.3g} %" if part >= 10 else f"{part:.2g} %"
    return f"{share}, {entry.steps[key]:g}" if key in entry.steps else share


def op_table(found: Sequence[Found]) -> str:
    """Ops whose codes differ, or that not all take."""
    keys = [f"{a[7:]}-{b[7:]}" for a, b in PAIRS]
    rows = [
        (
            f"{entry.name} {entry.kind}",
            str(entry.elements),
            *(_share(entry, key) for key in keys),
            "yes" if entry.ops and entry.delegated == entry.ops else "",
            ", ".join(engine[7:] for engine in entry.refused),
        )
        for entry in found
        if entry.kind != "f32" and (any(entry.differing.values()) or entry.refused)
    ]
    header = ("op, codes", "elements", *keys, "XNNPACK", "some refused by")
    return table(header, rows)


def same_everywhere(found: Sequence[Found]) -> str:
    """Ops on codes that are the same in all three."""
    same = [
        f"{entry.name} ({entry.kind})"
        for entry in found
        if entry.kind != "f32" and entry.elements and not entry.refused
        if not any(entry.differing.values()) and len(entry.differing) == len(PAIRS)
    ]
    return f"The same in all three, all elements: {', '.join(same)}."


def file_table(found: Sequence[Found]) -> str:
    """Files: what differs, and what they take."""
    keys = [f"{a[7:]}-{b[7:]}" for a, b in PAIRS]
    rows = [
        (
            entry.name,
            entry.kind,
            f"{entry.delegated}/{entry.ops}" if entry.ops else "-",
            *(_share(entry, key) for key in keys),
            *(
                f"{entry.milliseconds[e]:.3g}" if e in entry.milliseconds else "-"
                for e in ENGINES[::-1]
            ),
            "-" if not entry.predicted or entry.unpriced else f"{entry.predicted:.3g}",
        )
        for entry in found
    ]
    times = ("xnn ms", "opt ms", "ref ms", "xnn by prices")
    return table(("file", "outputs", "in XNNPACK", *keys, *times), rows)


def left_table(found: Sequence[Found]) -> str:
    """Ops that XNNPACK leaves out, over all files."""
    total: Counter[str] = Counter()
    files: Counter[str] = Counter()
    for entry in found:
        total.update(entry.left)
        files.update(entry.left.keys())
    rows = [
        (*text.split(": ", 1), str(count), str(files[text]))
        for text, count in sorted(total.items(), key=lambda item: (-item[1], item[0]))
    ]
    return table(("op", "why", "ops", "files"), [(a, b, c, d) for a, b, c, d in rows])


def price_line(found: Sequence[Found]) -> str:
    """How near the sum of prices is to what files take."""
    ratios = [
        math.log(entry.predicted / entry.milliseconds["litert-xnn"])
        for entry in found
        if entry.predicted and not entry.unpriced and "litert-xnn" in entry.milliseconds
    ]
    if not ratios:
        return "No file was priced."
    mean = math.exp(sum(ratios) / len(ratios))
    error = math.exp(sum(map(abs, ratios)) / len(ratios))
    worst = math.exp(max(map(abs, ratios)))
    return (
        f"Of {len(ratios)} files of which every op has a price, the sum of prices over the "
        f"measured latency is {mean:.2f} in the geometric mean; it is off by a factor of "
        f"{error:.2f} in the geometric mean, {worst:.1f} at worst."
    )


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="tools.bench litert-resolvers", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="of .tflite files")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="models of each op")
    parser.add_argument("--runs", type=int, default=15, help="how often each file is timed")
    parser.add_argument("--json", type=Path, help="write what was found")
    parser.add_argument("--document", type=Path, help="put the tables into a page")
    options = parser.parse_args(arguments)
    with step("ops"):
        ops = ops_apart(options.seeds)
    files = files_apart(options.folder, options.runs) if options.folder else []
    texts = {
        "litert_ops_apart": f"{op_table(ops)}\n\n{same_everywhere(ops)}",
        "litert_files_apart": f"{file_table(files)}\n\n{price_line(files)}" if files else "",
        "litert_left": left_table(files) if files else "",
    }
    if options.json:
        tables = {"ops": [asdict(e) for e in ops], "files": [asdict(e) for e in files]}
        options.json.write_text(json.dumps(tables, indent=1))
    for name, text in texts.items():
        print(text)
        if options.document and text:
            put(options.document, name, text)
    return 0
