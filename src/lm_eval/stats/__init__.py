"""Numbers in, estimates with intervals out; knows nothing of tasks or models."""
