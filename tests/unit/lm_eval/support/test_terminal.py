"""Nothing from a data set or model reaches the terminal as a command."""

import io
import re
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from lm_eval.support import terminal
from lm_eval.support.terminal import Paragraph, console, err_console, visible

ANY_TEXT = st.text(st.characters(codec=None))
ZERO_WIDTH = "\u200b\u200c\u200d\u200e\u200f\u2060\ufeff\xad"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"


def is_dangerous(char):
    return unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or char in ZERO_WIDTH + BIDI


@given(ANY_TEXT)
def test_no_control_character_survives(text):
    assert not any(map(is_dangerous, visible(text)))
    visible(text).encode("utf-8")


@given(ANY_TEXT)
def test_showing_twice_changes_nothing(text):
    assert visible(visible(text)) == visible(text)


@given(ANY_TEXT, st.integers(0, 30))
def test_the_limit_holds_and_showing_twice_changes_nothing(text, limit):
    shown = visible(text, limit)
    assert len(shown) <= limit
    assert visible(shown, limit) == shown
    whole = visible(text)
    assert shown == whole if len(whole) <= limit else whole.startswith(shown.removesuffix("…"))


@given(st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), max_size=50))
def test_ordinary_text_stays(text):
    fillers = "\u115f\u1160\u3164\uffa0"  # letters by category, invisible by look
    if not any(char in fillers for char in text):
        assert visible(text) == text


def test_every_character_of_the_dangerous_categories_is_escaped():
    survivors = [
        hex(code)
        for code in range(sys.maxunicode + 1)
        if is_dangerous(chr(code)) and visible(chr(code)) == chr(code)
    ]
    assert survivors == []


def test_format_characters_that_survive_are_visible_signs():
    """What is left of category Cf: Arabic, Kaithi and hieroglyph signs that have a shape."""
    left = {
        chr(code)
        for code in range(sys.maxunicode + 1)
        if unicodedata.category(chr(code)) == "Cf" and visible(chr(code)) == chr(code)
    }
    assert all(re.match("ARABIC|KAITHI|EGYPTIAN", unicodedata.name(char)) for char in left)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", r"\x1b[31mred"),
        ("\x1b]0;title\x07", r"\x1b]0;title\x07"),
        ("a\nb\tc\r", r"a\nb\tc\r"),
        ("\u202eevil", r"\u202eevil"),
        ("\ud800", r"\ud800"),
        ("\U000e0041", r"\U000e0041"),
        ("\x9b31m", r"\x9b31m"),
        ("[bold]x[/bold]", "[bold]x[/bold]"),
        ("Ünïcödé 漢字 🙂", "Ünïcödé 漢字 🙂"),
    ],
)
def test_examples(text, shown):
    assert visible(text) == shown


def test_line_breaks_and_tabs_can_be_kept():
    assert visible("a\n\tb\r\x1b", keep="\n\t") == "a\n\tb\\r\\x1b"


def test_an_escape_is_not_cut_in_two():
    assert visible("abc\x1bdef", 6) == "abc…"
    assert visible("abcdef", 6) == "abcdef"
    assert visible("abcdefg", 6) == "abcde…"


def test_a_long_reply_is_cut_without_looking_at_all_of_it():
    assert len(visible("\x00" * 10_000_000, 100)) <= 100


@pytest.mark.parametrize("make", [console, err_console])
def test_piped_consoles_have_no_colour_and_a_sensible_width(make, monkeypatch):
    for name in ("COLUMNS", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    made = make()
    assert made.width == terminal.PIPED_WIDTH
    assert made.color_system is None


def test_the_width_can_be_set_from_outside(monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    assert console().width == 70


def test_consoles_write_where_they_say_and_read_no_markup(capsys):
    console().print("[red]out[/red] :smile:")
    err_console().print("err")
    assert capsys.readouterr() == ("[red]out[/red] :smile:\n", "err\n")


def test_no_color_is_honoured(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", stream := Terminal())
    console().print("x", style="red")
    assert "\x1b[31m" not in stream.getvalue()


def test_an_ascii_stream_does_not_fail(monkeypatch):
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    console().print("é…")
    stream.flush()
    assert stream.buffer.getvalue().strip() == rb"\xe9\u2026"


def test_importing_the_reports_does_not_import_rich():
    code = (
        "import sys; import lm_eval.reports.costs, lm_eval.reports.writer, lm_eval.support.progress;"
        "sys.exit('rich' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    "tied", ["96 %", "p = 0.05", "p < 0.001", "< 1 %", "05 s", "4 min", "0.3 ± 0.1", "1.5 ×"]
)
def test_no_line_is_broken_between_a_number_and_its_unit(tied):
    said = f"Of all the replies that there are, {tied} were like this."
    for width in range(24, 60):
        stream = io.StringIO()
        Console(file=stream, width=width).print(Paragraph("• ", said))
        lines = stream.getvalue().splitlines()
        assert any(tied in line for line in lines), lines
        assert max(map(len, lines)) <= width
        assert " ".join(" ".join(lines).split()) == f"• {said}"
