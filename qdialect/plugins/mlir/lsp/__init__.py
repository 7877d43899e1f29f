"""`qopt-lsp`: a language server for `.mlir` files, over pygls.

Two things answer an editor. `index` reads the text as tokens and knows names and scopes, also
of text that does not parse; it never leaves the server's process. Types, ranges and passes need
the IR: `worker` parses and verifies in a process of its own, which the server ends as soon as the
text it works on is an old one. No request waits for a parse that the editor did not ask for.
"""
