"""StableHLO in the reference interpreter: what the specification says, in numpy.

Written from the specification and independent of our lowering to StableHLO and of raising from it.
"""
