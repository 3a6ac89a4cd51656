"""The rules of EleutherAI's harness, for tasks with neither ``formats`` nor ``template``.

Read in this order: aggregation, datasets_shim, evaluate_shim, filters, instances, metrics, stderr,
scorer.
"""
