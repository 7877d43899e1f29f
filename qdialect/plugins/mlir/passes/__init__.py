"""Passes on types and ops of upstream's quant dialect."""
