"""Programs of PyTorch: what `torch.export` makes, from a file or as an object."""

from qdialect.plugin import Plugin

PLUGIN = Plugin(
    name="torch",
    dialects={"torch": f"{__name__}.dialect:TORCH"},
    kept={"torch.node": f"{__name__}.engine:run_kept"},
)
