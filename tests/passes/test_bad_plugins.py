"""Whatever a vendor's code does wrong: one error naming it, and the module as it was."""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from rewrite_support import parse
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

import qdialect as qd
from qdialect.algebra.qparams.maps import Flip
from qdialect.api import Model, run_passes
from qdialect.errors import QError
from qdialect.ir.behaviors import (
    Accumulator,
    Behavior,
    Clamp,
    Computation,
    Contraction,
    Elementwise,
    Movement,
    OrderPreserving,
    Port,
    PortKind,
)
from qdialect.ir.behaviors.arity import arity_problem
from qdialect.ir.context import QContext, new_context
from qdialect.ir.ops import NN, default_behaviors
from qdialect.pipeline.manager import PassManager
from qdialect.pipeline.text import PassSpec
from qdialect.plugins.mlir.write import module_text
from qdialect.targets.base import Target
from qdialect.targets.kernels import Kernel

A = "!quant.uniform<i8:f32, 0.5:3>"
B = "!quant.uniform<i8:f32, 1.0:0>"


def program(op: str, operands: int = 1) -> str:
    """Floats around `op` in a float region, and codes around it between rescales."""
    taken, kinds = ", ".join(["%f"] * operands), ", ".join(["!f"] * operands)
    codes, types = ", ".join(["%r"] * operands), ", ".join(["!b"] * operands)
    return f"""
!f = tensor<4xf32>
!a = tensor<4x{A}>
!b = tensor<4x{B}>
func.func @main(%x: !a) -> (!b, !a) {{
  %f = quant.dcast %x : !a to !f
  %0 = {op.replace("@", taken)} : ({kinds}) -> !f
  %1 = quant.qcast %0 : !f to !b
  %r = quant.rescale %x : !a to !b
  %2 = {op.replace("@", codes)} : ({types}) -> !b
  %3 = quant.rescale %2 : !b to !a
  func.return %1, %3 : !b, !a
}}"""


PASSES = (
    "sink-rescale{numerics=relaxed},hoist-rescale,combine-rescale{numerics=relaxed},"
    "integerize,fold-affine,canonicalize,fold-constants,move-casts"
)
TIED = {"operands": (Port("input", PortKind.TIED),), "results": (Port("result", PortKind.TIED),)}


def boom(*arguments: Any) -> Any:
    raise KeyError("shape")


def quits(*arguments: Any) -> Any:
    raise SystemExit(3)


def zero(op: Any) -> int:
    return 0


def moved(op: Any) -> Any:
    return Flip((0,))


#: declarations with one bad function, by its name: (fields, op, operands of it)
FUNCTIONS: dict[str, tuple[type[Behavior], dict[str, Any], str, int]] = {
    "movement": (Movement, {**TIED, "movement": boom}, "nn.flip @ axes [0]", 1),
    "is_identity": (
        Movement,
        {**TIED, "movement": moved, "is_identity": boom},
        "nn.flip @ axes [0]",
        1,
    ),
    "compared_constants": (
        OrderPreserving,
        {**TIED, "compared_constants": boom},
        "nn.relu @",
        1,
    ),
    "clamp": (
        Clamp,
        {**TIED, "clamp": boom, "compared_constants": lambda op: ()},
        "nn.relu @",
        1,
    ),
    "gain": (Computation, {"operands": (Port("input"),), "gain": boom}, "nn.tanh @", 1),
    "affine": (
        Elementwise,
        {"operands": (Port("lhs"), Port("rhs")), "affine": boom},
        "nn.add @",
        2,
    ),
    "axes": (Behavior, {"operands": (Port("input", axes=boom),)}, "nn.tanh @", 1),
}


def failing(name: str, function: Callable[..., Any]) -> Behavior:
    kind, fields, op, _ = FUNCTIONS[name]
    found = {key: function if value is boom else value for key, value in fields.items()}
    if name == "axes":
        found["operands"] = (Port("input", axes=function),)
    return kind(op.split(" ", 1)[0], **found)


