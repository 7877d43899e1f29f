"""Ops of StableHLO that run bodies: reductions, sorts, loops and branches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from xdsl.dialects.builtin import AnyFloat, ComplexType, IntegerType, TensorType, i1
from xdsl.ir import Attribute

from qdialect.upstream.inference.quantized import is_quantized, params_of
from qdialect.upstream.inference.view import Inferred, Rule, View, demand
from qdialect.upstream.inference.windows import Window
from qdialect.upstream.shapes import (
    Shape,
    element_or_self,
    fit,
    have_fitting_shapes,
    listed,
    merged,
    shape_of,
)
from qdialect.upstream.traits import inferred_as

_NOTHING: Sequence[Inferred] = ()
_Kinds = Sequence[Attribute]


def _are_one(a: Attribute, b: Attribute, *, any_float: bool = False) -> bool:
    """Whether types may be one; floats of any precision are on request."""
    x, y = element_or_self(a), element_or_self(b)
    floats = any_float and isinstance(x, AnyFloat) and isinstance(y, AnyFloat)
    return have_fitting_shapes([a, b]) and (x == y or floats)


def _promotes(a: Attribute, b: Attribute) -> bool:
    """Whether elements may be summed in another type: of their kind, and no narrower."""
    x, y = element_or_self(a), element_or_self(b)
    if isinstance(x, AnyFloat) and isinstance(y, AnyFloat):
        return True
    if is_quantized(x) and is_quantized(y):
        same = params_of(x).expressed == params_of(y).expressed
        return same and params_of(x).storage.width <= params_of(y).storage.width
    if isinstance(x, ComplexType) and isinstance(y, ComplexType):
        return True
    if not isinstance(x, IntegerType) or not isinstance(y, IntegerType):
        return False
    return cast("Any", x).width.data <= cast("Any", y).width.data


def _scalar(element: Attribute) -> Attribute:
    return TensorType(element, [])


def reduced(
    v: View, number: int, inputs: _Kinds, initial: _Kinds, shape: Shape = ()
) -> Sequence[Attribute]:
    """What a body returns, which combines two values for each input; `shape`: that of which its
    arguments may have dimensions."""
    block, returned, count = v.body(number), v.returned(number), len(inputs)
    arguments = [] if block is None else [*block.arg_types]
    demand(
        len(arguments) == 2 * count and len(returned) == count,
        f"its body must take {2 * count} values and return {count}, "
        f"but takes {len(arguments)} and returns {len(returned)}",
    )
    for n, (given, start, found) in enumerate(zip(inputs, initial, returned, strict=True)):
        carried, other = arguments[n], arguments[count + n]
        demand(
            _are_one(found, carried) and _are_one(found, other, any_float=True),
            f"its body returns {found} for arguments of {carried} and {other}",
        )
        demand(
            fit(shape_of(start), shape_of(found)) and _promotes(start, found),
            f"its body returns {found}, but begins with {start}",
        )
        demand(_promotes(given, other), f"its body takes {other} for elements of {given}")
        places = iter(shape)
        demand(
            all(any(fit((n,), (m,)) for m in places) for n in shape_of(other) or ()),
            f"its body takes {other} for parts of {listed(shape)}",
        )
    return returned


def _of_one_shape(kinds: _Kinds, what: str) -> Shape:
    demand(have_fitting_shapes(kinds), f"{what} must have one shape")
    return merged(*map(shape_of, kinds)) or ()


def _reduce(v: View) -> Sequence[Inferred]:
    inputs, dims = v.kinds("inputs"), v.integers("dimensions")
    demand(inputs, "must have at least one operand")
    shape = _of_one_shape(inputs, "inputs")
    demand(
        len({*dims}) == len(dims) and all(0 <= d < len(shape) for d in dims),
        f"dimensions must be different ones of {len(shape)}, from 0, but are {[*dims]}",
    )
    first = shape_of(inputs[0]) or ()
    rest = tuple(n for d, n in enumerate(first) if d not in dims)
    returned = reduced(v, 0, inputs, v.kinds("init_values"), rest)
    return [Inferred(rest, element_or_self(kind)) for kind in returned]


def _windowed(v: View, shape: Shape) -> Window:
    size = v.integers("window_dimensions")
    demand(
        len(size) == len(shape),
        f"window_dimensions must have {len(shape)} numbers, one for each dimension, "
        f"but has {len(size)}",
    )
    return Window.of(v, size, base="base_dilations", spread="window_dilations")


def _reduce_window(v: View) -> Sequence[Inferred]:
    inputs = v.kinds("inputs")
    demand(inputs, "must have at least one operand")
    window = _windowed(v, _of_one_shape(inputs, "inputs"))
    returned = reduced(v, 0, inputs, v.kinds("init_values"), tuple(window.size))
    return [
        Inferred(window.extents(shape_of(given) or ()), element_or_self(kind))
        for given, kind in zip(inputs, returned, strict=True)
    ]


def _select_and_scatter(v: View) -> Sequence[Inferred]:
    element, shape = v.element("operand"), v.shape("operand") or ()
    block, chosen = v.body(0), v.returned(0)
    arguments = [] if block is None else [*block.arg_types]
    demand(
        len(arguments) == 2
        and all(_are_one(_scalar(element), kind, any_float=True) for kind in arguments)
        and [str(kind) for kind in chosen] == [str(_scalar(i1))],
        f"its select must compare two of {_scalar(element)}, and return {_scalar(i1)}",
    )
    source = v.kind("source")
    returned = reduced(v, 1, [_scalar(element_or_self(source))], [v.kind("init_value")])
    sizes = _windowed(v, shape).extents(shape)
    demand(
        _are_one(TensorType(element, sizes), source, any_float=True),
        f"source must have the shape {listed(sizes)}, one for each window, but is {source}",
    )
    return [Inferred(shape, element_or_self(returned[0]))]


def _all_reduce(v: View) -> Sequence[Inferred]:
    inferred: list[Inferred] = []
    for kind in v.kinds("operands"):
        (returned,) = reduced(v, 0, [kind], [_scalar(element_or_self(kind))])
        inferred.append(Inferred(shape_of(kind), element_or_self(returned)))
    return inferred


def _reduce_scatter(v: View) -> Sequence[Inferred]:
    kind, d, result = v.kind("operand"), v.integer("scatter_dimension"), v.shape("_0") or ()
    (returned,) = reduced(v, 0, [kind], [_scalar(element_or_self(kind))])
    shape = shape_of(kind) or ()
    demand(
        d < len(shape) == len(result)
        and 0 not in (shape[d], result[d])
        and (min(shape[d], result[d]) < 0 or shape[d] % result[d] == 0),
        f"result must be a part of {kind} along dimension {d}, but is {v.kind('_0')}",
    )
    return [Inferred((*shape[:d], -1, *shape[d + 1 :]), element_or_self(returned))]


def _sort(v: View) -> Sequence[Inferred]:
    inputs = v.kinds("inputs")
    shape, d = _of_one_shape(inputs, "inputs"), v.integer("dimension", -1)
    demand(-len(shape) <= d < len(shape), f"dimension must be one of {len(shape)}, but is {d}")
    block, returned = v.body(0), v.returned(0)
    expected = [_scalar(element_or_self(kind)) for kind in inputs for _ in (0, 1)]
    demand(
        block is not None and [*block.arg_types] == expected and returned == [_scalar(i1)],
        f"its comparator must take {', '.join(map(str, expected))}, and return {_scalar(i1)}",
    )
    return [Inferred(shape_of(kind), element_or_self(kind)) for kind in inputs]


def _map(v: View) -> Sequence[Inferred]:
    inputs, dims = v.kinds("inputs"), v.integers("dimensions")
    block, returned = v.body(0), v.returned(0)
    expected = [_scalar(element_or_self(kind)) for kind in inputs]
    demand(
        block is not None and [*block.arg_types] == expected,
        f"its body must take {', '.join(map(str, expected))}",
    )
    demand(
        len(returned) == 1 and shape_of(returned[0]) == (),
        f"its body must return one scalar, but returns {', '.join(map(str, returned))}",
    )
    shape = _of_one_shape(inputs, "inputs")
    demand(
        [*dims] == list(range(len(shape))),
        f"dimensions must be all of {len(shape)}, in their order, but are {[*dims]}",
    )
    return [Inferred(shape, element_or_self(returned[0]))]


def _agree(a: _Kinds, b: _Kinds, what: str) -> None:
    demand(
        len(a) == len(b)
        and all(
            inferred_as(x) == inferred_as(y) and have_fitting_shapes([x, y])
            for x, y in zip(a, b, strict=True)
        ),
        f"{what} must have one type each, but have {', '.join(map(str, a))} "
        f"and {', '.join(map(str, b))}",
    )


def _while(v: View) -> Sequence[Inferred]:
    kinds = v.kinds("operand")
    for number, name in enumerate(("cond", "body")):
        block = v.body(number)
        _agree(kinds, [] if block is None else block.arg_types, f"operands and arguments of {name}")
    _agree(kinds, v.returned(1), "operands and what its body returns")
    condition = v.returned(0)
    demand(
        condition == [_scalar(i1)],
        f"cond must return {_scalar(i1)}, but returns {', '.join(map(str, condition))}",
    )
    return [Inferred(shape_of(kind), element_or_self(kind)) for kind in kinds]


def _branches(v: View) -> Sequence[Inferred]:
    demand(v.op.regions, "must have at least one branch")
    chosen = v.op.operands[0].type
    demand(shape_of(chosen) == (), f"must be chosen by a scalar, not by {chosen}")
    results = [v.returned(number) for number in range(len(v.op.regions))]
    for number, found in enumerate(results):
        block = v.body(number)
        demand(block is not None and not block.args, f"branch {number} must take no arguments")
        _agree(results[0], found, f"what branches 0 and {number} return")
    return [Inferred(_least(of), element_or_self(of[0])) for of in zip(*results, strict=True)]


def _least(kinds: _Kinds) -> Shape | None:
    """What is known of a shape whichever it is."""
    shapes = [shape for kind in kinds if (shape := shape_of(kind)) is not None]
    same = zip(*shapes, strict=True)
    return tuple(sizes[0] if len({*sizes}) == 1 else -1 for sizes in same) if shapes else None


RULES: Mapping[str, Rule] = {
    "all_reduce": _all_reduce,
    "case": _branches,
    "if": _branches,
    "map": _map,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "reduce_window": _reduce_window,
    "select_and_scatter": _select_and_scatter,
    "sort": _sort,
    "while": _while,
}
