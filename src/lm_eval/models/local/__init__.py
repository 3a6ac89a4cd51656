"""What backends that run a model in this process share: token trees, digests of weights, grammars.

Read in this order: tokens, token_tree, weights, enforcer, model.
"""
