"""Quantizes a float model by a profile of its values.

`recipe` says how, `selection` which ops, `grids` with which qparams, `weights` those of
constants (pure), `emission` writes the casts; `apply_profile` is the pass.
"""
