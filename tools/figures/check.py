"""Holds every number that `qopt optimize` or `qopt quantize` says against the files themselves.

    python -m tools.figures.check INPUT WRITTEN --said said.txt --report r.html --data d.npz

`--said` is what was printed, text or JSON. A number is recomputed, held against another one (a
ratio beside two times), or of a kind that no file tells (`UNTOLD`); any other is an error.
`--facts` is the JSON of the same command where `--said` is text: it says which samples figures are
of. Exit code 1 where something disagrees or is not understood.
"""

# pyright: basic
from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tools.figures.files import Arrays, File, apart, loss, page_data

UNTOLD = {
    "what rewrites did": r"quantizes (multiply|divide)|ops? (are|is) faster on",
    "what was not written": r"is (no candidate|rejected): |optimizations on, |left out: ",
    "ops of the float model": r"^ +\d+ float \[",
    "trials on calibration data": r"^(minmax|percentile|mse|entropy)\b.* dB$|^\S+ +-?[\d.]+ dB$",
    "the reference interpreter": r"in the reference interpreter: |^ *output '",
    "what targets refuse": r"that '\S+' refuses",
    "XNNPACK's choice": r"^  that XNNPACK takes ",
    "how many rows are shown": r"^and \d+ parts of outputs that lose less",
    "why something was not done": r"^ *not (checked|raced|compared|measured)",
    "warnings of the data": r"^warning: (input|all|\d+) ",
    "names and types": r"^\S+ -> \S+$|is computed as |no numbers? ",
}
"""Lines of numbers that the bytes of the files do not tell, by the reason."""
TILES = ("price", "boundaries", "outputs", "what rewrites changed")
TABLES = {"outputs", "executed", "effort", "front", "casts", "boundaries", "error", "ranges"}
TABLES |= {"cost", "target", "refused", "bounds"}
KEYS = {"version", "output", "form", "before", "after", "dropped", "notes", "fired", "refused"}
KEYS |= {"outputs", "target_refuses", "sums", "executed", "written", "race", "float_ops", "effort"}
KEYS |= {"quantized", "left_float", "stale", "profile_matches", "trials", "profile_unmatched"}
KEYS |= {"sensitivity", "candidates", "asked", "measured", "caches", "warnings"}
KEYS |= {"by_default"}
"""What a page and JSON have that is checked, or not of the bytes: no others may be there."""
_N = r"(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)"
_DB = rf"({_N[1:-1]} dB|exact|no number)"


