"""The Ray cluster, found or started, with one message for each way in which that can fail."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lm_eval.errors import MissingExtraError, ModelError, UsageError
from lm_eval.support.terminal import quiet_stderr

INSTALL = "pip install 'lm-eval-formats[ray]'"
KNOCK_S = 5.0
"""How long the head node has to accept a connection."""


@dataclass
class Cluster:
    """A connection to a Ray cluster. ``close`` ends it if this process made it."""

    ray: Any
    address: str | None
    is_ours: bool

    @classmethod
    def connect(cls, address: str | None) -> Cluster:
        """The cluster at an address; without one, what is running here, or one for this run alone."""
        ray = _imported()
        if ray.is_initialized():
            return cls(ray, address, is_ours=False)
        _check_address(address)
        wanted = address or os.environ.get("RAY_ADDRESS") or None
        if wanted and wanted not in ("auto", "local"):
            _knock(wanted)
        settings: dict[str, Any] = {"address": address} if address else {}
        with quiet_stderr() as printed:
            try:
                ray.init(
                    **settings,
                    include_dashboard=False if address in (None, "local") else None,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    configure_logging=False,
                )
            except Exception as error:
                with suppress(Exception):
                    ray.shutdown()
                raise _not_connected(wanted, error, printed()) from error
        return cls(ray, wanted, is_ours=True)

    @property
    def resources(self) -> Mapping[str, float]:
        """What all nodes have together."""
        return dict(self.ray.cluster_resources())

    @property
    def nodes(self) -> list[Mapping[str, Any]]:
        """The nodes that are alive."""
        return [node for node in self.ray.nodes() if node["Alive"]]

    def room(self, needed: Mapping[str, float]) -> int:
        """How many replicas the cluster has room for: by its GPUs, else one per node; at least one."""
        counts = [_fitting(node["Resources"], needed) for node in self.nodes]
        if not needed.get("GPU"):
            counts = [min(count, 1) for count in counts]
        return max(1, sum(counts))

    def shown(self) -> str:
        """What the nodes offer, for messages."""
        offers = []
        for node in self.nodes:
            parts = [
                f"{node['Resources'].get(name, 0):g} {name}s"
                for name in ("CPU", "GPU")
                if node["Resources"].get(name)
            ]
            offers.append(f"{node['NodeManagerAddress']}: {', '.join(parts) or 'nothing'}")
        return "; ".join(offers) or "no node"

    def close(self) -> None:
        if self.is_ours:
            self.ray.shutdown()


def _imported() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    try:
        import ray
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            "Model 'ray' needs Ray, which is not installed. Without Ray, run the backend itself, as in "
            "--model hf instead of --model ray --model_args backend=hf: one process answers. Several "
            "servers can share the work without it too (docs/api-models.md).",
            install=INSTALL,
        ) from error
    return ray


def _check_address(address: str | None) -> None:
    if address and address.startswith("ray://"):
        raise UsageError(
            f"address={address}: Ray Client (ray://) is not supported, because it loses a run with its "
            "connection. Start the run on a node of the cluster with address=auto, or give the head "
            "node's address=HOST:6379."
        )


def _knock(address: str) -> None:
    """Ask for a connection: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_S).close()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ModelError(
            f"No Ray cluster answers at {address} ({reason}). Check the address (`ray start --head` "
            "prints it, the port is 6379 unless set), and that this machine may reach it. Without "
            "address, a cluster is started on this machine."
        ) from error


def _not_connected(address: str | None, error: Exception, printed: str) -> ModelError:
    """What Ray says, on one line; a wrong token is only in what its threads print."""
    where = f"at {address}" if address not in (None, "auto", "local") else "on this machine"
    if "uthenticat" in f"{error}{printed}" or "InvalidAuthToken" in printed:
        return ModelError(
            f"The Ray cluster {where} did not let this process in: its token is missing or wrong. "
            "Copy it from the head node (~/.ray/auth_token there) into ~/.ray/auth_token here, or set "
            "the variable RAY_AUTH_TOKEN to it; the variable RAY_AUTH_MODE must be `token` here and "
            "where `ray start` runs."
        )
    reason = " ".join(str(error).split()).rstrip(".")
    return ModelError(
        f"No Ray cluster {where} could be used: {type(error).__name__}: {reason}. Give the address that "
        "`ray start --head` prints, or address=local for a cluster of this run's own; all nodes need "
        "the same releases of Ray and Python."
    )


def _fitting(offered: Mapping[str, float], needed: Mapping[str, float]) -> int:
    counts = [int(offered.get(name, 0) // amount) for name, amount in needed.items() if amount > 0]
    return min(counts, default=1)
