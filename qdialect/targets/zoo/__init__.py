"""Targets of others, each written down from its public documentation.

What they state is cited line by line in docs/reference/targets.md; a test holds the two together.
Prices are the defaults of a target: nobody measured them.
"""
