"""form-tables: what a target pays, what becomes of lookups, and how they run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import onnx
import pytest
from rewrite_support import Program, apply, evaluate, fired, parse, quant, tensor
from xdsl.dialects.builtin import StringAttr

from qdialect.ir.context import new_context
from qdialect.ir.quant.arithmetic import ARITHMETIC_KEY
from qdialect.plugins.onnx.write import OrtEngine, write_model
from qdialect.rewrite import Driver, Rewriter
from qdialect.targets.base import Target
from qdialect.targets.installed import get_target
from qdialect.targets.price_table import shipped_prices

A, B = quant("i8", 0.05, 3), quant("u8", 0.03, 100)


def region(*names: str, shape: tuple[int, ...] = (2, 128), a: str = A, b: str = B) -> Program:
    """dequantize -> functions -> quantize on all codes (of 8 bits)."""
    p = Program(" -> ".join(names))
    floats = tensor(shape, "f32")
    codes = np.arange(-128, 128).reshape([abs(n) for n in shape])
    x = p.op(f"quant.dcast {p.codes(a, codes, shape)}", tensor(shape, a), floats)
    for name in names:
        x = p.nn(f"{name} {x}", [floats], floats)
    return p.returns(p.op(f"quant.qcast {x}", floats, tensor(shape, b)), tensor(shape, b))


def names(module: object) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("nn.")]  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("chain", "pays"),
    [
        (("sigmoid",), False),
        (("tanh",), False),
        (("relu", "hard_sigmoid"), False),
        (("softplus",), True),
        (("elu",), True),
        (("gelu",), True),
        (("sigmoid", "tanh"), False),
        (("sigmoid", "tanh", "sigmoid"), True),
        (("exp", "log"), True),
    ],
)
def test_what_pays_on_onnx_runtime(chain: tuple[str, ...], pays: bool) -> None:
    table = shipped_prices("onnxruntime")
    large = replace(table, sizes=(table.near(100_000),))
    runtime = get_target("onnxruntime").with_prices(large)
    for target, expected in ((runtime, pays), (get_target("generic"), True)):
        ctx = new_context()
        ctx.target = target
        module, _ = parse(region(*chain).text, ctx)
        remarks = apply(module, ctx, "form-tables")
        assert ("nn.table" in names(module)) == expected
        if not expected:
            (refusal,) = remarks
            assert refusal.code == "price"
            assert f"a lookup costs {table.near(100_000).codes['nn.table']:g}, " in refusal.reason


def test_a_target_without_lookups() -> None:
    class NoTables(Target):
        def refuses(self, op, operands, results):
            return "no lookups" if op.name == "nn.table" else None

    ctx = new_context()
    ctx.target = NoTables("none", "has no tables")
    module, _ = parse(region("gelu").text, ctx)
    (refusal,) = apply(module, ctx, "form-tables")
    assert (refusal.code, refusal.reason) == ("target", "none: no lookups")


@pytest.mark.parametrize("storage", ["i8", "u8"])
@pytest.mark.parametrize("shape", [(256,), (2, 128), (-1, 128), (-1, -1)])
def test_exported_lookups_run(storage: str, shape: tuple[int, ...]) -> None:
    a = quant(storage, 0.05, 3)
    p = Program("a lookup")
    codes = np.arange(256).reshape(shape if len(shape) == 1 else (2, 128))
    codes = (codes - 128) if storage == "i8" else codes
    x = p.argument(tensor(shape, a), codes.astype(np.int8 if storage == "i8" else np.uint8))
    y = p.nn(f"gelu {x}", [tensor(shape, a)], tensor(shape, B))
    module, ctx = parse(p.returns(y, tensor(shape, B)).text)
    apply(module, ctx, "form-tables")
    (want,) = evaluate(module, ctx, p.inputs)
    for form in ("qdq", "qoperator"):
        model = write_model(module, ctx, form).whole()
        onnx.checker.check_model(model, full_check=True)
        assert "GatherElements" in {node.op_type for node in model.graph.node}
        (name,) = (value.name for value in model.graph.input)
        (got,) = OrtEngine(model, optimize=False).run({name: p.inputs[0]}).values()
        assert got.dtype == want.dtype
        assert np.array_equal(got, want)


def test_reencoding_keeps_what_a_lookup_means() -> None:
    module, ctx = parse(region("gelu").text)
    program = region("gelu")
    apply(module, ctx, "form-tables")
    (before,) = evaluate(module, ctx, program.inputs)
    apply(module, ctx, "reencode-storage{activations=i8}")
    assert "u8" not in str([op.operands[0].type for op in module.walk() if op.name == "nn.table"])
    apply(module, ctx, "form-tables,fold-constants,dce")
    (after,) = evaluate(module, ctx, program.inputs)
    assert np.array_equal(before.view(np.uint8), after.view(np.uint8))


def test_lookups_of_constants_fold() -> None:
    q = quant("u2", 0.5)
    p = Program("a lookup of a constant")
    x, t = (
        p.constant(np.array([0, 1, -2, -1]), q, "i2"),
        p.constant(np.array([7, 5, 3, 1]), A, "i8"),
    )
    kinds = [tensor((4,), q), tensor((4,), A)]
    p.returns(p.nn(f"table {x}, {t}", kinds, kinds[1]), kinds[1])
    module, ctx = parse(p.text)
    (before,) = evaluate(module, ctx, [])
    assert before.tolist() == [7, 5, 3, 1]
    apply(module, ctx, "fold-constants,dce")
    assert names(module) == ["nn.constant"]
    assert np.array_equal(evaluate(module, ctx, [])[0], before)


def chain(length: int) -> Program:
    """Functions of codes one after another, each also returned."""
    p = Program(f"{length} functions")
    kind = tensor((256,), A)
    x = p.codes(A, np.arange(-128, 128))
    for n in range(length):
        x = p.nn(f"{('tanh', 'neg', 'softplus')[n % 3]} {x}", [kind], kind)
        if n % 2:
            p.returns(x, kind)
    return p.returns(x, kind)


def test_work_grows_with_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    from qdialect.passes.tables import elementwise_chains as chains

    def work(length: int) -> tuple[int, int]:
        counts = [0, 0]
        visit, compute = Driver._visit, chains.ElementwiseChains._compute

        def visited(self: Driver, op: object, rewriter: Rewriter) -> bool:
            counts[0] += 1
            return visit(self, op, rewriter)  # type: ignore[arg-type]

        def computed(self: chains.ElementwiseChains, value: object) -> object:
            counts[1] += 1
            return compute(self, value)  # type: ignore[arg-type]

        module, ctx = parse(chain(length).text)
        with monkeypatch.context() as patch:
            patch.setattr(Driver, "_visit", visited)
            patch.setattr(chains.ElementwiseChains, "_compute", computed)
            apply(module, ctx, "form-tables")
        assert set(names(module)) == {"nn.constant", "nn.table"}
        return counts[0], counts[1]

    small, large = work(20), work(200)
    assert all(b <= 11 * a for a, b in zip(small, large, strict=True)), (small, large)


def test_every_function_of_a_chain_is_one_lookup_away() -> None:
    program = chain(9)
    module, ctx = parse(program.text)
    before = evaluate(module, ctx, program.inputs)
    done = fired(apply(module, ctx, "form-tables"))
    assert {remark.contract for remark in done} == {"exact"}
    tables = [op for op in module.walk() if op.name == "nn.table"]
    assert len({op.operands[0] for op in tables}) == 1
    for a, b in zip(before, evaluate(module, ctx, program.inputs), strict=True):
        assert np.array_equal(a, b)
    assert not fired(apply(module, ctx, "form-tables"))


def test_codes_that_functions_do_not_decide_are_read_on_other_qparams() -> None:
    """Half of an erf, folded into its scale: 1 is a tie of 127.5 steps."""
    p = Program("a scast pair after an erf")
    codes = np.arange(-128, 128).reshape(2, 128)
    grid, half = "!quant.uniform<i8:f32, 0.00784313725>", "!quant.uniform<i8:f32, 0.004>"
    floats, kind = tensor((2, 128), "f32"), "tensor<2x128x"
    x = p.op(f"quant.dcast {p.codes(A, codes, (2, 128))}", tensor((2, 128), A), floats)
    x = p.op(f"quant.qcast {p.nn(f'erf {x}', [floats], floats)}", floats, f"{kind}{grid}>")
    x = p.op(f"quant.scast {x}", f"{kind}{grid}>", f"{kind}i8>")
    x = p.op(f"quant.scast {x}", f"{kind}i8>", f"{kind}{half}>")
    ctx = new_context()
    module, _ = parse(p.returns(x, f"{kind}{half}>").text, ctx)
    module.attributes[ARITHMETIC_KEY] = StringAttr("expressed")
    apply(module, ctx, "form-tables{numerics=ties}")
    assert names(module) == ["nn.constant", "nn.table"]
    assert sum(op.name == "quant.scast" for op in module.walk()) == 1  # of the input


@pytest.mark.parametrize("floats", [False, True])
def test_a_function_of_what_another_table_has_moved(floats: bool) -> None:
    """The rescale below the transpose goes into the table above, so that the values between are
    other ones when the last function is looked at."""
    p = Program("a table, moved, and a function")
    codes = np.arange(-128, 128).reshape(2, 128)
    middle, turned = quant("i8", 0.0235), tensor((128, 2), B)
    x = p.nn(f"tanh {p.codes(A, codes, (2, 128))}", [tensor((2, 128), A)], tensor((2, 128), B))
    x = p.nn(f"transpose {x} perm [1, 0]", [tensor((2, 128), B)], turned)
    x = p.op(f"quant.rescale {x}", turned, tensor((128, 2), middle))
    x = p.nn(f"abs {x}", [tensor((128, 2), middle)], turned)
    ctx = new_context()
    module, _ = parse(p.returns(x, turned).text, ctx)
    if floats:
        module.attributes[ARITHMETIC_KEY] = StringAttr("expressed")
    before = evaluate(module, ctx, p.inputs)
    remarks = apply(module, ctx, "form-tables")
    rules = {remark.rule for remark in fired(remarks)}
    assert {"chain-to-table", "function-of-moved-table"} <= rules
    assert names(module).count("nn.table") == 1
    assert np.array_equal(before[0], evaluate(module, ctx, p.inputs)[0])
