"""What each op of a TFLite file takes in LiteRT, which has no profiler for Python.

Every op is cut out into a file of its own, with the constants it reads and what is evaluated on
them when a file is loaded, and timed; what a run of a file of one tiny op takes is subtracted.
Clamps that XNNPACK has another op do are so counted on their own, and weights that a whole network
drives out of the caches are near: the sum is not quite the time of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from qdialect.engines.litert import DEFAULT, InChild, new_child
from qdialect.engines.timing import random_arrays
from qdialect.errors import QError
from qdialect.formats.tflite.model import ABSENT, File, Operator, Subgraph
from qdialect.formats.tflite.write import file_bytes
from qdialect.targets.litert_kernels import FLOAT
from qdialect.workflows.litert_cases import Case, one
from qdialect.workflows.litert_works import constants


@dataclass(frozen=True)
class NodeTime:
    """An op of a file by its position, its nanoseconds, and whether XNNPACK runs it alone; None
    for one that does not run alone (it needs a state, or indices that are no random numbers)."""

    index: int
    op: str
    nanoseconds: float | None
    delegated: bool = False


def node_times(
    file: File, engine: str = DEFAULT, *, runs: int = 20, subgraph: int = 0
) -> list[NodeTime]:
    """What the ops of a subgraph take, in their order; those on constants alone are left out."""
    graph = file.subgraphs[subgraph]
    known, child = constants(graph), new_child(engine)
    tiny = one(Case("ADD", ((1, 16), (1, 16)), (1, 16)), FLOAT, 1)
    model = InChild(file_bytes(tiny), engine, child=child)
    overhead = median(model.nanoseconds(random_arrays(model.inputs), warm=3, runs=50))
    found: list[NodeTime] = []
    for index, op in enumerate(graph.operators):
        if known.issuperset(op.outputs):
            continue
        if not child.alive:
            child = new_child(engine)
        try:
            model = InChild(file_bytes(alone(file, op, subgraph)), engine, child=child)
            spent = model.nanoseconds(random_arrays(model.inputs), warm=2, runs=runs)
            nodes = model.nodes() or []
            model.close()
        except QError:
            found.append(NodeTime(index, op.op, None))
            continue
        delegated = bool(nodes) and nodes[-1].delegated
        found.append(NodeTime(index, op.op, max(median(spent) - overhead, 0.0), delegated))
    child.close()
    return found


def alone(file: File, op: Operator, subgraph: int = 0) -> File:
    """A file with one op, and the ops on constants that it needs; what varies are its inputs."""
    graph = file.subgraphs[subgraph]
    known = constants(graph)
    maker = {n: each for each in graph.operators for n in each.outputs}
    operators, numbers = list[Operator](), dict[int, int]()
    inputs: list[int] = []

    def take(number: int) -> None:
        if number == ABSENT or number in numbers:
            return
        if number in known and graph.tensors[number].data is None:
            made = maker[number]
            for each in made.inputs:
                take(each)
            number_all(made.outputs)
            operators.append(made)
            return
        numbers[number] = len(numbers)
        if graph.tensors[number].data is None:
            inputs.append(number)

    def number_all(outputs: Sequence[int]) -> None:
        for each in outputs:
            numbers.setdefault(each, len(numbers))

    for number in op.inputs:
        take(number)
    number_all(op.outputs)
    operators.append(op)

    def renumbered(positions: Sequence[int]) -> list[int]:
        return [ABSENT if n == ABSENT else numbers[n] for n in positions]

    cut = Subgraph(
        graph.name,
        [graph.tensors[n] for n in numbers],
        renumbered(inputs),
        renumbered(op.outputs),
        [
            replace(each, inputs=renumbered(each.inputs), outputs=renumbered(each.outputs))
            for each in operators
        ],
    )
    return File("tflite", 3, [cut])
