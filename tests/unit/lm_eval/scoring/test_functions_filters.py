"""Scores of formats under the keys that lm-eval gives them."""

from __future__ import annotations

from lm_eval.evaluator import simple_evaluate
from lm_eval.tasks.loader import TaskManager


def test_keys_of_the_harness() -> None:
    """A format reports metrics under other names, and ``exact_match`` after filters of lm-eval."""
    manager = TaskManager(run_code=False, sample_rows="always")
    cases = {
        "gsm8k": (
            "So 9 and 9.\n#### 27.",
            {"exact_match,strict-match", "exact_match,flexible-extract"},
        ),
        "mmlu_pro_law": ("the answer is (A).", {"exact_match,custom-extract"}),
        "triviaqa": (" orbeck", {"exact_match,remove_whitespace"}),
        "drop": ("1911", {"em,none", "f1,none"}),
        "mlqa_de_ar": ("1911", {"exact_match,none", "f1,none"}),
        "crows_pairs_english": ("", {"pct_stereotype,none", "likelihood_diff,none"}),
        "mrpc": ("", {"acc,none", "f1,none"}),
        "cola": ("", {"mcc,none"}),
    }
    missing = {}
    for name, (reply, keys) in cases.items():
        results = simple_evaluate(
            model="dummy",
            model_args={"reply": reply},
            tasks=[name],
            task_manager=manager,
            num_fewshot=0,
        )
        scores = results["results"][name]
        wanted = keys | {key.replace(",", "_stderr,") for key in keys}
        if wanted - scores.keys():
            missing[name] = wanted - scores.keys()
        if name == "gsm8k":
            share = 1 / scores["sample_len"]
            assert [scores[key] for key in sorted(keys)] == [share, share]
    assert not missing
