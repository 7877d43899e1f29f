"""Beside TICO: the same exported programs as Circle files of TICO and as ONNX files of ours.

TICO is run out of a checkout of Samsung/TICO (it needs circle-schema, and transformers for its
own quantizer).  Its files are read with their schema: ops, TRANSPOSE ops, ops whose operands and
results have types that no kernel has together, products of integers that give floats, and
reshapes of constants that are left to the run.  A file is also given to LiteRT, with the few
fields of the header that differ, where the package is installed.  Ours are counted in the graph
that ONNX Runtime executes; it refuses what its types do not allow.

    python -m tools.bench tico ../TICO --nets mobilenetv2 --modules 40 --json tico.json
"""

# pyright: basic, reportMissingImports=false
from __future__ import annotations

import argparse
import importlib
import inspect
import json
import logging
import os
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import onnx
import torch
from torch import nn
from torch.nn import functional as F

from qdialect.plugins.onnx.write.engine import OrtEngine
from qdialect.plugins.onnx.write.executed import count
from tests.support.tables import put, step, table
from tools.bench.torch_models import NETS, Inputs, Sample
from tools.bench.torch_nets import QUANTIZERS, quantized, said, written_by_us

PRODUCTS = {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "CONV_3D", "TRANSPOSE_CONV"}
MIXED = {"QUANTIZE", "DEQUANTIZE", "CAST", "ARG_MAX", "EQUAL", "NOT_EQUAL", "LESS", "GREATER"} | {
    "LESS_EQUAL",
    "GREATER_EQUAL",
}
"""Ops that take one type and give another."""
DATA = {"FLOAT32", "INT8", "UINT8", "INT16"}


@dataclass
class File:
    """What is in one file; `why` says why there is none, `loads` what a runtime says."""

    ops: int = 0
    transposes: int = 0
    casts: int = 0
    """Quantizes and dequantizes."""
    floats: int = 0
    """Ops with a float result, dequantizes left out."""
    illegal: int = 0
    """Ops whose types no kernel has together."""
    breaks: int = 0
    """Products of integers whose result is float."""
    constants: int = 0
    """Transposes and reshapes of constants."""
    loads: str = ""
    seconds: float = 0.0
    why: str = ""


@dataclass
class Row:
    """One program."""

    program: str
    kind: str
    theirs: File
    ours: File


# -- programs --------------------------------------------------------------------------------


