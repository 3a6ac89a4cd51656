"""What runs over HTTP cost: estimated before anything is sent, counted afterwards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import pytest

from tests.support.command_line import Outcome, Workplace
from tests.support.servers.faulty import FaultyServer, first
from tests.support.servers.toy_openai import ToyModel, ToyServer, write_tokenizer

PRICES = "toy: {input: 100, output: 300, cached_input: 10, per_request: 0.001}\n"


@pytest.fixture
def server() -> Iterator[FaultyServer]:
    with FaultyServer(ToyServer()) as server:
        yield server


def asked(
    place: Workplace, server: FaultyServer, *argv: str, chat: bool = False, **arguments: Any
) -> Outcome:
    endpoint = "chat/completions" if chat else "completions"
    given = {"model": "toy", "base_url": f"{server.url}/v1/{endpoint}", **arguments}
    return place.run(
        *("--model_args", ",".join(f"{key}={value}" for key, value in given.items()), *argv),
        model=f"local-{endpoint.replace('/', '-')}",
    )


def estimates(outcome: Outcome) -> dict[str, list[tuple[int, int]]]:
    """Name → requests and tokens in, from the least to the most."""
    assert outcome.code == 0, outcome.err
    found = {}
    for line in outcome.out.splitlines()[2:]:
        cells = [cell.strip() for cell in line.split("  ") if cell.strip()]
        if len(cells) >= 5:
            found[cells[0]] = [_ends(cell) for cell in cells[2:4]]
    return found


def _ends(cell: str) -> tuple[int, int]:
    low, _, high = cell.removeprefix("≈ ").replace(",", "").partition(" – ")
    return int(low), int(high or low)


def both_formats(place: Workplace) -> str:
    return f"{place.task(formats={'mcqa': {}, 'cloze': {}, 'generate': {}})}@*"


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize(
    "arguments", [{}, {"tokenizer": "toy"}, {"tokenizer_backend": "remote", "truncate": True}]
)
def test_a_dry_run_sends_nothing(
    place: Workplace, server: FaultyServer, chat: bool, arguments: dict[str, Any]
) -> None:
    write_tokenizer(place.folder / "toy")
    tasks = f"{place.task()}@generate" if chat else both_formats(place)
    for more in ([], ["--apply_chat_template"]):
        outcome = asked(place, server, "--tasks", tasks, "--dry_run", *more, chat=chat, **arguments)
        assert "t@generate" in estimates(outcome)
    assert server.requests == []
    assert server.connections == 0
    assert place.written() == []


def test_a_dry_run_needs_no_key(place: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    outcome = place.run(
        *("--tasks", f"{place.task()}@generate", "--dry_run", "--model_args", "model=gpt-x"),
        model="openai-chat-completions",
    )
    assert estimates(outcome)["t@generate"][0] == (20, 20)


@pytest.mark.parametrize(
    ("able", "end"),
    [
        ({"refuses_batch": True, "most_logprobs": 1}, "most"),
        ({"most_logprobs": 1}, "least"),  # batches of choices that have several tokens
    ],
)
def test_a_run_costs_what_was_estimated(place: Workplace, able: dict[str, Any], end: str) -> None:
    """To the token, at the end of the range that the server's abilities stand for."""
    write_tokenizer(place.folder / "toy")
    arguments = {"tokenizer": "toy", "max_gen_toks": 4}
    place.rows(choices=["one", "two", "three", "four"])
    with FaultyServer(ToyServer(**able)) as server:
        tasks = ["--tasks", both_formats(place), "--gen_kwargs", "max_gen_toks=4"]
        forecast = asked(place, server, *tasks, "--dry_run", **arguments)
        assert "counted with the tokenizer toy" in forecast.out
        assert "≈" not in forecast.out
        asked(place, server, *tasks, **arguments).ok()
    expected = estimates(forecast)
    counted = place.results()["accounting"]["tasks"]
    # The first task that is scored also pays for the probe.
    for name in ("t@cloze", "t@generate"):
        at = 0 if end == "least" else 1
        requests, tokens = (ends[at] for ends in expected[name])
        assert (counted[name]["requests"], counted[name]["tokens_in"]) == (requests, tokens), name


