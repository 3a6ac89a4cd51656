"""Several addresses in ``base_url``: the work is shared, and the answers are those of one server."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from lm_eval.errors import UsageError
from lm_eval.models.openai_completions import LocalChatCompletion
from tests.integration.test_api_runs import CHAT, COMPLETIONS, samples
from tests.support.command_line import Outcome, Workplace
from tests.support.servers.faulty import Fault, FaultyServer, Plan, Seen, always, nobody
from tests.support.servers.toy_openai import ToyModel, ToyServer, write_tokenizer

DOCS = 20


class OtherModel(ToyModel):
    """Another model with the same tokens."""

    def rows(self, tokens: Sequence[int], first: int) -> list[Any]:
        return super().rows([token ^ 1 for token in tokens], first)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workplace:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    write_tokenizer(tmp_path / "tokenizer")
    place = Workplace(tmp_path)
    place.task()
    return place


def run(
    work: Workplace, urls: Sequence[str], path: str = CHAT, tasks: str = "t@generate"
) -> Outcome:
    pairs = {"model": "toy", "base_url": ",".join(url + path for url in urls), "num_concurrent": 4}
    if path == COMPLETIONS:
        pairs["tokenizer"] = str(work.folder / "tokenizer")
    name = "local-completions" if path == COMPLETIONS else "local-chat-completions"
    return work.cli(
        *("run", "--tasks", tasks, "--include_path", str(work.folder), "--log_samples"),
        *("--gen_kwargs", "max_gen_toks=8", "--output_path", str(work.output), "--model", name),
        *("--model_args", ",".join(f"{key}={value}" for key, value in pairs.items())),
    )


def servers_of(work: Workplace) -> list[dict[str, Any]]:
    """What the newest results say of the servers."""
    newest = max(work.output.rglob("results_*.json"), key=lambda path: path.stat().st_mtime_ns)
    content = json.loads(newest.read_text())
    found: list[dict[str, Any]] = content["accounting"]["model"]["servers"]
    return found


def alone(work: Workplace, path: str = CHAT, tasks: str = "t@generate") -> dict[str, list[Any]]:
    """The answers of one server."""
    with FaultyServer(ToyServer()) as server:
        run(work, [server.url], path, tasks).ok()
    found = samples(work)
    assert found
    return found


@pytest.mark.parametrize(
    ("path", "tasks"), [(COMPLETIONS, "t@mcqa,t@cloze,t@generate"), (CHAT, "t@generate,t@cot")]
)
def test_servers_share_the_work_and_answer_as_one(work: Workplace, path: str, tasks: str) -> None:
    with FaultyServer(ToyServer()) as a, FaultyServer(ToyServer()) as b:
        run(work, [a.url, b.url], path, tasks).ok()
        assert min(len(a.requests), len(b.requests)) > DOCS / 2
        assert [server["taken_out"] for server in servers_of(work)] == [0, 0]
    assert samples(work) == alone(work, path, tasks)


def test_a_server_that_is_not_there_is_left_out_and_reported(
    work: Workplace, caplog: pytest.LogCaptureFixture
) -> None:
    with nobody() as port, FaultyServer(ToyServer()) as server:
        dead = f"http://127.0.0.1:{port}"
        done = run(work, [dead, server.url]).ok()
        assert f"Nothing answers at {dead}{CHAT}: Connection refused" in caplog.text
        assert f"{dead}{CHAT} was taken out once" in done.err
        assert "did not come back" in done.err
        assert [one["is_out"] for one in servers_of(work)] == [True, False]
    assert samples(work) == alone(work)


def dies(after: int, until: float) -> Plan:
    """Hangs up between the place ``after`` and ``until``."""
    return lambda seen: Fault("hang_up") if after <= seen.place < until else None


def test_a_server_that_dies_on_the_way_loses_nothing(
    work: Workplace, caplog: pytest.LogCaptureFixture
) -> None:
    with FaultyServer(ToyServer(), faults=dies(8, 10**6)) as a, FaultyServer(ToyServer()) as b:
        run(work, [a.url, b.url]).ok()
        assert "closed the connection without an answer" in caplog.text
        assert "gets no requests until it answers again" in caplog.text
        first, second = servers_of(work)
        assert (first["taken_out"], first["is_out"], second["taken_out"]) == (1, True, 0)
        assert first["answered"] + second["answered"] == DOCS + 6  # and three questions to each
    assert samples(work) == alone(work)


def test_a_server_that_comes_back_is_asked_again(
    work: Workplace, caplog: pytest.LogCaptureFixture
) -> None:
    """The other one dies for good, so that the run ends only if the first gets requests again."""
    with (
        FaultyServer(ToyServer(), faults=dies(6, 12)) as a,
        FaultyServer(ToyServer(), faults=dies(6, 10**6)) as b,
    ):
        run(work, [a.url, b.url]).ok()
        assert f"{a.url}{CHAT} answers again" in caplog.text
        first, second = servers_of(work)
        assert (first["is_out"], second["is_out"]) == (False, True)
        assert first["answered"] > 6
    assert samples(work) == alone(work)


def test_a_server_that_refuses_for_a_while_leaves_its_work_to_the_others(work: Workplace) -> None:
    busy = Fault(429, headers=(("Retry-After", "60"),))

    def plan(seen: Seen) -> Fault | None:
        return busy if seen.place >= 5 else None

    with FaultyServer(ToyServer(), faults=plan) as a, FaultyServer(ToyServer()) as b:
        run(work, [a.url, b.url]).ok()
        assert [one["taken_out"] for one in servers_of(work)] == [0, 0]
    assert samples(work) == alone(work)


UNFIT = (
    (0, 429),
    *((5, status) for status in (429, 400, 401, 404, 422)),
    *((5, kind) for kind in ("html_200", "null", "no_choices", "error_200", "redirect")),
)
"""From which place on a server misbehaves for good, and how."""


def test_one_of_three_servers_that_is_no_good_is_taken_out_and_reported(
    work: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lm_eval.models.http.failures._FIRST_WAIT_S", 0.01)
    wrong: list[Any] = []
    for path, tasks in ((CHAT, "t@generate"), (COMPLETIONS, "t@cloze")):
        right = alone(work, path, tasks)
        for begins, kind in UNFIT:
            # Scores are preceded by three more questions, about what the server can do.
            after = begins + (3 if begins and path == COMPLETIONS else 0)

            def plan(seen: Seen, after: int = after, kind: str | int = kind) -> Fault | None:
                return Fault(kind) if seen.place >= after else None

            with (
                FaultyServer(ToyServer(), faults=plan) as a,
                FaultyServer(ToyServer(), latency_s=0.01) as b,
                FaultyServer(ToyServer(), latency_s=0.01) as c,
            ):
                done = run(work, [a.url, b.url, c.url], path, tasks)
                row = (path, after, kind)
                if done.code:
                    wrong.append((*row, done.err))
                elif samples(work) != right:
                    wrong.append((*row, "other answers"))
                elif (kind != 429 or not after) and f"{a.url}{path} was taken out" not in done.err:
                    wrong.append((*row, "not reported"))
            for file in work.output.rglob("*"):
                if file.is_file():
                    file.unlink()
    assert not wrong, wrong


@pytest.mark.parametrize(
    ("path", "tasks"), [(COMPLETIONS, "t@mcqa"), (COMPLETIONS, "t@generate"), (CHAT, "t@generate")]
)
def test_another_model_is_refused_before_anything_is_asked(
    work: Workplace, path: str, tasks: str
) -> None:
    with (
        FaultyServer(ToyServer()) as a,
        FaultyServer(ToyServer()) as b,
        FaultyServer(ToyServer(OtherModel())) as c,
    ):
        run(work, [a.url, b.url, c.url], path, tasks).refused(
            f"{c.url}{path} serves another model than {a.url}{path}", "leave this one out"
        )
        assert len(a.requests) + len(b.requests) + len(c.requests) == 12  # questions, one twice
    assert not list(work.output.rglob("results_*.json"))


def test_a_model_that_differs_only_in_scores_is_refused(work: Workplace) -> None:
    class Hotter(ToyModel):
        """The same texts at temperature 0, with other log-probs."""

        def rows(self, tokens: Sequence[int], first: int) -> list[Any]:
            rows = super().rows(tokens, first)
            return [[2 * score for score in row] for row in rows]

    with FaultyServer(ToyServer()) as a, FaultyServer(ToyServer(Hotter())) as b:
        run(work, [a.url, b.url], COMPLETIONS, "t@cloze").refused(
            "its log-probs of the same texts differ"
        )


def test_a_wrong_key_at_one_server_is_an_error(work: Workplace) -> None:
    with FaultyServer(ToyServer()) as a, FaultyServer(ToyServer(), faults=always(401)) as b:
        run(work, [a.url, b.url]).refused(f"{b.url}{CHAT} answered 401")


def test_no_server_at_all_is_one_message(work: Workplace) -> None:
    with nobody() as a, nobody() as b:
        done = run(work, [f"http://127.0.0.1:{a}", f"http://127.0.0.1:{b}"])
        assert done.code == 1
        assert done.err.count("lm-eval: error:") == 1
        assert "Connection refused" in done.err


def test_all_servers_die_on_the_way(work: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run stops, its answers are kept, and the same command goes on where one is back."""
    monkeypatch.setattr("lm_eval.models.http.servers._GIVEN_UP_AFTER_S", 0.0)
    with (
        FaultyServer(ToyServer(), faults=dies(8, 10**6)) as a,
        FaultyServer(ToyServer(), faults=dies(8, 10**6)) as b,
    ):
        urls = [a.url, b.url]
        done = run(work, urls)
        done.refused(
            "None of the 2 servers answers: ",
            f"{a.url}{CHAT} closed",
            f"{b.url}{CHAT} closed",
            "10 of 20 answers are kept",
        )
    with FaultyServer(ToyServer(), port=b.port) as b:
        done = run(work, urls).ok()
        assert "resuming: 10 of 20 answered" in done.err
        assert len(b.requests) == DOCS - 10 + 3
    assert samples(work) == alone(work)


