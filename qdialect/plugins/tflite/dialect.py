"""The `tflite` dialect: ops of TFLite and Circle files as the files have them.

    %y = tflite.node "CONV_2D" (%x, %w, %b) options {padding = "SAME", stride_w = 1 : i32, ...}
        : (tensor<1x8x8x3x!q>, tensor<4x3x3x3x!w>, tensor<4x!b>) -> tensor<1x8x8x4x!q>

Operands and results are laid out as in the file (channels last), constants are `nn.constant`.
`options` are the fields of the op's table in the schema, enums by their names, subgraphs by the
symbols of their functions; `version` is the op's, where it is not the one that its types and
options need; `absent` lists the inputs that it does without.  The reader makes nothing else,
`raise-tflite` takes what it can to `nn`, `convert-nn-to-tflite` comes back.

Two ops are not in the schema: "pseudo_const" is a constant whose elements the weight store has no
type for, as bytes (`custom`); "pseudo_variable" a tensor that keeps its value from run to run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from typing_extensions import override
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, IntegerAttr, StringAttr, i32
from xdsl.ir import Attribute, Dialect, Operation, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    irdl_attr_definition,
    irdl_op_definition,
    opt_prop_def,
    prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qdialect.ir.dialects.accessors import Quoted
from qdialect.ir.dialects.kept import KeptOp

FILE = "tflite.file"
"""Attribute of a module: what a file says besides its subgraphs (version, signatures, metadata)."""
TABLE = "tflite.table"
"""Attribute of a node: the table that its options are in, where it is not the op's own; empty for
none (the options here are the schema's defaults)."""
INTERMEDIATES = "tflite.intermediates"
"""Attribute of a node: the types of values within it, whose qparams it computes with."""
MUTATING = "tflite.mutating"
"""Attribute of a node: which inputs it changes, as the file says."""
VARIABLES = "tflite.variables"
"""Attribute of a node: the numbers of results that keep their values from run to run."""
CONSTANT, VARIABLE = "pseudo_const", "pseudo_variable"

_WITH_STATE = ("VAR_HANDLE", "ASSIGN_VARIABLE", "READ_VARIABLE", "CALL_ONCE", "RANDOM", "HASHTABLE")
_CALLS = ("IF", "WHILE", "CALL")
_RANDOM = ("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL")


@irdl_attr_definition
class TfliteType(Quoted, TypeAttribute):
    """`!tflite.type<"STRING">`: an element type by its name in the schema, which MLIR lacks."""

    name = "tflite.type"


@irdl_custom_directive
class Custom(CustomDirective):
    """`custom "00ff"` or nothing; a plain string would take the colon behind it for its own."""

    digits: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        """Read it, if it is there."""
        if parser.parse_optional_keyword("custom"):
            self.digits.set(state, StringAttr(parser.parse_str_literal()))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        """Write it, if it is there."""
        if (digits := self.digits.get(op)) is not None:
            state.print_whitespace(printer)
            printer.print_string("custom ")
            printer.print_attribute(digits)


@irdl_op_definition
class TfliteNodeOp(KeptOp):
    """One operator of a file: `op` is its name in the schema, or that of a custom op, whose
    options are bytes (`custom`, a string of hexadecimal digits)."""

    name = "tflite.node"
    inputs = var_operand_def()
    outputs = var_result_def()
    op = prop_def(StringAttr)
    options = prop_def(DictionaryAttr, DictionaryAttr({}))
    version = opt_prop_def(IntegerAttr.constr(i32))
    absent = opt_prop_def(DenseArrayBase.constr(i32))
    custom = opt_prop_def(StringAttr)
    custom_directives = (Custom,)
    assembly_format = (
        "$op ` ` `(` $inputs `)` (`version` $version^)? (`absent` $absent^)? "
        "custom<Custom>($custom) (`options` $options^)? attr-dict "
        "`:` functional-type($inputs, $outputs)"
    )

    def __init__(
        self,
        op: str,
        inputs: Sequence[SSAValue | None],
        result_types: Sequence[Attribute],
        options: Mapping[str, Attribute] | None = None,
        *,
        version: int = 1,
        custom: str | None = None,
    ) -> None:
        properties: dict[str, Attribute] = {
            "op": StringAttr(op),
            "options": DictionaryAttr(options or {}),
        }
        if version != 1:
            properties["version"] = IntegerAttr(version, i32)
        absent = [index for index, value in enumerate(inputs) if value is None]
        if absent:
            properties["absent"] = DenseArrayBase.from_list(i32, absent)
        if custom is not None:
            properties["custom"] = StringAttr(custom)
        Operation.__init__(
            self,
            operands=[value for value in inputs if value is not None],
            result_types=list(result_types),
            properties=properties,
        )

    @property
    @override
    def format(self) -> str:
        return "TFLite"

    @property
    @override
    def kind(self) -> str:
        return self.op.data

    @property
    @override
    def has_state(self) -> bool:
        """Whether it may read or write variables, or draws random numbers."""
        op = self.op.data
        if op.startswith(_WITH_STATE) or op in (*_RANDOM, *_CALLS, VARIABLE):
            return True
        if self.custom is not None and op != CONSTANT:
            return True
        owners = (operand.owner for operand in self.operands)
        nodes = (owner for owner in owners if isinstance(owner, TfliteNodeOp))
        return any(o.op.data == VARIABLE or VARIABLES in o.attributes for o in nodes)

    @property
    def arguments(self) -> list[SSAValue | None]:
        """The inputs by their positions in the file; None for those that are absent."""
        absent = set[int]() if self.absent is None else set(self.absent.get_values())
        given = iter(self.operands)
        count = len(self.operands) + len(absent)
        return [None if index in absent else next(given) for index in range(count)]

    @override
    def verify_(self) -> None:
        """Check that absent inputs lie among the inputs; VerifyException."""
        if not self.op.data:
            raise VerifyException(f"'{self.name}' op needs the name of an op")
        if self.absent is not None:
            absent = list(self.absent.get_values())
            most = len(self.operands) + len(absent)
            if absent != sorted(set(absent)) or not all(0 <= i < most for i in absent):
                raise VerifyException(
                    f"'{self.name}' op absent must be increasing numbers of inputs below {most}, "
                    f"but is {absent}"
                )


KERNELS_KEY = "tflite.kernels"
"""Discardable attribute of a module: whose arithmetic its file has ("litert-xnn")."""


def kernels_of_module(op: Operation) -> str | None:
    """Whose arithmetic the file has that a module is from or becomes; None where nobody said."""
    named = op.attributes.get(KERNELS_KEY)
    return named.data if isinstance(named, StringAttr) else None


TFLITE = Dialect("tflite", [TfliteNodeOp], [TfliteType])
