"""``scripts/library_pages.py``: the pages of the library say what its files say."""

from __future__ import annotations

import pytest

from lm_eval.tasks.index import index_folder
from tests.support.modules import module_at
from tests.support.paths import ROOT

PAGES = module_at(ROOT / "scripts" / "library_pages.py")


def test_pages_are_up_to_date() -> None:
    stale = [str(page.relative_to(ROOT)) for page in PAGES.out_of_date()]
    assert not stale, f"{stale} differ from the task files. Run: python scripts/library_pages.py"


def test_every_benchmark_has_a_section_and_a_line_in_the_index() -> None:
    index = (PAGES.LIBRARY / "README.md").read_text(encoding="utf-8")
    files, problems = index_folder(PAGES.LIBRARY)
    assert not problems
    for file in files:
        area = file.path.split("/")[-2]
        if area in PAGES.NOT_ON_PAGES or file.kind is None:
            continue
        page = (PAGES.PAGES / f"{area}.md").read_text(encoding="utf-8")
        assert f"\n## {file.name}\n" in page, file.path
        assert f"\n- [`{file.name}`]({area}/" in index, file.path


@pytest.mark.parametrize("words", ["unproven", "convention", "licence", "⟨", "mcq_cot"])
def test_what_pages_tell(words: str) -> None:
    assert words in (PAGES.PAGES / "knowledge.md").read_text(encoding="utf-8")
