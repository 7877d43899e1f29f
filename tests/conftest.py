"""What holds for all tests."""

import os
import signal

# A shell runs background jobs with SIGINT ignored, which what is started here would inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Which candidate wins a race is no property of the code; tests of races say how long they take.
os.environ["QOPT_RACE"] = "0"
