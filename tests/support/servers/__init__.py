"""Servers that tests talk to, over real sockets."""