def test_letters_need_one_request_a_doc_as_estimated(
    place: Workplace, server: FaultyServer
) -> None:
    write_tokenizer(place.folder / "toy")
    tasks = ["--tasks", f"{place.task()}@mcqa"]
    requests, tokens = estimates(asked(place, server, *tasks, "--dry_run", tokenizer="toy"))[
        "t@mcqa"
    ]
    assert requests == (20, 80)
    assert asked(place, server, *tasks, tokenizer="toy").code == 0
    total = place.results()["accounting"]["total"]
    probe = 6
    assert requests[0] <= total["requests"] <= requests[0] * 1.05 + probe
    assert tokens[0] <= total["tokens_in"] <= tokens[1]


LONG = "A long passage that every choice of a doc shares. " * 4


@pytest.mark.parametrize(
    ("able", "choices", "form", "requests", "prompts"),
    [
        ({}, "wxyz", "mcqa", 20, 20),  # the likeliest tokens have all letters
        ({"most_logprobs": 1}, "wxyz", "mcqa", 20, 80),
        ({}, ("one", "two", "three"), "cloze", 20, 60),
        ({"most_logprobs": 1, "refuses_batch": True}, "wxyz", "mcqa", 80, 80),
    ],
)
@pytest.mark.parametrize("connections", [1, 8])
def test_a_doc_is_one_prompt_or_prompts_that_share_one_context(
    place: Workplace,
    able: dict[str, Any],
    choices: Sequence[str],
    form: str,
    requests: int,
    prompts: int,
    connections: int,
) -> None:
    """As the server counts them: one prompt for letters, else one request for all choices of a doc.

    A server that takes one prompt at a time gets those of a doc one after the other, so that it still
    knows their context.
    """
    write_tokenizer(place.folder / "toy")
    place.rows(choices=list(choices), answer=0, passage=LONG)
    file = place.task(doc_to_context="passage", formats={"mcqa": {}, "cloze": {}})
    with FaultyServer(ToyServer(**able)) as server:
        arguments = {"tokenizer": "toy", "num_concurrent": connections}
        asked(place, server, "--tasks", f"{file}@{form}", **arguments).ok()
        sent = [docs_asked(seen.body["prompt"]) for seen in server.requests]
    sent = [docs for docs in sent if docs]  # without the probe
    assert (len(sent), sum(map(len, sent))) == (requests, prompts)
    assert all(len(set(docs)) == 1 for docs in sent)
    if connections == 1:
        in_a_row = [doc for doc, _ in groupby(docs[0] for docs in sent)]
        assert len(in_a_row) == len(set(in_a_row)) == 20


def docs_asked(prompt: list[Any]) -> list[str]:
    """The docs that the prompts of a request are about, by their questions."""
    model = ToyModel()
    tokens = prompt if isinstance(prompt[0], list) else [prompt]
    texts = [model.decode(one) for one in tokens]
    assert all(text.count(LONG.strip()) <= 1 for text in texts)
    return [found[0] for text in texts if (found := re.search(r"Q\d+\?", text))]


def test_what_was_asked_is_counted_priced_and_shown(place: Workplace, server: FaultyServer) -> None:
    prices = place.write("prices.yaml", PRICES)
    server.faults = first(1, 500)
    outcome = asked(
        place,
        server,
        *("--tasks", f"{place.task()}@generate", "--limit", "5", "--prices", prices),
        *("--gen_kwargs", "max_gen_toks=3"),
        chat=True,
    ).ok()
    block = place.results()["accounting"]
    usage = block["tasks"]["t@generate"]
    assert usage["requests"] == 5
    assert usage["retries"] == 5
    assert len(server.requests) == 10
    assert usage["tokens_cached"] == 10
    fresh = usage["tokens_in"] - 10
    cost = (fresh * 100 + 10 * 10 + usage["tokens_out"] * 300) / 1e6 + 5 * 0.001
    assert block["total"]["cost"] == pytest.approx(cost)
    assert block["prices"]["entry"] == "toy"
    (line,) = [line for line in outcome.out.splitlines() if line.startswith("Cost ")]
    assert line.split(maxsplit=1)[1] == (
        f"5 requests (5 sent again), {usage['tokens_in']:,} + {usage['tokens_out']} tokens in and out "
        f"(10 cached), USD {cost:.4f}"
    )


def test_a_tokenizer_that_is_named_and_not_there_is_found(
    place: Workplace, server: FaultyServer
) -> None:
    path = place.folder / "nowhere" / "tokenizer.json"
    path.parent.mkdir()
    path.write_text("{}")
    asked(place, server, "--tasks", place.task(), "--dry_run", tokenizer=path.parent).refused(
        "tokenizer"
    )
    assert server.requests == []
