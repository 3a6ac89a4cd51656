"""Whatever a program overrides of ``HFLM``, its answers follow: one override at a time."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

torch = pytest.importorskip("torch", reason="needs the extra hf: pip install 'lm-eval-formats[hf]'")

import lm_eval  # noqa: E402
from lm_eval.api.instance import Instance  # noqa: E402
from lm_eval.compat.hflm import HFMethods  # noqa: E402
from lm_eval.errors import LmEvalError, LmEvalWarning  # noqa: E402
from lm_eval.formats.assemble import Prompt  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402
from lm_eval.requests import GenerateRequest, LoglikelihoodRequest, RollingRequest  # noqa: E402
from lm_eval.run.resume import model_identity  # noqa: E402
from tests.support import tiny_models  # noqa: E402 (after the check for torch)

QUESTION = "Question: What is the capital of France?\nAnswer:"
ENDINGS = (" Paris", " Berlin Madrid", " a dog")
CLOSE = 1e-4


def scored(context: str = QUESTION) -> list[LoglikelihoodRequest]:
    prompt = Prompt((context,))
    return [LoglikelihoodRequest("t", 0, n, prompt, text) for n, text in enumerate(ENDINGS)]


def asked(**gen_kwargs: Any) -> list[GenerateRequest]:
    kwargs = {"max_gen_toks": 12, **gen_kwargs}
    texts = (QUESTION, "How many legs has a spider?")
    return [GenerateRequest("t", n, 0, Prompt((text,)), kwargs) for n, text in enumerate(texts)]


ROLLED = [RollingRequest("t", 0, 0, "The old black cat. Which animal barks? a dog")]


def answers(lm: Any, requests: Sequence[Any]) -> list[Any]:
    """As a run asks."""
    return [answer for _, answer in sorted(lm.stream(requests))]


def values(lm: Any, requests: Sequence[Any]) -> Any:
    """The scores of a run, to be compared within rounding."""
    return pytest.approx([_number(answer) for answer in answers(lm, requests)], abs=CLOSE)


def _number(answer: Any) -> float:
    return float(answer[0] if isinstance(answer, tuple) else answer)


def numbers(lm: Any, requests: Sequence[Any]) -> list[float]:
    return [_number(answer) for answer in answers(lm, requests)]


@pytest.fixture(scope="module", params=["gpt2", "t5"])
def any_folder(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save(tmp_path_factory.mktemp("model") / "tiny", request.param)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.save(tmp_path_factory.mktemp("model") / "tiny", "llama")


@pytest.fixture(scope="module")
def base(folder: Path) -> HFLM:
    return HFLM(folder)


# -- methods that only call ours: the scores stay ------------------------------------------------


def calling_ours(name: str) -> type[HFLM]:
    """A subclass whose method of this name only counts how often it is called."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.counts = getattr(self, "counts", 0) + 1
        return getattr(HFLM, name)(self, *args, **kwargs)

    return type("Counting", (HFLM,), {name: method})


METHODS = {
    "loglikelihood": ["loglikelihood"],
    "loglikelihood_rolling": ["loglikelihood_rolling"],
    "generate_until": ["generate_until"],
    "_model_call": ["loglikelihood", "loglikelihood_rolling"],
    "_select_cont_toks": ["loglikelihood", "loglikelihood_rolling"],
    "_loglikelihood_tokens": ["loglikelihood", "loglikelihood_rolling"],
    "_encode_pair": ["loglikelihood"],
    "tok_encode": ["loglikelihood", "loglikelihood_rolling"],
    "tok_batch_encode": ["generate_until"],
    "tok_decode": ["generate_until"],
    "_model_generate": ["generate_until"],
}


