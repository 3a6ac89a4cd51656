"""Plots: what a file and a terminal show, and that labels stay what they are."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from lm_eval.errors import OutputError, UsageError
from lm_eval.lab.show.plots import FlipsPlot, Plot, SpreadPlot
from lm_eval.lab.show.score_plot import scores_plot
from lm_eval.stats.estimates import Estimate, share_estimate
from lm_eval.stats.spread import Spread, spread
from lm_eval.support.numbers import ticks
from lm_eval.support.terminal import visible

LABELS = ["mcqa", "cloze", "cot"]
ROWS = [
    (label, share_estimate(right, 100)) for label, right in zip(LABELS, (71, 52, 60), strict=True)
]
COUNTS = [[0, 31, 18], [12, 0, 9], [7, 17, 0]]
FOUND = Spread(
    value=0.19,
    best=0,
    worst=1,
    num_formats=3,
    num_items=100,
    num_clusters=None,
    null_mean=0.064,
    null_95=0.13,
    p=0.0062,
    null_method="permutations",
    null_permutations=10_000,
    low=0.08,
    high=0.31,
    safe_low=0.05,
    safe_high=0.32,
    bootstrap_mean=0.195,
    resamples=10_000,
    p_best=(0.97, 0.0, 0.03),
    p_worst=(0.0, 0.92, 0.08),
    split_half=0.12,
)
NASTY = ['$x^2$ & <b>"quoted"</b>', "two\nlines\x1b[31m", "中文格式 \u202e turned"]


def plots(labels=LABELS) -> dict[str, Plot]:
    rows = [(label, estimate) for label, (_, estimate) in zip(labels, ROWS, strict=True)]
    return {
        "scores": scores_plot(rows),
        "flips": FlipsPlot(labels, COUNTS),
        "spread": SpreadPlot(FOUND, labels),
    }


def svg_texts(content: bytes) -> list[str]:
    root = ElementTree.fromstring(content)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    return [
        "".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text")
    ]


# ---- files


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("scores", [*LABELS, ".710", ".520", ".600", "Score by format, with its 95 % interval"]),
        ("flips", [*LABELS, "31", "18", "12", "9", "7", "17", "right under this format …"]),
        (
            "spread",
            [
                *("mcqa", "cloze", "cot", "by luck alone", "found"),
                "found: .190, from cloze up to mcqa; 95 % interval: .050 to .320",
                "by luck alone: .064 on average, up to .130 in 95 %; p = .006 "
                "(10,000 permutations)",
            ],
        ),
    ],
)
def test_svg_has_labels_and_numbers_as_text(kind, expected, tmp_path):
    path = plots()[kind].save(tmp_path / f"{kind}.svg")
    texts = svg_texts(path.read_bytes())
    assert [text for text in expected if text not in texts] == []


@pytest.mark.parametrize("kind", ["scores", "flips", "spread"])
def test_png_has_the_size_of_the_plot(kind, tmp_path):
    plot = plots()[kind]
    content = plot.save(tmp_path / "deep" / "down" / "plot.PNG").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert (width, height) == pytest.approx([150 * side for side in plot.size()], abs=2)


@pytest.mark.parametrize("suffix", ["svg", "png"])
@pytest.mark.parametrize("kind", ["scores", "flips", "spread"])
def test_the_same_numbers_give_the_same_bytes(kind, suffix):
    assert plots()[kind].rendered(suffix) == plots()[kind].rendered(suffix)


def test_files_say_neither_when_nor_where_they_were_made(tmp_path):
    content = plots()["scores"].rendered("svg")
    assert b"dc:date" not in content
    assert str(Path.home()).encode() not in content


@pytest.mark.parametrize("kind", ["scores", "flips", "spread"])
def test_labels_are_data(kind):
    texts = "\n".join(svg_texts(plots(NASTY)[kind].rendered("svg")))
    assert "$x^2$ & <b>" in texts
    assert r"two\nlines\x1b[31m" in texts
    assert r"中文格式 \u202e" in texts
    assert plots(NASTY)[kind].rendered("png")  # a font without these characters is no error


def test_the_interval_is_drawn_where_it_lies():
    """The scores' lines end where the estimates end, on one common scale."""
    from matplotlib.figure import Figure

    figure = Figure()
    plots()["scores"].draw(figure)
    lines = [line.get_xdata() for line in figure.axes[0].lines]
    ends = [tuple(line) for line in lines if len(line) == 2]
    assert ends == [(estimate.low, estimate.high) for _, estimate in ROWS]


@pytest.mark.parametrize("name", ["plot.pdf", "plot", "plot.svg.txt"])
def test_other_files_are_refused_by_name(name, tmp_path):
    with pytest.raises(
        UsageError, match=rf"saved as \.svg or \.png, and '{name}' ends with neither"
    ):
        plots()["scores"].save(tmp_path / name)


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=r"Cannot write the plot to .*plot\.svg"):
        plots()["scores"].save(tmp_path / "file" / "plot.svg")


