"""The built file: small, alone, and bound to what it holds by its policy."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re

from lm_eval.viewer.app import app_html, app_page, policy_of, with_policy
from tests.support.paths import ROOT

MOST_BYTES = 60_000


def test_it_is_small() -> None:
    assert len(gzip.compress(app_html())) < MOST_BYTES


def test_it_loads_nothing_from_elsewhere() -> None:
    text = app_html().decode()
    assert set(re.findall(r"https?://[\w./-]+", text)) <= {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xhtml",
        "http://www.w3.org/1998/Math/MathML",
        "http://www.w3.org/",
    }
    assert not re.search(r"<(?:script|link|img|iframe)\b[^>]*\bsrc=", text)


def test_the_source_never_sets_markup() -> None:
    for file in (ROOT / "viewer/src").glob("*.ts*"):
        source = file.read_text("utf-8")
        assert not re.search(r"innerHTML|insertAdjacentHTML|document\.write|\beval\(", source), file


def test_the_policy_names_the_script_and_the_style() -> None:
    page = app_page()
    (script,) = re.findall(rb"<script>(.*?)</script>", page.content, re.DOTALL)
    (style,) = re.findall(rb"<style>(.*?)</style>", page.content, re.DOTALL)
    for text in (script, style):
        digest = base64.b64encode(hashlib.sha256(text).digest()).decode()
        assert f"'sha256-{digest}'" in page.policy


def test_a_file_carries_its_policy() -> None:
    content = with_policy(app_html(), policy_of(app_html()))
    assert content.index(b"Content-Security-Policy") < content.index(b"<style>")


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((ROOT / "viewer/package-lock.json").read_text("utf-8"))
    packages = {name: entry for name, entry in lock["packages"].items() if name}
    assert packages
    assert [name for name, entry in packages.items() if "resolved" in entry] == []
    assert [name for name, entry in packages.items() if "integrity" not in entry] == []