@pytest.mark.parametrize("name", METHODS)
def test_a_method_that_calls_ours_is_called_and_changes_nothing(
    name: str, any_folder: Path
) -> None:
    plain, lm = HFLM(any_folder), calling_ours(name)(any_folder)
    for requests in (scored(), ROLLED):
        assert numbers(lm, requests) == values(plain, requests)
        is_called = requests[0].kind in METHODS[name]
        assert (getattr(lm, "counts", 0) > 0) is is_called
        lm.counts = 0
    assert answers(lm, asked()) == answers(plain, asked())
    assert (lm.counts > 0) is ("generate_until" in METHODS[name])


def test_every_method_of_the_harness_is_in_one_of_these_tests() -> None:
    properties = {
        *("eot_token_id", "prefix_token_id", "max_length", "max_gen_toks", "batch_size"),
        *("device", "model", "config", "tokens", "engine"),
    }
    ours = {
        name
        for name in vars(HFMethods)
        if callable(getattr(HFMethods, name)) or isinstance(vars(HFMethods)[name], property)
    }
    helpers = {
        *(
            "_passes",
            "_pad",
            "_autocast",
            "_score_pairs",
            "_score_texts",
            "_logprobs",
        ),
        *("_scored_by_calls", "_call", "_continue_prompts", "_prompt_length", "_generate_some"),
        *("_reply", "_load", "_load_by_methods", "get_model_info"),
    }
    # These are called by ``test_a_subclass_that_loads_by_itself``.
    helpers |= {"_get_config", "_get_backend", "_create_tokenizer", "_create_model"}
    assert {name for name in ours if not name.startswith("__")} - helpers - properties <= {*METHODS}


# -- overrides that change something: the answers follow ----------------------------------------


FAVOURED = 70


class Biased(HFLM):
    """Adds a constant to the logits of one token."""

    def _model_call(self, inps: Any, attn_mask: Any = None, labels: Any = None) -> Any:
        logits = super()._model_call(inps, attn_mask, labels)
        logits[..., FAVOURED] += 50.0
        return logits


def test_model_call(folder: Path, base: HFLM) -> None:
    lm = Biased(folder)
    favoured = [LoglikelihoodRequest("t", 0, 0, Prompt((QUESTION,)), base.tok_decode([FAVOURED]))]
    assert numbers(base, favoured)[0] < -1
    assert numbers(lm, favoured) == pytest.approx([0.0], abs=CLOSE)
    assert max(numbers(lm, scored())) < min(numbers(base, scored())) - 10
    assert numbers(lm, ROLLED)[0] < numbers(base, ROLLED)[0] - 100
    assert lm.warnings == [
        "_model_call of Biased answered, called in the order of EleutherAI's HFLM, which takes "
        "longer than hf does by itself."
    ]


def test_a_whole_run_reports_the_scores_of_the_subclass(folder: Path) -> None:
    arguments: dict[str, Any] = {"tasks": ["demo_mcq@cloze"], "limit": 5}
    plain = lm_eval.simple_evaluate(model=HFLM(folder), **arguments)
    with pytest.warns(LmEvalWarning, match="Biased: _model_call of Biased answered, called in"):
        biased = lm_eval.simple_evaluate(model=Biased(folder), **arguments)
    scores = [
        [sample["resps"] for sample in run["samples"]["demo_mcq@cloze"]] for run in (plain, biased)
    ]
    assert scores[0] != scores[1]


def test_loglikelihood_tokens(folder: Path, base: HFLM) -> None:
    class Fixed(HFLM):
        def _loglikelihood_tokens(self, requests, disable_tqdm=False, override_bs=None):
            return [(-float(len(continuation)), False) for _, _, continuation in requests]

    lengths = [len(base._encode_pair(QUESTION, ending)[1]) for ending in ENDINGS]
    assert numbers(Fixed(folder), scored()) == [-length for length in lengths]
    assert numbers(Fixed(folder), ROLLED) == [-len(base.tok_encode(ROLLED[0].text))]


