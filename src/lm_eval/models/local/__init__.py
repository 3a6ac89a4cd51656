"""What backends share that run a model in this process: which tokens, in what order, of which weights.

Read in this order: token_tree, weights, enforcer, model.
"""
