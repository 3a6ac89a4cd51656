"""Whether two answers to a mathematical question are equal: ``math_equal``.

Read in this order: equal, worker.
"""
