"""The viewer in a real browser: served, as one file and as a folder from a disk.

Needs PyPI's ``playwright`` and Debian's ``chromium``, which ``make test`` installs where it may;
elsewhere these tests are skipped and say so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lm_eval.support.files import hold
from lm_eval.viewer.catalogue import Catalogue
from lm_eval.viewer.export import export
from tests.support.browser import CHROMIUM, Watched, served
from tests.support.command_line import Workplace
from tests.support.paths import ROOT
from tests.support.viewed_runs import HOSTILE, four_formats, hostile, rewritten

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
Watch = Callable[..., Watched]
JUDGED = ROOT / "tests/fixtures/before_the_house/judged"


@pytest.fixture(params=["http", "one file", "folder"])
def address(request: pytest.FixtureRequest, runs: Path, tmp_path: Path) -> Iterator[str]:
    """The same runs by each of the three carriers."""
    if request.param == "http":
        with served(runs) as found:
            yield found
        return
    target = tmp_path / ("one.html" if request.param == "one file" else "site")
    yield export(Catalogue([runs]), target).path.as_uri()


def samples(folder: Path, name: str) -> list[dict[str, Any]]:
    text = next(folder.rglob(f"samples_{name}_*.jsonl")).read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def test_from_the_runs_to_a_reply_and_two_prompts(address: str, runs: Path, watch: Watch) -> None:
    """Which items flip, what the model wrote, what was read by which rule, how two prompts differ."""
    watched = watch()
    page = watched.page
    page.goto(address)
    page.click(".card.run h2 a")
    page.wait_for_selector(".findings, .panel")
    page.get_by_role("link", name="Items × formats").click()
    page.get_by_role("button", name="Only differing").click()
    page.get_by_role("button", name="Only differing", pressed=True).wait_for()
    page.wait_for_selector("#row-0")
    shown = int(page.inner_text("#row-0 .cell.num"))
    formats = ("mcqa", "cloze", "generate", "cot")
    stored = {name: samples(runs, f"demo_mcq@{name}")[shown] for name in formats}
    assert len({sample["acc"] for sample in stored.values()}) == 2
    page.click("#row-0")
    written = page.locator(".format >> nth=3").locator("pre.reply")
    assert written.text_content() == stored["cot"]["resps"][0][0]
    generate = page.locator(".format >> nth=2")
    reading = stored["generate"]["reading"]
    if reading["no_answer"] is None:
        assert reading["rule"] in generate.inner_text()
        assert generate.locator("mark.span").count() == 1
    else:
        assert "Not parsed" in generate.inner_text()
    page.get_by_role("button", name="Prompt diff").click()
    page.wait_for_selector(".difference ins")
    asked = [stored[name]["arguments"]["gen_args_0"]["arg_0"] for name in ("mcqa", "cloze")]
    both = [page.locator(".two pre").nth(side).text_content() for side in (0, 1)]
    assert both == asked
    assert f"lm-eval preview demo_mcq@mcqa --doc {shown}" in page.inner_text("footer.command")
    base = address.rpartition("/")[0]
    assert all(url.startswith((base, "data:")) for url in watched.asked)


def test_the_address_holds_the_state(runs: Path, watch: Watch) -> None:
    with served(runs) as address:
        page = watch().page
        page.goto(f"{address}#/items/demo_mcq?q=cot:not_parsed&sort=-doc")
        page.wait_for_selector("#row-0")
        wanted = [
            one["doc_id"] for one in samples(runs, "demo_mcq@cot") if one["reading"]["no_answer"]
        ]
        docs = [int(text) for text in page.locator(".row:not(.head) .cell.num").all_inner_texts()]
        assert docs == sorted(wanted, reverse=True)
        assert page.input_value("#search") == "cot:not_parsed"


def test_keys(runs: Path, watch: Watch) -> None:
    with served(runs) as address:
        page = watch().page
        page.goto(f"{address}#/items/demo_mcq")
        page.wait_for_selector("#row-0")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.wait_for_selector("#row-1.active")
        assert page.get_attribute(".rows", "aria-activedescendant") == "row-1"
        page.keyboard.press("Enter")
        page.wait_for_selector("h1 .doc >> text=doc 1")
        page.keyboard.press("j")
        page.wait_for_selector("h1 .doc >> text=doc 2")
        page.keyboard.press("u")
        page.wait_for_selector("#row-2.active")
        page.keyboard.press("/")
        page.keyboard.type("nothing_has_this_word")
        page.wait_for_selector("text=0 of 20")
        page.keyboard.press("Escape")
        page.keyboard.press("?")
        page.get_by_role("dialog").wait_for()
        page.keyboard.press("Escape")
        page.get_by_role("dialog").wait_for(state="detached")


def test_what_is_not_understood_is_said(runs: Path, watch: Watch) -> None:
    with served(runs) as address:
        page = watch().page
        page.goto(f"{address}#/items/demo_mcq?q=cot:purple+length>x")
        note = page.locator(".note").first
        note.wait_for()
        assert "cot:purple length>x" in note.inner_text()
        page.locator(".row:not(.head)").nth(10).wait_for()


@pytest.mark.parametrize("carrier", ["http", "file"])
def test_hostile_text_is_shown_and_never_run(carrier: str, tmp_path: Path, watch: Watch) -> None:
    place = hostile(tmp_path)
    watched = watch()
    page = watched.page
    with served(place.output) as served_at:
        target = export(Catalogue([place.output]), tmp_path / "one.html").path
        address = served_at if carrier == "http" else target.as_uri()
        page.goto(address)
        page.click("a.score")
        page.wait_for_selector("#row-0")
        assert page.locator("main img").count() == 0
        for at in range(len(HOSTILE) - 1):  # the last is a lone surrogate, which no text node keeps
            page.locator(f"#row-{at}").click()
            page.locator("pre.reply").first.wait_for()
            shown = page.locator("pre.reply").first.text_content()
            wanted = (
                f"A {HOSTILE[at]}".replace("\x00", "␀")
                .replace("\x1b", "␛")
                .replace("\u202e", "U+202E")
                .replace("\u202c", "U+202C")
                .replace("\u200b", "U+200B")
            )
            assert shown == wanted
            assert page.locator("pre.reply mark.span").first.text_content() == "A"
            page.keyboard.press("u")
            page.wait_for_selector("#row-0")
        assert "pwned" not in page.title()
        assert page.locator("main script, main img").count() == 0


def test_a_very_long_reply(tmp_path: Path, watch: Watch) -> None:
    place = four_formats(tmp_path, limit=3)

    def long(at: int, sample: dict[str, Any]) -> None:
        if at == 1:
            text = "word " * 2_000_000 + "The final answer is here"
            sample["resps"] = [[text]]
            span = [len(text) - 4, len(text)]
            sample["reading"] = {
                "value": "here",
                "answer": "here",
                "rule": "after_last",
                "span": span,
                "no_answer": None,
            }

    rewritten(next(place.output.rglob("samples_demo_mcq@cot_*")), long)
    with served(place.output) as address:
        page = watch().page
        page.goto(f"{address}#/item/demo_mcq/1")
        page.wait_for_selector("text=The first 60,000 of 10,000,024 characters.")
        assert page.locator("mark.span").last.inner_text() == "here"
        assert page.evaluate("document.querySelector('pre.reply').textContent.length") < 70_000


def test_a_running_run_is_followed(tmp_path: Path, watch: Watch) -> None:
    place = four_formats(tmp_path, limit=6)
    results = next(place.output.rglob("results_*.json"))
    final = next(place.output.rglob("samples_demo_mcq@cot_*"))
    for other in [*place.output.rglob("items_*"), *place.output.rglob("samples_*")]:
        if other != final:
            other.unlink()
    kept = results.read_bytes()
    results.unlink()
    lines = final.read_bytes().splitlines(keepends=True)
    partial = final.with_name(f"{final.name}.partial")
    final.unlink()
    with partial.open("wb") as file, served(place.output) as address:
        hold(file)
        file.write(b"".join(lines[:2]) + lines[2][:30])
        file.flush()
        page = watch().page
        page.goto(address)
        page.wait_for_selector(".tag.live >> text=running")
        assert page.inner_text(".card.run .path") == "dummy"
        assert "lm-eval view " in page.inner_text("footer.command")
        page.click(".card.run h2 a")
        page.wait_for_selector("#row-1")
        assert page.locator(".row:not(.head)").count() == 2
        file.write(lines[2][30:] + b"".join(lines[3:]))
        file.flush()
        page.wait_for_selector("#row-5")
        partial.rename(final)
        results.write_bytes(kept)
        page.click(".brand")
        page.wait_for_selector("a.score")
        page.locator(".tag.live").wait_for(state="detached")


def test_many_rows_are_few_elements(tmp_path: Path, watch: Watch) -> None:
    place = four_formats(tmp_path, limit=1)
    path = next(place.output.rglob("samples_demo_mcq@cot_*"))
    sample = json.loads(path.read_text("utf-8"))
    for name in ("items_*", "samples_demo_mcq@[mg]*", "samples_demo_mcq@cl*"):
        for other in place.output.rglob(name):
            other.unlink()
    with path.open("w", encoding="utf-8") as file:
        for number in range(20_000):
            doc = {**sample["doc"], "question": f"Question {number}"}
            row = {**sample, "doc_id": number, "doc": doc, "doc_hash": f"{number:064x}"}
            file.write(json.dumps(row) + "\n")
    results = next(place.output.rglob("results_*.json"))
    content = json.loads(results.read_text())
    content["configs"] = {"demo_mcq@cot": content["configs"]["demo_mcq@cot"]}
    results.write_text(json.dumps(content))
    with served(place.output) as address:
        page = watch().page
        page.goto(f"{address}#/items/demo_mcq")
        page.wait_for_selector("#row-0")
        page.focus(".rows")
        page.keyboard.press("End")
        page.wait_for_selector("#row-19999.active >> text=Question 19999")
        assert page.locator(".row").count() < 80
        page.fill("#search", '"question 1234"')
        page.wait_for_selector("text=11 of 20,000")


@pytest.mark.parametrize("width", [400, 2560])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_fits_its_window(width: int, scheme: str, runs: Path, watch: Watch) -> None:
    with served(runs) as address:
        watched = watch(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page = watched.page
        for place in (
            "#/",
            f"#/run/{run_id(runs)}",
            "#/items/demo_mcq",
            "#/item/demo_mcq/3",
            "#/compare",
        ):
            page.goto(f"{address}{place}")
            page.wait_for_selector("main h1")
            page.wait_for_selector(".card, .panel, #row-0")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
            nameless = page.evaluate(_NAMELESS)
            assert nameless == [], place
            assert page.locator("main").count() == page.locator("h1").count() == 1


_NAMELESS = """[...document.querySelectorAll("button, a[href], input, select, [role=grid], [role=img]")]
  .filter((one) => !(one.textContent.trim() || one.ariaLabel || one.title || one.labels?.length))
  .map((one) => one.outerHTML.slice(0, 80))"""


def run_id(runs: Path) -> str:
    return next(iter(Catalogue([runs]).runs))


def test_several_models_shots_and_tasks(tmp_path: Path, watch: Watch) -> None:
    """Columns are named as ``lm-eval compare`` names them, and the flips of a pair are its items."""
    place = Workplace(tmp_path)
    names = []
    for number in range(6):
        names.append(
            place.task(f"t{number}.yaml", task=f"t{number}", formats=..., score_by="answer")
        )
    assert place.run("--tasks", *(f"{name}@mcqa" for name in names), f"{names[0]}@cloze").code == 0
    assert place.run("--tasks", f"{names[0]}@mcqa", "--model_args", "seed=7").code == 0
    catalogue = Catalogue([place.output])
    many, one = sorted(catalogue.runs, key=lambda run: -len(catalogue.runs[run].names))
    with served(place.output) as address:
        page = watch().page
        page.goto(f"{address}#/run/{many}")
        page.wait_for_selector("h2 >> text=6 tasks")
        assert page.locator(".results tbody tr").count() == 7
        page.locator(".results tbody a").first.click()
        page.wait_for_selector("caption >> text=t0@mcqa by answer")
        page.goto(f"{address}#/compare?runs={many}.{one}")
        row = page.locator(".forest tr", has_text="dummy (seed=7)")
        row.wait_for()
        link = row.locator(".flips a").first
        count = int(link.inner_text())
        link.click()
        page.wait_for_selector(".rows")
        heads = page.locator(".row.head .cell").all_inner_texts()
        assert [text.split("\n") for text in heads[-3:]] == [
            ["dummy", "mcqa"],
            ["dummy", "cloze"],
            ["dummy (seed=7)", "mcqa"],
        ]
        page.goto(f"{address}#/items/t0?runs={many}.{one}&q=%22dummy mcqa%22:right")
        page.wait_for_selector("#row-0")
        right = sum(sample["acc"] for sample in samples_of(catalogue, many, "t0@mcqa"))
        assert page.inner_text(".query .facts") == f"{right:.0f} of 20"
        assert count <= 20


def samples_of(catalogue: Catalogue, run: str, name: str) -> list[dict[str, Any]]:
    source = catalogue.runs[run].source(name)
    return list(source.samples(0, source.count()))


def test_a_judged_run(watch: Watch) -> None:
    with served(JUDGED) as address:
        page = watch().page
        page.goto(address)
        page.locator(".card.run", has_text="no_reasoning").locator("h2 a").click()
        page.wait_for_selector(".nuggets tbody tr")
        assert page.locator(".nuggets tbody tr").count() == 4
        assert "Air scatters blue light more strongly" in page.inner_text("pre.passage")
        page.get_by_role("button", name="Labels differ").click()
        page.wait_for_selector(".query >> text=of 3")
        page.locator(".nuggets tbody a").first.click()
        page.wait_for_selector(".format pre.text")


def test_an_export_compares_runs_in_any_order(tmp_path: Path, watch: Watch) -> None:
    place = Workplace(tmp_path)
    name = place.task(formats=...)
    for seed in ("1", "2", "3"):
        assert place.run("--tasks", f"{name}@mcqa", "--model_args", f"seed={seed}").code == 0
    address = export(Catalogue([place.output]), tmp_path / "one.html").path.as_uri()
    page = watch().page
    page.goto(address)
    page.wait_for_selector(".card.run")
    for at in (2, 0, 1):
        page.locator(".card.run input").nth(at).check()
        chosen = page.url.partition("runs=")[2].split(".")
        if len(chosen) > 1:
            page.goto(f"{address}#/compare?runs={'.'.join(chosen)}")
            page.wait_for_selector(".forest tbody tr")
            assert page.locator(".forest tbody tr").count() == len(chosen) * (len(chosen) - 1) / 2
            page.goto(f"{address}#/?runs={'.'.join(chosen)}")
            page.wait_for_selector(".card.run")


def test_samples_that_are_gone(tmp_path: Path, watch: Watch) -> None:
    place = four_formats(tmp_path, limit=4)
    for path in place.output.rglob("samples_*"):
        path.unlink()
    with served(place.output) as address:
        page = watch().page
        page.goto(f"{address}#/items/demo_mcq")
        page.wait_for_selector("#row-3")
        assert "has no samples of 'demo_mcq@cot'" in page.inner_text("main")
        assert page.locator(".cell.state").count() == 16


def test_a_server_that_went_away_is_said(runs: Path, browser: Any) -> None:
    watched = Watched(browser)
    with served(runs) as address:
        watched.page.goto(f"{address}#/items/demo_mcq")
        watched.page.wait_for_selector("#row-0")
    watched.page.goto(f"{address}#/compare")
    watched.page.wait_for_selector("text=Is `lm-eval view` still running?")
    watched.context.close()
