"""The `torch` dialect: ops of PyTorch that have no counterpart among ours or ONNX's.

    %y = torch.node "aten.cdist.default" (%a, %b) arguments {x1 = #torch.value<0>,
        x2 = #torch.value<1>, p = 2.0} : (tensor<3x4xf32>, tensor<5x4xf32>) -> tensor<3x5xf32>

`arguments` has the arguments of the op by their names in its schema: tensors by the number of the
operand, element types as types, lists as arrays, None as `unit`.  PyTorch runs such an op, where
it is installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from typing_extensions import override
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.ir import Attribute, Data, Dialect, Operation, SSAValue
from xdsl.irdl import (
    irdl_attr_definition,
    irdl_op_definition,
    prop_def,
    var_operand_def,
    var_result_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from qdialect.ir.dialects.kept import KeptOp

_TARGET = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){1,2}")
_RANDOM = re.compile(
    r"rand|rrelu|dropout|bernoulli|multinomial|binomial|normal|uniform|exponential|poisson"
    r"|cauchy|geometric"
)


@irdl_attr_definition
class ValueAttr(Data[int]):
    """`#torch.value<1>`: the argument is operand 1 of the op."""

    name = "torch.value"

    @classmethod
    @override
    def parse_parameter(cls, parser: AttrParser) -> int:
        with parser.in_angle_brackets():
            return parser.parse_integer(allow_negative=False)

    @override
    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(str(self.data))


@irdl_op_definition
class TorchNodeOp(KeptOp):
    """One op of PyTorch, kept as it is: `target` is its name and overload.

    Operands are the tensors among its arguments, results the tensors that it gives (those of a
    list one after the other).  Quantized types do not occur.
    """

    name = "torch.node"
    inputs = var_operand_def()
    outputs = var_result_def()
    target = prop_def(StringAttr)
    arguments = prop_def(DictionaryAttr, DictionaryAttr({}))
    assembly_format = (
        "$target ` ` `(` $inputs `)` (`arguments` $arguments^)? attr-dict "
        "`:` functional-type($inputs, $outputs)"
    )

    def __init__(
        self,
        target: str,
        inputs: Sequence[SSAValue],
        result_types: Sequence[Attribute],
        arguments: Mapping[str, Attribute],
    ) -> None:
        Operation.__init__(
            self,
            operands=list(inputs),
            result_types=list(result_types),
            properties={"target": StringAttr(target), "arguments": DictionaryAttr(arguments)},
        )

    @property
    @override
    def format(self) -> str:
        return "PyTorch"

    @property
    @override
    def kind(self) -> str:
        return self.target.data

    @property
    @override
    def has_state(self) -> bool:
        """Whether it draws random numbers."""
        return _RANDOM.search(self.target.data) is not None

    @override
    def verify_(self) -> None:
        """Check that arguments name operands that there are; VerifyException."""
        if _TARGET.fullmatch(self.target.data) is None:
            raise VerifyException(
                f"'{self.name}' op target must be the name of an op, but is '{self.target.data}'"
            )
        named = {index for value in self.arguments.data.values() for index in _references(value)}
        if named != set(range(len(self.operands))):
            raise VerifyException(
                f"'{self.name}' op has {len(self.operands)} operands, "
                f"but its arguments name {sorted(named)}"
            )


def _references(value: Attribute) -> Iterator[int]:
    if isinstance(value, ValueAttr):
        yield value.data
    elif isinstance(value, ArrayAttr):
        for inner in cast("ArrayAttr[Attribute]", value):
            yield from _references(inner)


TORCH = Dialect("torch", [TorchNodeOp], [ValueAttr])