# -- what a list of addresses means ----------------------------------------------------------------


def model(base_url: Any) -> LocalChatCompletion:
    return LocalChatCompletion(base_url=base_url, model="m")


def test_answers_are_kept_under_the_first_address() -> None:
    one = model("http://a/v1?x=1")
    assert model("http://a/v1?x=1,http://b/v1").identity() == one.identity()
    assert model(["http://a/v1?x=1", "http://b/v1"]).identity() == one.identity()
    assert model("http://b/v1,http://a/v1?x=1").identity() != one.identity()
    assert model("http://a/v1?x=2,http://b/v1").identity() != one.identity()


@pytest.mark.parametrize(
    "base_url",
    [
        ["http://a/v1", "http://b/v1"],
        ("http://a/v1", "http://b/v1"),
        "http://a/v1,http://b/v1",
        " http://a/v1 , http://b/v1 ",
        "['http://a/v1', 'http://b/v1']",
    ],
)
def test_spellings_of_a_list(base_url: Any) -> None:
    assert model(base_url).addresses == ("http://a/v1", "http://b/v1")


def test_a_comma_in_an_address_does_not_split_it() -> None:
    assert model("http://a/v1?x=1,2").addresses == ("http://a/v1?x=1,2",)


@pytest.mark.parametrize(
    ("base_url", "says"),
    [
        (["http://a/v1", "b/v1"], "'b/v1' is not an http"),
        ("http://a/v1,http://a/v1", "http://a/v1 twice"),
        ([], "needs base_url"),
    ],
)
def test_what_is_no_list_of_addresses(base_url: Any, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        model(base_url)