class SmallCnn(nn.Module):
    """Convolutions with what usually stands around them."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.point, self.last = nn.Conv2d(16, 16, 1), nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = F.relu(self.norm(self.first(x)))
        y = x + F.hardswish(self.point(self.depthwise(x)))
        z = F.max_pool2d(torch.cat([x, y], 1), 2)
        return self.last(F.adaptive_avg_pool2d(z, 1).flatten(1))


class Block(nn.Module):
    """A transformer block: causal attention, then GELU between two products."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.last_norm = nn.LayerNorm(64), nn.LayerNorm(64)
        self.qkv, self.out = nn.Linear(64, 192), nn.Linear(64, 64)
        self.wide, self.narrow = nn.Linear(64, 256), nn.Linear(256, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (
            part.unflatten(-1, (4, 16)).transpose(1, 2)
            for part in self.qkv(self.norm(x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.narrow(F.gelu(self.wide(self.last_norm(x))))


class Residual(nn.Module):
    """A convolution and its operand added, then ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.conv(x) + x)


class Volume(nn.Module):
    """Two convolutions in three dimensions."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv3d(2, 4, 3, padding=1), nn.Conv3d(4, 2, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(F.relu(self.first(x)))


SMALL: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "small CNN": (SmallCnn, (1, 3, 16, 16)),
    "transformer block": (Block, (1, 12, 64)),
    "residual": (Residual, (1, 8, 16, 16)),
    "convolutions in 3D": (Volume, (1, 2, 6, 6, 6)),
}
PT2E = (
    ("small CNN", "x86"),
    ("small CNN", "xnnpack"),
    ("transformer block", "x86"),
    ("transformer block", "xnnpack"),
    ("residual", "x86"),
)


def _samples(shape: tuple[int, ...]) -> list[Sample]:
    random = torch.Generator().manual_seed(1)
    return [Sample((torch.randn(shape, generator=random),), None) for _ in range(4)]


def _small(name: str) -> tuple[nn.Module, list[Sample]]:
    torch.manual_seed(0)
    make, shape = SMALL[name]
    return make().eval(), _samples(shape)


def _pt2e() -> Iterator[tuple[str, Callable[[], tuple[Any, Inputs]]]]:
    """Their names, and how programs are made."""
    for name, quantizer in PT2E:

        def make(name: str = name, quantizer: str = quantizer) -> tuple[Any, Inputs]:
            module, samples = _small(name)
            return quantized(module, samples, quantizer), samples[0].inputs

        yield f"{name}, {quantizer}", make


def _own_quantizer() -> Iterator[tuple[str, Callable[[], tuple[Any, Inputs]]]]:
    """Programs of TICO's own quantizer."""
    for name in ("small CNN", "transformer block", "residual", "convolutions in 3D"):

        def make(name: str = name) -> tuple[Any, Inputs]:
            ptq = importlib.import_module("tico.quantization.config.ptq")
            tools = importlib.import_module("tico.quantization")
            module, samples = _small(name)
            with torch.no_grad():
                prepared = tools.prepare(module, ptq.PTQConfig(strict_wrap=False))
                for sample in samples:
                    prepared(*sample.inputs)
                done = tools.convert(prepared)
                return torch.export.export(done.eval(), samples[0].inputs), samples[0].inputs

        yield name, make


def _networks(names: Sequence[str]) -> Iterator[tuple[str, Callable[[], tuple[Any, Inputs]]]]:
    for name in names:
        for quantizer in QUANTIZERS:

            def make(name: str = name, quantizer: str = quantizer) -> tuple[Any, Inputs]:
                net = NETS[name]
                samples = net.samples(8, 1)
                return quantized(net.module().eval(), samples, quantizer), samples[0].inputs

            yield f"{name}, {quantizer}", make


def _modules(checkout: Path, most: int) -> Iterator[tuple[str, Callable[[], tuple[Any, Inputs]]]]:
    """Some of TICO's own test modules, by their order: as many as asked for."""
    found: list[tuple[str, Any]] = []
    for path in sorted((checkout / "test" / "modules").glob("op/*.py")) + sorted(
        (checkout / "test" / "modules").glob("net/*.py")
    ):
        if path.stem.startswith("__"):
            continue
        module = importlib.import_module(f"test.modules.{path.parent.name}.{path.stem}")
        for name, kind in inspect.getmembers(module, inspect.isclass):
            own = kind.__module__ == module.__name__ and issubclass(kind, nn.Module)
            if own and hasattr(kind, "get_example_inputs"):
                found.append((f"{path.stem}.{name}", kind))
    for name, kind in found[:: max(1, len(found) // most)] if most else ():

        def make(kind: Any = kind) -> tuple[Any, Inputs]:
            torch.manual_seed(0)
            module = kind().eval()
            inputs, keywords = module.get_example_inputs()
            return torch.export.export(module, inputs, keywords), inputs

        yield name, make


# -- theirs ----------------------------------------------------------------------------------


def circle_file(program: Any) -> File:
    """What TICO makes of a program."""
    circle = importlib.import_module("circle_schema").circle

    began = time.perf_counter()
    try:
        content = (
            importlib.import_module("tico").convert_from_exported_program(program).circle_binary
        )
    except Exception as error:  # whatever it does not know
        return File(why=said(error))
    found = File(seconds=round(time.perf_counter() - began, 2))
    model = circle.Model.ModelT.InitFromObj(circle.Model.Model.GetRootAs(content, 0))
    kinds = {v: k for k, v in vars(circle.BuiltinOperator.BuiltinOperator).items()}
    types = {v: k for k, v in vars(circle.TensorType.TensorType).items()}
    for graph in model.subgraphs:
        for op in graph.operators:
            kind = kinds[model.operatorCodes[op.opcodeIndex].builtinCode]
            operands = [graph.tensors[index] for index in op.inputs if index >= 0]
            results = [graph.tensors[index] for index in op.outputs]
            _add(
                found,
                kind,
                [types[tensor.type] for tensor in operands],
                [types[tensor.type] for tensor in results],
                bool(operands) and _is_constant(model, operands[0]),
            )
    found.loads = _in_litert(circle, model)
    return found


def _is_constant(model: Any, tensor: Any) -> bool:
    data = model.buffers[tensor.buffer].data
    return data is not None and len(data) > 0


def _add(found: File, kind: str, operands: list[str], results: list[str], constant: bool) -> None:
    """Count one op."""
    found.ops += 1
    found.transposes += kind == "TRANSPOSE"
    found.casts += kind in ("QUANTIZE", "DEQUANTIZE")
    found.floats += "FLOAT32" in results and kind != "DEQUANTIZE"
    found.constants += constant and kind in ("TRANSPOSE", "RESHAPE")
    integers = operands[:1] and operands[0] in DATA - {"FLOAT32"}
    if kind in PRODUCTS:
        bias = operands[2:3]
        wrong = bool(integers) and (results[0] != operands[0] or "FLOAT32" in bias)
        found.illegal += wrong or (not integers and results[0] != operands[0])
        found.breaks += bool(integers) and results[0] == "FLOAT32"
    elif kind not in MIXED:
        found.illegal += len({*operands, *results} & DATA) > 1


def _in_litert(circle: Any, model: Any) -> str:
    """What LiteRT says of a file, whose header becomes that of TFLite; "" where it is not there."""
    try:
        litert = importlib.import_module("ai_edge_litert.interpreter")
        flatbuffers = importlib.import_module("flatbuffers")
    except ImportError:
        return ""
    codes = [code.builtinCode for code in model.operatorCodes]
    if min(codes, default=0) < 0:
        return "ops of Circle only"
    model.version = 3
    for code in model.operatorCodes:
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    try:
        litert.Interpreter(model_content=bytes(builder.Output())).allocate_tensors()
    except Exception as error:  # what it says is the answer
        return f"refuses: {str(error).splitlines()[0]}"[:160]
    return "loads"


# -- ours --------------------------------------------------------------------------------------


def onnx_file(program: Any) -> File:
    """What we make of a program, as ONNX Runtime executes it."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        try:
            torch.export.save(program, folder / "program.pt2")
            written_by_us(folder / "program.pt2", folder / "ours.onnx", "default")
            took = time.perf_counter() - began
            OrtEngine(folder / "ours.onnx", optimize=True, saved=folder / "executed.onnx")
        except Exception as error:
            return File(why=said(error))
        graph = onnx.load(folder / "executed.onnx").graph
        written = onnx.load(folder / "ours.onnx").graph
    executed = count(graph)
    return File(
        ops=executed.nodes,
        transposes=sum(node.op_type == "Transpose" for node in graph.node),
        casts=executed.casts,
        floats=executed.float_nodes,
        constants=_of_constants(written),
        loads="loads",
        seconds=round(took, 2),
    )


def _of_constants(graph: Any) -> int:
    known = {tensor.name for tensor in graph.initializer}
    return sum(
        node.op_type in ("Transpose", "Reshape") and node.input[0] in known for node in graph.node
    )


# -- table ---------------------------------------------------------------------------------------


def rows(options: argparse.Namespace) -> Iterator[Row]:
    """Everything asked for."""
    kinds = (
        ("PT2E", _pt2e()),
        ("TICO's quantizer", _own_quantizer()),
        ("network", _networks(options.nets)),
        ("module", _modules(options.checkout, options.modules)),
    )
    for kind, programs in kinds:
        for name, make in programs:
            with step(f"{kind}: {name}"), _quiet():
                try:
                    program, _ = make()
                except Exception as error:
                    failed = File(why=f"no program: {said(error)}")
                    yield Row(name, kind, failed, failed)
                    continue
                ours = onnx_file(program)  # first: TICO changes the program
                yield Row(name, kind, circle_file(program), ours)


class _quiet(redirect_stdout):
    """Standard output to nowhere."""

    def __init__(self) -> None:
        super().__init__(open(os.devnull, "w"))  # noqa: SIM115


def report(found: Sequence[Row]) -> str:
    """The tables."""
    header = (
        "program",
        "by",
        "ops",
        "transposes",
        "casts",
        "float results",
        "illegal types",
        "integers to floats",
        "constants moved",
        "runtime",
        "s",
    )
    lines = []
    for row in found:
        if row.kind == "module":
            continue
        for by, file in (("TICO", row.theirs), ("ours", row.ours)):
            name = f"{row.program} ({row.kind})"
            if file.why:
                lines.append((name, by, *[""] * 7, f"none: {file.why}".replace("|", "/"), ""))
                continue
            counts = (file.ops, file.transposes, file.casts, file.floats, file.illegal, file.breaks)
            shown = file.loads.replace("|", "/")
            cells = (*map(str, counts), str(file.constants), shown, f"{file.seconds:.1f}")
            lines.append((name, by, *cells))
    parts = [table(header, lines)]
    modules = [row for row in found if row.kind == "module"]
    if modules:
        parts.append(_of_modules(modules))
    return "\n\n".join(parts)


def _of_modules(found: Sequence[Row]) -> str:
    both = [row for row in found if not row.theirs.why and not row.ours.why]
    lines = []
    for by, side in (("TICO", "theirs"), ("ours", "ours")):
        files = [getattr(row, side) for row in both]
        made = sum(not getattr(row, side).why for row in found)
        lines.append(
            (
                by,
                f"{made} of {len(found)}",
                str(sum(file.ops for file in files)),
                str(sum(file.transposes for file in files)),
                str(sum(file.constants for file in files)),
                f"{sorted(file.seconds for file in files)[len(files) // 2]:.2f}" if files else "",
            )
        )
    whys = Counter(
        f"{by}: {row.program}: {getattr(row, side).why}"
        for row in found
        for by, side in (("TICO", "theirs"), ("ours", "ours"))
        if getattr(row, side).why
    )
    header = ("test modules of TICO", "made", "ops", "transposes", "constants moved", "median s")
    return "\n\n".join(
        [table(header, lines), "\n".join(f"- {why}".replace("\n", " ") for why in whys)]
    ).strip()


def main(arguments: Sequence[str] | None = None) -> int:
    """The tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path, help="of Samsung/TICO")
    parser.add_argument("--nets", nargs="*", choices=NETS, default=[], help="networks too")
    parser.add_argument("--modules", type=int, default=0, help="how many of its test modules")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    parser.add_argument("--document", type=Path, help="put the tables there, between marks")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    logging.disable(logging.ERROR)
    torch.set_num_threads(1)
    sys.path[:0] = [str(options.checkout)]
    found: list[Row] = []
    for row in rows(options):
        found.append(row)
        if options.json is not None:
            options.json.write_text(json.dumps([asdict(each) for each in found], indent=1) + "\n")
    print(report(found))
    if options.document is not None:
        put(options.document, "beside_tico", report(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
