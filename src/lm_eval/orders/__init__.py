"""``--permute``: the choices of a doc in several orders, asked, scored and reported."""
