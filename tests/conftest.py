"""What holds for all tests."""

import signal

# A shell runs background jobs with SIGINT ignored, which what is started here would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
