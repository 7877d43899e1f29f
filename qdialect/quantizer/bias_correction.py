"""Bias correction: what rounding does to the mean of a result goes into the bias.

With W' and x' what the codes of weights and values name, a contraction makes an error of

    W' x' - W x,   of mean E[W' x' - W x] for each channel.

That is not zero where W' - W meets x of one sign (behind a relu) or the products are few
(depthwise), nor where most elements of a channel are one number (the background of a picture),
whose rounding is the same everywhere: no sum averages it out, so it grows on its way down.  The
bias is lessened by it.

Errors that come from above are part of it, but for what the biases there make up for.  So it is
measured in one function that has the float ops beside the quantized ones, where each result is
corrected before it is taken, in sample k by the mean over samples 1 to k:

    %y = nn.conv2d %x, %w                    of the float model
    %0 = nn.conv2d %x', %w'                  of the quantized one
    %1 = nn.sub %0, %y
    %2 = nn.reduce_mean %1                   by channel: what sample k says
    %3 = nn.mul %2, %share                   1 / k of it
    %4 = nn.add %3, %known                   and (k - 1) / k of the mean over those before
    %5 = nn.sub %0, %4                       in the place of %0

Of what the samples say together, that is taken which they leave in no doubt (`sampled_means`): few
positions of few samples are nothing to go by.

Ops of which it was found along with the weights (`Grids.shifts`) are left to `correct_known`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation, SSAValue

from qdialect.algebra.sampled_means import drawn_to_zero
from qdialect.interpreter import Interpreter, argument_names
from qdialect.interpreter.machine import ARGUMENT_NAME
from qdialect.interpreter.values import runtime_dtype
from qdialect.ir.behaviors import Accumulator
from qdialect.ir.dialects.interface import DIMS
from qdialect.ir.ops import AddOp, MulOp, ReduceMeanOp, SubOp, shape_of
from qdialect.quantizer.biases import lessen_bias
from qdialect.quantizer.grids import Grids
from qdialect.quantizer.profile.engines import open_engine
from qdialect.quantizer.profile.instrument import Instrumented, Observed
from qdialect.quantizer.quantized_copy import quantized_copy
from qdialect.quantizer.selection import Selection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Arrays = Mapping[str, NDArray[Any]]


@dataclass
class BiasCorrection:
    """Measures and corrects, with the samples and the engine to measure with."""

    samples: Sequence[Arrays]
    engine: str

    def __call__(self, selection: Selection, grids: Grids) -> None:
        """Correct the biases in `grids`; ops without a bias get one."""
        found = _correctable(selection, grids)
        if not found:
            return
        means = _Beside(selection, grids, found).means(self.samples, self.engine)
        for op, mean in means.items():
            lessen_bias(op, found[op], mean, selection, grids)


def _correctable(selection: Selection, grids: Grids) -> dict[Operation, Accumulator]:
    """The contractions with weights in codes that have a bias in codes or none yet."""
    found: dict[Operation, Accumulator] = {}
    for op, behavior in selection.ops.items():
        acc = behavior.accumulator
        if acc is None or acc.bias is None or (op, acc.rhs) not in grids.constants:
            continue
        if acc.bias < len(op.operands) and (op, acc.bias) not in grids.constants:
            continue
        if op not in grids.shifts:
            found[op] = acc
    return found


class _Beside:
    """A quantized function with the float ops beside it, in which results are corrected."""

    def __init__(
        self, selection: Selection, grids: Grids, ops: Mapping[Operation, Accumulator]
    ) -> None:
        copy = quantized_copy(selection, grids)
        function = Interpreter(copy.ctx, copy.module).function()
        names = argument_names(function)
        exact = _float_ops(selection, function)
        self._ctx, self._plan = copy.ctx, Instrumented(copy.module, function)
        #: ops, and what is known of their means, by the names of these
        self._ops: dict[str, Operation] = {}
        self._known: dict[str, NDArray[Any]] = {}
        for number, (op, acc) in enumerate(ops.items()):
            name = f"mean {number}"
            mean = _corrected(function, copy.ops[op], exact[op], acc.result_axis(op))
            names += [_share(name), name]
            self._plan.observed.append(Observed((name,), mean))
            self._ops[name] = op
            self._known[name] = np.zeros(shape_of(mean), runtime_dtype(mean.type))
        function.update_function_type()
        notes = [DictionaryAttr({ARGUMENT_NAME: StringAttr(name)}) for name in names]
        function.arg_attrs = ArrayAttr(notes)
        function.attributes.pop(DIMS, None)

    def means(self, samples: Sequence[Arrays], engine: str) -> Mapping[Operation, Array]:
        """The mean errors by channel."""
        running, known = open_engine(engine, self._plan, self._ctx), self._known
        squares = {name: np.zeros(mean.shape) for name, mean in known.items()}
        for number, sample in enumerate(samples, 1):
            inputs = dict(sample)
            for name, mean in known.items():
                inputs[_share(name)] = np.full_like(mean, 1 / number)
                inputs[name] = mean * mean.dtype.type(1 - 1 / number)
            for (name,), mean in running.run(inputs):
                # Data that overflows inside says nothing of a mean.
                said = np.where(np.isfinite(mean), mean, known[name])
                known[name] = inputs[name] + said * mean.dtype.type(1 / number)
                squares[name] += np.square(said.astype(np.float64)) / len(samples)
        return {
            op: drawn_to_zero(known[name].astype(np.float64), squares[name], len(samples)).reshape(
                -1
            )
            for name, op in self._ops.items()
        }


def _share(name: str) -> str:
    return f"{name}: share"


def _float_ops(selection: Selection, function: FuncOp) -> Mapping[Operation, Operation]:
    """The ops of a selection as they are, in front of those of a function with its arguments."""
    block = function.body.block
    values: dict[SSAValue, SSAValue] = {}
    values.update(zip(selection.values.block.args, block.args, strict=True))
    found = {
        op: op.clone(values) for op in selection.values.block.ops if not isinstance(op, ReturnOp)
    }
    assert block.first_op is not None
    block.insert_ops_before(list(found.values()), block.first_op)
    return found


def _corrected(function: FuncOp, made: Operation, exact: Operation, axis: int) -> SSAValue:
    """Correct the result of an op, which has channels along `axis`, by two new arguments: how much
    the mean of its error counts, and what is added to that; the mean."""
    block, (value,) = function.body.block, made.results
    error = SubOp(value, exact.results[0])
    axes = [n for n in range(len(shape_of(value))) if n != axis]
    mean = ReduceMeanOp(error.results[0], axes=axes)
    kind = mean.results[0].type
    share, known = (block.insert_arg(kind, len(block.args)) for _ in range(2))
    part = MulOp(mean.results[0], share)
    shift = AddOp(part.results[0], known)
    corrected = SubOp(value, shift.results[0])
    block.insert_ops_after([error, mean, part, shift, corrected], made)
    taken = (error, corrected)
    value.replace_uses_with_if(corrected.results[0], lambda use: use.operation not in taken)
    return mean.results[0]
