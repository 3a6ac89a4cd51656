"""A tokenizer behind HTTP, with a real server."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from lm_eval.compat.remote_tokenizer import EndpointTokenizer, check_remote_tokenizer_support

INFO = {
    "eos_token": "~",
    "bos_token": None,
    "chat_template": "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}{{ eos_token }}",
}


class Server(ThreadingHTTPServer):
    """Tokens are code points; ``failures`` replies are errors first."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.failures = 0
        self.asked: list[tuple[str, str | None]] = []
        self.info: Any = INFO

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._reply(self.server.info if self.path == "/tokenizer_info" else None)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            self._reply({"tokens": [ord(char) for char in body["prompt"]]})
        else:
            self._reply({"prompt": "".join(map(chr, body["tokens"]))})

    def _reply(self, value: Any) -> None:
        self.server.asked.append((self.path, self.headers.get("Authorization")))
        self.server.failures -= 1
        self.send_response(200 if value is not None and self.server.failures < 0 else 503)
        self.end_headers()
        self.wfile.write(json.dumps(value).encode())

    def log_message(self, *_: Any) -> None:
        """Nothing."""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_texts_and_tokens(server: Server) -> None:
    tokenizer = EndpointTokenizer(f"{server.url}/v1/completions", auth_token="key")
    assert tokenizer.encode("ab") == [97, 98]
    assert tokenizer("ab") == {"input_ids": [97, 98]}
    assert tokenizer.batch_decode([[97], [98]]) == ["a", "b"]
    assert (tokenizer.eos_token_id, tokenizer.eot_token, tokenizer.bos_token_id) == (126, 126, None)
    chat = [{"role": "user", "content": "hi"}]
    assert tokenizer.apply_chat_template(chat) == "<user>hi<assistant>~"
    assert {key for _, key in server.asked} == {"Bearer key"}
    assert sum(path == "/tokenizer_info" for path, _ in server.asked) == 1


def test_a_request_that_fails_is_sent_again(server: Server) -> None:
    server.failures = 2
    assert EndpointTokenizer(server.url).eos_token == "~"
    tokenizer = EndpointTokenizer(server.url)
    server.failures = 3
    with pytest.raises(RuntimeError, match=r"/tokenize of .* failed 3 times: HTTP Error 503"):
        tokenizer.encode("a")


def test_whether_a_server_tokenizes(server: Server) -> None:
    assert check_remote_tokenizer_support(f"{server.url}/v1/chat/completions")
    assert not check_remote_tokenizer_support("")
    server.info = {"bos_token": "x"}
    assert not check_remote_tokenizer_support(server.url)
    server.info = ["no object"]
    assert not check_remote_tokenizer_support(server.url, max_retries=1)
    assert not check_remote_tokenizer_support("http://127.0.0.1:9", timeout=1, max_retries=1)


def test_a_server_without_a_chat_template(server: Server) -> None:
    server.info = {"eos_token": "~"}
    with pytest.raises(ValueError, match="No chat template"):
        EndpointTokenizer(server.url).apply_chat_template([])