class Check:
    """One run: what is claimed, and what the files say."""

    def __init__(self, source: File, written: File, floats: File | None) -> None:
        self.source, self.written, self.floats = source, written, floats
        self.rows: list[tuple[str, str, str, bool]] = []
        self.judged: list[Arrays] = []
        self.shown: list[Arrays] = []
        self.inputs: Arrays | None = None
        self.facts: dict[str, Any] = {}
        self.columns: list[File] = []
        self.name = self.first = ""
        self.rewrites: list[int] = []
        self.ratios: list[str] = []

    # -- claims

    def claim(self, name: str, claimed: Any, found: Any, ok: bool | None = None) -> None:
        """Note one, equal to what is found unless it is said whether it is `ok`."""
        shown = f"{found:.6g}" if isinstance(found, float) else str(found)
        self.rows.append((name, str(claimed), shown, claimed == found if ok is None else ok))

    def number(self, name: str, text: str, found: float) -> None:
        """A number as it is printed, of so many decimals."""
        word, _, unit = text.strip().partition(" ")
        if word in ("exact", "no") or not math.isfinite(found):
            self.claim(name, text, found, (word == "exact", word == "no") == (
                found == math.inf, found == -math.inf))  # fmt: skip
            return
        percent = word.endswith("%")
        scale = {"kB": 1e3, "MB": 1e6, "GB": 1e9}.get(unit, 0.01 if percent else 1.0)
        digits, _, power = word.rstrip("%").replace(",", "").partition("e")
        step = scale * 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
        if unit in ("kB", "MB", "GB"):
            step = scale * 10.0 ** (math.floor(math.log10(float(word))) - 2)
        value = float(f"{digits}e{power or 0}") * scale
        self.claim(name, text, found, abs(value - found) <= 0.51 * step + 2e-5 * abs(found))

    def ratio(self, name: str, text: str, over: str, of: str) -> None:
        """A ratio beside two times is that of the times, by their three digits."""
        found = float(over) / float(of)
        limit = 0.51 * 10.0 ** -len(text.partition(".")[2]) + 0.011 * found
        self.claim(name, text, found, abs(float(text) - found) <= limit)

    def db(self, name: str, claimed: float | None, found: float) -> None:
        """Decibels of JSON, None where infinite."""
        ok = not math.isfinite(found) if claimed is None else abs(claimed - found) < 0.02
        self.claim(name, claimed, found, ok)

    # -- lines

    def line(self, text: str) -> None:
        """All numbers of a line."""
        for pattern, take in LINES:
            if found := re.search(pattern, text):
                take(self, *found.groups())
                return
        kind = next((kind for kind, each in UNTOLD.items() if re.search(each, text)), None)
        if kind is None and re.search(r"\d", text):
            self.claim("a line that is not understood", text, "", False)

    def lines(self, text: str) -> None:
        for one in text.splitlines():
            self.line(one)

    def heading(self, runtime: str, names: str) -> None:
        self.columns = [self.source] if re.match("input", names) else []
        if found := re.search(r"written \((.*)\)", names):
            self.columns.append(self.written)
            self.name = found[1]

    def counts(self, key: str, *cells: str) -> None:
        """A row of counts of the columns: the input and what was written."""
        stated = [cell for cell in " ".join(cells).split() if cell.isdecimal()]
        for file, cell in zip(self.columns or [self.source, self.written], stated, strict=True):
            if file.path.suffix not in (".onnx", ".tflite"):
                continue  # what another format was translated to
            executed = file.executed
            found = sum(executed["floats"].values()) if key == "floats" else executed[key]
            self.claim(f"{key} of {file.path.name}", int(cell), found)

    def left(self, key: str, before: str, after: str) -> None:
        """Counts of ops; casts of what was read are all there, where all is known."""
        if self.facts.get("before", {}).get("unknown ops"):
            return
        if self.source.path.suffix == ".onnx" and key in ("quantize", "dequantize"):
            kind = "QuantizeLinear" if key == "quantize" else "DequantizeLinear"
            found = sum(node.op_type == kind for node in self.source.model.graph.node)
            self.claim(f"{key} before", int(before), found)
        if key in self.written.counts:
            self.claim(f"{key} after", int(after), self.written.counts[key])

    def kinds(self, text: str) -> None:
        floats = self.written.executed["floats"]
        for kind, count in re.findall(r"(\w+) (\d+)", text):
            self.claim(f"float nodes {kind}", int(count), floats.get(kind, 0))

    def laps(self, rows: str) -> None:
        first, *others = re.split(r" ms(?: \(([^)]*)\))?(?:, |$)", rows)[::2]
        times = [one.rpartition(" ")[2] for one in (first, *others) if one]
        stated = re.findall(rf"\({_N} of the input, {_N} to {_N}\)", rows)
        self.ratios = [one[0] for one in stated]
        for time, (ratio, low, high) in zip(times[1:], stated, strict=True):
            self.ratio("time of the input's", ratio, time, times[0])
            self.claim("its quartiles", ratio, f"{low} to {high}",
                       float(low) <= float(ratio) <= float(high))  # fmt: skip

    def slower(self, ratio: str) -> None:
        self.claim("how much slower it is", ratio, self.ratios, ratio in self.ratios)

    def bits(self, count: str, given: str, place: str, same: str, total: str) -> None:
        """Outputs with the same bits, as both files are written."""
        if re.search("the reference|as casts|translated", place):
            return
        name = "outputs of the same bits, optimizations off"
        inputs = [self.inputs] if self.inputs is not None else []
        if given == "random" and self.source.path.suffix == ".onnx":
            inputs = [x for n in range(int(count)) if (x := self.source.drawn(n)) is not None]
        if not inputs or not self.written.runs:
            return
        found = [apart(self.source.run(x, False), self.written.run(x, False))[0] for x in inputs]
        self.claim(name, f"{same} of {total}", f"{min(found)} of {len(self.source.run(inputs[0]))}")

    def beside(self, same: str, total: str, share: str | None, least: str | None) -> None:
        """The result against the source file in the engine of its format."""
        if not (self.source.runs and self.written.runs):
            return
        inputs = self.inputs
        if inputs is None and self.source.path.suffix == ".onnx":
            inputs = self.source.drawn(0)
        if inputs is None:
            return
        found = apart(self.source.run(inputs, False), self.written.run(inputs, False))
        if int(total) > 0:
            self.claim("outputs of the source's bits", int(same), found[0])
        if share and least and self.inputs is not None:
            self.number("elements that differ", share, found[1])
            self.number("dB of the difference", least, found[2])

    def by_default(self, *stated: str | None) -> None:
        """What is written, and the input, as the engine executes them, beside the source as it is:
        no share or one, and dB of floats. Only on given inputs both can be told."""
        pairs = zip((self.written, self.source), (stated[:2], stated[2:]), strict=True)
        inputs = self.inputs
        if inputs is None or not self.source.runs:
            return
        for file, (share, db) in pairs:
            found = apart(self.source.run(inputs, False), file.run(inputs, True))
            if share is not None:
                self.number(f"elements of {file.path.name} that differ by default", share, found[1])
            if db is not None:
                self.number(f"dB of {file.path.name} by default", db, found[2])

    def kernels(self, share: str, least: str) -> None:
        """What integer kernels make of the input, as both files are written."""
        self.beside("0", "0", share, least)

    def candidate(self, star: str | None, ms: str, ratio: str, db: str | None, nodes: str) -> None:
        """A row of the race of candidates, the float model first; the one that is written."""
        self.first = self.first or ms
        self.ratio("time of the float model's", ratio, ms, self.first)
        if star:
            self.claim("nodes", int(nodes), self.written.executed["nodes"])
            if db and self.judged:
                self.number("worst part", db, min(self.dbs(self.judged)))

    def fired(self, fired: str, refused: str) -> None:
        """As many rewrites wherever they are counted."""
        stated = [int(fired), int(refused)]
        self.claim("rewrites fired, refused", stated, self.rewrites or stated)
        self.rewrites = stated

    def distances(self, name: str, *stated: str) -> None:
        """How far what is written and the input are from the float model, and that as written."""
        if self.floats is None or self.inputs is None or name != self.name:
            return
        runs = (self.written, True), (self.source, True), (self.source, False)
        expected = self.floats.run(self.inputs)
        for text, (file, optimized) in zip(stated, runs, strict=True):
            db = apart(expected, file.run(self.inputs, optimized))[2]
            self.number(f"dB of {file.path.name} from the float model", text, db)

    def far(self, count: str, db: str) -> None:
        if self.inputs is not None:
            found = apart(self.source.run(self.inputs), self.written.run(self.inputs))[2]
            self.number("dB of the float model from the input", db, found)

    def copied(self, name: str, of: File | None) -> None:
        same = of is not None and of.path.read_bytes() == self.written.path.read_bytes()
        self.claim(f"{name} is what is written", True, same)

    def size(self, one: str, other: str, ratio: str) -> None:
        self.number("bytes of the float file", one, self.source.size)
        self.number("bytes of what is written", other, self.written.size)
        self.number("ratio of the sizes", ratio, self.written.size / self.source.size)

    def part(self, name: str, cells: Sequence[str]) -> None:
        """A row of the table of outputs: SQNR, mean, worst channel, same winner, dead."""
        found = self.parts().get(name)
        if found is None and not (self.written.runs and self.source.runs):
            return None
        if found is None:
            return self.claim(f"part '{name}'", cells, "no such part", False)
        if not math.isnan(found["sqnr_db"]):
            self.number(f"SQNR of {name}", cells[0], found["sqnr_db"])
            self.number(f"mean of samples of {name}", cells[1], found["mean_db"])
        for cell in cells[0 if math.isnan(found["sqnr_db"]) else 2 :]:
            if cell.endswith("%"):
                self.number(f"same winner of {name}", cell, found.get("agreement", math.nan))
            elif ": " in cell:
                self.number(f"worst channel of {name}", cell.partition(": ")[2],
                            found["worst_channel_db"])  # fmt: skip
            elif re.match(r"\d", cell):
                dead = ", ".join(map(str, found["dead_channels"][:4]))
                self.claim(f"dead channels of {name}", cell.partition(" and ")[0], dead)

    def parts(self, inputs: Sequence[Arrays] | None = None) -> dict[str, dict[str, Any]]:
        """What every part of the outputs loses on samples, by its name."""
        facts = (self.facts.get("measured") or {}).get("loss")
        if not facts or not (self.source.runs and self.written.runs):
            return {}
        given = self.judged if inputs is None else inputs
        both = [[file.run(x) for x in given] for file in (self.source, self.written)]
        names = self.source.outputs or list(dict.fromkeys(p["output"] for p in facts["parts"]))
        found = {}
        for part in facts["parts"]:
            xs, ys = ([one[names.index(part["output"])] for one in side] for side in both)
            name = part["output"] + part["place"]
            found[name] = loss(part["place"], part["channel_dimension"], xs, ys)
        return found

    def dbs(self, inputs: Sequence[Arrays] | None = None) -> list[float]:
        """The dB of the parts that have some."""
        each = (part["sqnr_db"] for part in self.parts(inputs).values())
        return [db for db in each if not math.isnan(db)]

    def coverage(self, quantized: str, more: str | None) -> None:
        """Whether the file has codes at all."""
        if self.written.path.suffix == ".onnx":
            codes = [
                any(tensor.data_type in (2, 3, 21, 22) for tensor in file.model.graph.initializer)
                for file in (self.source, self.written)
                if file.path.suffix == ".onnx"
            ]
            if not codes[0] or len(codes) < 2:
                self.claim("something is quantized", quantized != "0" or bool(more), codes[-1])

    # -- JSON and the page

    def quantized(self, said: dict[str, Any]) -> None:
        """The JSON of `quantize`."""
        measured, raced = said["measured"], said["candidates"]
        ops = sum(said["quantized"].values()) + len(said["left_float"])
        self.claim("float ops, quantized and left", said["float_ops"], ops)
        for side, file in (("float", self.source), ("written", self.written)):
            if side in measured["bytes"]:
                self.claim(f"bytes of {side}", measured["bytes"][side], file.size)
            if side in measured["executed"] and file.path.suffix == ".onnx":
                self.claim(f"executed of {side}", measured["executed"][side], file.executed)
        self.race(measured["latency"])
        self.claim("samples", measured["samples"], len(self.judged) or None)
        if measured["loss"]:
            self.claim("samples of the loss", measured["loss"]["samples"], len(self.judged))
            found = self.parts()
            for part in measured["loss"]["parts"] if found else ():
                own = found[part["output"] + part["place"]]
                for key in ("sqnr_db", "mean_db", "worst_channel_db"):
                    self.db(f"{key} of {part['output']}", part[key], own.get(key, math.inf))
                for key in ("agreement", "dead_channels"):
                    if part[key] is not None:
                        self.claim(f"{key} of {part['output']}", part[key], own.get(key))
            if dbs := self.dbs():
                self.db("dB of the worst part", measured["loss"]["worst_db"], min(dbs))
        if raced:
            self.race(raced["raced"])
            chosen = raced["raced"][raced["chosen"]]
            self.claim("time of the chosen", chosen["ms"], measured["latency"]["written"]["ms"])
            if self.judged:
                dbs = self.dbs(self.judged)
                self.db("dB of the chosen in the race", chosen["worst_db"], min(dbs))

    def optimized(self, said: dict[str, Any]) -> None:
        """The JSON of `optimize`."""
        if "fired" in said:
            self.rewrites = [sum(said[key].values()) for key in ("fired", "refused")]
        self.name = said.get("written", "")
        for note in said["notes"]:
            self.lines(note)
        self.race(said.get("race", {}))
        for key, after in said["after"].items():
            self.left(key, str(said["before"][key]), str(after))
        for name, one in said.get("by_default", {}).items():
            file = self.written if name == "written" else self.source
            if self.inputs is not None and self.source.runs:
                found = apart(self.source.run(self.inputs, False), file.run(self.inputs, True))
                self.db(f"dB of {name} by default", one["db"], found[2])
        executed = said.get("executed", {})
        for name, file in (("the input", self.source), (said.get("written"), self.written)):
            if name in executed:
                stated = {key: executed[name][key] for key in ("nodes", "floats", "casts")}
                self.claim(f"executed of {name}", stated, file.executed)

    def race(self, laps: dict[str, Any]) -> None:
        """Times and ratios of JSON: the first is what the others are compared with."""
        for name, lap in laps.items():
            first = next(iter(laps.values()))
            self.claim(f"ratio of {name}", lap["ratio"], lap["ms"] / first["ms"],
                       abs(lap["ratio"] - lap["ms"] / first["ms"]) < 1e-6)  # fmt: skip
            self.claim(f"quartiles of {name}", lap["ratio"], f"{lap['low']} to {lap['high']}",
                       lap["low"] <= lap["ratio"] <= lap["high"])  # fmt: skip

    def page(self, data: dict[str, Any]) -> None:
        """Tiles and tables of the report."""
        tables = {table["id"]: table for table in data["tables"]}
        rows = {row[0]: row[1:] for row in data["summary"]["rows"]}
        for row in tables.get("executed", {"rows": []})["rows"]:
            self.line("  ".join(row).rstrip())
        for row in tables.get("outputs", {"rows": []})["rows"]:
            (name, _), sqnr, mean, channel, its, winner, dead = row
            texts = ["exact" if v is None else f"{v:.3f} dB" if isinstance(v, float) else v
                     for v in (sqnr, mean, its)]  # fmt: skip
            worst = f"{channel}: {texts[2]}" if channel else ""
            self.part(name, [t for t in (*texts[:2], worst, winner, dead) if t])
        kinds = [name for name in rows if name not in ("all", "of them on constants")]
        kinds.remove("boundary findings")
        for side in range(len(data["summary"]["columns"]) - 1):
            total = sum(rows[kind][side] for kind in kinds)
            self.claim("all ops", rows["all"][side], total)
            cost = [row for row in tables["cost"]["rows"] if row[0] != "all that has a price"]
            hidden = rows["of them on constants"][side]
            self.claim("ops by kind", total - hidden, sum(row[1 + 2 * side] for row in cost))
        self.line(data["summary"]["note"].partition("apart. ")[2])
        self.claim("refused", self.rewrites[1], sum(row[0] for row in tables["refused"]["rows"]))
        names = self.source.outputs if self.written.path.suffix == ".onnx" else []
        kinds = {node.op_type[:5] for node in (self.written.model.graph.node if names else ())}
        shown = self.shown if not kinds & {"QLine", "QGemm"} else []  # that table is of casts
        for (name, _), _, sqnr, *_ in tables["error"]["rows"] if shown else ():
            if name in names:
                both = [
                    [file.run(x, False)[names.index(name)] for x in shown]
                    for file in (self.source, self.written)
                ]
                self.db(f"error of {name}", sqnr, loss("", None, *both)["sqnr_db"])
        if stated := re.match(r"(\d+) values", tables["error"]["caption"]):
            self.claim("values", int(stated[1]), len(tables["error"]["rows"]))
        for name, value, note in data["summary"]["tiles"]:
            if name == "ops that run":
                stated = [int(n.replace(",", "")) for n in value.split(" → ")]
                hidden = rows["of them on constants"]
                found = [a - b for a, b in zip(rows["all"], hidden, strict=True)]
                self.claim(name, stated, found)
            elif name == "SQNR of the worst output":
                if dbs := self.dbs():
                    self.number(name, value, min(dbs))
            elif name in ("latency, one thread", "file"):
                self.line(f"{name}  {value.replace(' → ', '  ')}  {note.split()[0]}")
            elif name == "SQNR at the end":
                last = tables["error"]["rows"][-1][2]
                self.number(name, value, math.inf if last is None else last)
            elif name not in TILES:
                self.claim("a tile that is not understood", name, "", False)
        for unknown in tables.keys() - TABLES:
            self.claim("a table that is not understood", unknown, "", False)


