"""A module as plain records: ops, what they take and give, and what leads where.

Constants, and casts of constants, are named by the op that reads them, so that what is
drawn is what runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from xdsl.dialects.builtin import (
    IndexType,
    IntegerType,
    ModuleOp,
    StringAttr,
    TensorType,
    UnregisteredOp,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.traits import ConstantLike

from qdialect.analysis.boundary import Finding
from qdialect.analysis.cost import elements, products
from qdialect.ir.context import QContext
from qdialect.ir.dialects.kept import KeptOp, kind_of
from qdialect.ir.ops import keys_of
from qdialect.ir.quant import DCastOp, QCastOp, RescaleOp, SCastOp, element_type, quant_element
from qdialect.passes.casts.boundary_fixes import mended_boundaries
from qdialect.report.histograms import range_of
from qdialect.rewrite.remarks import location_text, name_text

_TEXT = 160
"""Characters shown of a type or an attribute."""
CASTS = ("quantize", "dequantize", "rescale")


@dataclass
class Node:
    """An op, or what a function takes or gives (category `interface`)."""

    name: str
    label: str
    category: str
    keys: tuple[str, ...]
    location: str
    operands: list[str] = field(default_factory=list[str])
    results: list[str] = field(default_factory=list[str])
    attributes: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    price: float | None = None


@dataclass
class Graph:
    """Nodes in program order; edges by number. `hidden` are ops on constants."""

    nodes: list[Node] = field(default_factory=list[Node])
    edges: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    hidden: list[Node] = field(default_factory=list[Node])
    findings: list[tuple[int, Finding]] = field(default_factory=list[tuple[int, Finding]])

    def casts(self) -> list[Node]:
        """Every quantize, dequantize and rescale, those of constants too."""
        return [node for node in (*self.nodes, *self.hidden) if node.category in CASTS]


def graph_of(module: ModuleOp, session: QContext) -> Graph:
    """All functions of a module as one graph; linear in ops."""
    return _Reader(session).read(module)


def identity(keys: tuple[str, ...], location: str) -> tuple[str, ...]:
    """What an op is known by before and after: its keys, or where it was written."""
    return keys or ((location,) if location else ())


class _Reader:
    def __init__(self, session: QContext) -> None:
        self.session = session
        self.graph = Graph()
        self.made_by: dict[SSAValue, int] = {}
        self.numbers: dict[Operation, int] = {}
        self.spelled: dict[Attribute, str] = {}
        #: values known beforehand: the type of the constant they come from
        self.constants: dict[SSAValue, str] = {}

    def read(self, module: ModuleOp) -> Graph:
        for op in module.walk():
            if isinstance(op, FuncOp):
                for block in op.body.blocks:
                    self._arguments(block)
            elif isinstance(op, ReturnOp):
                self._results(op)
            elif not isinstance(op, ModuleOp):
                self._op(op)
        for finding in mended_boundaries(module, self.session):
            self.graph.findings.append((self.numbers.get(finding.op, -1), finding))
        return self.graph

    def _arguments(self, block: Block) -> None:
        for argument in block.args:
            name = argument.name_hint or f"arg{argument.index}"
            node = Node("input", name, "interface", (), "", results=[self._type(argument.type)])
            self.made_by[argument] = self._add(node)

    def _results(self, op: ReturnOp) -> None:
        for value in op.operands:
            node = Node("output", "", "interface", (), "", operands=[self._type(value.type)])
            self._connect(value, self._add(node))

    def _op(self, op: Operation) -> None:
        if op.has_trait(ConstantLike, value_if_unregistered=False):
            self.constants |= {value: self._type(value.type) for value in op.results}
            return
        node = Node(
            kind_of(op),
            "",
            category(op),
            keys_of(op),
            location_text(op.location),
            [self._operand(value) for value in op.operands],
            [self._type(value.type) for value in op.results],
            _attributes(op),
        )
        node.label = (
            node.keys[-1] if node.keys else name_text(op) or node.location.rpartition("/")[2]
        )
        if op.operands and all(value in self.constants for value in op.operands):
            source = self.constants[op.operands[0]]
            self.constants |= dict.fromkeys(op.results, source)
            self.graph.hidden.append(node)
            return
        node.price = price(op, self.session)
        number = self._add(node)
        self.numbers[op] = number
        for value in op.operands:
            self._connect(value, number)
        for value in op.results:
            self.made_by[value] = number

    def _add(self, node: Node) -> int:
        self.graph.nodes.append(node)
        return len(self.graph.nodes) - 1

    def _connect(self, value: SSAValue, number: int) -> None:
        source = self.made_by.get(value)
        if source is not None:
            self.graph.edges.append((source, number))

    def _operand(self, value: SSAValue) -> str:
        text = self._type(value.type)
        constant = self.constants.get(value)
        if constant is None:
            return text
        return f"{text} (constant)" if constant == text else f"{text} (of a constant, {constant})"

    def _type(self, kind: Attribute) -> str:
        found = self.spelled.get(kind)
        if found is None:
            found = self.spelled[kind] = type_text(kind)
        return found


def type_text(kind: Attribute) -> str:
    """A type for people: with the numbers that codes can mean; of parameters along a dimension
    how many there are, and from where to where."""
    element = quant_element(kind)
    if element is None:
        return _short(str(kind))
    if element.qparams.is_per_tensor:
        span = range_of(element.qparams)
        return _short(str(kind)) + (f", {span[0]:.4g} to {span[1]:.4g}" if span else "")
    params = element.qparams
    shape: Any = getattr(kind, "get_shape", tuple)()
    extents = "".join("?x" if n < 0 else f"{n}x" for n in shape)
    scales = params.scale_list()
    along = f"axis {params.axis}" if params.axis is not None else f"blocks {params.blocks}"
    zeros = set(params.zero_point_list())
    points = f", zero points {min(zeros)} to {max(zeros)}" if zeros != {0} else ""
    return (
        f"tensor<{extents}{params.storage}>, {params.count} scales along {along}: "
        f"{min(scales):.4g} to {max(scales):.4g}{points}"
    )


def category(op: Operation) -> str:
    """What an op is to a reader: a kind of cast, or what it computes on."""
    if isinstance(op, QCastOp):
        return "quantize"
    if isinstance(op, DCastOp):
        return "dequantize"
    if isinstance(op, RescaleOp):
        return "rescale"
    if isinstance(op, KeptOp | UnregisteredOp):
        return "unknown"
    kinds = {
        quant_element(v.type) is not None
        for v in (*op.operands, *op.results)
        if not isinstance(element_type(v.type), IntegerType | IndexType)
    }
    if len(kinds) == 2:
        return "mixed"
    return "float" if False in kinds else "integer"


def _attributes(op: Operation) -> list[tuple[str, str]]:
    return [
        (name, _short(value.data if isinstance(value, StringAttr) else str(value)))
        for name, value in (*op.properties.items(), *op.attributes.items())
        if name != "nn.key"
    ]


def _short(text: str) -> str:
    return text if len(text) <= _TEXT else f"{text[: _TEXT - 3]}..."


# What ops cost by the prices of a target, in units of one element rescaled.


def price(op: Operation, session: QContext) -> float | None:
    """The price of an op; None where the target has none."""
    if not op.results or not all(isinstance(v.type, TensorType) for v in op.results):
        return None
    behavior = session.behaviors.get(op)
    if behavior is not None and behavior.accumulator is not None:
        sides = (behavior.accumulator.lhs, behavior.accumulator.rhs)
        lhs, rhs = (_storage(op.operands[side].type) for side in sides)
        found = session.target.encoding_price(op, products(op, behavior.accumulator), lhs, rhs)
        return found if found is not None and isfinite(found) else None
    if isinstance(op, RescaleOp):
        source, result = quant_element(op.input.type), quant_element(op.results[0].type)
        if source is None or result is None:
            return None
        each = session.target.rescale_price(source.qparams, result.qparams)
    elif behavior is not None or isinstance(op, QCastOp | DCastOp | SCastOp):
        each = session.target.op_price(op)
    else:
        return None
    return elements(op.results[0]) * each if isfinite(each) else None


def _storage(kind: Attribute) -> str:
    """What a tensor's elements are stored as: `u8`, or `f32` of floats."""
    element = quant_element(kind)
    return str(element_type(kind)) if element is None else element.qparams.storage.spelling
