"""Tokenizers for models behind a server: files, tiktoken, transformers, and what cannot be loaded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lm_eval.errors import ModelError
from lm_eval.models.api.tokenizers import (
    FileTokenizer,
    ServerTokenizer,
    TiktokenTokenizer,
    load_files,
    load_tiktoken,
)
from tests.support.servers.toy_openai import CHAT_TEMPLATE, toy_tokenizer, write_tokenizer

TEXTS = ["", "Answer: A", "naïve 🦙 中文", "<s>x</s>", "half \ud800 pair"]


def load(name: Path, *, use_fast: bool = True) -> ServerTokenizer:
    return load_files(
        str(name), revision="main", use_fast=use_fast, trust_remote_code=False, why="in a test"
    )


def test_a_folder_and_its_file_give_the_tokens_of_the_package(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path / "t")
    reference = toy_tokenizer()
    for path in (folder, folder / "tokenizer.json"):
        tokenizer = load(path)
        assert isinstance(tokenizer, FileTokenizer)
        clean = [text.replace("\ud800", "\ufffd") for text in TEXTS]
        assert tokenizer.encode(TEXTS) == [reference.encode(text).ids for text in clean]
        assert [tokenizer.decode(ids) for ids in tokenizer.encode(clean)] == clean
        assert tokenizer.decode([tokenizer.bos or 0, tokenizer.eos or 0]) == "<s></s>"
        assert tokenizer.eos_text == "</s>"


def test_truncation_and_special_tokens_of_the_file_do_not_count(tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path / "t")
    described = toy_tokenizer()
    described.enable_truncation(2)
    described.enable_padding(length=50)
    described.save(str(folder / "tokenizer.json"))
    assert len(load(folder).encode(["abcdef"])[0]) == 6


@pytest.mark.parametrize("kind", ["text", "list", "file", "none"])
def test_where_a_chat_template_stands(kind: str, tmp_path: Path) -> None:
    folder = write_tokenizer(tmp_path / "t", template=None)
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    if kind == "text":
        config["chat_template"] = CHAT_TEMPLATE
    elif kind == "list":
        named = [("tool_use", "no"), ("default", CHAT_TEMPLATE)]
        config["chat_template"] = [{"name": n, "template": t} for n, t in named]
    elif kind == "file":
        (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE)
    path.write_text(json.dumps(config))
    template = load(folder).template
    assert (template.source if template else None) == (None if kind == "none" else CHAT_TEMPLATE)


def test_transformers_serves_where_there_is_no_fast_tokenizer(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    folder = write_tokenizer(tmp_path / "t")
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["tokenizer_class"] = "PreTrainedTokenizerFast"
    config["eos_token"] = "</s>"
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    slow, fast = load(folder, use_fast=False), load(folder)
    assert type(slow) is not type(fast)
    assert slow.encode(TEXTS[1:]) == fast.encode(TEXTS[1:])
    assert (slow.bos, slow.eos, slow.eos_text) == (fast.bos, fast.eos, fast.eos_text)
    assert slow.only_text(fast.encode([" A"])[0][0]) == " A"
    assert slow.template is not None


def test_tiktoken() -> None:
    tiktoken = pytest.importorskip("tiktoken")
    ranks = {bytes([byte]): byte for byte in range(256)} | {b" A": 256}
    encoding = tiktoken.Encoding(
        "toy", pat_str=r" ?\S+|\s+", mergeable_ranks=ranks, special_tokens={"<|endoftext|>": 257}
    )
    tokenizer = TiktokenTokenizer("toy", encoding)
    assert tokenizer.encode(["x A", "<|endoftext|>"]) == [[120, 256], [257]]
    assert tokenizer.decode([120, 256]) == "x A"
    assert (tokenizer.eos, tokenizer.eos_text, tokenizer.bos) == (257, "<|endoftext|>", None)
    assert tokenizer.only_text(256) == " A"
    assert tokenizer.only_text(0xFF) is None  # part of a character
    with pytest.raises(ModelError, match=r"no model or encoding 'nonsense'.*tokenizer=NAME"):
        load_tiktoken("nonsense")
