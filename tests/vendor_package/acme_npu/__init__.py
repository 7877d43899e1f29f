"""An accelerator's side of the compiler: nothing of qdialect is edited for it."""
