"""From a float model and a profile of it to a quantized model.

`recipe` says how, `selection` which ops, `grids` with which qparams, `weights` those of
constants (pure), `emission` writes the casts; `apply_profile` is the pass.
"""
