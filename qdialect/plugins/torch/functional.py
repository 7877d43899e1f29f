"""Programs without writes: ops that change a tensor become ops that give another.

    half = slice(x, 0, 1, 2)             half  = slice(x, 0, 1, 2)
    add_(half, y)                        half2 = add(half, y)
    return x                             x2    = slice_scatter(x, half2, 0, 1, 2);  return x2

A view shares memory with its base: after a write, the base is rebuilt through the views that lead
to what was written, and every other view of it is taken again where it is next read.  Buffers and
inputs that are written get an output with their last value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from qdialect.errors import InputError
from qdialect.plugins.torch.program import (
    Argument,
    Graph,
    Node,
    Output,
    Program,
    Ref,
    Subgraph,
    Tensor,
)

_SAME_SHAPE = frozenset({"alias", "detach", "lift", "detach_", "view_as"})
_RESHAPES = frozenset(
    {"view", "_unsafe_view", "squeeze", "unsqueeze", "unflatten", "_reshape_alias", "view_as"}
)
_MAY_COPY = frozenset({"reshape", "flatten", "contiguous", "to", "reshape_as", "ravel"})
"""Views where the operand lies in memory as the result needs it, else copies."""
_ORDERS = frozenset({"permute", "transpose", "t", "numpy_T", "mT", "movedim", "swapaxes"})
_PARTS = frozenset({"slice", "select", "narrow"})
_LISTS = frozenset({"split", "split_with_sizes", "chunk", "unbind", "tensor_split"})
_READ_ONLY = frozenset({"expand", "expand_as", "diagonal", "as_strided", "unfold", "broadcast_to"})
"""Views that are read after a write to their base, but not written themselves."""
_VIEWS = _SAME_SHAPE | _RESHAPES | _MAY_COPY | _ORDERS | _PARTS | _LISTS | _READ_ONLY

MALFORMED = (
    KeyError,
    TypeError,
    AttributeError,
    IndexError,
    ValueError,
    OverflowError,
    RecursionError,
)
"""What a program gives rise to that lacks an entry, or has one of another kind."""

_INLINED = frozenset({"wrap_with_set_grad_enabled", "wrap_with_autocast", "wrap"})


@dataclass
class _Value:
    """A tensor of the program: the view that gives it, its base, and its name now."""

    parent: str | None
    node: Node | None
    position: int
    name: str
    version: int = 0


def functional(program: Program) -> Program:
    """The program without writes, and without the graphs that only set a mode.

    InputError (`unsupported`) for a write that is not understood, `invalid-torch` for a program
    that is none.
    """
    try:
        graph = _inlined(program, program.graph)
        if not any(_writes(node) for node in graph.nodes):
            return replace(program, graph=graph)
        return _Rewriting(replace(program, graph=graph)).run()
    except MALFORMED as error:
        reason = f"malformed program: {error!r}"
        raise InputError(reason, where=program.where(), code="invalid-torch") from None


def _writes(node: Node) -> str | None:
    """The argument that a node writes, if it does."""
    parts = node.target.split(".")
    if len(parts) < 2 or parts[0] != "aten":
        return None
    if parts[1].endswith("_") and not parts[1].endswith("__") and parts[1] not in _SAME_SHAPE:
        return "self"
    return "out" if "out" in node.arguments and parts[-1].endswith("out") else None


class _Rewriting:
    """One pass over the nodes."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._graph = program.graph
        self._tensors: dict[str, Tensor] = dict(program.graph.tensors)
        self._values: dict[str, _Value] = {}
        self._versions: dict[str, int] = {}
        self._nodes: list[Node] = []
        self._count = 0
        self._kinds = {entry.name: entry for entry in program.inputs}
        self._written: dict[str, None] = {}

    def run(self) -> Program:
        """The program without writes."""
        for node in self._graph.nodes:
            argument = _writes(node)
            if argument is None:
                self._keep(node)
            else:
                self._write(node, argument)
        outputs = [self._output(output) for output in self._program.outputs]
        outputs += [self._mutation(name) for name in self._written]
        graph = replace(self._graph, nodes=self._nodes, tensors=self._tensors)
        return replace(self._program, graph=graph, outputs=outputs)

    def _output(self, output: Output) -> Output:
        name = output.value.name if isinstance(output.value, Ref) else ""
        return output._replace(value=self._renamed(output.value), target=output.target or name)

    # -- names --------------------------------------------------------------------------

    def _value(self, name: str) -> _Value:
        if name not in self._values:
            self._values[name] = _Value(None, None, 0, name)
        return self._values[name]

    def _root(self, name: str) -> str:
        parent = self._value(name).parent
        while parent is not None:
            name, parent = parent, self._value(parent).parent
        return name

    def _now(self, name: str) -> str:
        """The name of the value that a tensor has now; a stale view is taken again."""
        value = self._value(name)
        version = self._versions.get(self._root(name), 0)
        if value.version < version and value.node is not None and value.parent is not None:
            parent = self._now(value.parent)
            node = value.node
            names = list(_names(node))
            fresh = [self._fresh(n, n) for n in names]
            arguments = {
                key: Ref(parent) if argument == Ref(value.parent) else self._renamed(argument)
                for key, argument in node.arguments.items()
            }
            results = [fresh] if isinstance(node.results[0], list) else fresh
            self._nodes.append(replace(node, name=fresh[0], arguments=arguments, results=results))
            value.name = fresh[value.position]
        value.version = version
        return value.name

    def _fresh(self, name: str, like: str) -> str:
        """A new name, of a tensor of the type of another."""
        while True:
            self._count += 1
            fresh = f"{name}_v{self._count}"
            if fresh not in self._tensors:
                break
        if like in self._tensors:
            self._tensors[fresh] = self._tensors[like]
        return fresh

    def _renamed(self, argument: Argument) -> Argument:
        if isinstance(argument, Ref):
            known = argument.name in self._values
            return Ref(self._now(argument.name)) if known else argument
        if isinstance(argument, list):
            return [self._renamed(inner) for inner in argument]  # pyright: ignore[reportUnknownVariableType]
        return argument

    # -- nodes --------------------------------------------------------------------------

    def _keep(self, node: Node) -> None:
        base = node.arguments.get("self")
        arguments = {key: self._renamed(value) for key, value in node.arguments.items()}
        self._nodes.append(replace(node, arguments=arguments))
        kind = node.op.removeprefix("aten.")
        if kind in _VIEWS and isinstance(base, Ref):
            version = self._versions.get(self._root(base.name), 0)
            for position, name in enumerate(_names(node)):
                self._values[name] = _Value(base.name, node, position, name, version)

    def _write(self, node: Node, argument: str) -> None:
        target = node.arguments[argument]
        if not isinstance(target, Ref):
            raise self._refused(node, "writes something that is no tensor")
        arguments = {
            key: self._renamed(value) for key, value in node.arguments.items() if key != "out"
        }
        (result,) = _names(node)
        fresh = self._fresh(target.name, target.name)
        self._nodes.append(
            replace(node, target=_pure(node), arguments=arguments, results=[fresh], name=result)
        )
        self._spread(node, target.name, fresh)
        # The result is the tensor that was written.
        self._values[result] = _Value(target.name, _alias(result, target.name), 0, fresh)
        self._values[result].version = self._versions[self._root(target.name)]

    def _spread(self, node: Node, name: str, fresh: str) -> None:
        """`name` is `fresh` now: rebuild what it is a view of, and mark other views as stale."""
        chain = [(name, fresh)]
        value = self._value(name)
        while value.parent is not None and value.node is not None:
            parent = value.parent
            before = self._now(parent)
            fresh = self._scattered(node, value, before, fresh, parent)
            chain.append((parent, fresh))
            value = self._value(parent)
        root = chain[-1][0]
        self._versions[root] = self._versions.get(root, 0) + 1
        for known, now in chain:
            self._value(known).name = now
            self._value(known).version = self._versions[root]
        if root in self._kinds:
            self._written[root] = None

    def _scattered(self, node: Node, value: _Value, before: str, part: str, parent: str) -> str:
        """The base with a part in place of what a view reads of it."""
        view = value.node
        if view is None:
            raise ValueError(f"'{parent}' has no view")
        kind = view.op.removeprefix("aten.")
        arguments = view.arguments
        if kind in _MAY_COPY and not self._is_view(view, parent):
            raise self._refused(node, f"writes into what '{view.target}' may have copied")
        fresh = self._fresh(parent, parent)
        if kind in _RESHAPES | _SAME_SHAPE | _MAY_COPY:
            given: dict[str, Any] = {"self": Ref(part), "size": []}
            target = "aten.view.default"
        elif kind in _ORDERS and kind in ("transpose", "t", "permute"):
            target, given = self._order(kind, arguments, part)
        elif kind in ("slice", "select"):
            target = f"aten.{kind}_scatter.default"
            given = {**arguments, "self": Ref(before), "src": Ref(part)}
            given = {
                key: self._renamed(v) if key not in ("self", "src") else v
                for key, v in given.items()
            }
        elif kind in _LISTS - {"tensor_split"}:
            target, given = self._list_part(view, value.position, before, part)
        else:
            raise self._refused(node, f"writes into a view by '{view.target}'")
        self._nodes.append(
            replace(view, name=fresh, target=target, arguments=given, results=[fresh])
        )
        return fresh

    def _order(
        self, kind: str, arguments: Mapping[str, Any], part: str
    ) -> tuple[str, dict[str, Any]]:
        """The dimensions in the order that they had."""
        if kind != "permute":
            return f"aten.{'transpose.int' if kind == 'transpose' else 't.default'}", {
                **arguments,
                "self": Ref(part),
            }
        dims = arguments["dims"]
        inverse = [0] * len(dims)
        for place, d in enumerate(dims):
            inverse[d % len(dims)] = place
        return "aten.permute.default", {"self": Ref(part), "dims": inverse}

    def _list_part(
        self, view: Node, position: int, before: str, part: str
    ) -> tuple[str, dict[str, Any]]:
        d = int(view.arguments.get("dim", 0))
        given: dict[str, Any] = {"self": Ref(before), "src": Ref(part), "dim": d}
        if view.op == "aten.unbind":
            return "aten.select_scatter.default", {**given, "index": position}
        sizes = [self._tensors[name].shape[d].number for name in _names(view)]
        known = [n for n in sizes[: position + 1] if n is not None]
        if len(known) != position + 1:
            raise self._refused(view, "writes into a part whose place only the run tells")
        start = sum(known[:-1])
        return "aten.slice_scatter.default", {**given, "start": start, "end": start + known[-1]}

    def _is_view(self, view: Node, parent: str) -> bool:
        """Whether the result shares the memory of the operand."""
        (name,) = _names(view)
        if name not in self._tensors or parent not in self._tensors:
            return False
        a, b = self._tensors[parent], self._tensors[name]
        if view.op == "aten.to":
            return a.code == b.code and not view.arguments.get("copy")
        return a.contiguous

    def _mutation(self, name: str) -> Output:
        """The output with the last value of an input that is written."""
        entry = self._kinds[name]
        kind = "input_mutation" if entry.kind == "input" else "buffer_mutation"
        return Output(kind, Ref(self._now(name)), entry.target)

    def _refused(self, node: Node, reason: str) -> InputError:
        return InputError(
            f"'{node.target}' {reason}, which is not supported: "
            "run exported.run_decompositions({}) first",
            where=self._program.where(node),
            code="unsupported",
        )


