"""What backends that run a model in this process share: which tokens, in what order, of which weights.

Read in this order: token_tree, weights, enforcer, model.
"""
