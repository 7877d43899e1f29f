"""Tensor subclasses of a program: the tensors that they consist of, as parameters of their own.

torchao's weights are such: a node `export.access_subclass_inner_tensor(weight, "qdata")` names
a part, which becomes the parameter `weight.qdata`.
"""

from __future__ import annotations

from dataclasses import replace

from qdialect.plugins.torch.program import Input, Node, Program, Ref

_ACCESS = "export.access_subclass_inner_tensor"


def with_inner_tensors(program: Program) -> Program:
    """The program without nodes that name parts of its tensors."""
    paths = {entry.name: entry for entry in program.inputs}
    inner: list[Input] = []
    nodes: list[Node] = []
    for node in program.graph.nodes:
        part = _part(node, paths)
        if part is None:
            nodes.append(node)
        else:
            paths[part.name] = part
            inner.append(part)
    if not inner:
        return program
    return replace(
        program, graph=replace(program.graph, nodes=nodes), inputs=[*inner, *program.inputs]
    )


def _part(node: Node, inputs: dict[str, Input]) -> Input | None:
    """The parameter that a node names; None for any other node."""
    arguments = list(node.arguments.values())
    name = node.results[0] if len(node.results) == 1 else None
    if node.op != _ACCESS or len(arguments) != 2 or not isinstance(name, str):
        return None
    whole, attribute = arguments
    owner = inputs.get(whole.name) if isinstance(whole, Ref) else None
    if owner is None or not isinstance(attribute, str):
        return None
    return Input(owner.kind, name, f"{owner.target}.{attribute}")
