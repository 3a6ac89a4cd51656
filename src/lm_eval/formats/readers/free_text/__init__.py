"""Readers of free text: what follows a phrase, and what a reply's shape sets apart.

Read in this order: phrase, shapes.
"""
