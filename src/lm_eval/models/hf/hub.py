"""Whether the hub has a model, and which commit it is at; if not, one message after seconds.

``transformers`` would try for half a minute. Tokens of the machine's user never reach a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lm_eval.errors import ModelError

_PROBE_S = 5
_UNAUTHORISED = 401


def find_on_hub(name: str, revision: str, argument: str, wanted: Sequence[str]) -> tuple[str, bool]:
    """``(commit, whether only files downloaded before are at hand)`` of a hub name.

    One of the files in ``wanted`` must be there; errors name ``argument``.
    """
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    try:
        cached = _cached_commit(name, revision, wanted)
        if constants.HF_HUB_OFFLINE:
            reason = "HF_HUB_OFFLINE is set"
        else:
            return _commit_on_hub(name, revision, wanted), False
    except HFValidationError as error:
        raise ModelError(f"{name!r} is neither a folder nor a hub name: {error}") from error
    except HfHubHTTPError as error:
        reason = _refusal(error, name, revision, argument, wanted)
    except Exception as error:  # whatever the network stack throws
        reason = f"the hub cannot be reached: {error}"
    if cached is None:
        raise _offline_error(name, revision, reason, argument, wanted)
    return cached, True


def _cached_commit(name: str, revision: str, wanted: Sequence[str]) -> str | None:
    """The commit of what was downloaded before, if anything was."""
    import huggingface_hub as hub

    for file in wanted:
        found = hub.try_to_load_from_cache(name, file, revision=revision)
        if isinstance(found, str):  # …/snapshots/COMMIT/file
            return Path(found).parent.name
    return None


def _commit_on_hub(name: str, revision: str, wanted: Sequence[str]) -> str:
    import huggingface_hub as hub
    from huggingface_hub.errors import EntryNotFoundError

    *others, last = wanted
    for file in others:
        try:
            return _commit_of_file(hub.hf_hub_url(name, file, revision=revision), revision)
        except EntryNotFoundError:
            continue
    return _commit_of_file(hub.hf_hub_url(name, last, revision=revision), revision)


def _commit_of_file(url: str, revision: str) -> str:
    import huggingface_hub as hub

    return hub.get_hf_file_metadata(url, timeout=_PROBE_S).commit_hash or revision


def _refusal(error: Any, name: str, revision: str, argument: str, wanted: Sequence[str]) -> str:
    """Why the hub does not give it now; an error where it never will."""
    from huggingface_hub import constants
    from huggingface_hub.errors import (
        EntryNotFoundError,
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    hub, status = constants.ENDPOINT, error.response.status_code
    messages = {
        GatedRepoError: f"The hub gives {name} only to accounts that accepted its licence. Accept it "
        f"at {hub}/{name}, then log in with `hf auth login` or set HF_TOKEN.",
        RevisionNotFoundError: f"{name} has no revision {revision!r} at {hub}. Give a branch, tag or "
        "commit.",
        RepositoryNotFoundError: f"There is no folder {name!r} here, and the hub ({hub}) has no model "
        f"of that name or keeps it private. Check {argument}=, or log in with `hf auth login`.",
        EntryNotFoundError: f"{name} at revision {revision!r} has no {' and no '.join(wanted)} on the "
        f"hub, so {argument}= cannot take it. Of a model in GGUF files, download one and give its path.",
    }
    for kind, message in messages.items():
        if isinstance(error, kind):
            raise ModelError(message) from error
    if status == _UNAUTHORISED:
        return "the hub refuses this machine's token (log in again, or correct or unset HF_TOKEN)"
    return f"the hub ({hub}) answers with status {status}"


def _offline_error(
    name: str, revision: str, reason: str, argument: str, wanted: Sequence[str]
) -> ModelError:
    from huggingface_hub import constants

    folder = Path(constants.HF_HUB_CACHE) / f"models--{name.replace('/', '--')}" / "snapshots"
    what, files = f"{argument}={name}", " or ".join(wanted)
    if argument == "pretrained":
        what = f"Model {name!r}"
        files += ", model.safetensors (or pytorch_model.bin) and tokenizer.json"
    return ModelError(
        f"{what} is not on this machine, and {reason}. Looked for a folder {name!r} "
        f"here, and for {files} of revision {revision!r} under {folder}. Where there is a network, "
        f"run `hf download {name} --local-dir FOLDER`; then give {argument}=FOLDER."
    )