def attempt(name: str, function: Callable[..., Any]) -> QError:
    """The error of the passes; the given model is as it was."""
    _, _, op, operands = FUNCTIONS[name]
    text = program(op, operands)
    if name == "axes":
        text = text.replace(A, "!quant.uniform<i8:f32:0, {0.5:3,0.5,0.25,0.5}>")
        text = text.replace(B, "!quant.uniform<i8:f32:0, {0.25:3,0.5,0.25,0.5}>")
        text = text[: text.index("  %r =")] + "  func.return %1, %x : !b, !a\n}"
    if name == "affine":
        text = text.replace("%f, %f", "%f, %c").replace(
            "  %0 =", "  %c = nn.constant dense<2.0> : tensor<f32> : tensor<f32>\n  %0 ="
        )
        text = text.replace("(!f, !f) -> !f", "(!f, tensor<f32>) -> !f")
    module, ctx = parse(text)
    ctx.behaviors.register(failing(name, function))
    model = Model(module, ctx)
    before = module_text(module, ctx)
    with pytest.raises(QError) as caught:
        run_passes(model, PASSES)
    assert module_text(module, ctx) == before
    return caught.value


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_a_declaration_that_raises(name: str) -> None:
    error = attempt(name, boom)
    op = FUNCTIONS[name][2].split(" ", 1)[0]
    what = "axes of 'input'" if name == "axes" else name
    assert error.message == f"behavior of '{op}': {what} raised KeyError: 'shape'"
    assert error.code == "bad-hook"


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_a_declaration_that_returns_nonsense(name: str) -> None:
    message = attempt(name, lambda *arguments: "nonsense").message
    assert " returned str 'nonsense', not " in message


def test_a_function_that_exits() -> None:
    assert attempt("movement", quits).message.endswith("movement raised SystemExit: 3")


def test_a_map_that_does_not_fit() -> None:
    assert (
        "returned Flip, which does not fit: " in attempt("movement", lambda op: Flip((2,))).message
    )
    several = attempt("movement", lambda op: [Flip((0,)), Flip((0,))]).message
    assert several.endswith("movement returned 2 maps for 1 results")


def test_the_functions_of_an_accumulator() -> None:
    behavior = Contraction(
        "acme.dot",
        (Port("lhs"), Port("rhs")),
        accumulator=Accumulator(0, 1, None, zero, boom, zero),
    )
    registry = default_behaviors()
    registry.register(behavior)
    found = registry.named("acme.dot")
    assert found is not None and found.accumulator is not None
    assert found.accumulator.rhs_axis(None) == 0  # type: ignore[arg-type]
    with pytest.raises(QError, match=r"behavior of 'acme\.dot': result_axis raised KeyError"):
        found.accumulator.result_axis(None)  # type: ignore[arg-type]


def test_a_refusal_of_arithmetic_is_none_of_these() -> None:
    def meaningless(op: Any, operands: Any) -> Any:
        raise ValueError("1 / 0")

    registry = default_behaviors()
    registry.register(Computation("acme.inverse", (Port("input"),), arithmetic=meaningless))
    found = registry.named("acme.inverse")
    assert found is not None and found.arithmetic is not None
    with pytest.raises(ValueError, match="1 / 0"):
        found.arithmetic(None, [Fraction(0)])  # type: ignore[arg-type]


# -- arity --------------------------------------------------------------------------------


@pytest.mark.parametrize("behavior", [*map(default_behaviors().named, default_behaviors().names())])
def test_our_declarations_fit_our_ops(behavior: Behavior) -> None:
    (definition,) = [op for op in NN.operations if op.name == behavior.op]
    assert arity_problem(behavior, definition.get_irdl_definition()) is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("behavior", "problem"),
    [
        (
            Behavior("nn.relu", (Port("a"), Port("b"))),
            "2 operand ports, but the op takes 1 operand",
        ),
        (Behavior("nn.add", (Port("a"),)), "1 operand port, but the op takes 2 operands"),
        (
            Behavior("nn.relu", (Port("a"),), (Port("b"), Port("c"))),
            "2 result ports, but the op gives 1 result",
        ),
        (
            Behavior("nn.concat", (Port("a"),)),
            "the op takes any number of operands, but the declaration is not variadic",
        ),
        (
            Behavior("nn.relu", (Port("a"),), variadic=True),
            "the declaration is variadic, but the op takes 1 operand",
        ),
    ],
)
def test_a_declaration_of_the_wrong_arity(behavior: Behavior, problem: str) -> None:
    # At the first op, where a session registers it by itself ...
    module, ctx = parse(program("nn.relu @"))
    ctx.behaviors.register(behavior)
    if behavior.op == "nn.relu":
        with pytest.raises(QError, match=f"behavior of 'nn.relu': {problem}") as caught:
            run_passes(Model(module, ctx), PASSES)
        assert caught.value.code == "bad-behavior"
    # ... and at once, from a target.
    target = Target("npu", "", behaviors=(behavior,))
    with pytest.raises(QError, match=f"target 'npu': behavior of '{behavior.op}': {problem}"):
        new_context().target = target