def _names(node: Node) -> list[str]:
    return [name for name in node.names if name is not None]


def _alias(name: str, parent: str) -> Node:
    return Node(name, "aten.alias.default", {"self": Ref(parent)}, [name])


_OUT_OVERLOADS = {"add": "Tensor", "sub": "Tensor", "mul": "Tensor", "div": "Tensor"}


def _pure(node: Node) -> str:
    _, name, overload = node.target.split(".")
    if overload.endswith("out"):
        pure = overload.removesuffix("out").rstrip("_") or _OUT_OVERLOADS.get(name, "default")
        return f"aten.{name}.{pure}"
    return f"aten.{name.removesuffix('_')}.{overload}"


# -- graphs of modes --------------------------------------------------------------------------


def _inlined(program: Program, graph: Graph) -> Graph:
    """The graph with the nodes of those that only set a mode in their place."""
    if not any(_body(node) for node in graph.nodes):
        return graph
    tensors, numbers = dict(graph.tensors), dict(graph.numbers)
    nodes: list[Node] = []
    names: dict[str, Argument] = {}
    for node in graph.nodes:
        arguments = {key: _named(value, names) for key, value in node.arguments.items()}
        body = _body(node)
        if body is None:
            nodes.append(replace(node, arguments=arguments))
            continue
        inner = _inlined(program, body)
        operands = [v for v in arguments.values() if not isinstance(v, Subgraph)]
        operands = operands[len(operands) - len(inner.inputs) :]
        if len(operands) != len(inner.inputs):
            raise InputError(
                f"'{node.target}' has not the operands of its graph",
                where=program.where(node),
                code="invalid-torch",
            )
        local: dict[str, Argument] = {
            entry.name: operand
            for entry, operand in zip(inner.inputs, operands, strict=True)
            if isinstance(entry, Ref)
        }
        for step in inner.nodes:
            fresh = {name: _free(name, tensors, numbers, node.name) for name in _names(step)}
            for name, new in fresh.items():
                if name in inner.tensors:
                    tensors[new] = inner.tensors[name]
                if name in inner.numbers:
                    numbers[new] = inner.numbers[name]
            given = {key: _named(value, local) for key, value in step.arguments.items()}
            local.update({name: Ref(new) for name, new in fresh.items()})
            results: list[Any] = [
                [fresh.get(n or "") for n in entry]
                if isinstance(entry, list)
                else fresh.get(entry or "")
                for entry in step.results
            ]
            nodes.append(replace(step, arguments=given, results=results))
        found = [_named(output, local) for output in inner.outputs]
        names.update(zip(_names(node), found, strict=False))
    program.outputs[:] = [o._replace(value=_named(o.value, names)) for o in program.outputs]
    outputs = [_named(output, names) for output in graph.outputs]
    return Graph(graph.inputs, outputs, nodes, tensors, numbers)


def _body(node: Node) -> Graph | None:
    if node.target.rpartition(".")[2] not in _INLINED:
        return None
    return next((v.graph for v in node.arguments.values() if isinstance(v, Subgraph)), None)


def _named(argument: Argument, names: Mapping[str, Argument]) -> Argument:
    if isinstance(argument, Ref):
        return names.get(argument.name, argument)
    if isinstance(argument, list):
        return [_named(inner, names) for inner in argument]  # pyright: ignore[reportUnknownVariableType]
    return argument


def _free(name: str, tensors: Mapping[str, Any], numbers: Mapping[str, Any], prefix: str) -> str:
    while name in tensors or name in numbers:
        name = f"{prefix}_{name}"
    return name
