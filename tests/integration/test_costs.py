"""``--prices`` and ``--dry_run`` on the command line."""

from __future__ import annotations

import pytest

from tests.support.command_line import Outcome, Workplace

PRICES = "dummy: {input: 1000, output: 2000}\n"


def rows(outcome: Outcome) -> dict[str, list[str]]:
    """First cell → the other cells of each row of the table."""
    assert outcome.code == 0, outcome.err
    cells = [line.split("  ") for line in outcome.out.splitlines()[2:] if line.strip()]
    return {row[0].strip(): [cell.strip() for cell in row[1:] if cell.strip()] for row in cells}


def test_a_dry_run_says_what_would_be_asked_and_asks_nothing(place: Workplace) -> None:
    path = place.task(formats={"mcqa": {}, "generate": {}})
    outcome = place.run("--tasks", f"{path}@*", "--dry_run", "--gen_kwargs", "max_gen_toks=10")
    found = rows(outcome)
    assert found["t@mcqa"][:2] == ["20", "80"]
    assert found["t@mcqa"][3] == "0"
    assert found["t@generate"][:2] == ["20", "20"]
    assert found["t@generate"][3] == "≤ 200"
    assert found["total"][:2] == ["40", "100"]
    assert "≈" in found["total"][2]
    assert "guessed" in outcome.out
    assert "no request is sent" in outcome.out
    assert "Score" not in outcome.out
    assert place.written() == []
    assert not place.output.exists()


def test_a_dry_run_of_a_local_model_loads_no_weights(place: Workplace) -> None:
    """The file is not there: whoever tries to load it fails."""
    outcome = place.run(
        *("--tasks", place.task(), "--dry_run", "--model_args", "path=nowhere.gguf"), model="gguf"
    )
    assert rows(outcome)["t"][:2] == ["20", "80"]


@pytest.mark.parametrize(
    ("model", "arguments", "message"),
    [
        ("hf", "dtype=fp17", "no dtype 'fp17'. Did you mean 'fp16'?"),
        ("hf", "batch_size=many", "batch_size must be a whole number above 0"),
        ("hf", "kv_budget=1GB", "kv_budget must be a whole number of bytes above 0, not '1GB'"),
        ("hf", "max_length=0", "max_length must be a whole number above 0"),
        ("hf", "backend=casual", "Did you mean 'causal'?"),
        ("hf", "prefix_cache=perhaps", "prefix_cache must be true or false"),
        ("hf", "chat_template_args=x", "is not a JSON object"),
        ("gguf", "n_threads=0", "n_threads must be a whole number above 0"),
        ("gguf", "kv_budget=1GB", "kv_budget must be a whole number of bytes above 0, not '1GB'"),
        ("gguf", "seed=x", "seed must be a whole number, not 'x'"),
    ],
)
def test_a_dry_run_refuses_the_values_that_a_run_refuses(
    place: Workplace, model: str, arguments: str, message: str
) -> None:
    """Whatever can be said without a model, which is nowhere here."""
    where = {"hf": "pretrained=/nowhere", "gguf": "path=nowhere.gguf"}[model]
    given = ("--tasks", place.task(), "--model_args", f"{where},{arguments}")
    dry, real = place.run(*given, "--dry_run", model=model), place.run(*given, model=model)
    assert message in " ".join(dry.err.split())
    assert "Traceback" not in dry.err
    assert (dry.code, dry.err) == (real.code, real.err)
    assert dry.code != 0


def test_a_dry_run_shows_the_range_of_the_cost(place: Workplace) -> None:
    path = place.task(formats="generate", doc_to_text="{{ 'x' * 360 }}")
    prices = place.write("prices.yaml", PRICES)
    outcome = place.run(
        *("--tasks", path, "--limit", "10", "--dry_run", "--prices", prices),
        *("--gen_kwargs", "max_gen_toks=50"),
    )
    low, high = rows(outcome)["t"][4].removeprefix("≈ ").split(" – ")
    assert float(high) - float(low) == pytest.approx(10 * 50 * 2000 / 1e6)
    assert float(low) >= 10 * 90 * 1000 / 1e6
    assert "entry 'dummy', USD" in outcome.out


def test_a_dry_run_finds_what_is_wrong_with_a_task(place: Workplace) -> None:
    place.rows(doc=7, answer=9)
    place.run("--tasks", place.task(), "--dry_run").refused("doc 7")


def test_a_dry_run_checks_the_arguments_of_a_model_that_it_does_not_load(place: Workplace) -> None:
    place.run(
        *("--tasks", place.task(), "--dry_run", "--model_args", "pathh=x"), model="gguf"
    ).refused("Did you mean 'path'?")


def test_a_dry_run_shows_prompts_where_asked(place: Workplace) -> None:
    assert "Q0?" in place.run("--tasks", place.task(), "--dry_run", "--write_out").out


def test_prices_for_a_model_that_counts_nothing_draw_a_warning(place: Workplace) -> None:
    prices = place.write("prices.yaml", PRICES)
    outcome = place.run("--tasks", place.task(), "--prices", prices).ok()
    assert "counted no tokens" in outcome.err
    assert "cost" not in place.results().get("accounting", {})


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("dumy: {input: 1, output: 1}\n", ["'dummy'", "Did you mean 'dumy'?", "prices.yaml"]),
        ("dummy: {input: -1, output: 1}\n", ["prices.yaml, line 1", "dummy.input", "-1"]),
        ("dummy: {input: 1, outputs: 1}\n", ["prices.yaml, line 1", "Did you mean 'output'?"]),
        ("dummy: [\n", ["prices.yaml", "line"]),
        (None, ["There is no file", "prices.yaml"]),
    ],
)
@pytest.mark.parametrize("flag", ["--dry_run", "--write_out"])
def test_wrong_prices_are_found_before_anything_else(
    place: Workplace, content: str | None, words: list[str], flag: str
) -> None:
    if content is not None:
        place.write("prices.yaml", content)
    outcome = place.run("--tasks", place.task(), flag, "--prices", "prices.yaml")
    assert outcome.code == 1
    assert outcome.out == ""
    assert outcome.err.startswith("lm-eval: error: ")
    assert outcome.err.count("lm-eval: ") == 1
    assert not [word for word in words if word not in outcome.err], outcome.err
    assert place.written() == []
