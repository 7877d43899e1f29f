"""One node of the model as importers see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from qdialect.errors import InputError, Where
from qdialect.plugins.onnx.dialect import KNOWN_DOMAINS, is_random
from qdialect.plugins.onnx.read.attributes import python_value
from qdialect.plugins.onnx.read.subgraphs import subgraphs

if TYPE_CHECKING:
    from onnx import NodeProto


@dataclass
class Node:
    """A node, its stable key, its inputs and outputs ("" where absent)."""

    proto: NodeProto
    index: int
    key: str
    where: Where
    inputs: list[str]
    outputs: list[str]
    #: whether inputs beyond the operands of its op give constants of the op their names
    names_inputs: bool = True
    _values: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def op_type(self) -> str:
        """The ONNX op."""
        return self.proto.op_type

    @property
    def domain(self) -> str:
        """The operator set; "" for ONNX's own."""
        return "" if self.proto.domain == "ai.onnx" else self.proto.domain

    def input(self, position: int) -> str:
        """The tensor name at a position, "" if absent."""
        return self.inputs[position] if position < len(self.inputs) else ""

    def output(self, position: int) -> str:
        """The tensor name at a position, "" if absent."""
        return self.outputs[position] if position < len(self.outputs) else ""

    @property
    def attributes(self) -> Mapping[str, Any]:
        """All attributes as Python values."""
        if not self._values:
            for attribute in self.proto.attribute:
                try:
                    self._values[attribute.name] = python_value(attribute)
                except ValueError:  # of no type, or that of a function which there is none
                    raise self._invalid(f"attribute '{attribute.name}' has no value") from None
        return self._values

    def get(self, name: str, default: Any) -> Any:
        """An attribute, or `default`; lists come as tuples.

        InputError for another kind of value than that of `default` (unless None): of ops
        outside ONNX, nobody has checked that.
        """
        value = self.attributes.get(name, default)
        if isinstance(value, list):
            value = tuple(cast("list[Any]", value))
        if isinstance(default, float) and isinstance(value, int):
            value = float(value)
        if default is not None and _kind(value) != _kind(default):
            raise self._invalid(f"attribute '{name}' is {_kind(value)}, not {_kind(default)}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """An attribute that is 0 or 1; InputError for other numbers, which runtimes and ops take
        in different ways."""
        value: int = self.get(name, int(default))
        if value not in (0, 1):
            raise self._invalid(f"attribute '{name}' is {value}, not 0 or 1")
        return value == 1

    def _invalid(self, reason: str) -> InputError:
        return InputError(reason, where=self.where, code="invalid-node")


def _kind(value: Any) -> str:
    kinds = {int: "an integer", float: "a number", str: "a text", tuple: "a list"}
    return next((text for kind, text in kinds.items() if isinstance(value, kind)), "something else")


def is_stateful(node: NodeProto) -> bool:
    """A node, or one in its subgraphs, may answer differently when asked twice."""
    if is_random(node.op_type) or node.domain not in KNOWN_DOMAINS:
        return True
    return any(is_stateful(inner) for graph in subgraphs(node) for inner in graph.node)


def stable_keys(nodes: Sequence[NodeProto]) -> list[str]:
    """One key per node: its name if no other node has it, else its first output's
    name, made unique with underscores."""
    counts = Counter(node.name for node in nodes if node.name)
    taken = {name for name, count in counts.items() if count == 1}
    keys: list[str] = []
    for node in nodes:
        if counts.get(node.name) == 1:
            keys.append(node.name)
            continue
        key = next((name for name in node.output if name), node.op_type)
        while key in taken:
            key += "_"
        taken.add(key)
        keys.append(key)
    return keys


def trimmed(proto: NodeProto, key: str, index: int, where: Where) -> Node:
    """A node without the absent inputs and outputs at the ends of its lists."""
    inputs, outputs = list(proto.input), list(proto.output)
    for names in (inputs, outputs):
        while names and not names[-1]:
            names.pop()
    return Node(proto, index, key, where, inputs, outputs)
