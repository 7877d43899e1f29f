"""Texts, JSON, weight stores and arrays with something wrong in them, made from sound ones by
a seed."""

# pyright: basic
from __future__ import annotations

import io
import json
import random
import re
import struct
from collections.abc import Sequence
from typing import Any
from zipfile import ZipFile

TOKEN = re.compile(
    rb'"(?:[^"\\\n]|\\.)*"|[@%#!^]?[A-Za-z_$][\w$.-]*|[@%#!^]\d+|0x[0-9A-Fa-f]+|\d+x|'
    rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|->|\s+|.",
    re.DOTALL,
)
NUMBERS = (
    b"0", b"-1", b"1", b"255", b"256", b"65536", b"2147483648", b"-2147483649",
    b"9223372036854775807", b"9223372036854775808", b"18446744073709551616",
    b"1" + b"0" * 30, b"1" + b"0" * 5000, b"1e400", b"-1e400", b"1e-400", b"1e999999999",
    b"0x7FC00000", b"0xFFFFFFFFFFFFFFFFFF", b"nan", b"inf", b"NaN", b"Infinity", b"1.5", b"?",
)  # fmt: skip
TEXTS = (
    b'""', b'"\\00"', b'"../../secret"', b'"/etc/passwd"', b'"a\\FFb"', b'"\\u0000"', b'"', b'"\\',
    b'"' + b"a" * 3000 + b'"', b'"%s%n"', b'"C:\\\\x"', b'"."', '"ü"'.encode(),
)  # fmt: skip
RUBBISH = (b"\xff\xfe", b"\x00", b"\xc3\x28", b"\xed\xa0\x80", b"\r", "\u202e\u2028".encode())
BRACKETS = ((b"[", b"]"), (b"{", b"}"), (b"(", b")"), (b"<", b">"))
OPENERS = (b"tensor<", b"tuple<", b"dense<", b"[", b"{", b"(", b"loc(fused[", b"<", b"-", b"{a = ")
DEPTHS = (2, 40, 300, 3000, 20000)
MEMBERS = ("x.npy", "y.npy")
"""The arrays of an archive."""
MOST = 1 << 18
"""Bytes of one input at most."""


