"""How the lab shows what it found: phrases, excerpts, plots.

Read in this order: phrases, plots, score_plot.
"""
