"""The viewer for everybody: keys alone, a phone, weak eyes, a screen reader, odd addresses and names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lm_eval.viewer.catalogue import Catalogue
from tests.support.browser import CHROMIUM, Watched, served
from tests.support.command_line import Workplace
from tests.support.paths import ROOT
from tests.support.viewed_runs import four_formats

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
Watch = Callable[..., Watched]
JUDGED = ROOT / "tests/fixtures/before_the_house/judged"
PAGES = (
    "#/",
    "#/run/RUN",
    "#/items/demo_mcq?sort=flips",
    "#/item/demo_mcq/3",
    "#/item/demo_mcq/3?diff=mcqa~cot",
    "#/compare",
)
DRAWN = ".card, .panel, #row-0"


def only_run(folder: Path) -> str:
    return next(iter(Catalogue([folder]).runs))


def judge_run() -> str:
    runs = Catalogue([JUDGED]).runs
    return next(run for run in runs if runs[run].is_foreign)


LOW_CONTRAST = """() => {
  const channels = (colour) => {
    const [r, g, b, alpha = 1] = colour.match(/[\\d.]+/g).map(Number);
    return [r, g, b, alpha];
  };
  const over = (top, below) => [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3]));
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => {
      const share = part / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const poor = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement;
    if (!texts.currentNode.textContent.trim() || !element.checkVisibility()) continue;
    if (element.closest(".sr, .skip, .off, [aria-hidden=true]")) continue;
    let ground = [255, 255, 255];
    let alpha = 1;
    const above = [];
    for (let one = element; one; one = one.parentElement) above.unshift(getComputedStyle(one));
    for (const style of above) {
      ground = over(channels(style.backgroundColor), ground);
      alpha *= Number(style.opacity);
    }
    const ink = channels(getComputedStyle(element).color);
    ink[3] *= alpha;
    const [a, b] = [light(over(ink, ground)), light(ground)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.add(`${element.tagName}.${element.className} ${ratio.toFixed(2)}`);
  }
  return [...poor];
}"""
"""Texts with less contrast than WCAG's level AA asks of small ones."""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_have_enough_contrast(scheme: str, runs: Path, watch: Watch) -> None:
    page = watch(color_scheme=scheme).page
    with served(runs) as address:
        for place in PAGES:
            page.goto(f"{address}{place.replace('RUN', only_run(runs))}")
            page.wait_for_selector(DRAWN)
            page.wait_for_load_state("networkidle")
            assert page.evaluate(LOW_CONTRAST) == [], place
    with served(JUDGED) as address:
        page.goto(f"{address}#/judge/{judge_run()}")
        page.wait_for_selector(".nuggets tbody tr")
        assert page.evaluate(LOW_CONTRAST) == []


def test_the_judge_fits_a_phone(watch: Watch) -> None:
    page = watch(viewport={"width": 400, "height": 800}).page
    with served(JUDGED) as address:
        page.goto(f"{address}#/judge/{judge_run()}")
        page.wait_for_selector(".nuggets tbody tr")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_chosen_run_stays_where_it_was(runs: Path, watch: Watch) -> None:
    page = watch().page
    with served(runs) as address:
        page.goto(address)
        page.wait_for_selector(".card.run")
        before = page.locator(".card.run h2").bounding_box()
        page.check(".card.run input")
        page.wait_for_selector(".card.run.chosen")
        assert page.locator(".card.run h2").bounding_box() == before


def test_a_long_name_takes_two_lines_at_most(tmp_path: Path, watch: Watch) -> None:
    place = Workplace(tmp_path)
    name = place.task(formats=...)
    for seed in ("1", "2"):
        reply = f"reply={seed} {'of many words ' * 60}"
        assert place.run("--tasks", f"{name}@generate", "--model_args", reply).code == 0
    page = watch().page
    with served(place.output) as address:
        page.goto(address)
        page.wait_for_selector(".card.run")
        assert page.locator(".card.run h2").first.bounding_box()["height"] < 60
        assert "of many words" in page.locator(".card.run h2").first.get_attribute("title")
        page.goto(f"{address}#/compare")
        page.wait_for_selector(".picker label")
        assert page.locator(".picker label").first.bounding_box()["height"] < 40


