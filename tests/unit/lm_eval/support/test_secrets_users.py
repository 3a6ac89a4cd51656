"""One rule for what is secret: results files, errors and models behind a server agree on it."""

from __future__ import annotations

from typing import Any

import pytest

from lm_eval.errors import LmEvalError, UsageError
from lm_eval.models.openai_completions import LocalCompletionsAPI
from lm_eval.reports.results_file import RunInfo, results_dict
from lm_eval.support.encode import to_json
from lm_eval.support.secrets import hiding

CANARY = "canary-1234567890"
HOST = "http://host.example/v1/completions"


class Own(LocalCompletionsAPI):
    """A model whose constructor takes any argument."""

    def __init__(self, **kwargs: Any) -> None:
        known = ("model", "base_url", "header", "tokenizer")
        super().__init__(**{name: kwargs[name] for name in known if name in kwargs})


def in_results(**model_args: Any) -> str:
    """The arguments as a results file has them."""
    content = results_dict([], run=RunInfo(model="own", model_args=model_args))
    return to_json(content["config"]["model_args"])


def in_identity(**model_args: Any) -> str:
    """What a model behind a server says of itself, also to the key of kept answers."""
    lm = Own(**{"model": "m", "base_url": HOST, **model_args})
    return f"{lm.identity()} {lm!r}"


def in_error(said: str, **model_args: Any) -> str:
    """An error that repeats ``said``, as whoever runs the model sees it."""
    with pytest.raises(LmEvalError) as caught, hiding(model_args):
        raise UsageError(f"The model did not like {said}.")
    return str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        *("api_key", "apiKey", "API_KEY", "openaikey", "access-key", "accesskey", "keyfile"),
        *("secret", "clientSecret", "secretkey", "password", "userpassword", "passwd", "pwd"),
        *("passphrase", "auth", "AUTH", "oauth", "authtoken", "authentication", "authorisation"),
        *("credentials", "azurecredential", "cookie", "cookies", "signature", "bearer"),
        *("token", "hf_token", "hfToken", "hf-token", "TOKEN", "accessToken", "auth_token"),
        *("key", "OPENAI_API_KEY", "X-Api-Key", "aws_secret_access_key", "client-secret"),
        *("db_passwd", "Authorization", "header_auth"),
    ],
)
def test_the_value_of_a_secret_name_is_shown_nowhere(name: str) -> None:
    given = {name: CANARY}
    assert CANARY not in in_results(**given) + in_identity(**given) + in_error(CANARY, **given)


@pytest.mark.parametrize(
    "name",
    [
        *("max_tokens", "eos_token", "pad_token", "think_end_token", "tokenizer", "token_count"),
        *("keyword", "keyboard", "monkey", "author", "authors", "authority", "passes", "compass"),
        *("skip_special_tokens", "eot_token_id", "pretrained", "model"),
    ],
)
def test_the_value_of_a_harmless_name_is_shown_everywhere(name: str) -> None:
    given = {name: CANARY}
    for shown in (in_results(**given), in_identity(**given), in_error(CANARY, **given)):
        assert CANARY in shown


@pytest.mark.parametrize(
    "address",
    [
        f"https://user:{CANARY}@host.example/v1/completions",
        f"https://{CANARY}@host.example/v1/completions",
        f"{HOST}?api_key={CANARY}",
        f"{HOST}?code={CANARY}",
        f"{HOST}?api-version=1&sig={CANARY}",
    ],
)
def test_no_secret_of_an_address_is_shown(address: str) -> None:
    given = {"base_url": address}
    shown = in_results(**given) + in_identity(**given)
    assert CANARY not in shown + in_error(CANARY, **given) + in_error(address, **given)
    assert "host.example/v1/completions" in in_results(**given)
    assert "host.example/v1/completions" in in_identity(**given)


@pytest.mark.parametrize("name", ["Authorization", "X-Api-Key", "X-Vault", "X-Org", "Cookie"])
@pytest.mark.parametrize("argument", ["header", "headers", "extra_headers"])
def test_headers_are_secret_but_for_the_everyday_ones(argument: str, name: str) -> None:
    given = {argument: {name: CANARY, "User-Agent": "agent/1", "Content-Type": "text/plain"}}
    assert CANARY not in in_results(**given) + in_identity(**given) + in_error(CANARY, **given)
    assert "agent/1" in in_results(**given)
    assert "text/plain" in in_error("text/plain", **given)


def test_short_values_of_headers_are_no_search_words() -> None:
    """Else a header ``X-Team: paris`` would take every Paris out of answers and errors."""
    given = {"header": {"X-Team": "paris"}, "base_url": f"{HOST}?city=paris"}
    assert "paris" not in in_results(**given)
    assert "paris" in in_error("paris", **given)