_APART = (
    rf"(?:has the bits of the source|differs from the source in (\S+%) of an output(?: \({_DB}\))?)"
)
LINES: list[tuple[str, Callable[..., None]]] = [
    (rf"executes it by default, on \d+ inputs, it {_APART}(?:; the input {_APART})?$",
     Check.by_default),
    (r"^what (.+) executes +(.+)$", Check.heading),
    (r"^nodes(?: executed)? +(\d.*)$", lambda c, *x: c.counts("nodes", *x)),
    (r"^  with a float result +(\d.*)$", lambda c, *x: c.counts("floats", *x)),
    (r"^  quantize, dequantize +(\d.*)$", lambda c, *x: c.counts("casts", *x)),
    (r"^ms a run +(.+)$", lambda c, x: None),  # the same as in the line of the race
    (r"^float nodes that are left: (.+)$", Check.kinds),
    (r"^raced in .*, one thread, \d+ turns: (.+)$", Check.laps),
    (rf"^on (\d+) inputs it is {_DB} from what the input gives", Check.far),
    (r"^the float model is faster than", lambda c: c.copied("the float model", c.floats)),
    (r" the input, so that is what is written", lambda c: c.copied("the input", c.source)),
    (r"on (\d+)(?: of \d+)? (given|random) inputs? in (.+?)(?: with its optimizations off)?: "
     r"(\d+) of (\d+) outputs have", Check.bits),
    (rf"(\d+) of (\d+) outputs have the bits of the source file [^;]*(?:; up to (\S+%) .*?differ "
     rf"\({_DB}\))?", Check.beside),
    (r"^(\d+) of \d+ float ops quantized(, \d+ in part)?$", Check.coverage),
    (rf"as the kernels round, up to (\S+%) of .* differ from the original \({_DB}\)",
     Check.kernels),
    (r"^(\d+) rewrites fired, (\d+) were refused", Check.fired),
    (rf"optimizations on, (.+) is {_DB} from the float model, the input {_DB} \({_DB} with",
     Check.distances),
    (r"^(\w+|\w+ ops) +(\d+) +(\d+)$", Check.left),
    (r"^latency, one thread +(\S+) ms +(\S+) ms +(\S+)$",
     lambda c, a, b, r: c.ratio("latency", r, b, a)),
    (r"^warning: .* takes (\S+) times as long as the input", Check.slower),
    (r"^file +(\S+ \S+) +(\S+ \S+) +(\S+)$", Check.size),
    (r"^loss in .*, on (\d+) of \d+ samples",
     lambda c, n: c.claim("samples", int(n), len(c.judged))),
    (rf"^(\S+(?:\[[^]]*\])?) +({_DB} +{_DB}.*|\d\S*%.*)$",
     lambda c, name, cells, *_: c.part(name, re.split(r" {2,}", cells.strip()))),
    (rf"^.+?( \*)? +{_N} ms +{_N} +{_DB}? +(\d+)(?: .*)?$", Check.candidate),
]  # fmt: skip
"""What a line says, and who looks after it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print each figure, as it is claimed and as it is; 1 where one disagrees."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("written", type=Path)
    for name in ("said", "facts", "report", "data", "inputs", "float"):
        parser.add_argument(f"--{name}", type=Path)
    options = parser.parse_args(arguments)
    floats = None if options.float is None else File(options.float)
    check = Check(File(options.source), File(options.written), floats)
    if options.inputs is not None:
        with np.load(options.inputs) as arrays:
            check.inputs = dict(arrays)
            check.shown = [check.inputs]
    text = options.said.read_text("utf-8")
    said = json.loads(text) if text.startswith("{") else None
    facts = check.facts = said or (json.loads(options.facts.read_text()) if options.facts else {})
    if options.data is not None:
        known = check.source.samples(options.data)
        check.shown = [known[0], *known[len(known) // 2 :][: len(known) > 1]]
        check.judged = [known[n] for n in facts["measured"]["sample_numbers"] or ()]
    for unknown in (said or {}).keys() - KEYS:
        check.claim("a key that is not understood", unknown, "", False)
    if said is None:
        check.lines(text)
    elif "measured" in said:
        check.quantized(said)
    else:
        check.optimized(said)
    if options.report is not None:
        check.page(page_data(options.report))
    for name, claimed, found, ok in check.rows:
        print(f"{'  ' if ok else '! '}{name}: {claimed}" + ("" if ok else f", but {found}"))
    wrong = sum(not ok for *_, ok in check.rows)
    print(f"{len(check.rows)} figures, {wrong} disagree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