def test_a_declaration_of_an_op_that_does_not_exist() -> None:
    ctx = new_context(allow_unregistered=True)
    with pytest.raises(QError, match=r"behavior of 'nn\.rleu': dialect 'nn' has no such op"):
        ctx.target = Target("npu", "", behaviors=(Behavior("nn.rleu", (Port("a"),)),))
    assert ctx.target.name == "generic" and ctx.behaviors.named("nn.rleu") is None
    ctx.target = Target("npu", "", behaviors=(Behavior("other.op", (Port("a"),)),))
    assert ctx.behaviors.named("other.op") is not None


def test_a_target_that_names_an_op_that_does_not_exist() -> None:
    for target in (
        Target("npu", "", keep_whole=frozenset({"nn.hard_swich"})),
        Target("npu", "", kernels={"nn.hard_swich": (Kernel(),)}),
    ):
        with pytest.raises(
            QError, match=r"target 'npu' names 'nn\.hard_swich', but dialect 'nn'"
        ) as e:
            new_context().target = target
        assert e.value.code == "unknown-op"
    for name in ("generic", "integer", "onnxruntime", "tosa"):
        new_context().target = qd.get_target(name)


# -- targets --------------------------------------------------------------------------------


class Raises(Target):
    def refuses(self, op: Any, operands: Any, results: Any) -> str | None:
        raise RuntimeError("no licence\nsecond line")

    def rescale_price(self, source: Any, result: Any) -> float:
        return typing.cast("float", "cheap")


def test_a_hook_of_a_target_that_raises() -> None:
    module, ctx = parse(program("nn.relu @"))
    before = module_text(module, ctx)
    with pytest.raises(QError) as caught:
        run_passes(Model(module, ctx), "sink-rescale", target=Raises("npu", ""))
    assert caught.value.message == (
        f"target 'npu' ({__name__}.Raises): refuses raised RuntimeError: no licence"
    )
    assert module_text(module, ctx) == before


def test_a_hook_of_a_target_that_returns_nonsense() -> None:
    module, ctx = parse(program("nn.tanh @"))
    with pytest.raises(QError, match="rescale_price returned str 'cheap', not a number >= 0"):
        Raises("npu", "").rescale_price(None, None)
    del module, ctx


# -- passes -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class HalfDone(ModulePass):
    name = "half-done"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in list(op.walk()):
            if inner.name == "nn.relu":
                inner.results[0].replace_all_uses_with(inner.operands[0])
                inner.detach()
                inner.erase()
                raise ZeroDivisionError


def test_a_pass_that_raises_half_way() -> None:
    module, ctx = parse(program("nn.relu @"))
    before = module_text(module, ctx)
    with pytest.raises(QError, match=r"pass 'half-done': plug-in code failed in .*ZeroDivision"):
        PassManager(ctx, [(PassSpec("half-done"), HalfDone())]).run(module.clone())
    assert module_text(module, ctx) == before


BAD = """
from xdsl.universe import Universe
from qdialect.ir.behaviors import Behavior, Movement, OrderPreserving, Port, PortKind
from qdialect.passes.cleanup.dce import Dce

class Broken(Dce):
    name = "broken"

    def apply(self, ctx, op):
        raise KeyError("weights")

UNIVERSE = Universe(all_passes={"broken": lambda: Broken})

def register(session):
    {register}
"""


def plug_in(folder: Path, name: str, register: str, monkeypatch: pytest.MonkeyPatch) -> str:
    (folder / f"{name}.py").write_text(BAD.replace("{register}", register))
    monkeypatch.syspath_prepend(str(folder))
    return name


