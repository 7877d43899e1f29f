"""The target acme: an accelerator's side of the compiler."""