def test_every_value_of_a_field_is_in_view(tmp_path: Path, watch: Watch) -> None:
    page = watch(viewport={"width": 800, "height": 800}).page
    with served(four_formats(tmp_path, limit=40).output) as address:
        page.goto(f"{address}#/items/demo_mcq")
        page.get_by_role("group", name="subject").wait_for()
        boxes = [button.bounding_box() for button in page.locator(".facet button").all()]
        assert max(box["x"] + box["width"] for box in boxes) < 800


def test_where_one_is_can_be_read_on_a_phone(tmp_path: Path, watch: Watch) -> None:
    place = Workplace(tmp_path)
    path = place.task(task="a_task_with_quite_a_long_name_indeed_for_one_task", formats=...)
    assert place.run("--tasks", f"{path}@mcqa").code == 0
    page = watch(viewport={"width": 400, "height": 800}).page
    with served(place.output) as address:
        run = only_run(place.output)
        page.goto(f"{address}#/item/a_task_with_quite_a_long_name_indeed_for_one_task/3?runs={run}")
        page.wait_for_selector(".trail [aria-current]")
        assert page.evaluate(
            "(({ scrollWidth, clientWidth }) => scrollWidth <= clientWidth)"
            "(document.querySelector('.trail [aria-current]'))"
        )


def test_keys_while_the_help_is_open(runs: Path, watch: Watch) -> None:
    """They belong to the help: nothing moves behind it, and focus goes back to where it was."""
    page = watch().page
    with served(runs) as address:
        page.goto(f"{address}#/item/demo_mcq/3")
        page.wait_for_selector("h1 .doc >> text=doc 3")
        page.get_by_role("button", name="Prompt diff").focus()
        page.keyboard.press("?")
        page.get_by_role("dialog").wait_for()
        for key in ("j", "u", "Tab", "Tab", "Tab"):
            page.keyboard.press(key)
        assert page.evaluate("document.activeElement.matches('body, dialog *')")
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")
        assert "/item/demo_mcq/3" in page.url
        assert page.evaluate("document.activeElement.textContent") == "Prompt diff"


def test_the_content_can_be_skipped_to(runs: Path, watch: Watch) -> None:
    page = watch().page
    with served(runs) as address:
        page.goto(address)
        page.wait_for_selector(".card.run")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.closest('main') !== null")


def test_keys_on_other_lists(runs: Path, watch: Watch) -> None:
    """``j`` and ``k`` move through runs and texts, and ``u`` goes up, on every page."""
    page = watch().page
    with served(JUDGED) as address:
        page.goto(address)
        page.wait_for_selector(".card.run")
        names = [text.strip() for text in page.locator(".card.run h2").all_inner_texts()]
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.textContent") == names[0]
        page.keyboard.press("j")
        page.keyboard.press("k")
        assert page.evaluate("document.activeElement.textContent") == names[0]
        page.goto(f"{address}#/judge/{judge_run()}")
        page.wait_for_selector(".units li")
        first = page.inner_text(".units .on")
        page.keyboard.press("j")
        page.wait_for_selector(".units li:nth-child(2) .on")
        assert page.inner_text(".units .on") != first
    with served(runs) as address:
        run = only_run(runs)
        page.goto(f"{address}#/items/demo_mcq?runs={run}")
        page.wait_for_selector("#row-0")
        page.keyboard.press("u")
        page.wait_for_url(f"**#/run/{run}")
        page.keyboard.press("u")
        page.wait_for_url("**#/runs")


@pytest.mark.parametrize("place", ["#/items/50%", "#/item/%E0%A4%A/1", "#/run/%"])
def test_a_broken_address_is_said(place: str, runs: Path, watch: Watch) -> None:
    watched = watch()
    with served(runs) as address:
        watched.page.goto(f"{address}{place}")
        watched.page.wait_for_selector(".failure, .empty")
        watched.page.click(".brand")
        watched.page.wait_for_selector(".card.run")
    watched.complaints[:] = [one for one in watched.complaints if "409" not in one]


