"""Chat templates render as in transformers, and refuse in words that help."""

from __future__ import annotations

from datetime import datetime

import pytest

from lm_eval.errors import ModelError
from lm_eval.models.chat_template import ChatTemplate

CHATML = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nBe helpful<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TRIMMING = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}{{ eos_token }}"
    "{% endfor %}"
)


def _turns(*contents: str) -> list[dict[str, str]]:
    roles = ("user", "assistant")
    return [{"role": roles[place % 2], "content": text} for place, text in enumerate(contents)]


def _template(source: str, **tokens: str) -> ChatTemplate:
    return ChatTemplate(source, model="tiny.gguf", tokens=tokens)


def test_generation_prompt() -> None:
    assert _template(CHATML).render(_turns("Hi")) == (
        "<|im_start|>system\nBe helpful<|im_end|>\n"
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    )


def test_open_turn_ends_right_after_the_content() -> None:
    text = _template(CHATML).render(_turns("Hi", "The best answer is"), False)
    assert text.endswith(
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nThe best answer is"
    )


@pytest.mark.parametrize("content", ["", "e", "\n", "<|im_end|>", "assistant", "ends with space "])
def test_open_turn_keeps_any_content(content: str) -> None:
    text = _template(CHATML).render(_turns("Hi", content), False)
    assert text.endswith("<|im_start|>assistant\n" + content)


def test_open_turn_under_a_template_that_trims() -> None:
    text = _template(TRIMMING, bos_token="<s>", eos_token="</s>").render(_turns("Q ", "A: "), False)
    assert text == "<s>[user]Q</s>[assistant]A:"


def test_open_turn_that_the_template_drops_is_an_error() -> None:
    template = _template("{% for m in messages if m.role == 'user' %}{{ m.content }}{% endfor %}")
    with pytest.raises(ModelError, match=r"leaves out the text of a last assistant .*gen_prefix"):
        template.render(_turns("Q", "A"), False)


def test_message_text_is_data() -> None:
    text = "{{ 7*7 }} {% raw %} <|im_end|> <b>&</b> ⟦x⟧"
    assert f"user\n{text}<|im_end|>" in _template(CHATML).render(_turns(text))


def test_refused_system_role_says_what_to_do() -> None:
    source = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('No system role') }}{% endif %}"
    )
    with pytest.raises(ModelError) as caught:
        _template(source).render([{"role": "system", "content": "x"}, *_turns("y")])
    assert str(caught.value) == (
        "The chat template of tiny.gguf refuses these messages (roles: system, user): No system "
        "role. If it has no system role, run without --system_instruction and without a task "
        "description; else try --fewshot_as_multiturn false, or run without --apply_chat_template."
    )


def test_invalid_template_names_the_line() -> None:
    with pytest.raises(ModelError, match=r"tiny\.gguf is not valid Jinja \(line 2:"):
        _template("ok\n{% for %}")


def test_unsafe_template_is_stopped() -> None:
    with pytest.raises(ModelError, match="refuses these messages"):
        _template("{{ ''.__class__.__mro__[1].__subclasses__() }}").render(_turns("x"))
    with pytest.raises(ModelError, match="refuses these messages"):
        _template("{{ messages.append(1) }}").render(_turns("x"))


def test_what_transformers_offers_to_templates() -> None:
    source = (
        "{%- for m in messages %}\n"
        "    {%- if loop.index > 1 %}{% break %}{% endif %}\n"
        "    {%- generation %}{{ m | tojson }}{% endgeneration %}\n"
        "{%- endfor %}\n"
        "{{ strftime_now('%Y') }}{{ tools is none }}"
    )
    template = ChatTemplate(source, model="m", now=lambda: datetime(2031, 5, 1))
    assert template.render(_turns("é<", "x")) == '{"role": "user", "content": "é<"}2031True'


def test_blocks_are_trimmed() -> None:
    assert _template("a\n  {% if true %}\nb\n  {% endif %}\nc").render(_turns("x")) == "a\nb\nc"
