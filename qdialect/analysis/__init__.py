"""Facts about a module that passes and reports read; nothing here changes IR."""
