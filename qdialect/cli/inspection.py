"""What is in a model: counts, interface, weights, and what we do not know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    IndexType,
    IntegerType,
    ModuleOp,
    UnregisteredOp,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from qdialect.analysis.boundary import Finding, find_boundaries
from qdialect.context import QContext
from qdialect.dialects.onnx import NodeOp
from qdialect.ops import BlobAttr, ConstantOp, keys_of
from qdialect.quant import DCastOp, QCastOp, RescaleOp, SCastOp, element_type, quant_element
from qdialect.rewrite.remarks import key_text, location_text

if TYPE_CHECKING:
    from qdialect.cli.execution import OutputDifference


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
    blocked_by: str


@dataclass
class Inspection:
    """The result of `inspect_module`.

    `quantized` ops have quantized operands and results only, `float` ops none,
    `mixed` ops both; casts, rescales and constants are counted apart.
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

    def to_json(self) -> dict[str, Any]:
        """As plain data."""
        return {"version": 1, **asdict(self)}


def inspect_module(module: ModuleOp, ctx: QContext) -> Inspection:
    """Count what the module holds."""
    from qdialect.cli.execution import argument_types, graph_name
    from qdialect.engines.local import output_names

    result = Inspection()
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    main = next((f for f in functions if f.sym_name.data == "main"), None) or (
        functions[0] if functions else None
    )
    if main is not None:
        result.name = graph_name(main)
        result.inputs = argument_types(main)
        types = [str(t) for t in main.function_type.outputs.data]
        result.outputs = dict(zip(output_names(main), types, strict=True))
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
    result.boundaries = [_boundary(finding) for finding in find_boundaries(module, ctx)]
    result.unknown = sorted(unknown.values(), key=lambda u: (-u.count, u.kind))
    return result


def _boundary(finding: Finding) -> Boundary:
    op = finding.op
    return Boundary(
        finding.code,
        _kind(op) if isinstance(op, NodeOp | UnregisteredOp) else op.name,
        op.sym_name.data if isinstance(op, FuncOp) else key_text(op),
        location_text(op.location),
        finding.message,
        finding.flops,
        finding.bytes,
        finding.fix,
        finding.blocked_by,
    )


def _name(op: Operation) -> str:
    return op.op_name.data if isinstance(op, UnregisteredOp) else op.name


def _classify(op: Operation, result: Inspection, unknown: dict[str, Unknown]) -> None:
    if isinstance(op, NodeOp | UnregisteredOp):
        entry = unknown.setdefault(_kind(op), Unknown(_kind(op)))
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


def _kind(op: NodeOp | UnregisteredOp) -> str:
    if isinstance(op, UnregisteredOp):
        return op.op_name.data
    domain = op.domain.data
    return f"{domain}.{op.op_type.data}" if domain else op.op_type.data


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


def difference_rows(found: Sequence[OutputDifference]) -> list[tuple[str, ...]]:
    """How far outputs are apart, in words, under a heading."""
    rows: list[tuple[str, ...]] = [
        ("output", "type", "max", "unit", "max abs", "differing", "SQNR")
    ]
    rows += [
        (
            output.name,
            type_text(output.type),
            f"{output.max_steps:.4g}",
            output.unit,
            f"{output.max_abs:.4g}",
            f"{output.share_differing:.4%}",
            f"{output.sqnr_db:.1f} dB",
        )
        for output in found
    ]
    return rows