def test_select_cont_toks(folder: Path, base: HFLM) -> None:
    class Shifted(HFLM):
        def _select_cont_toks(self, logits, contlen=None, inplen=None):
            return super()._select_cont_toks(logits, contlen, inplen) - 1.0

    counts = [len(base._encode_pair(QUESTION, ending)[1]) for ending in ENDINGS]
    wanted = [score - count for score, count in zip(numbers(base, scored()), counts, strict=True)]
    assert numbers(Shifted(folder), scored()) == pytest.approx(wanted, abs=CLOSE)


class LowerCase(HFLM):
    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs: Any) -> Any:
        return super().tok_encode(string.lower(), add_special_tokens, **kwargs)


def test_tok_encode(folder: Path, base: HFLM) -> None:
    lowered = [
        LoglikelihoodRequest("t", 0, n, Prompt((QUESTION.lower(),)), ending.lower())
        for n, ending in enumerate(ENDINGS)
    ]
    assert numbers(LowerCase(folder), scored()) == values(base, lowered)
    rolled = [RollingRequest("t", 0, 0, ROLLED[0].text.lower())]
    assert numbers(LowerCase(folder), ROLLED) == values(base, rolled)
    assert numbers(LowerCase(folder), scored()) != values(base, scored())


def test_encode_pair(folder: Path, base: HFLM) -> None:
    class NoContext(HFLM):
        def _encode_pair(self, context: str, continuation: str) -> Any:
            return [self.prefix_token_id], super()._encode_pair(context, continuation)[1]

    expected = [
        base._loglikelihood_tokens([(("", ""), [0], base._encode_pair(QUESTION, ending)[1])])[0][0]
        for ending in ENDINGS
    ]
    assert numbers(NoContext(folder), scored()) == pytest.approx(expected, abs=CLOSE)


def test_prefix_token_id(folder: Path, base: HFLM) -> None:
    class Prefixed(HFLM):
        @property
        def prefix_token_id(self) -> int:
            return 42

    other = HFLM(folder, prefix_token_id=42)
    assert numbers(Prefixed(folder), scored("")) == values(other, scored(""))
    assert numbers(Prefixed(folder), ROLLED) == values(other, ROLLED)
    assert numbers(Prefixed(folder), ROLLED) != values(base, ROLLED)


def test_max_length(folder: Path, base: HFLM) -> None:
    class Short(HFLM):
        @property
        def max_length(self) -> int:
            return 8

    short = HFLM(folder, max_length=8)
    assert numbers(Short(folder), scored()) == values(short, scored())
    assert numbers(Short(folder), ROLLED) == values(short, ROLLED) != values(base, ROLLED)


def test_a_window_beyond_the_models_positions_is_refused_by_name(tmp_path: Path) -> None:
    class Long(HFLM):
        @property
        def max_length(self) -> int:
            return 4096

    with pytest.raises(LmEvalError, match="max_length=4096, but a model of type 'gpt2' with 512"):
        Long(tiny_models.save(tmp_path / "tiny", "gpt2"))


def test_max_gen_toks(folder: Path, base: HFLM) -> None:
    class Terse(HFLM):
        @property
        def max_gen_toks(self) -> int:
            return 3

    requests = [GenerateRequest("t", 0, 0, Prompt((QUESTION,)), {})]
    assert answers(Terse(folder), requests) == answers(base, asked(max_gen_toks=3))[:1]