@pytest.mark.parametrize(
    ("name", "register", "pipeline", "told"),
    [
        (
            "vendor_pass",
            "pass",
            "broken",
            "pass 'broken': plug-in code failed in vendor_pass.apply, line 10: KeyError: 'weights'",
        ),
        (
            "vendor_tied",
            "Movement('a.b', (Port('x', PortKind.TIED),), movement=len)",
            "cse",
            "plug-in 'vendor_tied': behavior of 'a.b': a movement op needs a tied operand and a "
            "tied result",
        ),
        (
            "vendor_both",
            "tied = (Port('x', PortKind.TIED), Port('y'))\n"
            "    Movement('a.b', tied, (Port('r', PortKind.TIED),), movement=len)",
            "cse",
            "plug-in 'vendor_both': behavior of 'a.b': a movement op cannot have a requantizing "
            "port",
        ),
        (
            "vendor_arity",
            "session.behaviors.register(Behavior('nn.add', (Port('x'),)))",
            "cse",
            "plug-in 'vendor_arity': behavior of 'nn.add': 1 operand port, but the op takes 2 "
            "operands",
        ),
        (
            "vendor_hook",
            "tied = (Port('x', PortKind.TIED),), (Port('r', PortKind.TIED),)\n"
            "    session.behaviors.register(OrderPreserving('nn.relu', *tied, "
            "compared_constants=lambda op: op.floor))",
            "sink-rescale",
            "behavior of 'nn.relu': compared_constants raised AttributeError: 'ReluOp' object has "
            "no attribute 'floor'",
        ),
        (
            "vendor_lost",
            "session.nothing()",
            "cse",
            "plug-in 'vendor_lost' failed to register: AttributeError: 'QContext' object has no "
            "attribute 'nothing'",
        ),
        (
            "vendor_exit",
            "raise SystemExit('no licence')",
            "cse",
            "plug-in 'vendor_exit' failed to register: SystemExit: no licence",
        ),
    ],
)
def test_commands_name_the_culprit_and_write_nothing(
    name: str,
    register: str,
    pipeline: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    from qdialect.cli.opt import main

    plug_in(tmp_path, name, register, monkeypatch)
    source, out = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text(program("nn.relu @"))
    flags = [f"--load-plugin={name}", "-p", pipeline, "-o", str(out)]
    assert main([str(source), *flags]) == 1
    written = capfd.readouterr()
    assert written.err == f"error: {told}\n"
    assert written.out == "" and not out.exists()


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--target=tossa"], "unknown target 'tossa'; did you mean 'tosa'?"),
        (["-p", "sink-rescales"], "pass pipeline; did you mean 'sink-rescale'?"),
        (["-p", "sink-rescale{numerics=roughly}"], "unknown numerics level 'roughly'"),
    ],
)
def test_a_command_that_asks_for_what_does_not_exist(
    flags: list[str], told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from qdialect.cli.opt import main

    source = tmp_path / "in.mlir"
    source.write_text(program("nn.relu @"))
    assert main([str(source), *flags]) == 2
    written = capfd.readouterr()
    assert told in written.err and "Traceback" not in written.err and written.out == ""


def test_a_target_that_cannot_be_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "vendor_target.py").write_text("raise OSError('no device')\nTARGET = None\n")
    info = tmp_path / "vendor_target-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vendor-target\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[qdialect.targets]\nnpu = vendor_target:TARGET\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(QError) as caught:
        qd.get_target("npu")
    assert caught.value.message == (
        "target 'npu' of package 'vendor-target' (vendor_target:TARGET) cannot be loaded: "
        "OSError: no device"
    )


def test_the_session_of_a_model_stays_as_it_was() -> None:
    module, ctx = parse(program("nn.relu @"))
    assert isinstance(ctx, QContext)
    target = replace(Target("npu", ""), behaviors=(Behavior("nn.relu", (Port("input"),)),))
    run_passes(Model(module, ctx), "cse", target=target)
    relu = ctx.behaviors.named("nn.relu")
    assert ctx.target.name == "generic" and relu is not None and relu.is_tied
