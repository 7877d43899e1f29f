"""A graph being written: nodes, initializers, and names that never collide."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    f64,
)
from xdsl.ir import Attribute

from qdialect.errors import InputError
from qdialect.ir.dialects.attributes import string_list
from qdialect.ir.ops import BlobAttr
from qdialect.ir.weights import BlobStore
from qdialect.packages import package
from qdialect.plugins.onnx.dialect import ProtoAttr

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from onnx import AttributeProto, NodeProto, TensorProto


LARGE_WEIGHT = 1 << 10
"""Bytes from which on a weight is large: what shapes are computed from is not."""
_PIECE = 1 << 20
_OF_RUNTIME = re.compile(r"gemm_(input|output)_shape|.*_token_\d+", re.DOTALL)
"""Names that ONNX Runtime gives initializers of its own, without a look at those that there are: a
file that it saved has some, and is not loaded where it makes the same again."""


class GraphWriter:
    """Collects the nodes and initializers of one graph."""

    def __init__(self, reserved: Iterable[str]) -> None:
        """`reserved` names are given to nobody who only asks for something like them."""
        self.nodes: list[NodeProto] = []
        self.initializers: dict[str, TensorProto] = {}
        #: the data of those that are large, which they do not hold
        self.weights: dict[str, memoryview] = {}
        self.domains: set[str] = set()
        self._tensors = set(reserved)
        self._nodes: set[str] = set()

    def tensor(self, hint: str) -> str:
        """A new tensor name: `hint`, or it with a number."""
        return _unique(hint, self._tensors)

    def release(self, name: str) -> None:
        """A reserved name is taken by what asks for it next."""
        self._tensors.discard(name)

    def node(
        self,
        op_type: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        name: str,
        domain: str = "",
        **attributes: Any,
    ) -> NodeProto:
        """Append a node; attributes that are None are left out."""
        given = {key: value for key, value in attributes.items() if value is not None}
        helper, kinds = package("onnx.helper"), package("onnx").AttributeProto
        empty = [
            key for key, value in given.items() if isinstance(value, list | tuple) and not value
        ]
        lists = {key: given.pop(key) for key in empty}
        made = helper.make_node(
            op_type, inputs, outputs, _unique(name, self._nodes), domain=domain, **given
        )
        # Of what an empty list is, `make_node` cannot tell.
        made.attribute.extend(
            helper.make_attribute(key, value, attr_type=kinds.INTS) for key, value in lists.items()
        )
        self.domains.add(domain)
        self.nodes.append(made)
        return made

    def initializer(
        self, hint: str, data_type: int, shape: Sequence[int], raw: bytes | memoryview
    ) -> str:
        """The name of an initializer with this value: an earlier one asked for under
        the same name if it is the same, else a new one."""
        if _OF_RUNTIME.fullmatch(hint):
            hint += "_kept"
        name = hint
        if name in self.initializers:
            earlier = self.initializers[name]
            same = earlier.data_type == data_type and tuple(earlier.dims) == tuple(shape)
            if same and self._holds(earlier, raw):
                return name
        name = _unique(hint, self._tensors)
        tensor: TensorProto = package("onnx").TensorProto()
        tensor.name, tensor.data_type = name, data_type
        if len(raw) < LARGE_WEIGHT:
            tensor.raw_data = bytes(raw)
        else:
            self.weights[name] = memoryview(raw)
        tensor.dims.extend(shape)
        self.initializers[name] = tensor
        return name

    def _holds(self, tensor: TensorProto, raw: bytes | memoryview) -> bool:
        weight = self.weights.get(tensor.name)
        if weight is None or len(weight) != len(raw):
            return weight is None and tensor.raw_data == raw
        # Views compare byte by byte, so bytes, a piece at a time.
        pieces = range(0, len(weight), _PIECE)
        return all(bytes(weight[n : n + _PIECE]) == bytes(raw[n : n + _PIECE]) for n in pieces)

    def values(self, name: str) -> NDArray[Any]:
        """What an initializer holds, also a large one, which is not in its message."""
        import numpy as np

        tensor, weight = self.initializers[name], self.weights.get(name)
        if weight is None:
            return package("onnx.numpy_helper").to_array(tensor)
        dtype = package("onnx.helper").tensor_dtype_to_np_dtype(tensor.data_type)
        return np.frombuffer(weight, dtype).reshape(tuple(tensor.dims))

    def array(self, hint: str, array: np.ndarray[Any, Any]) -> str:
        """An initializer of a numpy array."""
        helper = package("onnx.helper")
        data: NDArray[Any] = array
        code: int = helper.np_dtype_to_tensor_dtype(data.dtype)
        return self.initializer(hint, code, data.shape, bytes_of(data))

    def ints(self, hint: str, values: Sequence[int]) -> str:
        """An initializer listing 64-bit integers."""
        import numpy as np

        return self.array(hint, np.array(values, np.int64))


def bytes_of(array: NDArray[Any]) -> memoryview:
    """Those of the elements in order; no copy if they lie in it."""
    import numpy as np

    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def _unique(hint: str, taken: set[str]) -> str:
    name, count = hint, 0
    while name in taken:
        count += 1
        name = f"{hint}_{count}"
    taken.add(name)
    return name


# -- attributes -----------------------------------------------------------------------


def node_attribute(name: str, attribute: Attribute, store: BlobStore) -> AttributeProto:
    """An attribute of an `onnx.node` as ONNX writes it (the inverse of the importer's).

    ValueError for an attribute no ONNX attribute corresponds to.
    """
    kinds = package("onnx").AttributeProto
    made: AttributeProto = kinds()
    if isinstance(attribute, ProtoAttr):
        try:
            made.ParseFromString(_serialized(attribute.bytes, store))
        except package("google.protobuf.message").DecodeError:
            raise InputError(
                f"attribute '{name}' is no serialized AttributeProto", code="bad-attribute"
            ) from None
        made.name = name
        return made
    made.name = name
    if isinstance(attribute, IntegerAttr):
        made.type, made.i = kinds.INT, attribute.value.data
    elif isinstance(attribute, FloatAttr):
        made.type, made.f = kinds.FLOAT, attribute.value.data
    elif isinstance(attribute, StringAttr):
        made.type, made.s = kinds.STRING, attribute.data.encode()
    elif isinstance(attribute, DenseArrayBase):
        values: Any = cast("Any", attribute).get_values()
        if cast("Any", attribute).elt_type == f64:
            made.type = kinds.FLOATS
            made.floats.extend(values)
        else:
            made.type = kinds.INTS
            made.ints.extend(values)
    elif isinstance(attribute, ArrayAttr):
        made.type = kinds.STRINGS
        made.strings.extend(text.encode() for text in string_list(cast("Attribute", attribute)))
    else:
        raise ValueError(f"no ONNX attribute for {attribute}")
    return made


def _serialized(attribute: Attribute, store: BlobStore) -> bytes:
    if isinstance(attribute, BlobAttr):
        return bytes(store.get(attribute.key.data).data)
    if isinstance(attribute, DenseIntOrFPElementsAttr):
        return attribute.data.data
    raise ValueError(f"no serialized attribute in {attribute}")
