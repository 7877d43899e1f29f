"""Programs that call other quantizers, each in an environment that has what it imports."""
