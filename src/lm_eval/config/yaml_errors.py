"""What is wrong with a YAML text, in plain words: where, what, and what to do.

In: an error of PyYAML and the text. Out: an error of ours that shows the line.
"""

from __future__ import annotations

import re

import yaml

from lm_eval.errors import YamlSyntaxError

_PLAIN_WORDS = (
    ("mapping values are not allowed", "a ':' where no further key can begin",
     "Put a text that holds ': ' in quotes; otherwise check the indentation."),
    ("could not find expected ':'", "a line without ':' where 'key: value' is expected",
     "Check the indentation of this line and of the one above."),
    ("did not find expected key", "this does not fit the block it is in",
     "Check the indentation; put a text that starts with {{, [, *, &, !, % or @ in quotes."),
    ("expected <block end>", "this does not fit the block it is in",
     "Check the indentation; put a text that starts with {{, [, *, &, !, % or @ in quotes."),
    ("cannot start any token", "a value cannot begin with this character",
     "Put the text in quotes."),
    ("found unexpected end of stream", "the file ends inside a quoted text",
     "Close the quote; write '' for a quote inside single quotes."),
    ("found undefined alias", "'*' begins an alias, and no anchor '&' of that name comes before it",
     "Put a text that starts with '*' in quotes."),
    ("found unknown escape character", "double quotes do not know this escape",
     "Use single quotes, in which a backslash is a backslash."),
    ("but found another document", "a second document begins here ('---')",
     "Keep one document per file."),
    ("unhashable key", "a key must be a simple value, and this one is a mapping or list",
     "Put a text that starts with {{ in quotes: '{{question}}'."),
    ("expected ','", "a list or mapping in brackets is not closed or lacks a comma",
     "Close the bracket; put a text that starts with [ or { in quotes."),
)  # fmt: skip


def syntax_error(error: yaml.MarkedYAMLError, text: str, source: str) -> YamlSyntaxError:
    """The error for a text that is no YAML, with the line and a caret."""
    mark = error.problem_mark or error.context_mark
    problem = " ".join(part for part in (error.context, error.problem) if part)
    words, hint = _explain(problem)
    if mark is None:
        return YamlSyntaxError(f"{source} is not valid YAML: {words}. {hint}", path=source)
    opened = error.context_mark
    if "end of stream" in problem and opened is not None:
        mark = opened  # the end of the file tells nobody where the quote was opened
    lines = re.split(r"\r\n|[\n\r\x85\u2028\u2029]", text)
    line = lines[mark.line] if mark.line < len(lines) else ""
    if "\t" in line[: len(line) - len(line.lstrip())]:
        hint = "This line is indented with a tab; YAML wants spaces."
    elif opened is not None and opened.line != mark.line and "while parsing" in problem:
        hint += f" The block begins on line {opened.line + 1}."
    return YamlSyntaxError(
        f"{source}, line {mark.line + 1}, column {mark.column + 1}: {words}.\n"
        f"{excerpt(line, mark.column)}\n{hint}",
        path=source,
        line=mark.line + 1,
    )


def _explain(problem: str) -> tuple[str, str]:
    for marker, words, hint in _PLAIN_WORDS:
        if marker in problem:
            return words, hint
    return problem or "this is not valid YAML", "Correct this line, or put the text in quotes."


def unreadable_character(error: yaml.reader.ReaderError, text: str, source: str) -> YamlSyntaxError:
    """The error for a character that YAML does not allow, with its line and a caret."""
    match = re.search("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", text)
    position = match.start() if match else 0
    line_start = text.rfind("\n", 0, position) + 1
    line, column = text.count("\n", 0, position) + 1, position - line_start
    shown = text[line_start:].partition("\n")[0]
    return YamlSyntaxError(
        f"{source}, line {line}, column {column + 1}: the character "
        f"U+{ord(text[position : position + 1] or chr(0)):04X} is not allowed in YAML "
        f"({error.reason}).\n{excerpt(shown, column)}\n"
        f'Remove it, or write it as an escape in double quotes, such as "\\x00".',
        path=source,
        line=line,
    )


def excerpt(line: str, column: int, *, width: int = 78) -> str:
    """The part of a line around a 0-based ``column``, with a caret below it.

    Control characters are shown as pictures (``␀``), each as wide as one letter.
    """
    start = max(0, min(column - width // 2, len(line) - width))
    end = start + width
    head, tail = "…" if start else "", "…" if end < len(line) else ""
    shown = "".join(_picture(char) for char in line[start:end])
    return f"    {head}{shown}{tail}\n    {' ' * (len(head) + column - start)}^"


def _picture(char: str) -> str:
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "␡"
    return char if char.isprintable() else "�"


def kind_of(node: yaml.Node) -> str:
    """A node's kind, as errors call it."""
    if isinstance(node, yaml.SequenceNode):
        return "list"
    return "mapping" if isinstance(node, yaml.MappingNode) else "single value"


def line_of(node: yaml.Node) -> int:
    """The 1-based line on which a node begins."""
    return int(node.start_mark.line) + 1
