"""Whether the ops of a subgraph stand in an order in which they can run."""

from __future__ import annotations

from math import prod

from qdialect.plugins.tflite.file.model import ABSENT, Subgraph, Tensor


def check_order(subgraph: Subgraph) -> tuple[str, str] | None:
    """The place and the reason of what cannot run: a value that is made twice, or is read where
    nothing has made it. None where all is well."""
    tensors = subgraph.tensors

    def called(number: int) -> str:
        return f"tensor {number} '{tensors[number].name}'"

    known = [is_known(tensor) for tensor in tensors]
    for number in subgraph.inputs:
        if known[number] and tensors[number].data is not None:
            return called(number), "it is an input, and has a constant value"
    inputs = set(subgraph.inputs)
    if len(inputs) != len(subgraph.inputs):
        return "inputs", "a tensor is an input twice"
    made = set(inputs)
    for index, op in enumerate(subgraph.operators):
        for number in op.inputs:
            if number != ABSENT and number not in made and not known[number]:
                later = any(number in other.outputs for other in subgraph.operators[index:])
                reason = "an op behind it makes" if later else "nothing makes"
                return f"op {index} {op.op}", f"it reads {called(number)}, which {reason}"
        for number in op.outputs:
            if number in inputs or tensors[number].data is not None:
                what = "an input" if number in inputs else "a constant"
                return f"op {index} {op.op}", f"its result {called(number)} is {what}"
            if number in made:
                return f"op {index} {op.op}", f"its result {called(number)} is made twice"
            made.add(number)
    for number in subgraph.outputs:
        if number not in made and not known[number]:
            return called(number), "it is an output that nothing makes"
    return None


def is_known(tensor: Tensor) -> bool:
    """Whether a tensor has a value that no op makes: constants, variables, and tensors without
    elements, which files cannot tell from others."""
    empty = prod(tensor.shape) == 0 and -1 not in (tensor.signature or ())
    return tensor.data is not None or tensor.is_variable or (empty and tensor.has_rank)
