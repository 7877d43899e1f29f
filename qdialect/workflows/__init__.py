"""What people do with a model, one file each: optimize, check, quantize, calibrate, run, compare,
inspect, explain. They take no argv and print nothing."""
