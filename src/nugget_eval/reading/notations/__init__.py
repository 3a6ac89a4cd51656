"""Where a reply may hold its labels: in brackets, in tags, or in lines, rows and lists.

``tagged``, ``bracketed`` and ``listed`` each return the candidates they find, with their spans.

Read in this order: lines, rows, lists, tags, brackets.
"""
