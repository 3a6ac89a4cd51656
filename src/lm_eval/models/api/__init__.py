"""The parts of ``TemplateAPI``: settings, tokens, plans of requests, replies.

Read in this order: replies, scoring, settings, generation, enforcer, sender, calls, probe,
tokenizers, tokens.
"""
