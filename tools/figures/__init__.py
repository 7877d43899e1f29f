"""Recomputes what qopt says of a file, from the bytes of that file; shares no code with it."""
