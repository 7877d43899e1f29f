"""A `torch.export.ExportedProgram` as the same plain program that its file holds.

The graph goes through PyTorch's own serializer, so that both ways in read one schema; weights
are shared with the program, not copied.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qdialect.errors import InputError
from qdialect.packages import package
from qdialect.plugins.torch.program import ELEMENT_TYPES, Input, Node, Program, Ref, Weight
from qdialect.plugins.torch.schema import SCHEMA, read_program

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_exported(exported: Any) -> Program:
    """The program of an ExportedProgram; InputError (`invalid-torch`) for one that PyTorch cannot
    serialize."""
    serde = package("torch._export.serde.serialize")
    schema = package("torch._export.serde.schema")
    try:
        # Its call graph says how results are packed, in types that need a name to be written.
        serializer = serde.GraphModuleSerializer(exported.graph_signature, [])
        module = serializer.serialize(exported.graph_module)
        document: dict[str, Any] = serde._dataclass_to_dict(module)
        document["module_call_graph"] = [{"signature": {"out_spec": _result_tree(exported)}}]
    except Exception as error:  # whatever its serializer does not know
        raise InputError(
            f"PyTorch cannot serialize the program: {(str(error) or repr(error)).splitlines()[0]}",
            code="invalid-torch",
        ) from None
    version = schema.SCHEMA_VERSION
    if version[0] != SCHEMA:
        raise InputError(
            f"this PyTorch has schema {version[0]} of programs, and {SCHEMA} is read",
            code="invalid-torch",
        )
    ranges = {
        str(symbol): {"min_val": _bound(r.lower) or 0, "max_val": _bound(r.upper)}
        for symbol, r in exported.range_constraints.items()
    }
    whole = {
        "schema_version": {"major": version[0]},
        "graph_module": document,
        "range_constraints": ranges,
    }
    tensors = {**exported.constants, **exported.state_dict}
    return with_inner_tensors(read_program(whole, _Weights(tensors), None))


def _result_tree(exported: Any) -> str | None:
    """The tree of results as JSON; None where it has types that have no name to be written."""
    signature = exported.module_call_graph[0].signature
    try:
        return package("torch.utils._pytree").treespec_dumps(signature.out_spec)
    except Exception:  # whatever it does not know
        return None


def _bound(value: Any) -> int | None:
    """A bound of a symbol; None for an infinite one, which sympy has several classes for."""
    text = str(value)
    return int(text) if text.lstrip("-").isdigit() else None


class _Weights(Mapping[str, Weight]):
    """Tensors of a program by their dotted paths, as arrays of the same memory."""

    def __init__(self, tensors: Mapping[str, Any]) -> None:
        self._tensors = tensors

    def __getitem__(self, path: str) -> Weight:
        tensor = self._found(path)
        codes = _codes()
        if tensor.dtype not in codes:
            raise InputError(
                f"'{path}' has elements of type {tensor.dtype}, which is not known",
                code="invalid-torch",
            )
        return Weight(codes[tensor.dtype], _array(tensor))

    def _found(self, path: str) -> Any:
        """A tensor, or the part of a tensor subclass that the end of the path names."""
        owner, _, attribute = path.rpartition(".")
        if path in self._tensors or not owner:
            return self._tensors[path]
        part = getattr(self._found(owner), attribute, None)
        if not hasattr(part, "dtype"):
            raise KeyError(path)
        return part

    def __contains__(self, path: object) -> bool:
        try:
            self._found(str(path))
        except KeyError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


def _codes() -> Mapping[Any, int]:
    """Codes of the schema by `torch.dtype`."""
    table: Mapping[Any, Any] = package("torch._export.serde.serialize")._TORCH_TO_SERIALIZE_DTYPE
    return {dtype: int(code) for dtype, code in table.items() if int(code) in ELEMENT_TYPES}


def _array(tensor: Any) -> NDArray[Any]:
    """The elements, as bits where numpy has no such type."""
    torch = package("torch")
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.view(torch.uint16)
    elif tensor.dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        tensor = tensor.view(torch.uint8)
    return tensor.resolve_conj().resolve_neg().numpy()


# Tensor subclasses of a program: the tensors that they consist of, as parameters of their own.
#
# torchao's weights are such: a node `export.access_subclass_inner_tensor(weight, "qdata")` names
# a part, which becomes the parameter `weight.qdata`.

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
