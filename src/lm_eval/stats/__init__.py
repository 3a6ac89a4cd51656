"""Numbers in, estimates with intervals out; knows nothing of tasks or models.

Read in this order: numeric, estimates, clusters, multiplicity, components, few_cells, positions,
power, mcnemar, resampling, ranks, sign_flips, paired, spread.
"""
