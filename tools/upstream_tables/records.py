"""Reads the records that `llvm-tblgen -dump-json` prints for a file of ODS definitions."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

Record = dict[str, Any]


class Records:
    """The records of one `.td` file, by name."""

    def __init__(self, file: Path, include: Sequence[Path], tblgen: str) -> None:
        """Raises CalledProcessError when the file has errors."""
        command = [tblgen, "-dump-json", *(f"-I{path}" for path in include), str(file)]
        printed = subprocess.run(command, check=True, capture_output=True).stdout
        self._records: dict[str, Any] = json.loads(printed)

    def __getitem__(self, reference: str | Record) -> Record:
        """The record of a name, or of `{"def": name}`."""
        name = reference if isinstance(reference, str) else reference["def"]
        return self._records[name]

    def of_class(self, name: str) -> list[Record]:
        """All records of a class."""
        return [self[found] for found in self._records["!instanceof"].get(name, ())]

    @cached_property
    def ops_by_class(self) -> dict[str, str]:
        """The full names of ops, by the end of the names of their C++ classes."""
        names: dict[str, str] = {}
        for op in self.of_class("Op"):
            name = op["!name"]
            names[name] = names[name.partition("_")[2] or name] = self.op_name(op)
        return names

    def op_name(self, op: Record) -> str:
        """`arith.addi`."""
        return f"{self[op['opDialect']]['name']}.{op['opName']}"

    def arguments(self, dag: Record) -> Iterator[tuple[str, Record]]:
        """The names and records of a dag of arguments, without `Arg` and decorations."""
        for number, (value, name) in enumerate(dag["args"]):
            record = self[value]
            while "OpVariable" in record["!superclasses"]:
                record = self[record["constraint"]]
            yield name or f"_{number}", record

    def traits(self, op: Record) -> list[Record]:
        """The traits of an op, those in lists too."""
        found: list[Record] = []
        pending: list[Any] = list(op["traits"])
        while pending:
            trait = self[pending.pop(0)]
            if "traits" in trait and "TraitList" in trait["!superclasses"]:
                pending[:0] = trait["traits"]
            found.append(trait)
        return found


def is_a(record: Record, name: str) -> bool:
    """Whether a record is of a class, or is the record of that name."""
    return name in record["!superclasses"] or record["!name"] == name