class Tokens:
    """Damage to the tokens of a text."""

    def __init__(self, draw: random.Random, seeds: Sequence[bytes]) -> None:
        self.draw, self.seeds = draw, seeds

    def change(self, data: bytes) -> bytes:
        for _ in range(self.draw.choice((1, 1, 1, 2, 4))):
            data = self._mildly(data) if self.draw.random() < 0.5 else self._once(data)
        return data[:MOST]

    def _mildly(self, data: bytes) -> bytes:
        """A token becomes another of its kind: what comes out often is a sound text still."""
        choose = self.draw.choice
        tokens = TOKEN.findall(data) or [b" "]
        solid = [i for i, token in enumerate(tokens) if token[:1].isalnum() or len(token) > 1]
        if not solid:
            return data
        at = choose(solid)
        old = tokens[at]
        if old.isdigit():
            near = (int(old[:18]) + 1, int(old[:18]) - 1, 0, 1, 2, 3, 4, 7, 8, 16, 32)
            tokens[at] = str(choose(near)).encode()
        else:
            other = TOKEN.findall(choose(self.seeds)) if self.draw.random() < 0.5 else tokens
            alike = [token for token in other if token != old and _kind(token) == _kind(old)]
            tokens[at] = choose(alike) if alike else choose(NUMBERS)
        return b"".join(tokens)

    def _once(self, data: bytes) -> bytes:
        choose, pick = self.draw.choice, self.draw.randrange
        tokens = TOKEN.findall(data) or [b" "]
        at = pick(len(tokens))
        solid = [i for i, token in enumerate(tokens) if not token.isspace()]
        if solid:
            at = choose(solid)
        kind = pick(14)
        if kind == 0:
            del tokens[at : at + choose((1, 1, 2, 5, 30))]
        elif kind == 1:
            end = at + choose((1, 3, 10, 40))
            tokens[at:at] = tokens[at:end] * choose((1, 1, 3, 30))
        elif kind == 2:
            other = choose(solid or [at])
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind == 3:
            tokens[at] = choose(tokens)
        elif kind in (4, 5):
            numbers = [i for i in solid if tokens[i][:1].isdigit() or tokens[i][:1] == b"-"]
            at = choose(numbers) if numbers else at
            tail = b"x" if tokens[at].endswith(b"x") else b""
            tokens[at] = choose(NUMBERS) + tail
        elif kind == 6:
            texts = [i for i in solid if tokens[i][:1] == b'"']
            tokens[choose(texts) if texts else at] = choose(TEXTS)
        elif kind == 7:
            opened, closed = choose(BRACKETS)
            depth = choose(DEPTHS)
            tokens[at] = opened * depth + tokens[at] + closed * choose((depth, 0, depth - 1))
        elif kind == 8:
            tokens[at:at] = [choose(OPENERS)] * choose(DEPTHS)
        elif kind == 9:
            sigil = choose((b"@", b"%", b"#", b"!", b"^"))
            names = [i for i in solid if tokens[i][:1] == sigil]
            if names:
                tokens[choose(names)] = tokens[choose(names)]
        elif kind == 10:
            other = TOKEN.findall(choose(self.seeds)) or [b" "]
            start = pick(len(other))
            tokens[at:at] = other[start : start + choose((1, 4, 20, 100))]
        elif kind == 11:
            tokens[at] = tokens[at] + choose(RUBBISH)
        elif kind == 12:
            return self._lines(data)
        else:
            return self.raw(data)
        return b"".join(tokens)

    def _lines(self, data: bytes) -> bytes:
        lines = data.split(b"\n")
        at, other = (self.draw.randrange(len(lines)) for _ in range(2))
        kind = self.draw.randrange(3)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, lines[other])
        else:
            lines[at], lines[other] = lines[other], lines[at]
        return b"\n".join(lines)

    def raw(self, data: bytes) -> bytes:
        """Damage to bytes that know nothing of tokens."""
        changed, pick = bytearray(data or b" "), self.draw.randrange
        at, kind = pick(len(changed)), pick(4)
        if kind == 0:
            del changed[at:]
        elif kind == 1:
            del changed[at : at + pick(1, 40)]
        elif kind == 2:
            start = pick(len(changed))
            changed[at:at] = changed[start : start + 40]
        else:
            for _ in range(pick(1, 6)):
                changed[pick(len(changed))] = pick(256)
        return bytes(changed)


class Json:
    """Damage to the values of JSON, and now and then to its tokens."""

    def __init__(self, draw: random.Random, seeds: Sequence[bytes]) -> None:
        self.draw = draw
        self._tokens = Tokens(draw, seeds)

    def change(self, data: bytes) -> bytes:
        if self.draw.random() < 0.25:
            return self._tokens.change(data)
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return self._tokens.change(data)
        for _ in range(self.draw.choice((1, 1, 2, 3))):
            value = self.value(value)
        try:
            return json.dumps(value).encode(errors="surrogatepass")[:MOST]
        except (RecursionError, ValueError):
            return data

    def value(self, value: Any) -> Any:
        """The value with one thing in it changed."""
        places = list(_places(value))
        if not places:
            return self._other(value)
        holder, key = self.draw.choice(places)
        kind = self.draw.randrange(6)
        if kind == 0:
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder[self.draw.choice(("", "x", "__metadata__", "min", "a/b"))] = holder.pop(key)
        elif kind == 1:
            holder.insert(key, holder[key])
        elif kind == 2:
            other, there = self.draw.choice(places)
            if other is holder and isinstance(key, type(there)):
                holder[key], holder[there] = holder[there], holder[key]
            elif not isinstance(other[there], (dict, list)):
                holder[key] = other[there]
        else:
            holder[key] = self._other(holder[key])
        return value

    def _other(self, old: Any) -> Any:
        choose = self.draw.choice
        if isinstance(old, bool) or old is None:
            return choose((None, True, False, 0, "x"))
        if isinstance(old, int):
            near = (old + 1, old - 1, -old, old * 2)
            far = (0, -1, 2**31, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**40, 10**400)
            return choose((*near, *far, 1.5, 1e300, "1", None, [], True))
        if isinstance(old, float):
            return choose((0.0, -0.0, -old, old * 2, 1e39, 1e-46, 3.5e38, 1e308, 7, "x", None))
        if isinstance(old, str):
            return choose(("", "x", "\0", "\ud800", "../x", old * 2, old[:-1], "a" * 5000, 3, None))
        if isinstance(old, list):
            return choose(([], old * 2, old * 50, _nested(choose((10, 500, 900))), {}, None, "x"))
        return choose(({}, [], None, 3, "x"))


