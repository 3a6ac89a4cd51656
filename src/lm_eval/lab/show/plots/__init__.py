"""Plots of a comparison as SVG or PNG files; the scores also as lines of text for the terminal.

``scores_plot``, ``flips_plot`` and ``spread_plot`` take plain numbers and labels. What they return has
``save(path)``, which needs matplotlib; a ``ScoresPlot`` also has ``show(console)``, which does not.
"""

from lm_eval.lab.show.plots.flips import FlipsPlot, flips_plot
from lm_eval.lab.show.plots.plot import Plot, save_all
from lm_eval.lab.show.plots.scores import ScoresPlot, scores_plot
from lm_eval.lab.show.plots.spread import SpreadPlot, spread_plot

__all__ = [
    "FlipsPlot",
    "Plot",
    "ScoresPlot",
    "SpreadPlot",
    "flips_plot",
    "save_all",
    "scores_plot",
    "spread_plot",
]
