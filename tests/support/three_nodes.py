"""A Ray cluster of three nodes on the loopback, each with one core, for as long as stdin is open.

As a script it prints the head node's address; ``three_nodes`` runs it. Ray reads how it may be entered
from the environment of a new process only.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.mortal_replicas import HEAD
from tests.support.paths import ROOT, SOURCE

TOKEN = "0123456789abcdef0123456789abcdef"
_MEMORY = 80 * 2**20


@contextmanager
def three_nodes() -> Iterator[dict[str, str]]:
    """The environment of a process that uses the cluster."""
    environment = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": TOKEN,
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # else replicas starve on a busy machine
        "PYTHONPATH": os.pathsep.join([str(SOURCE), str(ROOT)]),
    }
    with subprocess.Popen(
        [sys.executable, __file__],
        env={**os.environ, **environment},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = (line.strip() for line in process.stdout)
        address = next((line for line in lines if line.startswith(HEAD)), None)
        assert address is not None, "the cluster did not start"
        try:
            yield {**environment, "RAY_ADDRESS": address}
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)


def serve() -> None:
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": _MEMORY}
    head = {**node, "node_ip_address": HEAD, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        for last in (2, 3):
            cluster.add_node(wait=False, node_ip_address=f"127.0.0.{last}", **node)
        cluster.wait_for_nodes()
        print(cluster.address, flush=True)
        sys.stdin.read()
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    serve()
