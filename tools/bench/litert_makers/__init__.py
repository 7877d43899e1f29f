"""Programs that run in environments of other tools; each is a file of its own to be started."""
