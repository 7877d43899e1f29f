"""What is in a model: its ops by kind, interface, weights, quantization boundaries, unknown ops."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    ModuleOp,
    StringAttr,
    UnregisteredOp,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from qdialect.analysis.boundary import Finding, advice
from qdialect.ir.context import QContext
from qdialect.ir.dialects.kept import KeptOp, kind_of
from qdialect.ir.ops import BlobAttr, ConstantOp, keys_of
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, SCastOp, element_type, quant_element
from qdialect.passes.casts.boundary_fixes import mended_boundaries
from qdialect.plugins.tflite.dialect import TfliteNodeOp
from qdialect.rewrite.remarks import location_text, name_text
from qdialect.workflows.target_report import TargetReport, target_report

if TYPE_CHECKING:
    from qdialect.targets.base import Target
    from qdialect.workflows.taken import Taken


@dataclass
class Unknown:
    """Ops of one kind that stay as they are."""

    kind: str
    count: int = 0
    keys: list[str] = field(default_factory=list[str])


@dataclass
class Boundary:
    """One place where integers become floats or back (`analysis.boundary.Finding`)."""

    code: str
    op: str
    key: str
    location: str
    message: str
    flops: int
    bytes: int
    fix: str
    why: str
    blocked_by: str

    @property
    def advice(self) -> str:
        """What mends it, for people."""
        return advice(self.fix, self.why)


@dataclass
class LitertOps:
    """The ops of a TFLite or Circle file by name: how many there are, and how many XNNPACK takes;
    `refused` has why not the others, by op and reason."""

    ops: dict[str, int] = field(default_factory=dict[str, int])
    taken: dict[str, int] = field(default_factory=dict[str, int])
    refused: dict[str, int] = field(default_factory=dict[str, int])


def litert_ops(module: ModuleOp) -> LitertOps:
    """What XNNPACK takes of a module of `tflite.node`, as it was read."""
    from qdialect.plugins.tflite.target_delegate import refusal

    found = LitertOps()
    for op in module.walk():
        if not isinstance(op, TfliteNodeOp):
            continue
        name = op.op.data
        found.ops[name] = found.ops.get(name, 0) + 1
        why = refusal(op)
        if why is None:
            found.taken[name] = found.taken.get(name, 0) + 1
        else:
            reason = f"{name}: {why.text}"
            found.refused[reason] = found.refused.get(reason, 0) + 1
    return found


@dataclass
class Inspection:
    """The result of `inspect_module`.

    `quantized` ops have quantized operands and results only, `float` ops none,
    `mixed` ops both; casts, rescales and constants are counted apart. `taken` is what a target
    takes, if one was asked.
    """

    name: str = ""
    inputs: dict[str, str] = field(default_factory=dict[str, str])
    outputs: dict[str, str] = field(default_factory=dict[str, str])
    ops: dict[str, int] = field(default_factory=dict[str, int])
    total: int = 0
    quantize: int = 0
    dequantize: int = 0
    storage_casts: int = 0
    rescales: int = 0
    quantized: int = 0
    float: int = 0
    mixed: int = 0
    constants: int = 0
    weight_bytes: int = 0
    unknown: list[Unknown] = field(default_factory=list[Unknown])
    boundaries: list[Boundary] = field(default_factory=list[Boundary])
    #: what a target takes of it, if one is asked
    target: TargetReport | None = None
    #: what it takes on codes
    taken: Taken | None = None
    #: of a TFLite or Circle file, its ops by name and what XNNPACK runs of them
    litert: LitertOps | None = None

    @property
    def counts(self) -> list[tuple[str, int]]:
        """What is shown in short, with its name for people."""
        return [
            ("ops", self.total),
            ("quantize", self.quantize),
            ("dequantize", self.dequantize),
            ("rescale", self.rescales),
            ("quantized ops", self.quantized),
            ("mixed ops", self.mixed),
            ("float ops", self.float),
            ("unknown ops", sum(unknown.count for unknown in self.unknown)),
        ]

    def interface_rows(self) -> list[tuple[str, str, str]]:
        """Each input and output: `takes` or `gives`, its name, its type."""
        return [
            (side, name, type_text(kind))
            for side, values in (("takes", self.inputs), ("gives", self.outputs))
            for name, kind in values.items()
        ]

    def to_json(self) -> dict[str, Any]:
        """As plain data; `taken` is there if a target was asked."""
        data = {"version": 1, **asdict(self)}
        taken = None if self.taken is None else self.taken.to_json()
        return {
            name: value for name, value in {**data, "taken": taken}.items() if value is not None
        }


def inspect_module(module: ModuleOp, ctx: QContext, target: Target | None = None) -> Inspection:
    """Count what the module holds, find its boundaries, and say what `target` takes of it."""
    result = count_module(module, ctx)
    result.boundaries = [_boundary(finding) for finding in mended_boundaries(module, ctx)]
    if target is not None:
        result.target = target_report(module, ctx, target)
    return result


def count_module(module: ModuleOp, ctx: QContext) -> Inspection:
    """Count what the module holds; no boundaries, for which passes are tried on clones."""
    from qdialect.interpreter import argument_names, output_names

    result = Inspection()
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    main = next((f for f in functions if f.sym_name.data == "main"), None) or (
        functions[0] if functions else None
    )
    if main is not None:
        graph = main.attributes.get("onnx.graph")
        result.name = graph.data if isinstance(graph, StringAttr) else main.sym_name.data
        arguments, results = (
            [str(kind) for kind in kinds]
            for kinds in (main.function_type.inputs.data, main.function_type.outputs.data)
        )
        result.inputs = dict(zip(argument_names(main), arguments, strict=True))
        result.outputs = dict(zip(output_names(main), results, strict=True))
    unknown: dict[str, Unknown] = {}
    blobs: dict[str, int] = {}
    for op in module.walk():
        if isinstance(op, ModuleOp | FuncOp | ReturnOp):
            continue
        result.total += 1
        result.ops[_name(op)] = result.ops.get(_name(op), 0) + 1
        _classify(op, result, unknown)
        if isinstance(op, ConstantOp):
            _weigh(op, ctx, blobs, result)
    result.ops = dict(sorted(result.ops.items(), key=lambda item: (-item[1], item[0])))
    result.weight_bytes += sum(blobs.values())
    result.unknown = sorted(unknown.values(), key=lambda u: (-u.count, u.kind))
    return result


def _boundary(finding: Finding) -> Boundary:
    op = finding.op
    return Boundary(
        finding.code,
        kind_of(op),
        op.sym_name.data if isinstance(op, FuncOp) else name_text(op),
        location_text(op.location),
        finding.message,
        finding.flops,
        finding.bytes,
        finding.fix,
        finding.why,
        finding.blocked_by,
    )


def _name(op: Operation) -> str:
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def _classify(op: Operation, result: Inspection, unknown: dict[str, Unknown]) -> None:
    if isinstance(op, KeptOp | UnregisteredOp):
        entry = unknown.setdefault(kind_of(op), Unknown(kind_of(op)))
        entry.count += 1
        entry.keys.extend(keys_of(op))
    elif isinstance(op, QCastOp):
        result.quantize += 1
    elif isinstance(op, DCastOp):
        result.dequantize += 1
    elif isinstance(op, SCastOp):
        result.storage_casts += 1
    elif isinstance(op, RescaleOp):
        result.rescales += 1
    elif isinstance(op, ConstantOp):
        result.constants += 1
    else:
        # Indices and conditions are neither.
        quantized = {
            quant_element(v.type) is not None
            for v in (*op.operands, *op.results)
            if not isinstance(element_type(v.type), IntegerType | IndexType)
        }
        if quantized == {True}:
            result.quantized += 1
        elif True in quantized:
            result.mixed += 1
        else:
            result.float += 1


def _weigh(op: ConstantOp, ctx: QContext, blobs: dict[str, int], result: Inspection) -> None:
    value = op.value
    if isinstance(value, BlobAttr):
        key = value.key.data
        # A module printed without its weights can be inspected all the same.
        blobs[key] = ctx.blobs.get(key).data.nbytes if key in ctx.blobs else 0
    else:
        dense = cast("DenseIntOrFPElementsAttr[Any]", value)
        result.weight_bytes += len(dense.data.data)


def type_text(text: str) -> str:
    """A type short enough for a table: long lists of parameters are cut."""
    return text if len(text) <= 100 else f"{text[:97]}..."


def module_html(module: ModuleOp, ctx: QContext) -> str:
    """What is in a module, in short, and its text, as a notebook shows it."""
    from qdialect.plugins.mlir.write import module_text
    from qdialect.report.notebook import table_html, text_html

    found = inspect_module(module, ctx)
    counts = [
        *found.counts,
        ("boundary findings", len(found.boundaries)),
        ("bytes of weights", found.weight_bytes),
    ]
    rows = [("what", "count"), *((name, f"{count:,}") for name, count in counts)]
    return "\n".join(
        [
            table_html(found.name or "module", rows),
            table_html("interface", [("", "name", "type"), *found.interface_rows()]),
            text_html("text", module_text(module, ctx)),
        ]
    )
