"""Colours for `.mlir` with our custom forms, in editors and on pages.

`patterns` says once what is what; `pygments_lexer` is a Pygments lexer of it (an entry point,
so Sphinx, MkDocs, IPython and `pygmentize` find it), and `python -m qdialect.plugins.mlir.syntax`
prints a TextMate grammar of it, which VS Code, Sublime Text, IntelliJ and GitHub take.
"""
