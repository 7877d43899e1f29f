"""What a program is: dialects, op records, the session, the verifier, weights."""
