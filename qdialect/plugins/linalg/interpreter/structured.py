"""Loop nests of linalg: generic ones, and named ones by the loops that they stand for.

Loops that the results depend on run at once; those that reduce run in order, the last one
fastest, each step on what the one before it left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
)
from xdsl.ir import Attribute, Operation
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)

from qdialect.errors import InputError, UnsupportedError
from qdialect.interpreter.values import Array, Evaluation, Kernel
from qdialect.plugins.linalg.interpreter.bodies import element, one_block, run_body

Maps = Callable[[Operation, Sequence[Array]], Sequence[AffineMap]]
"""The map of each operand of a named op: which element an iteration reads or writes."""


def _attribute(op: Operation, name: str) -> Attribute | None:
    return op.properties.get(name, op.attributes.get(name))


def _written_maps(op: Operation) -> list[AffineMap] | None:
    found = _attribute(op, "indexing_maps")
    if not isinstance(found, ArrayAttr):
        return None
    return [cast("AffineMapAttr", one).data for one in cast("ArrayAttr[Any]", found)]


def _generic(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    maps = _written_maps(op)
    kinds = cast("ArrayAttr[Any]", op.properties["iterator_types"])
    if maps is None:
        raise InputError("a linalg.generic has indexing maps", code="bad-linalg")
    reducing = [n for n, kind in enumerate(kinds.data) if "reduction" in str(kind)]
    return _nest(op, operands, evaluation, (maps, reducing))


def _named(maps_of: Maps) -> Kernel:
    def kernel(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
        maps = _written_maps(op) or maps_of(op, operands)
        used = {n for expr in maps[-1].results for n in expr.used_dims()}
        reducing = [n for n in range(maps[-1].num_dims) if n not in used]
        return _nest(op, operands, evaluation, (maps, reducing))

    return kernel


def _nest(
    op: Operation,
    operands: Sequence[Array],
    evaluation: Evaluation,
    loops: tuple[Sequence[AffineMap], Sequence[int]],
) -> list[Array]:
    """A loop nest; `loops` are the maps and which dimensions reduce."""
    maps, reducing = loops
    if len(maps) != len(operands) or not op.results:
        raise UnsupportedError("only loops over tensors are interpreted", code="bad-linalg")
    extents, block = _extents(maps, operands), one_block(op.regions[0])
    at_once = [n for n in range(len(extents)) if n not in reducing]
    grid = {
        n: np.arange(extents[n]).reshape([-1 if m == n else 1 for m in at_once]) for n in at_once
    }
    count = len(op.results)
    inputs, outputs = list(operands[:-count]), [np.array(x) for x in operands[-count:]]
    for step in product(*(range(extents[n]) for n in reducing)):
        fixed = dict(zip(reducing, (np.asarray(n) for n in step), strict=True))
        places = [grid[n] if n in grid else fixed[n] for n in range(len(extents))]
        where = [tuple(_place(expr, places) for expr in one.results) for one in maps]
        read = [element(x, at) for x, at in zip((*inputs, *outputs), where, strict=True)]
        results = run_body(block, read, places, evaluation)
        for output, at, result in zip(outputs, where[-count:], results, strict=True):
            output[at] = result
    return outputs


def _extents(maps: Sequence[AffineMap], operands: Sequence[Array]) -> list[int]:
    """How often each loop runs: the extent of the dimension that its index goes through."""
    found: dict[int, int] = {}
    for one, operand in zip(maps, operands, strict=True):
        if len(one.results) != operand.ndim:
            raise InputError("an indexing map does not have the rank of its operand")
        for expr, extent in zip(one.results, operand.shape, strict=True):
            if (
                isinstance(expr, AffineDimExpr)
                and found.setdefault(expr.position, extent) != extent
            ):
                raise InputError(
                    f"the extents {found[expr.position]} and {extent} of one loop differ",
                    code="bad-shape",
                )
    if len(found) != maps[0].num_dims:
        raise InputError("a loop goes through no dimension of an operand", code="bad-linalg")
    return [found[n] for n in range(len(found))]


def _place(expr: AffineExpr, places: Sequence[Array]) -> Array:
    """An index of an affine map, for all iterations at once."""
    if isinstance(expr, AffineDimExpr):
        return places[expr.position]
    if isinstance(expr, AffineConstantExpr):
        return np.asarray(expr.value)
    if not isinstance(expr, AffineBinaryOpExpr):
        raise UnsupportedError("maps with symbols are not interpreted")
    a, b = _place(expr.lhs, places), _place(expr.rhs, places)
    match expr.kind:
        case AffineBinaryOpKind.Add:
            return np.asarray(a + b)
        case AffineBinaryOpKind.Mul:
            return np.asarray(a * b)
        case AffineBinaryOpKind.Mod:
            return np.asarray(a % b)
        case AffineBinaryOpKind.FloorDiv:
            return np.asarray(a // b)
        case AffineBinaryOpKind.CeilDiv:
            return np.asarray(-(-a // b))


# -- named ops ------------------------------------------------------------------------


def _lettered(*operands: str) -> Maps:
    """Maps of operands whose dimensions are loops; the last ones are those that reduce."""
    order = "".join(dict.fromkeys(operands[-1] + "".join(operands)))

    def maps(op: Operation, _: Sequence[Array]) -> Sequence[AffineMap]:
        dims = {letter: AffineExpr.dimension(n) for n, letter in enumerate(order)}
        return [AffineMap(len(order), 0, tuple(dims[c] for c in one)) for one in operands]

    return maps


def _windows(*operands: str) -> Maps:
    """Maps of windows in two dimensions: `yx` of the results, `hw` of the kernel, and `YX` where
    they read, by `strides` and `dilations`."""
    order = "".join(dict.fromkeys(operands[-1] + "".join(operands).replace("YX", "")))

    def maps(op: Operation, _: Sequence[Array]) -> Sequence[AffineMap]:
        dims = {letter: AffineExpr.dimension(n) for n, letter in enumerate(order)}
        strides, dilations = _pair(op, "strides"), _pair(op, "dilations")
        for n, (read, out, inner) in enumerate(("Yyh", "Xxw")):
            dims[read] = dims[out] * strides[n] + dims[inner] * dilations[n]
        return [AffineMap(len(order), 0, tuple(dims[c] for c in one)) for one in operands]

    return maps


def _pair(op: Operation, name: str) -> Sequence[int]:
    found = _attribute(op, name)
    if not isinstance(found, DenseIntOrFPElementsAttr):
        return (1, 1)
    return [int(n) for n in cast("Any", found).get_values()]


def _elementwise(op: Operation, operands: Sequence[Array]) -> Sequence[AffineMap]:
    """The same element of each, and the only one of a scalar."""
    rank = operands[-1].ndim
    scalar = AffineMap(rank, 0, ())
    return [scalar if x.ndim == 0 else AffineMap.identity(rank) for x in operands]


def _numbers(op: Operation, name: str) -> list[int]:
    found = _attribute(op, name)
    if not isinstance(found, DenseArrayBase):
        raise InputError(f"it has no '{name}'", code="bad-linalg")
    return [int(n) for n in cast("Any", found).get_values()]


def _reduce(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    dimensions, half = _numbers(op, "dimensions"), len(operands) // 2
    rank = operands[0].ndim
    kept = tuple(AffineExpr.dimension(n) for n in range(rank) if n not in dimensions)
    maps = [AffineMap.identity(rank)] * half + [AffineMap(rank, 0, kept)] * half
    return _nest(op, operands, evaluation, (maps, dimensions))


def _transpose(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    return [np.transpose(operands[0], _numbers(op, "permutation"))]


def _broadcast(op: Operation, operands: Sequence[Array], evaluation: Evaluation) -> list[Array]:
    source, target = operands
    return [np.broadcast_to(np.expand_dims(source, _numbers(op, "dimensions")), target.shape)]


_ELEMENTWISE = ("add", "sub", "mul", "max", "min", "exp", "log", "sqrt", "select", "copy", "fill")

KERNELS: Mapping[str, Kernel] = {
    "linalg.generic": _generic,
    **{f"linalg.{name}": _named(_elementwise) for name in _ELEMENTWISE},
    "linalg.matmul": _named(_lettered("mk", "kn", "mn")),
    "linalg.conv_2d_nchw_fchw": _named(_windows("ncYX", "fchw", "nfyx")),
    "linalg.conv_2d_nhwc_hwcf": _named(_windows("nYXc", "hwcf", "nyxf")),
    "linalg.conv_2d_nhwc_fhwc": _named(_windows("nYXc", "fhwc", "nyxf")),
    "linalg.conv_2d_ngchw_fgchw": _named(_windows("ngcYX", "fgchw", "ngfyx")),
    "linalg.conv_2d_ngchw_gfchw": _named(_windows("ngcYX", "gfchw", "ngfyx")),
    "linalg.conv_2d_nhwgc_gfhwc": _named(_windows("nYXgc", "gfhwc", "nyxgf")),
    "linalg.pooling_nchw_max": _named(_windows("ncYX", "hw", "ncyx")),
    "linalg.reduce": _reduce,
    "linalg.transpose": _transpose,
    "linalg.broadcast": _broadcast,
}
