"""An index of a folder of .tflite and .circle files: what is in each, and which LiteRT runs it.

Files are read with LiteRT's own schema module, so that the index does not depend on the reader it
is there to test, and are run once in a process of their own for each resolver: LiteRT ends its
process on some files.  `ORIGINS.json` in the folder says for each file where it is from and how it
was made (`litert_makers` and `litert_wheels` add to it).

    python -m tools.bench litert-index FOLDER
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.support.tables import table

RESOLVERS = {"xnn": "AUTO", "opt": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "ref": "BUILTIN_REF"}
ORIGINS = "ORIGINS.json"

_RUN = """
import sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType
file, resolver = sys.argv[1:]
engine = Interpreter(
    file, num_threads=1, experimental_op_resolver_type=getattr(OpResolverType, resolver)
)
engine.allocate_tensors()
random = np.random.default_rng(0)
for port in engine.get_input_details():
    kind = np.dtype(port["dtype"])
    draw = (
        random.integers(np.iinfo(kind).min, np.iinfo(kind).max, port["shape"], endpoint=True)
        if kind.itemsize < 4 and kind.kind in "iu"
        else random.uniform(0, 1, port["shape"])
    )
    engine.set_tensor(port["index"], draw.astype(kind))
engine.invoke()
"""


@dataclass
class Entry:
    """What one file holds, by its own schema; `runs` says yes or why not, by resolver."""

    name: str
    bytes: int = 0
    subgraphs: int = 0
    ops: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    """Element types of constants and of other tensors of floats and codes."""
    ports: str = ""
    notes: list[str] = field(default_factory=list)
    runs: dict[str, str] = field(default_factory=dict)
    why: str = ""


def builtin_names() -> dict[int, str]:
    """Ops by number."""
    return _names("BuiltinOperator")


@cache
def _names(enumeration: str) -> dict[int, str]:
    from ai_edge_litert import schema_py_generated as schema

    return {v: k for k, v in vars(getattr(schema, enumeration)).items() if isinstance(v, int)}


def entry(path: Path) -> Entry:
    """One file, read with the schema; not run."""
    from ai_edge_litert import schema_py_generated as schema

    found = Entry(path.name, path.stat().st_size)
    content = bytearray(path.read_bytes())
    content[4:8] = b"TFL3"
    try:
        model: Any = schema.ModelT.InitFromPackedBuf(content, 0)
    except Exception as error:  # the generated code checks nothing
        found.why = repr(error)[:80]
        return found
    builtin, types = _names("BuiltinOperator"), _names("TensorType")
    found.subgraphs = len(model.subgraphs)
    appended = sum(bool(b.offset and b.offset > 1) for b in model.buffers)
    if appended:
        found.notes.append(f"{appended} buffers behind the flatbuffer")
    for graph in model.subgraphs:
        for op in graph.operators or ():
            code = model.operatorCodes[op.opcodeIndex]
            number = max(code.builtinCode, code.deprecatedBuiltinCode)
            name = builtin.get(number, str(number))
            if name == "CUSTOM":
                name = f"CUSTOM({(code.customCode or b'').decode()})"
            found.ops[name] += 1
        for tensor in graph.tensors:
            buffer = model.buffers[tensor.buffer]
            constant = buffer.data is not None or (buffer.offset or 0) > 1
            kind = types.get(tensor.type, str(tensor.type)).lower()
            qparams = tensor.quantization
            scales = None if qparams is None else qparams.scale
            if qparams is not None and qparams.details is not None:
                kind += " in blocks"
            elif scales is not None:
                kind += " per axis" if len(scales) > 1 else ""
            elif kind.startswith(("int", "uint")):
                kind += " plain"
            found.types[kind + (" const" if constant else "")] += 1
            if tensor.sparsity is not None:
                found.types["sparse"] += 1
            if tensor.isVariable:
                found.types["variable"] += 1
    main = model.subgraphs[0]

    def port(index: int) -> str:
        tensor = main.tensors[index]
        shape = "x".join(map(str, tensor.shape if tensor.shape is not None else ()))
        if tensor.shapeSignature is not None and (tensor.shapeSignature < 0).any():
            shape = "x".join("?" if e < 0 else str(e) for e in tensor.shapeSignature)
        return f"{shape or 'scalar'} {types.get(tensor.type, tensor.type)}".lower()

    inputs, outputs = ([port(i) for i in ports] for ports in (main.inputs, main.outputs))
    found.ports = f"{', '.join(inputs)} -> {', '.join(outputs)}"
    return found


def runs(path: Path, resolver: str, seconds: float = 120) -> str:
    """ "yes", or what LiteRT said last, in a process of its own."""
    command = [sys.executable, "-c", _RUN, str(path), RESOLVERS[resolver]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "no end"
    if not done.returncode:
        return "yes"
    said = [line for line in done.stderr.splitlines() if line.strip()]
    reason = next((s for s in said if "rror:" in s), said[-1] if said else "")
    return f"no ({done.returncode}): {reason}"[:160]


def write_index(folder: Path, again: bool = False) -> str:
    """Make INDEX.md and INDEX.json; what was run before and is the same file is not run again."""
    origins = {}
    if (folder / ORIGINS).exists():
        origins = json.loads((folder / ORIGINS).read_text())
    known = {}
    if (folder / "INDEX.json").exists() and not again:
        known = json.loads((folder / "INDEX.json").read_text())
    paths = sorted(p for p in folder.iterdir() if p.suffix in (".tflite", ".circle"))
    entries = [entry(path) for path in paths]

    def run(found: Entry) -> None:
        before = known.get(found.name, {})
        if before.get("bytes") == found.bytes and before.get("runs"):
            found.runs = before["runs"]
        else:
            found.runs = {r: runs(folder / found.name, r) for r in RESOLVERS}

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(run, entries))
    (folder / "INDEX.json").write_text(json.dumps({e.name: vars(e) for e in entries}, indent=1))
    lines, details = [], []
    for found in entries:
        short = "".join("x" if found.runs[r] == "yes" else "-" for r in RESOLVERS)
        weights = {"int8", "uint8", "int16", "int4", "int2"}
        kinds = sorted({k.split()[0] for k in found.types} & weights)
        quantized = [
            k for k in kinds if any(t.split()[0] == k and "plain" not in t for t in found.types)
        ]
        origin = origins.get(found.name, "")
        size = f"{found.bytes / 1e3:.0f}"
        line = (found.name, origin, size, str(found.ops.total()), " ".join(quantized) or "float")
        lines.append((*line, short))
        ops = ", ".join(f"{n} {name}" for name, n in found.ops.most_common())
        types = ", ".join(f"{n} {name}" for name, n in found.types.most_common())
        details.append(
            f"## {found.name}\n\n{origin}. {found.ports}\n\n- ops: {ops}\n"
            f"- tensors: {types}\n"
            + "".join(f"- {n}\n" for n in found.notes)
            + "".join(f"- {r}: {s}\n" for r, s in found.runs.items() if s != "yes")
            + (f"- {found.why}\n" if found.why else "")
        )
    header = ("file", "origin", "kB", "ops", "codes", "/".join(RESOLVERS))
    text = (
        f"# Files of others' converters: {len(entries)}, of which "
        f"{sum(line[4] != 'float' for line in lines)} are quantized\n\n"
        f"`x`: {', '.join(RESOLVERS)} of LiteRT load and run it, on random inputs.\n\n"
        + table(header, lines)
        + "\n\n"
        + "\n".join(details)
    )
    (folder / "INDEX.md").write_text(text)
    return table(header, lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the index of a folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--again", action="store_true", help="run also files that were run before")
    options = parser.parse_args(arguments)
    print(write_index(options.folder, options.again))
    return 0


if __name__ == "__main__":
    sys.exit(main())
