"""Replicas of any backend on a Ray cluster: the driver asks and stores, the replicas only answer.

Read in this order: actor, cluster, replicas, model.
"""