def _kind(token: bytes) -> tuple[bytes, bool]:
    """What tokens have in common that may stand where the other does."""
    first = token[:1]
    if first.isalpha() or first == b"_":
        return b"a", b"." in token
    if first.isdigit():
        return b"0", token.endswith(b"x")
    return first, False


def _places(value: Any) -> Any:
    """Every (container, key) in a value."""
    pending = [value]
    while pending:
        here = pending.pop()
        if isinstance(here, (dict, list)):
            keys = list(here) if isinstance(here, dict) else range(len(here))
            yield from ((here, key) for key in keys)
            pending.extend(here[key] for key in keys)


def _nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


class Store:
    """Damage to a weight store: its length, its header, its bytes."""

    def __init__(self, draw: random.Random, seeds: Sequence[bytes]) -> None:
        self.draw = draw
        self._json = Json(draw, [b"{}"])
        self._tokens = Tokens(draw, seeds)

    def change(self, data: bytes) -> bytes:
        if len(data) < 8 or self.draw.random() < 0.2:
            return self._tokens.raw(data)
        (length,) = struct.unpack("<Q", data[:8])
        header, rest = data[8 : 8 + length], data[8 + min(length, len(data)) :]
        if self.draw.random() < 0.8:
            header = self._json.change(header)
            length = len(header)
        if self.draw.random() < 0.15:
            length = self.draw.choice((0, length - 1, length + 1, 2**31, 2**40, 2**63, 2**64 - 1))
        if self.draw.random() < 0.3:
            at = self.draw.randrange(len(rest) + 1)
            rest = self.draw.choice((rest[:at], rest + b"\0" * 8, rest[at:] + rest[:at]))
        return struct.pack("<Q", length % 2**64) + header + rest


class Archives:
    """Damage to the headers and data of arrays, zipped anew, or to the bytes of the archive."""

    def __init__(self, draw: random.Random, seeds: Sequence[bytes]) -> None:
        self._draw = draw
        self._tokens = Tokens(draw, [self._members(seed)[0] for seed in seeds])

    @staticmethod
    def _members(data: bytes) -> list[bytes]:
        with ZipFile(io.BytesIO(data)) as archive:
            return [archive.read(name) for name in MEMBERS]

    def change(self, data: bytes) -> bytes:
        try:
            members = self._members(data)
        except Exception:  # no sound archive any more
            return self._tokens.raw(data)
        if self._draw.random() < 0.3:
            return self._tokens.raw(data)
        file, at = io.BytesIO(), self._draw.randrange(len(members))
        length = 10 + int.from_bytes(members[at][8:10], "little")
        header = self._tokens.change(members[at][10:length]).strip()[: length - 11]
        members[at] = members[at][:10] + header.ljust(length - 11) + b"\n" + members[at][length:]
        with ZipFile(file, "w") as archive:
            for name, member in zip(MEMBERS, members, strict=True):
                archive.writestr(name, member)
        return file.getvalue()


class Documents:
    """Damage to JSON entries of an archive, zipped anew, or to the bytes of the archive."""

    def __init__(self, draw: random.Random, seeds: Sequence[bytes]) -> None:
        self._draw = draw
        self._json = Json(draw, [b"{}"])

    def change(self, data: bytes) -> bytes:
        tokens = self._json._tokens
        try:
            with ZipFile(io.BytesIO(data)) as archive:
                members = {name: archive.read(name) for name in archive.namelist()}
        except Exception:  # no sound archive any more
            return tokens.raw(data)
        if not members or self._draw.random() < 0.2:
            return tokens.raw(data)
        file = io.BytesIO()
        documents = [name for name in members if name.endswith(".json")]
        for _ in range(self._draw.choice((1, 1, 2))):
            name = self._draw.choice(documents or list(members))
            if self._draw.random() < 0.2:
                name = self._draw.choice(list(members))
            change = self._json.change if name in documents else tokens.raw
            members[name] = change(members[name])
        with ZipFile(file, "w") as archive:
            for name, member in members.items():
                archive.writestr(name, member)
        return file.getvalue()
