"""The parts of ``GgufLM``: llama.cpp's engine, and how texts go through it.

Read in this order: engine, tokens, generation.
"""
