"""Running functions: one op after another, each value dropped after its last use.

The reference the rest of the project is judged by, so it is written from the
definitions of types and ops and shares no arithmetic with passes or lowerings.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import CallOp, FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from qdialect.errors import InputError, QError, UnsupportedError, UsageError
from qdialect.interpreter.in_floats import computes_in_floats, evaluate_in_floats
from qdialect.interpreter.kernels import DEFAULT_KERNELS
from qdialect.interpreter.values import (
    Array,
    Evaluation,
    Floats,
    Kernel,
    Session,
    check_input,
    has_type_shape,
    holds_no_array,
    op_name,
    place,
)
from qdialect.ir.context import QContext
from qdialect.ir.dialects.attributes import string_list
from qdialect.ir.dialects.interface import RESULT_NAMES
from qdialect.ir.ops import NNOp, ReshapeOp
from qdialect.ir.ops.base import kernels_of
from qdialect.ir.ops.locations import op_where
from qdialect.ir.ops.shapes import ShapeError
from qdialect.plugins.tflite import interpreter as litert
from qdialect.plugins.tosa.interpreter.control import STRUCTURED, YIELD

Listener = Callable[[Operation, list[Array]], None]
"""Called after each op with its results: not to be written into; others may take their place."""

ARGUMENT_NAME = "nn.name"
"""Argument attribute (a string): the name of an input."""


_YIELDS = (YIELD, "stablehlo.return")


class Interpreter:
    """Runs the functions of a module.

    `floats`: see `Floats`. `listeners` are called after every op. The session's
    `kernels` run ops that are not ours; `functions` adds or replaces kernels. The
    module may change between runs.
    """

    def __init__(
        self,
        ctx: QContext,
        module: ModuleOp,
        floats: Floats = "ieee",
        listeners: Sequence[Listener] = (),
        functions: Mapping[str, Kernel] | None = None,
    ) -> None:
        self.module = module
        self.evaluation: Evaluation = Evaluation(ctx, floats, self)
        self.listeners: tuple[Listener, ...] = tuple(listeners)
        self.kernels: dict[str, Kernel] = {**ctx.kernels, **DEFAULT_KERNELS, **(functions or {})}
        self.variables: dict[str, Array] = {}
        self._active: list[str] = []
        self._outer: list[dict[SSAValue, Array]] = []

    def run(
        self, inputs: Sequence[Array] | Mapping[str, Array], function: str | None = None
    ) -> list[Array]:
        """The results of `function` (default: `main`, or else the only function).

        `inputs` in argument order, or by argument name (`argument_names`). Quantized
        arguments and results are stored integers. InputError when an input does
        not fit the signature; UnsupportedError for an op without a kernel.
        """
        func = self.function(function)
        arguments = _bind(func, inputs, self.evaluation)
        self.variables.clear()
        with np.errstate(all="ignore"):
            return self._call(func, arguments)

    def function(self, name: str | None = None) -> FuncOp:
        """A function of the module by name; `main` or the only one without a name."""
        functions = {f.sym_name.data: f for f in self.module.ops if isinstance(f, FuncOp)}
        known = ", ".join(functions) or "none"
        if name is None:
            chosen = functions.get("main") or next(iter(functions.values()), None)
            if chosen is None or (len(functions) > 1 and "main" not in functions):
                raise InputError(
                    f"no function 'main' and not just one (functions: {known})",
                    where=op_where(self.module),
                    code="no-function",
                )
            return chosen
        if name not in functions:
            raise UsageError(f"no function '{name}' (functions: {known})", code="no-function")
        return functions[name]

    def _call(self, func: FuncOp, arguments: list[Array]) -> list[Array]:
        name = func.sym_name.data
        if name in self._active:
            raise UnsupportedError(f"function '{name}' calls itself", where=op_where(func))
        if len(func.body.blocks) != 1:
            raise UnsupportedError(
                f"function '{name}' has {len(func.body.blocks)} blocks, not one",
                where=op_where(func),
            )
        self._active.append(name)
        outer, self._outer = self._outer, []
        try:
            results = self._block(func.body.block, arguments)
        finally:
            self._active.pop()
            self._outer = outer
        if results is None:
            raise InputError(f"function '{name}' does not end in func.return")
        return results

    def _block(self, block: Block, arguments: list[Array]) -> list[Array] | None:
        """What the terminator of a block returns or yields; None without one."""
        dead_after = _dead_after(block)
        values: dict[SSAValue, Array] = dict(zip(block.args, arguments, strict=True))
        arguments.clear()
        for unused in dead_after.get(None, ()):
            del values[unused]
        self._outer.append(values)
        try:
            for op in block.ops:
                operands = [self.value(v) for v in op.operands]
                if isinstance(op, ReturnOp) or op_name(op) in _YIELDS:
                    return operands
                dead = dead_after.get(op, ())
                if not op.regions:
                    self._drop(values, dead)
                results = list(self._evaluate(op, operands))
                self._drop(values, dead)
                operands.clear()
                for listener in self.listeners:
                    listener(op, results)
                values.update(
                    (v, array) for v, array in zip(op.results, results, strict=True) if v.uses
                )
                del results
        finally:
            self._outer.pop()
        return None

    def _drop(self, values: dict[SSAValue, Array], dead: Sequence[SSAValue]) -> None:
        for value in dead:
            values.pop(value, None)

    def value(self, value: SSAValue) -> Array:
        """A value of the block that runs, or of one around it; InputError."""
        for values in reversed(self._outer):
            if value in values:
                return values[value]
        raise InputError("a value is used that nothing defines", code="undefined-value")

    def region(self, region: Region, arguments: Sequence[Array]) -> list[Array]:
        """What the one block of a region yields; InputError (`bad-region`) if that is nothing."""
        results = None
        if len(region.blocks) == 1 and len(region.block.args) == len(arguments):
            results = self._block(region.block, list(arguments))
        if results is None:
            raise InputError(
                "a region must be one block that takes the operands and ends in what yields",
                code="bad-region",
            )
        return results

    def call(self, name: str, arguments: Sequence[Array]) -> list[Array]:
        """What another function of the module returns."""
        return self._call(self.function(name), list(arguments))

    def symbol(self, name: str) -> Operation | None:
        """The op of the module with this symbol name."""
        for op in self.module.ops:
            found = op.properties.get("sym_name") or op.attributes.get("sym_name")
            if isinstance(found, StringAttr) and found.data == name:
                return op
        return None

    def _evaluate(self, op: Operation, operands: list[Array]) -> Sequence[Array]:
        if isinstance(op, CallOp):
            return self._call(self.function(op.callee.string_value()), operands)
        structured = STRUCTURED.get(op_name(op))
        if structured is not None:
            with _located(op):
                results = structured(op, operands, self)
                _check_results(op, results, self.evaluation)
            return results
        return evaluate(op, operands, self.evaluation, self.kernels)


def evaluate_op(
    op: Operation,
    operands: Sequence[Array],
    ctx: Session,
    floats: Floats = "ieee",
    functions: Mapping[str, Kernel] | None = None,
) -> list[Array]:
    """The results of one op on runtime values of its operands; errors as `Interpreter.run`."""
    kernels = {**ctx.kernels, **DEFAULT_KERNELS, **(functions or {})}
    with np.errstate(all="ignore"):
        return list(evaluate(op, operands, Evaluation(ctx, floats), kernels))


def evaluate(
    op: Operation, operands: Sequence[Array], evaluation: Evaluation, kernels: Mapping[str, Kernel]
) -> Sequence[Array]:
    """One op through its kernel, with operand shapes and results checked."""
    name = op_name(op)
    named = kernels_of(op)
    kernel = kernels.get(name) if named is None else litert.kernel(op, named)
    if kernel is None:
        raise UnsupportedError(
            f"the interpreter has no function for '{name}'",
            where=place(op),
            notes=(f"a plug-in gives one as session.kernels['{name}']",),
        )
    with _located(op):
        if isinstance(op, NNOp) and not isinstance(op, ReshapeOp):
            op.infer([value.shape for value in operands], op.values)
        if named is None and computes_in_floats(op, evaluation):
            results = evaluate_in_floats(op, operands, evaluation, kernel)
        else:
            results = kernel(op, operands, evaluation)
        _check_results(op, results, evaluation)
    return results


_TOO_LARGE = ("array is too big", "Maximum allowed dimension")


@contextmanager
def _located(op: Operation) -> Generator[None]:
    """Shapes that do not fit as InputError, and errors without a place placed at `op`."""
    try:
        yield
    except ShapeError as error:
        raise InputError(f"'{op.name}' op {error}", where=place(op), code="bad-shape") from None
    except (MemoryError, OverflowError, ValueError, IndexError) as error:
        # numpy has no class of its own for arrays that no address space holds.
        fits = isinstance(error, ValueError | IndexError)
        fault, code = f"cannot be computed: {error}", "cannot-evaluate"
        if not fits or str(error).startswith(_TOO_LARGE):
            fault, code = "is too large to be computed", "too-large"
        raise QError(f"'{op_name(op)}' op {fault}", where=place(op), code=code) from None
    except QError as error:
        error.where = error.where or place(op)
        raise


def _check_results(op: Operation, results: Sequence[Array], evaluation: Evaluation) -> None:
    """QError (`bad-kernel`) when a kernel's results do not fit the op's result types."""
    if len(results) != len(op.results):
        raise QError(
            f"the function for '{op_name(op)}' gave {len(results)} results instead of "
            f"{len(op.results)}",
            code="bad-kernel",
        )
    for value, array in zip(op.results, results, strict=True):
        if holds_no_array(value.type):
            continue
        if not has_type_shape(array, value.type) or array.dtype != evaluation.dtype(value.type):
            raise QError(
                f"the function for '{op_name(op)}' gave {array.dtype}{list(array.shape)} "
                f"for a result of type {value.type}",
                code="bad-kernel",
            )


def _dead_after(block: Block) -> dict[Operation | None, list[SSAValue]]:
    """The values used last by each op; under None the arguments nobody uses."""
    last: dict[SSAValue, Operation | None] = dict.fromkeys(block.args)
    for op in block.ops:
        last.update(dict.fromkeys(op.operands, op))
        for inner in op.walk() if op.regions else ():
            last.update({value: op for value in inner.operands if value in last})
        last.update(dict.fromkeys(op.results, op))
    dead: dict[Operation | None, list[SSAValue]] = {}
    for value, op in last.items():
        dead.setdefault(op, []).append(value)
    return dead


def argument_names(func: FuncOp) -> list[str]:
    """The names of the arguments: the attribute `nn.name`, or `arg0`, `arg1`, ..."""
    attributes = [a.data for a in func.arg_attrs] if func.arg_attrs is not None else []
    names: list[str] = []
    for index in range(len(func.function_type.inputs)):
        name = attributes[index].get(ARGUMENT_NAME) if attributes else None
        names.append(name.data if isinstance(name, StringAttr) else f"arg{index}")
    return names


def output_names(function: FuncOp) -> list[str]:
    """The names of the results: those of the imported model, or `result0`, `result1`, ..."""
    names = string_list(function.attributes.get(RESULT_NAMES))
    count = len(function.function_type.outputs)
    return names if len(names) == count else [f"result{i}" for i in range(count)]


def _bind(
    func: FuncOp, inputs: Sequence[Array] | Mapping[str, Array], evaluation: Evaluation
) -> list[Array]:
    """The inputs in argument order, checked against the signature."""
    names, types = argument_names(func), func.function_type.inputs.data
    if isinstance(inputs, Mapping):
        missing = [name for name in names if name not in inputs]
        unknown = [name for name in inputs if name not in names]
        if missing or unknown:
            problem = f"missing: {missing[0]}" if missing else f"unknown: {unknown[0]}"
            raise InputError(
                f"inputs do not match the arguments {', '.join(names)} ({problem})",
                code="bad-input",
            )
        inputs = [inputs[name] for name in names]
    if len(inputs) != len(types):
        raise InputError(
            f"function '{func.sym_name.data}' takes {len(types)} inputs, but got {len(inputs)}",
            code="bad-input",
        )
    return [
        array if holds_no_array(kind) else check_input(np.asarray(array), kind, name, evaluation)
        for array, kind, name in zip(inputs, types, names, strict=True)
    ]