def test_the_title_names_the_page(runs: Path, watch: Watch) -> None:
    page = watch().page
    with served(runs) as address:
        for place, title in (
            ("#/", "lm-eval"),
            (f"#/run/{only_run(runs)}", "dummy · lm-eval"),
            ("#/items/demo_mcq", "demo_mcq · lm-eval"),
            ("#/item/demo_mcq/3", "demo_mcq · doc 3 · lm-eval"),
            ("#/compare", "compare · lm-eval"),
        ):
            page.goto(f"{address}{place}")
            page.wait_for_selector(DRAWN)
            assert page.title() == title


def test_tasks_stay_together(tmp_path: Path, watch: Watch) -> None:
    """A task whose formats were asked first and last has one heading."""
    place = Workplace(tmp_path)
    names = [f"t{at}" for at in range(5)]
    paths = [place.task(f"{name}.yaml", task=name, formats=...) for name in names]
    asked = [f"{path}@mcqa" for path in paths]
    assert place.run("--tasks", *asked, f"{paths[0]}@cloze").code == 0
    page = watch().page
    with served(place.output) as address:
        page.goto(address)
        page.wait_for_selector(".card.run")
        assert page.locator(".card.run .task").all_inner_texts() == names
        page.goto(f"{address}#/run/{only_run(place.output)}")
        page.wait_for_selector("h2 >> text=5 tasks")
        headings = page.locator(".results tbody th").all_inner_texts()
        assert [text for text in headings if text] == names


def test_the_grid_counts_its_columns(runs: Path, watch: Watch) -> None:
    page = watch().page
    with served(runs) as address:
        page.goto(f"{address}#/items/demo_mcq")
        page.wait_for_selector("#row-0")
        grid: Any = page.get_by_role("grid")
        cells = page.locator("#row-0 [role=gridcell]").count()
        assert int(grid.get_attribute("aria-colcount")) == cells
        assert cells == page.locator(".row.head [role=columnheader]").count()


def test_a_filter_that_keeps_nothing_says_so(runs: Path, watch: Watch) -> None:
    page = watch().page
    with served(runs) as address:
        page.goto(f"{address}#/items/demo_mcq?q=nothing_has_this_word")
        page.wait_for_selector(".rows >> text=No item fits this filter.")
        assert page.locator(".facet[aria-label=subject]").count() == 0


def test_many_formats_keep_the_question_in_view(tmp_path: Path, watch: Watch) -> None:
    place = Workplace(tmp_path)
    path = place.task(formats=...)
    formats = ("mcqa", "cloze", "generate", "cot", "bare", "mcq::mmlu", "mcq::gpqa", "cloze::pure")
    assert place.run("--tasks", *(f"{path}@{name}" for name in formats)).code == 0
    page = watch(viewport={"width": 1000, "height": 700}).page
    with served(place.output) as address:
        page.goto(f"{address}#/items/t")
        page.wait_for_selector("#row-0 .question >> text=Q0?")
        page.evaluate("document.querySelector('.rows').scrollLeft = 9999")
        edge = page.locator(".rows").bounding_box()["x"]
        for cell in ("#row-0 .num", "#row-0 .question", ".row.head .question"):
            assert page.locator(cell).bounding_box()["x"] >= edge
        head, row = (page.locator(name).bounding_box() for name in (".row.head", "#row-0"))
        last = page.locator("#row-0 .cell").last.bounding_box()
        assert head["width"] == row["width"]
        assert last["x"] + last["width"] <= row["x"] + row["width"]


def test_the_measure_of_a_judge_is_in_the_address(watch: Watch) -> None:
    page = watch().page
    with served(JUDGED) as address:
        page.goto(f"{address}#/judge/{judge_run()}")
        page.wait_for_selector(".nuggets tbody tr")
        page.get_by_label("Measure").select_option(index=1)
        chosen = page.get_by_label("Measure").input_value()
        page.reload()
        page.wait_for_selector(".nuggets tbody tr")
        assert page.get_by_label("Measure").input_value() == chosen
