"""Passes that move, fold, combine, split and place rescales."""
