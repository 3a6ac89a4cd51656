"""What samples of a model over HTTP hold beside the reply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import Workplace
from tests.support.servers.faulty import FaultyServer
from tests.support.servers.toy_openai import ToyServer


def thinks(body: dict[str, Any]) -> dict[str, Any]:
    thought = "The best answer is A. No: B."
    return {"message": {"content": "The best answer is C.", "reasoning_content": thought}}


@pytest.mark.parametrize("task", ["t@generate", "t"])
def test_reasoning_is_kept_and_never_read_as_the_answer(tmp_path: Path, task: str) -> None:
    place = Workplace(tmp_path)
    plain = {"formats": ..., "doc_to_choice": ..., "output_type": "generate_until"}
    plain["doc_to_target"] = "{{ 'C' }}"
    path = place.task(**({} if "@" in task else plain))
    with FaultyServer(ToyServer(chat=thinks)) as server:
        address = f"model=toy,base_url={server.url}/v1/chat/completions"
        place.run(
            *("--tasks", f"{path}{task[1:]}", "--limit", "3"),
            *("--model_args", address, "--apply_chat_template"),
            model="local-chat-completions",
        ).ok()
    for sample in place.samples(task):
        assert sample["reasoning"] == ["The best answer is A. No: B."]
        assert sample["resps"] == [["The best answer is C."]]
        if "@" in task:
            assert sample["reading"]["value"] == 2
