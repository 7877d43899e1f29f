"""The commands people type; see docs/howto."""
