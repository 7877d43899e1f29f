"""What a profile remembers of the model it is of, and how it tells another model.

Ranges depend on the weights, on what the ops compute and on their attributes. They do not
depend on the batch size, on the order of ops, or on whether a constant has been folded, so
none of that counts: each op that computes floats of the input has a text by its key,

    "conv1": "nn.conv2d:8f3a61c2:19d0c7be"

its kind, a hash of its attributes and a hash of the constants it reads. A constant is what an
operand is worth, through any transpose, reshape or cast that stands before it; its shape does
not count, and one that has the same number everywhere counts as that number. Ops that only move
elements have no text.

Passes give ops other forms, so a module that they changed holds which model it was, and what it is
now: after any other change, these are not its own texts, and it is another model again.

    module attributes {nn.model = {form = "sha256:...", ops = {"softmax0" = "nn.softmax:...:-"}}}
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import ConstantLike

from qdialect.errors import InputError, QError, Where
from qdialect.interpreter import Interpreter, evaluate_op
from qdialect.ir.context import QContext
from qdialect.ir.ops import keys_of
from qdialect.ir.ops.keys import KEY, MODEL
from qdialect.ir.quant import ConversionOp, UniformType, element_type, quant_element
from qdialect.ir.quant.elements import integer_width, is_tensor
from qdialect.plugins.onnx.dialect import NodeOp
from qdialect.quantizer.profile.instrument import is_float
from qdialect.quantizer.profile.record import Profile

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NO_CONSTANTS = "-"
_SHOWN = 3
_WIDEST_CODES = 32


@dataclass(frozen=True)
class ModelIdentity:
    """The texts of the ops of a model by key; ops without a key are named by their text."""

    ops: Mapping[str, str]

    @property
    def digest(self) -> str:
        """One name for all of it."""
        text = json.dumps(self.ops, sort_keys=True)
        return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"

    @property
    def form(self) -> str:
        """One name for the texts. Files of ONNX give an op without a key one, so keys do not
        count."""
        texts = json.dumps(sorted(set(self.ops.values())))
        return f"sha256:{hashlib.sha256(texts.encode()).hexdigest()}"

    def differences(self, profile: Profile) -> list[str]:
        """Why `profile` is of another model: nothing for one of this model, or of a form of it.

        An op that the profile does not name may be a new form of others, unless it reads
        constants that none of them read.
        """
        if profile.digest == self.digest:
            return []
        if not profile.ops.keys() & self.ops.keys():
            return ["they have no ops in common"]
        constants = {text.rpartition(":")[2] for text in profile.ops.values()}
        found: list[str] = []
        for key, text in self.ops.items():
            known = profile.ops.get(key)
            if known is not None and (reason := difference(key, known, text)):
                found.append(reason)
            elif known is None and text.rpartition(":")[2] not in {*constants, NO_CONSTANTS}:
                found.append(f"the profile knows no weights of '{key}'")
        return found

    def check(self, profile: Profile, path: Path | None = None, flag: str = "") -> None:
        """InputError (`profile-of-another-model`) if `profile`, which is at `path`, is not of
        this model; `flag` is what lets people use it all the same."""
        found = self.differences(profile)
        if found:
            more = f", and {len(found) - 1} more" if len(found) > 1 else ""
            way = f"; {flag} uses what matches" if flag else ""
            raise InputError(
                f"the profile is of another model: {found[0]}{more}{way}",
                where=None if path is None else Where(str(path)),
                code="profile-of-another-model",
                notes=tuple(found[1 : _SHOWN + 1]),
            )


def difference(key: str, known: str, text: str) -> str:
    """How the op `key` with the text `text` differs from the one that was profiled as `known`;
    nothing if it does not.

    What is computed of shapes, such as a mask, is a constant in one model and none in another.
    """
    kind, attributes, constants = known.rsplit(":", 2)
    other, others, read = text.rsplit(":", 2)
    if kind != other:
        return f"'{key}' was '{kind}' and is '{other}'"
    if attributes != others:
        return f"the attributes of '{key}' differ"
    same = constants == read or NO_CONSTANTS in (constants, read)
    return "" if same else f"the weights of '{key}' differ"


def identify(module: ModuleOp, ctx: QContext) -> ModelIdentity:
    """The identity of a float model, which is that of the model it was before passes; time and
    memory as its constants take."""
    own = form_of(module, ctx)
    stored = module.attributes.get(MODEL)
    if not isinstance(stored, DictionaryAttr) or stored.data.get("form") != StringAttr(own.form):
        return own
    ops = stored.data.get("ops")
    if not isinstance(ops, DictionaryAttr):
        return own
    return ModelIdentity({k: v.data for k, v in ops.data.items() if isinstance(v, StringAttr)})


def form_of(module: ModuleOp, ctx: QContext) -> ModelIdentity:
    """The identity of a model as it is, whatever it was."""
    function = Interpreter(ctx, module).function()
    constants = _Constants(ctx)
    texts: dict[str, str] = {}
    for op in function.body.block.ops:
        if constants.note(op) or not _counts(op, ctx):
            continue
        text = f"{_kind(op)}:{_attributes(op)}:{constants.read_by(op)}"
        texts.update(dict.fromkeys(keys_of(op) or (f"?{text}",), text))
    return ModelIdentity(texts)


@contextmanager
def kept_identity(module: ModuleOp, ctx: QContext, passes: Sequence[ModulePass]) -> Generator[None]:
    """Let a float model hold which it was before `passes`, which are run inside: unless one of them
    says that it `changes_ranges`."""
    before = None
    with suppress(QError):  # it is no model
        if _has_ranges(module) and not any(getattr(p, "changes_ranges", False) for p in passes):
            before = identify(module, ctx)
    yield
    module.attributes.pop(MODEL, None)
    with suppress(QError):
        if before is None or not _has_ranges(module):
            return
        after = form_of(module, ctx)
        if after.digest != before.digest:
            ops = DictionaryAttr({key: StringAttr(text) for key, text in before.ops.items()})
            module.attributes[MODEL] = DictionaryAttr({"form": StringAttr(after.form), "ops": ops})


def _has_ranges(module: ModuleOp) -> bool:
    """Whether a profile may be of a module: it has keys and no branches, and no value has codes."""
    if any(len(region.blocks) > 1 for op in module.ops for region in op.regions):
        return False
    values = (value for op in module.walk() for value in op.results)
    has_keys = any(KEY in op.attributes for op in module.walk())
    return has_keys and not any(quant_element(value.type) for value in values)


def _counts(op: Operation, ctx: QContext) -> bool:
    """Whether an op computes floats or codes, and does not only move them."""
    if isinstance(op, ReturnOp | ConversionOp) or not any(map(_is_data, op.results)):
        return False
    behavior = ctx.behaviors.get(op)
    return behavior is None or behavior.movement is None


def _is_data(value: SSAValue) -> bool:
    """Whether a value is of floats, of codes or of integers that products are of, which
    shapes and indices are not."""
    if not is_tensor(value.type):
        return False
    element = element_type(value.type)
    width = integer_width(element)
    if width is not None:
        return 1 < width <= _WIDEST_CODES
    return is_float(value.type) or isinstance(element, UniformType)


def _kind(op: Operation) -> str:
    return f"onnx.{op.op_type.data}" if isinstance(op, NodeOp) else op.name


def _attributes(op: Operation) -> str:
    """A hash of the attributes of an op and of what is in its regions.

    An attribute with a dot in its name is a remark on the op, which does not change it.
    """
    hasher = hashlib.blake2b(digest_size=4)
    for inner in op.walk():
        own = {name: value for name, value in inner.attributes.items() if "." not in name}
        hasher.update(_kind(inner).encode())
        for name, value in sorted({**own, **inner.properties}.items()):
            hasher.update(f"\0{name}={value}".encode())
    return hasher.hexdigest()


class _Constants:
    """What values are worth that no input has a part in; computed when an op reads them."""

    def __init__(self, ctx: QContext) -> None:
        self.ctx = ctx
        self._values: set[SSAValue] = set()
        self._hashes: dict[SSAValue, str] = {}

    def note(self, op: Operation) -> bool:
        """Whether an op, whose operands were noted, is of constants only."""
        constant = op.has_trait(ConstantLike, value_if_unregistered=False) or (
            bool(op.operands) and all(operand in self._values for operand in op.operands)
        )
        if constant:
            self._values.update(op.results)
        return constant

    def read_by(self, op: Operation) -> str:
        """A hash of the constants that an op computes with."""
        texts = [
            f"{index}:{self._hash(value)}"
            for index, value in enumerate(op.operands)
            if value in self._values and _is_data(value)
        ]
        if not texts:
            return NO_CONSTANTS
        return hashlib.blake2b(" ".join(texts).encode(), digest_size=8).hexdigest()

    def _hash(self, value: SSAValue) -> str:
        if value not in self._hashes:
            array = self._array(value)
            self._hashes[value] = "" if array is None else _hashed(array)
        return self._hashes[value]

    def _array(self, value: SSAValue) -> Array | None:
        """The numbers of a constant, or None where they cannot be computed."""
        known: dict[SSAValue, Array] = {}
        for op in self._chain(value):
            try:
                results = evaluate_op(op, [known[v] for v in op.operands], self.ctx)
            except QError:
                return None
            known.update(zip(op.results, results, strict=True))
        return known[value]

    def _chain(self, value: SSAValue) -> Iterator[Operation]:
        """The ops that make a constant, each after those it reads."""
        done: set[Operation] = set()
        pending = [value.owner]
        while pending:
            op = pending[-1]
            assert isinstance(op, Operation)
            above = [v.owner for v in op.operands if v.owner not in done]
            if op in done or not above:
                pending.pop()
                if op not in done:
                    done.add(op)
                    yield op
            else:
                pending += above


def _hashed(array: Array) -> str:
    """A hash of the numbers, without their shape; of all equal ones, of the number."""
    if array.dtype.kind == "f":
        array = array.astype(np.float64 if array.dtype.itemsize > 4 else np.float32, copy=False)
    if array.size and (array == array.flat[0]).all():
        array = array.reshape(-1)[:1]
    raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return hashlib.blake2b(raw, digest_size=8).hexdigest()