def test_eot_token_id(folder: Path, base: HFLM) -> None:
    (whole, *_), kwargs = answers(base, asked()), {"max_gen_toks": 12}
    assert len(whole) > 4
    tokens = base.tok_encode(whole, add_special_tokens=False)
    end = tokens[len(tokens) // 2]

    class Ends(HFLM):
        @property
        def eot_token_id(self) -> int:
            return end

    (reply,) = answers(Ends(folder), [GenerateRequest("t", 0, 0, Prompt((QUESTION,)), kwargs)])
    assert reply == whole.partition(base.tok_decode([end]))[0]
    assert reply != whole


def test_model_generate_and_tok_decode(folder: Path, base: HFLM) -> None:
    class Constant(HFLM):
        def _model_generate(self, context, max_length, stop, **generation_kwargs):
            assert stop == ["\n", "</s>"]
            assert max_length == context.shape[1] + 12
            assert generation_kwargs["attention_mask"].shape == context.shape
            tail = torch.tensor(self.tok_encode(" Paris\nno", add_special_tokens=False))
            return torch.cat([context, tail.expand(len(context), -1)], dim=1)

    assert answers(Constant(folder), asked(until=["\n"])) == [" Paris", " Paris"]

    class Reasoning(HFLM):
        def _model_generate(self, context, max_length, stop, **generation_kwargs):
            tail = torch.tensor([*[70] * 5, 80, *[75] * (max_length - context.shape[1] - 6)])
            return torch.cat([context, tail.expand(len(context), -1)], dim=1)

    for mark in (80, base.tok_decode([80])):
        reply = answers(Reasoning(folder, think_end_token=mark), asked())[0]
        assert (reply.reasoning, reply) == (base.tok_decode([70] * 5), base.tok_decode([75] * 6))
        assert reply.finish == "length"

    class Loud(HFLM):
        def tok_decode(self, tokens, skip_special_tokens=True):
            return super().tok_decode(tokens, skip_special_tokens).upper()

    assert answers(Loud(folder), asked()) == [text.upper() for text in answers(base, asked())]


def test_tok_batch_encode(folder: Path, base: HFLM) -> None:
    class Other(HFLM):
        def tok_batch_encode(self, strings, *args, **kwargs):
            return super().tok_batch_encode(["One two three"] * len(strings), *args, **kwargs)

    requests = [GenerateRequest("t", 0, 0, Prompt(("One two three",)), {"max_gen_toks": 12})]
    assert answers(Other(folder), asked()) == answers(base, requests) * 2


def test_model_and_device(folder: Path, base: HFLM) -> None:
    other = tiny_models.make_model("llama", 405)
    with torch.no_grad():
        other.lm_head.weight *= 2

    class Replaced(HFLM):
        @property
        def model(self) -> Any:
            return other

        @property
        def device(self) -> Any:
            self.asked_for_device = True
            return "cpu"

    lm = Replaced(folder)
    wanted = HFLM(other, tokenizer=base.tokenizer)
    for requests in (scored(), ROLLED):
        assert numbers(lm, requests) == values(wanted, requests) != values(base, requests)
    assert answers(lm, asked()) == answers(wanted, asked())
    assert lm.asked_for_device


def test_batch_size(folder: Path, base: HFLM) -> None:
    class OneByOne(HFLM):
        sizes: ClassVar[list[int]] = []

        @property
        def batch_size(self) -> int:
            return 1

        def _model_call(self, inps, attn_mask=None, labels=None):
            self.sizes.append(len(inps))
            return super()._model_call(inps, attn_mask, labels)

    lm = OneByOne(folder, batch_size=8)
    assert numbers(lm, scored()) == values(base, scored())
    assert lm.sizes == [1, 1, 1]
    assert lm.engine.scoring.rows == 1


# -- what is set or changed afterwards ------------------------------------------------------------


def test_attributes_set_afterwards(folder: Path, base: HFLM) -> None:
    lm = HFLM(folder)
    assert numbers(lm, ROLLED) == values(base, ROLLED)
    lm._max_length = 8
    assert numbers(lm, ROLLED) == values(HFLM(folder, max_length=8), ROLLED)
    lm._max_length = None
    other = tiny_models.make_model("llama", 405, window=64)
    with torch.no_grad():
        other.lm_head.weight *= 2
    lm._model = other
    wanted = HFLM(other, tokenizer=base.tokenizer)
    assert numbers(lm, scored()) == values(wanted, scored()) != values(base, scored())
    assert answers(lm, asked()) == answers(wanted, asked())
    assert lm.max_length == wanted.max_length == 64


def test_a_method_of_the_object_or_patched_into_our_class(
    folder: Path, base: HFLM, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = HFLM(folder)
    lm._model_call = lambda inps, **_: torch.zeros((*inps.shape, 405))
    flat = [-len(base._encode_pair(QUESTION, end)[1]) * 6.003887 for end in ENDINGS]
    assert numbers(lm, scored()) == pytest.approx(flat, abs=1e-3)
    monkeypatch.setattr(
        HFLM, "_model_call", lambda self, inps, **_: torch.zeros((*inps.shape, 405))
    )
    assert numbers(HFLM(folder), scored()) == pytest.approx(flat, abs=1e-3)


def test_modules_replaced_in_place_count(folder: Path) -> None:
    class Doubled(torch.nn.Module):
        def __init__(self, layer: Any) -> None:
            super().__init__()
            self.layer = layer

        def forward(self, hidden: Any) -> Any:
            return 2 * self.layer(hidden)

    lm, plain = HFLM(folder), HFLM(folder)
    assert numbers(lm, scored()) == values(plain, scored())
    lm.model.lm_head = Doubled(lm.model.lm_head)
    with torch.no_grad():
        plain.model.lm_head.weight *= 2
    assert numbers(lm, scored()) == values(plain, scored())


def test_a_model_that_is_not_of_transformers(folder: Path, base: HFLM) -> None:
    class Flat(torch.nn.Module):
        def forward(self, ids: Any) -> Any:
            return types.SimpleNamespace(logits=torch.zeros((*ids.shape, 405)))

    lm = HFLM(folder)
    lm._model = Flat()
    lm._max_length = 64
    lengths = [len(base._encode_pair(QUESTION, ending)[1]) for ending in ENDINGS]
    assert numbers(lm, scored()) == pytest.approx([-6.003887 * n for n in lengths], abs=1e-3)
    lm._model = lambda ids: torch.zeros((*ids.shape, 405))
    assert numbers(lm, scored()) == pytest.approx([-6.003887 * n for n in lengths], abs=1e-3)
    with pytest.warns(LmEvalWarning, match="_model of HFLM answered"):
        results = lm_eval.simple_evaluate(model=lm, tasks=["demo_mcq@cloze"], limit=2)
    assert results["config"]["model_digest"].startswith("unknown:")
    with pytest.raises(LmEvalError, match="cannot generate"):
        answers(lm, asked())


def test_a_subclass_with_an_init_of_its_own(folder: Path, base: HFLM) -> None:
    class Adopting(HFLM):
        def __init__(self, model: Any, tokenizer: Any) -> None:
            self._model = model
            self.tokenizer = tokenizer
            self._device = model.device
            self._batch_size = 1

    lm = Adopting(base.model, base.tokenizer)
    for requests in (scored(), ROLLED):
        assert numbers(lm, requests) == values(base, requests)
    assert answers(lm, asked()) == answers(base, asked())
    results = lm_eval.simple_evaluate(model=lm, tasks=["demo_mcq@mcqa"], limit=3)
    assert results["results"]


# -- loading --------------------------------------------------------------------------------------


def test_a_subclass_that_loads_by_itself(folder: Path, base: HFLM) -> None:
    class Loading(HFLM):
        def _create_model(self, pretrained: str, dtype: Any = "auto", **kwargs: Any) -> None:
            assert self.tokenizer is not None
            assert self.config.model_type == "llama"
            self._model = self.AUTO_MODEL_CLASS.from_pretrained(pretrained)
            with torch.no_grad():
                self._model.lm_head.weight *= 2

    doubled = HFLM(folder)
    with torch.no_grad():
        doubled.model.lm_head.weight *= 2
    assert numbers(Loading(folder), scored()) == values(doubled, scored())

    class Lazy(HFLM):
        def _create_model(self, pretrained: str, **kwargs: Any) -> None:
            pass

    with pytest.raises(LmEvalError, match=r"Lazy\._create_model left no _model\. Let it set"):
        Lazy(folder)

    class Wrapped(HFLM):
        def _create_tokenizer(self, *args: Any, **kwargs: Any) -> None:
            super()._create_tokenizer(*args, **kwargs)
            self.tokenizer.chat_template = "{{ messages[0].content }}"

    assert Wrapped(folder).apply_chat_template([{"role": "user", "content": "Hi"}]) == "Hi"


# -- wrong overrides, and requests of the harness -------------------------------------------------


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            lambda self, inps, **_: self.model(inps),
            r"Wrong\._model_call gave CausalLMOutput\w* for \d texts of \d+ tokens",
        ),
        (
            lambda self, inps, **_: torch.zeros(1, 2),
            r"_model_call gave a tensor of shape \(1, 2\).*must give logits",
        ),
    ],
)
def test_a_model_call_without_logits(
    method: Callable[..., Any], message: str, folder: Path
) -> None:
    lm = type("Wrong", (HFLM,), {"_model_call": method})(folder)
    with pytest.raises(LmEvalError, match=message):
        answers(lm, scored())


