"""What backends that run a model in this process share: token trees, digests of weights, grammars.

Read in this order: token_tree, weights, enforcer, model.
"""
