"""Does a program still compute what it did: comparison, bisection and reduction."""