def test_requests_may_be_instances_of_the_harness(base: HFLM) -> None:
    instances = [
        Instance("loglikelihood", {}, (QUESTION, ending), n) for n, ending in enumerate(ENDINGS)
    ]
    assert base.loglikelihood(instances, disable_tqdm=True) == base.loglikelihood(scored())
    prompt = [Instance("generate_until", {}, (QUESTION, {"max_gen_toks": 12}), 0)]
    assert base.generate_until(prompt) == answers(base, asked())[:1]
    rolled = [Instance("loglikelihood_rolling", {}, (ROLLED[0].text,), 0)]
    assert base.loglikelihood_rolling(rolled) == base.loglikelihood_rolling(ROLLED)


# -- kept answers ---------------------------------------------------------------------------------


def test_a_subclass_shares_no_kept_answers(folder: Path) -> None:
    class Own(HFLM):
        pass

    def key(lm: HFLM) -> str:
        return str(model_identity(lm, None, {}))

    plain = HFLM(folder)
    assert key(plain) == key(HFLM(folder))
    own = Own(folder)
    assert model_identity(own, None, {}) is None
    own.cache_key = "1"
    keys = [key(plain), key(own)]
    own.cache_key = "2"
    keys.append(key(own))
    assert len({*keys}) == len(keys)
    with torch.no_grad():
        plain._model.lm_head.weight.data[0, 0] += 1
    assert key(plain) != keys[0]
    hooked = HFLM(folder)
    hooked.model.lm_head.register_forward_hook(lambda *_: None)
    assert key(hooked) != keys[0]
    patched = HFLM(folder)
    patched._model_call = lambda inps, **_: torch.zeros((*inps.shape, 405))
    assert model_identity(patched, None, {}) is None


def test_changed_weights_are_not_answered_from_a_store(folder: Path, tmp_path: Path) -> None:
    lm = HFLM(folder)
    arguments = {"tasks": ["demo_mcq@cloze"], "limit": 3, "use_cache": str(tmp_path / "kept")}
    first = lm_eval.simple_evaluate(model=lm, **arguments)
    again = lm_eval.simple_evaluate(model=lm, **arguments)
    with torch.no_grad():
        lm._model.lm_head.weight.data *= 3
    changed = lm_eval.simple_evaluate(model=lm, **arguments)
    with pytest.warns(LmEvalWarning, match="_model_call of Biased"):
        biased = lm_eval.simple_evaluate(model=Biased(folder), **arguments)
    samples = [
        [sample["resps"] for sample in run["samples"]["demo_mcq@cloze"]]
        for run in (first, again, changed, biased)
    ]
    assert samples[0] == samples[1]
    assert samples[2] not in samples[:2]
    assert samples[3] not in samples[:3]
