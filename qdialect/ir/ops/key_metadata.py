"""Keys that no name of an ONNX model can say: several of one op, and those its pieces were given.

A model has them in its metadata, under `qdialect.keys`, as JSON by the name of the node or
initializer:

    {"relu": {"keys": ["relu", "relu_1"]}, "gemm": {"pieces": {"matmul": ["matmul_3"]}}}
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.ir import Attribute, Operation

from qdialect.ir.ops.component_keys import (
    OTHERS,
    Keys,
    all_keys,
    given_keys,
    hold_keys,
    key_attribute,
)
from qdialect.ir.ops.declare import known_components
from qdialect.ir.ops.keys import KEY, keys_of

KEYS = "qdialect.keys"
IDENTITY = "qdialect.model"
"""Metadata entry with what a module holds as `nn.model`, as JSON."""


@dataclass
class KeyTable:
    """The keys of ops by the name they have in a model."""

    keys: dict[str, Keys] = field(default_factory=dict[str, Keys])
    pieces: dict[str, Mapping[str, Keys]] = field(default_factory=dict[str, "Mapping[str, Keys]"])

    def note(self, name: str, keys: Keys, pieces: Mapping[str, Keys]) -> None:
        """What an op that is written as `name` is called beyond that."""
        if len(keys) > 1:
            self.keys[name] = keys
        if pieces:
            self.pieces[name] = pieces

    def note_op(self, op: Operation) -> None:
        """`note` of an op that is written under its first key."""
        if keys := keys_of(op):
            self.note(keys[0], keys, given_keys(op))

    def in_pieces(self, name: str) -> None:
        """The op written as `name` is in pieces, which are noted by themselves."""
        kept = {role: keys for role, keys in self.pieces.get(name, {}).items() if role == OTHERS}
        self.pieces.pop(name, None)
        self.note(name, (), kept)

    def name(self, op: Operation) -> None:
        """Give an op that was read under its key what else it is called. Keys of pieces that
        it does not have in this form are of nothing in particular."""
        (name,) = keys_of(op)
        if name in self.keys:
            op.attributes[KEY] = key_attribute(self.keys[name])
        if name not in self.pieces:
            return
        own = all_keys(op, known_components())
        found: dict[str, Keys] = {}
        for role, keys in self.pieces[name].items():
            place = role if role in own else OTHERS
            found[place] = tuple(dict.fromkeys((*found.get(place, ()), *keys)))
        hold_keys(op, found)

    def text(self) -> str:
        """The table as JSON; empty without entries."""
        names = sorted({*self.keys, *self.pieces})
        entries = {name: self._entry(name) for name in names}
        return json.dumps(entries, ensure_ascii=False, sort_keys=True) if entries else ""

    def _entry(self, name: str) -> dict[str, Any]:
        entry: dict[str, Any] = {}
        if name in self.keys:
            entry["keys"] = list(self.keys[name])
        if name in self.pieces:
            entry["pieces"] = {role: list(keys) for role, keys in self.pieces[name].items()}
        return entry

    @staticmethod
    def read(text: str) -> KeyTable:
        """The inverse of `text`; ValueError for anything else."""
        table = KeyTable()
        for name, entry in _dictionary(json.loads(text) if text else {}).items():
            given = _dictionary(entry)
            if not given.keys() <= {"keys", "pieces"}:
                raise ValueError(f"the entry of '{name}' has unknown fields")
            if "keys" in given:
                table.keys[name] = _keys(given["keys"])
            if "pieces" in given:
                pieces = _dictionary(given["pieces"])
                table.pieces[name] = {role: _keys(keys) for role, keys in pieces.items()}
        return table


def identity_text(attribute: Attribute | None) -> str:
    """An `nn.model` as JSON; empty without one."""
    if not isinstance(attribute, DictionaryAttr):
        return ""
    entries = {name: _plain(value) for name, value in attribute.data.items()}
    return json.dumps(entries, ensure_ascii=False, sort_keys=True)


def _plain(value: Attribute) -> object:
    if isinstance(value, DictionaryAttr):
        return {name: _plain(inner) for name, inner in value.data.items()}
    return value.data if isinstance(value, StringAttr) else None


def identity_attribute(text: str) -> DictionaryAttr | None:
    """The inverse of `identity_text`; ValueError for anything else."""
    if not text:
        return None
    given = _dictionary(json.loads(text))
    ops = {str(k): StringAttr(str(v)) for k, v in _dictionary(given.get("ops")).items()}
    form = StringAttr(str(given.get("form")))
    return DictionaryAttr({"form": form, "ops": DictionaryAttr(ops)})


def _dictionary(value: object) -> dict[str, object]:
    if not isinstance(value, dict):
        raise ValueError("a dictionary is missing")
    return cast("dict[str, object]", value)


def _keys(value: object) -> Keys:
    entries = cast("list[object]", value) if isinstance(value, list) else []
    keys = tuple(key for key in entries if isinstance(key, str))
    if not keys or len(keys) != len(entries):
        raise ValueError("a list of keys is missing")
    "".join(keys).encode()  # what JSON can escape is not always text
    return keys
