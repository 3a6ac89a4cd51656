"""The format lab: the format as a measured variable.

Stored runs come in as ``Measurement``s (one task under one format, asked of one model), go through the
statistics of ``lm_eval.stats``, and come out as tables, sentences and plots.

Read in this order: stored, report, show, compare, table, grammar, sweep, reread, diff, power, comparing,
choosing, words, format_list.
"""
