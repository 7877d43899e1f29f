"""If, Loop and local functions of a random graph (`random_onnx`)."""

# pyright: basic
from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from tests.generators.graphs.maker import Rejected, Value

if TYPE_CHECKING:
    from tests.generators.graphs.maker import GraphMaker


def branches(g: GraphMaker, kind: str) -> None:
    """An If whose branches read values from outside."""
    chosen = _condition(g)
    bodies = []
    dtype = None
    for side in ("then_branch", "else_branch"):
        with g.inner() as scope:
            g.grow(g.random.choice((1, 2, 3)))
            made = [v for v in scope.values if dtype is None or v.array.dtype == dtype]
            made = [v for v in made if not v.constant]
            if not made:
                x = g.pick((dtype or np.float32,))
                made = [g.apply("Identity", [x.name])]
            dtype = made[-1].array.dtype
            bodies.append(_body(scope.nodes, side, [], [made[-1]]))
    g.apply("If", [chosen], then_branch=bodies[0], else_branch=bodies[1])


def _condition(g: GraphMaker) -> str:
    try:
        return g.pick((np.bool_,), lambda a: a.size == 1).name
    except Rejected:
        name = g.name()
        g.inputs.append(helper.make_tensor_value_info(name, TensorProto.BOOL, [], doc_string="[]"))
        g.scopes[0].values.append(Value(name, np.asarray(g.chance(0.5))))
        return name


def loop(g: GraphMaker, kind: str) -> None:
    """A Loop that carries one value and reads others from outside."""
    x = g.pick()
    names = [g.name() for _ in range(3)]
    infos = [
        helper.make_tensor_value_info(names[0], TensorProto.INT64, []),
        helper.make_tensor_value_info(names[1], TensorProto.BOOL, []),
        helper.make_tensor_value_info(names[2], TensorProto.FLOAT, list(x.shape)),
    ]
    given = [
        Value(names[0], np.asarray(0)),
        Value(names[1], np.asarray(True)),
        Value(names[2], x.array),
    ]
    with g.inner() as scope:
        scope.values += given
        on = g.apply("Identity", [names[1]])
        g.grow(g.random.choice((1, 2, 3)))
        fit = [
            v for v in scope.values[3:]
            if v.array.dtype == np.float32 and v.shape == x.shape and not v.constant
        ]  # fmt: skip
        last = fit[-1] if fit else g.apply("Relu", [names[2]])
        body = _body(scope.nodes, "body", infos, [on, last])
    count = g.constant(g.random.choice((0, 1, 2, 3)), np.int64)
    g.apply("Loop", [count, "", x.name], body=body)


def _body(nodes: list[onnx.NodeProto], name: str, infos: list[Any], outputs: list[Value]) -> Any:
    results = [
        helper.make_tensor_value_info(
            v.name, helper.np_dtype_to_tensor_dtype(v.array.dtype), [None] * v.array.ndim
        )
        for v in outputs
    ]
    return helper.make_graph(nodes, name, infos, results)


def function(g: GraphMaker, kind: str) -> None:
    """A call of a local function."""
    if any(scope.function for scope in g.scopes) or len(g.scopes) > 1:
        raise Rejected("nested")
    x = g.pick()
    formal = g.name()
    with g.inner(function=True, values=[Value(formal, x.array)]) as scope:
        g.grow(g.random.choice((1, 2, 3)))
        made = [v for v in scope.values[1:] if not v.constant]
        if not made:
            raise Rejected("empty")
    opsets = [helper.make_opsetid("", g.opset), helper.make_opsetid("com.microsoft", 1)]
    name = f"F{len(g.functions)}"
    proto = helper.make_function("local", name, [formal], [made[-1].name], scope.nodes, opsets)
    g.functions.append(proto)
    try:
        g.add(g.node(name, [x.name], domain="local"))
        if g.chance(0.3):
            g.add(g.node(name, [x.name], domain="local"))
    except Rejected:
        if not any(node.op_type == name for node in g.scope.nodes):
            g.functions.remove(proto)
        raise


BODIES: dict[str, tuple[float, Callable[[Any, str], None]]] = {
    "If": (1.0, branches),
    "Loop": (1.0, loop),
    "function": (1.0, function),
}
