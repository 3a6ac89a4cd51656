"""Whether two answers to a mathematical question are equal: ``math_equal``.

Read in this order: notation, parse, algebra, symbolic, equal.
"""
