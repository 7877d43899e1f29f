"""The `onnx` dialect: what the importer keeps of a model without understanding it.

`onnx.node` is one ONNX node, `!onnx.type` a type MLIR has no counterpart for,
`#onnx.proto` an attribute (a tensor, a graph ...) in its serialized form.  The reader and the
writer share the table of element types.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from typing_extensions import override
from xdsl.dialects import builtin
from xdsl.dialects.builtin import (
    ArrayAttr,
    ComplexType,
    DenseArrayBase,
    DictionaryAttr,
    IntegerType,
    Signedness,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import (
    Attribute,
    Dialect,
    Operation,
    ParametrizedAttribute,
    SSAValue,
    TypeAttribute,
)
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qdialect.ir.dialects.accessors import Quoted
from qdialect.ir.dialects.attributes import string_list, strings
from qdialect.ir.dialects.kept import KeptOp

#: names of removed Identity and Dropout results that now are this value
ALIASES = "nn.aliases"
#: names of a node's inputs that are no operands of its op: scale and zero point, a
#: shape, bounds ("" where absent)
PARAMS = "onnx.params"
#: a fully connected op whose weight the file stores as [K, N]
STORED_TRANSPOSED = "onnx.stored_transposed"
#: a dequantize of a constant that goes out as Cast, Sub and Mul, which runtimes fold as they load
AT_LOAD = "onnx.at_load"
#: the accuracy level of a product whose weight the file stores as MatMulNBits does
N_BITS = "onnx.n_bits"
#: the level of MatMulNBits that computes with the input as it is
AS_WRITTEN = 1
#: an op that the file has as DynamicQuantizeMatMul, or that goes out as DynamicQuantizeLSTM
FUSED = "onnx.fused"
#: a maximum over all spatial dimensions that the file has as GlobalMaxPool
GLOBAL_POOL = "onnx.global_pool"
#: documentation text of a model, graph or node
DOC = "onnx.doc"
MODEL = "onnx.model"
EXTERNAL_DATA = "external_data"

KNOWN_DOMAINS = frozenset({"", "ai.onnx", "ai.onnx.ml", "com.microsoft"})
"""Operator sets whose ops, random ones aside, are functions of their inputs."""


def is_random(op_type: str) -> bool:
    """Whether an op may answer differently when asked twice."""
    named = op_type.startswith("Random") or "Dropout" in op_type
    return named or op_type in ("Bernoulli", "Multinomial", "Sampling")


# -- types ----------------------------------------------------------------------


@irdl_attr_definition
class OpaqueType(Quoted, TypeAttribute):
    """`!onnx.type<"string">`: the element type of tensors of strings; any other text
    is an ONNX type (sequence, optional, map, sparse tensor) in protobuf text form."""

    name = "onnx.type"


STRING = OpaqueType("string")


_SIGNED = {3: 8, 5: 16, 6: 32, 7: 64, 9: 1, 22: 4, 26: 2}
_UNSIGNED = {2: 8, 4: 16, 12: 32, 13: 64, 21: 4, 25: 2}
ELEMENTS: Mapping[int, Attribute] = {
    **{code: IntegerType(width) for code, width in _SIGNED.items()},
    **{code: IntegerType(width, Signedness.UNSIGNED) for code, width in _UNSIGNED.items()},
    1: builtin.f32,
    8: STRING,
    10: builtin.f16,
    11: builtin.f64,
    14: ComplexType(builtin.f32),
    15: ComplexType(builtin.f64),
    16: builtin.bf16,
    17: builtin.f8E4M3FN,
    18: builtin.f8E4M3FNUZ,
    19: builtin.f8E5M2,
    20: builtin.f8E5M2FNUZ,
    23: builtin.f4E2M1FN,
    24: builtin.f8E8M0FNU,
}
"""`TensorProto.DataType` -> element type: signed integers are signless in IR."""

DATA_TYPES: Mapping[Attribute, int] = {element: code for code, element in ELEMENTS.items()}
"""The inverse of `ELEMENTS`."""

# -- attributes -----------------------------------------------------------------


@irdl_attr_definition
class ProtoAttr(ParametrizedAttribute):
    """`#onnx.proto<graph, dense<...> : tensor<8xui8>>`: a serialized `AttributeProto`.

    `kind` is a word for readers (tensor, graph, strings ...); `bytes` is a tensor
    of ui8: inline, or an `#nn.blob` in the session's weight store.
    """

    name = "onnx.proto"
    kind: StringAttr
    bytes: Attribute

    @classmethod
    @override
    def parse_parameters(cls, parser: AttrParser) -> list[Attribute]:
        with parser.in_angle_brackets():
            kind = parser.parse_identifier()
            parser.parse_punctuation(",")
            return [StringAttr(kind), parser.parse_attribute()]

    @override
    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.kind.data}, ")
            printer.print_attribute(self.bytes)


# -- the op ---------------------------------------------------------------------


_NO_POSITIONS = DenseArrayBase.from_list(i64, [])


@irdl_op_definition
class NodeOp(KeptOp):
    """One ONNX node, kept as it is.

    `%y = onnx.node "TopK" (%x, %k) attributes {axis = 0 : i64} : (...) -> (...)`

    Operands are the node's inputs without the absent ones (whose positions are in
    `absent`), then one value per name in `captures`: what the node's subgraphs
    read from the graph around them.  `absent_results` are positions of outputs
    the node does not give.  `stateful` marks a node that may answer differently
    when asked twice, in itself or in a subgraph.  Integer tensors are ONNX's:
    i8 is int8, ui8 is uint8; quantized types do not occur.
    """

    name = "onnx.node"
    inputs = var_operand_def()
    outputs = var_result_def()
    op_type = prop_def(StringAttr)
    domain = prop_def(StringAttr, StringAttr(""))
    node_attributes = prop_def(DictionaryAttr, DictionaryAttr({}), prop_name="attributes")
    absent = prop_def(DenseArrayBase.constr(i64), _NO_POSITIONS)
    absent_results = prop_def(DenseArrayBase.constr(i64), _NO_POSITIONS)
    captures: ArrayAttr[StringAttr] = prop_def(ArrayAttr[StringAttr], ArrayAttr[StringAttr](()))
    stateful = opt_prop_def(UnitAttr)
    assembly_format = (
        "$op_type (`domain` $domain^)? ` ` `(` $inputs `)` (`absent` $absent^)? "
        "(`absent_results` $absent_results^)? (`captures` $captures^)? (`stateful` $stateful^)? "
        "(`attributes` $attributes^)? attr-dict `:` functional-type($inputs, $outputs)"
    )

    def __init__(
        self,
        op_type: str,
        inputs: Sequence[SSAValue | None],
        result_types: Sequence[Attribute | None],
        attributes: Mapping[str, Attribute] | None = None,
        *,
        domain: str = "",
        captures: Mapping[str, SSAValue] | None = None,
        stateful: bool = False,
    ) -> None:
        """`inputs` and `result_types` in ONNX order, None where absent."""
        captured = captures or {}
        properties: dict[str, Attribute] = {
            "op_type": StringAttr(op_type),
            "domain": StringAttr(domain),
            "attributes": DictionaryAttr(attributes or {}),
            "absent": _absent(inputs),
            "absent_results": _absent(result_types),
            "captures": strings(list(captured)),
        }
        if stateful:
            properties["stateful"] = UnitAttr()
        present = [value for value in inputs if value is not None]
        Operation.__init__(
            self,
            operands=[*present, *captured.values()],
            result_types=[type for type in result_types if type is not None],
            properties=properties,
        )

    @property
    @override
    def format(self) -> str:
        return "ONNX"

    @property
    @override
    def kind(self) -> str:
        domain, op_type = self.domain.data, self.op_type.data
        return f"{domain}.{op_type}" if domain else op_type

    @property
    @override
    def has_state(self) -> bool:
        """Asked twice, the node may answer differently."""
        random = self.stateful is not None or is_random(self.op_type.data)
        return random or self.domain.data not in KNOWN_DOMAINS

    @property
    @override
    def reads_shape(self) -> bool:
        """Whether the node reads the extents of its input only, whatever its elements are."""
        return self.op_type.data in ("Shape", "Size") and not self.domain.data

    def node_inputs(self) -> list[SSAValue | None]:
        """The node's inputs in ONNX order, None where absent."""
        count = len(self.operands) - len(self.captures.data)
        return _with_gaps(list(self.operands)[:count], self.absent)

    def node_results(self) -> list[SSAValue | None]:
        """The node's outputs in ONNX order, None where absent."""
        return _with_gaps(list(self.results), self.absent_results)

    def captured(self) -> dict[str, SSAValue]:
        """What subgraphs read from outside, by the name they use for it."""
        names = string_list(self.captures)
        return dict(zip(names, list(self.operands)[len(self.operands) - len(names) :], strict=True))

    @override
    def verify_(self) -> None:
        """Check what shapes and types alone do not say; VerifyException."""
        if len(self.captures.data) > len(self.operands):
            raise VerifyException(f"'{self.name}' op has fewer operands than names in `captures`")
        for what, positions, count in (
            ("absent", self.absent, len(self.operands) - len(self.captures.data)),
            ("absent_results", self.absent_results, len(self.results)),
        ):
            listed = list(positions.get_values())
            if listed != sorted(set(listed)) or any(
                not 0 <= p < count + len(listed) for p in listed
            ):
                raise VerifyException(
                    f"'{self.name}' op `{what}` must list distinct positions in ascending order"
                )


def _absent(entries: Sequence[object]) -> DenseArrayBase:
    return DenseArrayBase.from_list(i64, [p for p, e in enumerate(entries) if e is None])


def _with_gaps(values: list[SSAValue], absent: DenseArrayBase) -> list[SSAValue | None]:
    result: list[SSAValue | None] = list(values)
    for position in cast("DenseArrayBase[IntegerType]", absent).get_values():
        result.insert(position, None)
    return result


ONNX = Dialect("onnx", [NodeOp], [OpaqueType, ProtoAttr])
