"""``cluster`` in a task's YAML: in the samples, the items, the standard errors and the notes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lm_eval.lab.stored.run import open_runs
from lm_eval.lab.stored.select import chosen
from lm_eval.stats.clusters import clustered_estimate
from tests.support.command_line import Workplace


@pytest.fixture
def work(tmp_path: Path) -> Workplace:
    return Workplace(tmp_path)


def passages(work: Workplace, **changed: Any) -> None:
    """Twenty questions on five passages."""
    rows = []
    for place in range(20):
        row = {"question": f"Q{place}?", "choices": list("wxyz"), "answer": place % 4}
        rows.append({**row, "passage": f"p{place // 4}", "number": place // 4} | changed)
    work.write("docs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def scores(work: Workplace, name: str = "t") -> tuple[list[float], list[str]]:
    samples = work.samples(name)
    return [sample["acc"] for sample in samples], [sample["cluster"] for sample in samples]


@pytest.mark.parametrize("formats", ["mcqa", "generate", ...])
@pytest.mark.parametrize(
    "cluster", ["passage", "number", "{{ passage }}", "from {{ passage }}", "{{ number // 2 }}"]
)
def test_errors_and_intervals_are_over_clusters(
    work: Workplace, cluster: str, formats: Any
) -> None:
    passages(work)
    more = {} if formats is not ... else {"output_type": "multiple_choice"}
    task = work.task(cluster=cluster, formats=formats, **more)
    work.run("--tasks", task).ok()
    found = work.results()
    values, clusters = scores(work)
    expected = clustered_estimate(values, clusters)
    result = found["results"]["t"]
    assert result["acc,none"] == pytest.approx(expected.value)
    assert result["acc_stderr,none"] == pytest.approx(expected.stderr)
    assert found["interval_methods"]["t"]["acc,none"] == expected.method
    if expected.low is not None:
        ends = found["intervals"]["t"]["acc,none"]
        assert ends == pytest.approx([expected.low, expected.high])
    assert f"docs come in {len(set(clusters))} clusters" in found["notes"]["t"][0]
    (one,) = chosen([open_runs([work.output])[0]])[0]
    assert one.clusters == tuple(clusters)


def test_parity_keeps_the_error_of_the_harness(work: Workplace) -> None:
    passages(work)
    task = work.task(cluster="passage", formats=..., output_type="multiple_choice")
    work.run("--tasks", task)
    clustered = work.results()
    work.run("--tasks", task, "--parity")
    peer = work.results()
    values, _ = scores(work)
    plain = (sum((v - sum(values) / 20) ** 2 for v in values) / 19 / 20) ** 0.5
    assert peer["results"]["t"]["acc_stderr,none"] == pytest.approx(plain)
    assert clustered["results"]["t"]["acc_stderr,none"] != pytest.approx(plain)
    for found in (peer, clustered):
        assert found["interval_methods"]["t"]["acc,none"] == "t over 5 clusters, few clusters"
        assert found["intervals"]["t"] == clustered["intervals"]["t"]


def test_a_metric_that_is_no_mean_says_that_clusters_are_not_in_it(work: Workplace) -> None:
    passages(work)
    task = work.task(cluster="passage", metric_list=[{"metric": "f1_macro"}])
    assert work.run("--tasks", task).code == 0
    found = work.results()
    assert found["interval_methods"]["t"]["f1_macro,none"] == "bootstrap"
    assert any("interval of f1_macro takes docs as independent" in n for n in found["notes"]["t"])


def test_without_a_cluster_nothing_changes(work: Workplace) -> None:
    passages(work)
    assert work.run("--tasks", work.task()).code == 0
    found = work.results()
    assert found["interval_methods"]["t"]["acc,none"] == "wilson"
    assert "t" not in found["notes"]
    assert "cluster" not in work.samples("t")[0]


@pytest.mark.parametrize(
    ("cluster", "changed", "text"),
    [
        ("pasage", {}, "'pasage' is not a column of the doc. Did you mean 'passage'?"),
        ("{{ pasage }}", {}, "'pasage' is undefined"),
        ("{{ passage", {}, "is not valid Jinja"),
        ("passage", {"passage": None}, "the doc has None there"),
        ("passage", {"passage": ""}, "the doc has '' there"),
        ("passage", {"passage": ["p"]}, "the doc has ['p'] there"),
        (3, {}, "cluster must be a field of the docs"),
        (["passage"], {}, "or Jinja, not ['passage']"),
    ],
)
@pytest.mark.parametrize("formats", ["mcqa", ...])
def test_wrong_clusters_are_found_before_a_model_is_asked(
    work: Workplace, cluster: Any, changed: dict[str, Any], text: str, formats: Any
) -> None:
    passages(work, **changed)
    more = {} if formats is not ... else {"output_type": "multiple_choice"}
    task = work.task(cluster=cluster, formats=formats, **more)
    for command in (("run", "--model", "dummy"), ("validate",)):
        done = work.cli(*command, "--tasks", task)
        assert done.code == 1
        said = done.err + done.out
        assert text in said
        assert "cluster" in said
        assert "'t'" in said
        assert "Traceback" not in said


def test_docs_of_their_own_keep_the_plain_interval(work: Workplace) -> None:
    passages(work)
    assert work.run("--tasks", work.task(cluster="question")).code == 0
    assert work.results()["interval_methods"]["t"]["acc,none"] == "wilson"
