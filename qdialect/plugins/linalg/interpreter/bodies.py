"""The scalar body of a loop nest, run for many iterations at once.

Each scalar is an array with one dimension for each loop that runs at once (of extent 1 where it
does not depend on that loop), or has no dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from qdialect.errors import InputError, UnsupportedError
from qdialect.interpreter.values import Array, Evaluation, op_name, place
from qdialect.plugins.linalg.interpreter.scalars import KERNELS

_YIELDS = ("linalg.yield", "tensor.yield")


def one_block(region: Region) -> Block:
    """The block of a region; InputError (`bad-region`)."""
    if len(region.blocks) != 1:
        raise InputError("a region must be one block", code="bad-region")
    return region.block


def run_body(
    block: Block, arguments: Sequence[Array], places: Sequence[Array], evaluation: Evaluation
) -> list[Array]:
    """What a body yields of its arguments; `places` are the indices of the loops.

    Values of around the body are those of the run. InputError (`bad-region`) if nothing is
    yielded, UnsupportedError for an op that is none of scalars.
    """
    if len(block.args) != len(arguments):
        raise InputError("a region must take a scalar of each operand", code="bad-region")
    values: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))

    def value(of: SSAValue) -> Array:
        if of not in values:
            if evaluation.runner is None:
                raise InputError("a value is used that nothing defines", code="undefined-value")
            values[of] = evaluation.runner.value(of)
        return values[of]

    for op in block.ops:
        operands = [value(v) for v in op.operands]
        name = op_name(op)
        if name in _YIELDS:
            return operands
        if name == "linalg.index":
            values[op.results[0]] = places[index_of(op)]
        elif name == "tensor.extract":
            values[op.results[0]] = element(operands[0], operands[1:])
        elif name in KERNELS:
            values[op.results[0]] = KERNELS[name](op, operands, evaluation)[0]
        else:
            raise UnsupportedError(
                f"the interpreter has no function for '{name}' in the body of a loop",
                where=place(op),
            )
    raise InputError("a region must end in what it yields", code="bad-region")


def index_of(op: Operation) -> int:
    """The loop whose index `linalg.index` is."""
    return cast("IntegerAttr[Any]", op.properties["dim"]).value.data


def element(tensor: Array, indices: Sequence[Array]) -> Array:
    """The elements at indices of any one shape; InputError (`bad-index`)."""
    for index, extent in zip(indices, tensor.shape, strict=True):
        if index.size and not (int(index.min()) >= 0 and int(index.max()) < extent):
            raise InputError(
                f"an element is read outside a tensor of shape {list(tensor.shape)}",
                code="bad-index",
            )
    return np.asarray(tensor[tuple(indices)])
