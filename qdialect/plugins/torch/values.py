"""Values inside of a PyTorch module by stable key, to be compared with those of a model.

A module that `to_torch` made says the keys of its nodes; of an exported program the path of a
submodule and the name of a node are its key, as `from_torch` has it; of any other module every
submodule gives what it returns, under its path.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from qdialect.errors import UsageError
from qdialect.interpreter.quantize import load
from qdialect.ir.quant import element_type, quant_element
from qdialect.packages import package
from qdialect.report.tables import LayerError
from qdialect.workflows.compare_values import (
    FLOATS,
    KeyedValue,
    compare_layers,
    keyed_value,
    keyed_values,
    layer_rows,
)
from qdialect.workflows.model import Model

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NAMES = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16"}


class LayerErrors(list[LayerError]):
    """How far values inside of two modules are apart, one entry for each."""

    def __str__(self) -> str:
        rows = layer_rows(self)
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return "\n".join(
            "  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )

    def _repr_html_(self) -> str:
        from qdialect.report.notebook import table_html

        return table_html("differences of values", layer_rows(self))


def compare_with_torch(reference: Any, model: Any, inputs: Sequence[Any]) -> LayerErrors:
    """See `qdialect.compare_torch`."""
    first, second = (values_inside(each, inputs) for each in (reference, model))
    return LayerErrors(compare_layers([(first, second, ())]))


def values_inside(program: Any, inputs: Sequence[Any]) -> list[KeyedValue]:
    """The values with a key of a model, an exported program or a module, in program order;
    UsageError for anything else."""
    torch = package("torch")
    if isinstance(program, Model):
        return keyed_values(program, "numpy", _named(program, inputs))
    tensors = [
        value if isinstance(value, torch.Tensor) else torch.tensor(value) for value in inputs
    ]
    if isinstance(program, torch.export.ExportedProgram):
        return _of_graph(program.module(), tensors)
    if not isinstance(program, torch.nn.Module):
        raise UsageError(f"cannot look inside of {type(program).__name__}: give a module")
    if isinstance(program, torch.fx.GraphModule) and any(_is_ours(n) for n in program.graph.nodes):
        return _of_graph(program, tensors)
    return _of_submodules(program, tensors)


def _named(model: Model, inputs: Sequence[Any]) -> dict[str, NDArray[Any]]:
    import numpy as np

    from qdialect.interpreter import argument_names

    names = argument_names(model.function())
    if len(names) != len(inputs):
        raise UsageError(f"the model takes {len(names)} inputs, but got {len(inputs)}")
    arrays = (v.detach().cpu().numpy() if hasattr(v, "detach") else np.asarray(v) for v in inputs)
    return dict(zip(names, arrays, strict=True))


def _is_ours(node: Any) -> bool:
    return "keys" in node.meta and "types" in node.meta


def _of_graph(module: Any, tensors: Sequence[Any]) -> list[KeyedValue]:
    """Of each node of a graph that gives floats or, if we wrote it, codes."""
    torch = package("torch")
    found: list[KeyedValue] = []
    single = Counter(_path(node) for node in module.graph.nodes if node.op == "call_function")

    interpreter = torch.fx.Interpreter(module)
    run = interpreter.run_node

    def listen(node: Any) -> Any:
        result = run(node)
        keys, types = _keys(node, single), node.meta.get("types")
        for index, value in enumerate(_results(result)):
            if keys:
                found.extend(_entry(keys, index, value, types[index] if types else None))
        return result

    interpreter.run_node = listen
    with torch.no_grad():
        interpreter.run(*tensors)
    return found


def _results(result: Any) -> list[Any]:
    """The tensors of what a node or a module gives; none if it gives other things too."""
    several = isinstance(result, list | tuple)
    tensors: list[Any] = list(cast("Sequence[Any]", result)) if several else [result]
    kind = package("torch").Tensor
    return tensors if all(isinstance(value, kind) for value in tensors) else []


def _path(node: Any) -> str:
    """The path of the innermost submodule that a node of an exported program is from."""
    stack: Mapping[str, tuple[str, Any]] = node.meta.get("nn_module_stack") or {}
    return list(stack.values())[-1][0] if stack else ""


def _keys(node: Any, count: Mapping[str, int]) -> tuple[str, ...]:
    if _is_ours(node):
        return tuple(node.meta["keys"])
    if node.op != "call_function":
        return ()
    path = _path(node)
    if not path:
        return (node.name,)
    return (path,) if count[path] == 1 else (f"{path}.{node.name}",)


def _of_submodules(module: Any, tensors: Sequence[Any]) -> list[KeyedValue]:
    torch = package("torch")
    found: list[KeyedValue] = []
    with torch.no_grad(), _listening(module, found):
        module(*tensors)
    return found


@contextmanager
def _listening(module: Any, found: list[KeyedValue]) -> Generator[None]:
    """What every submodule returns is put into `found`."""

    def hook(path: str) -> Any:
        def listen(_: Any, __: Any, result: Any) -> None:
            for index, value in enumerate(_results(result)):
                found.extend(_entry((path,), index, value, None))

        return listen

    handles = [
        inner.register_forward_hook(hook(path)) for path, inner in module.named_modules() if path
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _entry(keys: tuple[str, ...], index: int, value: Any, kind: Any) -> list[KeyedValue]:
    """The numbers of a tensor; none of integers that are no codes."""
    if kind is None:
        name = _NAMES.get(str(value.dtype).rpartition(".")[2])
        reals = value.detach().double().cpu().numpy()
        return [] if name is None else [KeyedValue(keys, index, name, None, reals)]
    if quant_element(kind) is None and str(element_type(kind)) not in FLOATS:
        return []
    plain = value.detach().cpu()
    array = plain.double().numpy() if plain.is_floating_point() else plain.numpy()
    # In training values are the numbers of codes already.
    reals = array if array.dtype.kind == "f" else load(array, kind).approx
    return [keyed_value(keys, index, kind, reals)]
