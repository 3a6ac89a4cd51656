"""vLLM in this process: its scheduler gets the requests of a run as one stream.

Read in this order: engine, options, model.
"""
