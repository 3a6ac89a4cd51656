"""HTTP for long, expensive runs; knows no word of language models."""
