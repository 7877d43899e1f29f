"""The `.qmod` file: a module in binary form."""
