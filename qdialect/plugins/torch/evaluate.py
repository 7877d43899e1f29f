"""Running one op of PyTorch: the kernel of `torch.node`.

A file can name any op, so only those are run that are functions of tensors: of known namespaces,
with a schema that writes nothing, a tensor among the operands, and nothing but tensors as results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
)
from xdsl.ir import Attribute, SSAValue, TypeAttribute

from qdialect.errors import QError
from qdialect.ir.ops.constants import element_name
from qdialect.ir.quant import element_type
from qdialect.packages import package
from qdialect.plugins.torch.dialect import TorchNodeOp, ValueAttr

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAMESPACES = {
    "aten": None,
    "quantized_decomposed": "torch.ao.quantization.fx._decomposed",
    "torchao": "torchao",
    "torchvision": "torchvision",
}
"""Operator sets that are run, and the modules that register them."""

_DTYPES = {
    "ui8": "uint8",
    "ui16": "uint16",
    "ui32": "uint32",
    "ui64": "uint64",
    "i1": "bool",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    **{f"i{width}": f"int{width}" for width in (8, 16, 32, 64)},
}


def evaluate_node(op: TorchNodeOp, operands: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
    """The results of an op on arrays of its operands.

    QError (`cannot-evaluate`) for an op that is not run, or that PyTorch refuses;
    `missing-package` without PyTorch.
    """
    torch = package("torch")
    overload = overload_of(op)
    tensors = [_tensor(a, v) for a, v in zip(operands, op.operands, strict=True)]
    given = {name: argument_of(value, tensors) for name, value in op.arguments.data.items()}
    try:
        with torch.no_grad():
            results = overload(**given)
    except Exception as error:  # whatever the op says of its arguments
        raise _refused(op, str(error).splitlines()[0] if str(error) else repr(error)) from None
    flat = flattened(results)
    if len(flat) != len(op.results):
        raise _refused(op, f"it gives {len(flat)} results, not {len(op.results)}")
    return [_array(tensor, value) for tensor, value in zip(flat, op.results, strict=True)]


def _refused(op: TorchNodeOp, reason: str) -> QError:
    return QError(f"'{op.target.data}' cannot be evaluated: {reason}", code="cannot-evaluate")


def overload_of(op: TorchNodeOp) -> Any:
    """The op, if it is a function of tensors; QError (`cannot-evaluate`)."""
    torch = package("torch")
    space, _, rest = op.target.data.partition(".")
    name, _, overload = rest.partition(".")
    if space not in NAMESPACES:
        raise _refused(op, f"ops of '{space}' are not run")
    module = NAMESPACES[space]
    if module is not None:
        package(module)
    try:
        found = getattr(getattr(getattr(torch.ops, space), name), overload or "default")
        schema = found._schema
    except (AttributeError, RuntimeError):
        raise _refused(op, "this PyTorch has no such op") from None
    gives = [_is_tensor(entry.type) for entry in schema.returns]
    takes = [_is_tensor(entry.type) for entry in schema.arguments]
    if schema.is_mutable or not gives or not all(gives) or not any(takes) or not op.operands:
        raise _refused(op, "it is no function of tensors")
    return found


def _is_tensor(kind: Any) -> bool:
    return str(kind) in ("Tensor", "List[Tensor]", "Optional[Tensor]")


def _tensor(array: NDArray[Any], value: SSAValue) -> Any:
    """An operand as the interpreter has it (bf16 in f32, small floats as bits)."""
    import numpy as np

    torch = package("torch")
    name = element_name(element_type(value.type))
    dtype = getattr(torch, _DTYPES[name])
    tensor = torch.from_numpy(np.array(array, order="C"))
    return tensor.view(dtype) if name.startswith("f8") else tensor.to(dtype)


def _array(tensor: Any, value: SSAValue) -> NDArray[Any]:
    torch = package("torch")
    name = element_name(element_type(value.type))
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.dtype != getattr(torch, _DTYPES[name]):
        tensor = tensor.to(getattr(torch, _DTYPES[name]))
    if name.startswith("f8"):
        tensor = tensor.view(torch.uint8)
    return (tensor.float() if name == "bf16" else tensor).numpy()


def argument_of(value: Attribute, tensors: Sequence[Any]) -> Any:
    """An argument as PyTorch takes it, with `tensors` for the operands; QError
    (`cannot-evaluate`)."""
    if isinstance(value, ValueAttr):
        return tensors[value.data]
    if isinstance(value, ArrayAttr):
        return [argument_of(inner, tensors) for inner in cast("ArrayAttr[Attribute]", value)]
    if isinstance(value, UnitAttr):
        return None
    if isinstance(value, StringAttr):
        return value.data
    if isinstance(value, IntegerAttr):
        number = value.value.data
        return bool(number) if value == BoolAttr.from_bool(bool(number)) else number
    if isinstance(value, FloatAttr):
        return value.value.data
    if isinstance(value, TypeAttribute) and element_name(value) in _DTYPES:
        return getattr(package("torch"), _DTYPES[element_name(value)])
    raise QError(f"an argument of PyTorch cannot be '{value}'", code="cannot-evaluate")


def flattened(results: Any) -> list[Any]:
    """The tensors among results, one after the other."""
    if isinstance(results, list | tuple):
        return [tensor for inner in results for tensor in flattened(inner)]  # pyright: ignore[reportUnknownVariableType]
    return [results]
