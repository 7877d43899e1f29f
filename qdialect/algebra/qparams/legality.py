"""Why a parameter field cannot follow a data movement."""

from __future__ import annotations

from typing import Literal, NamedTuple

Code = Literal[
    "axis-split",
    "axis-merge",
    "concat-params",
    "dynamic-params",
    "dynamic-shape",
    "empty",
    "growth",
    "layout",
    "pad-value",
    "phase-mix",
    "select-params",
    "storage-mismatch",
    "undetermined",
]


class Illegal(NamedTuple):
    """A refusal: `code` for programs, `reason` for people.

    | code | meaning |
    |---|---|
    | axis-split | a reshape cuts the quantized axis into several dimensions |
    | axis-merge | a reshape merges part of the quantized axis with a neighbour |
    | concat-params | the parts differ along a dimension other than the concatenated one |
    | dynamic-params | the parameters would depend on run-time indices |
    | dynamic-shape | not provable while a dimension is unknown |
    | empty | the tensor has no elements, so no parameters |
    | growth | many more parameters than before; see `within_growth` |
    | layout | the layouts the caller allows cannot hold the result |
    | pad-value | the fill is not `(q - zero_point) * scale` for a stored integer q |
    | phase-mix | elements of several channels interleave in space |
    | select-params | the two data operands have different parameters |
    | storage-mismatch | operands differ in storage, bounds or expressed type |
    | undetermined | the result's parameters do not fix the operand's |
    """

    code: Code
    reason: str

    def __str__(self) -> str:
        return f"{self.code}: {self.reason}"