def test_without_matplotlib_the_install_line_is_shown():
    code = (
        "import sys; sys.modules['matplotlib'] = None\n"
        "from lm_eval.lab.show.score_plot import scores_plot\n"
        "from lm_eval.errors import MissingExtraError\n"
        "from lm_eval.stats.estimates import Estimate\n"
        "plot = scores_plot([('a', Estimate(0.5, None, None, None, 1, 'none'))])\n"
        "print(plot.lines(60)[1].split())\n"
        "try:\n    plot.save('x.svg')\nexcept MissingExtraError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[0] == "['a', '.500', '●']"
    assert "pip install 'lm-eval-formats[plots]'" in done.stdout


def test_importing_plots_imports_no_matplotlib():
    code = (
        "import sys, lm_eval.lab.show.plots, lm_eval.lab.show.score_plot\n"
        "print('matplotlib' in sys.modules, 'numpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


# ---- the terminal


def test_scores_as_text():
    assert scores_plot(ROWS).lines(72) == [
        "Score by format, with its 95 % interval",
        "mcqa   .710                                ├─────────────●───────────┤",
        "cloze  .520    ├─────────────●─────────────┤",
        "cot    .600                ├─────────────●────────────┤",
        "                         .5             .6             .7            .8",
    ]


def test_negative_scores_as_ascii():
    rows = [("a", Estimate(-0.5, None, -0.6, -0.4, 9, "t"))]
    text = "\n".join(scores_plot(rows).lines(60, "ascii"))
    assert "a  -.500" in text
    assert text.isascii()


def test_scores_as_ascii():
    lines = scores_plot(ROWS).lines(72, "ascii")
    assert lines[1] == "mcqa   .710                                |-------------o-----------|"
    assert all(line.isascii() for line in lines)


@pytest.mark.parametrize("num_formats", [2, 4, 12])
def test_a_title_fits_the_narrowest_plot(num_formats):
    """As `compare` gives it, which names the task, the items and the model."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    counts = [[int(i != j) * 3 for j in range(num_formats)] for i in range(num_formats)]
    title = "a_task_with_a_name · 14,000 items in 900 clusters · 4 formats · SmolLM2-135M: flips"
    plot = FlipsPlot([f"f{k}" for k in range(num_formats)], counts, title=title)
    figure = Figure(figsize=plot.size(), layout="constrained")
    canvas = FigureCanvasAgg(figure)
    plot.draw(figure)
    canvas.draw()
    (shown,) = (text for text in figure.texts if "flips" in text.get_text())
    assert shown.get_window_extent().x1 <= figure.bbox.width
    bar = figure.axes[-1]
    assert all(float(tick).is_integer() for tick in bar.get_yticks())


def test_of_many_scores_the_middle_is_left_out():
    rows = [(f"sweep-{k:04}", share_estimate(200 - k, 200)) for k in range(200)]
    plot = scores_plot(rows, most_rows=10)
    lines = plot.lines(80)
    assert lines[6] == "… 190 between not shown"
    assert lines[1].startswith("sweep-0000")
    assert lines[-2].startswith("sweep-0199")
    texts = svg_texts(plot.rendered("svg"))
    assert "dotted line: 190 between not shown" in texts


def test_estimates_without_interval_are_points():
    plot = scores_plot([("a", Estimate(0.5, None, None, None, 1, "none"))])
    assert "●" in plot.lines(60)[1]
    assert "├" not in "".join(plot.lines(60))
    assert ".500" in svg_texts(plot.rendered("svg"))


def test_formats_that_agree_have_nothing_to_test():
    found = spread(np.ones((2, 5)), resamples=10)
    plot = SpreadPlot(found, ["a", "b"])
    assert "The formats agree on every item: there is nothing to test." in svg_texts(
        plot.rendered("svg")
    )


def test_the_way_of_the_noise_floor_is_named():
    rng = np.random.default_rng(0)
    two = SpreadPlot(spread(rng.integers(0, 2, (2, 60)), resamples=50), ["a", "b"])
    assert any(text.endswith("(exact binomial)") for text in svg_texts(two.rendered("svg")))


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.text(max_size=50), min_size=3, max_size=3),
    st.integers(40, 160),
    st.sampled_from(["utf-8", "ascii", "latin-1", "cp437", "gb18030", "no-such-encoding"]),
)
def test_no_line_is_too_wide_or_cannot_be_printed(labels, width, encoding):
    rows = [(label, estimate) for label, (_, estimate) in zip(labels, ROWS, strict=True)]
    lines = scores_plot(rows).lines(width, encoding)
    assert max(map(cell_len, lines)) <= width
    for line in lines:
        assert visible(line) == line
        line.encode("ascii" if encoding.startswith("no") else encoding)


@given(st.floats(-5, 5), st.floats(0.001, 10), st.integers(2, 12))
def test_ticks_are_round_and_inside(low, length, most):
    found = ticks(low, low + length, most)
    assert len(found) <= most + 1
    assert all(low - 1e-6 <= value <= low + length + 1e-6 for value in found)
