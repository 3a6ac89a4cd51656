"""Filters give what lm_eval 0.4.13 gives, never fail on a response, and wrong YAML is explained."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval.api.filter import Filter, FilterEnsemble
from lm_eval.api.instance import Instance
from lm_eval.api.registry import FILTERS, get_filter, register_filter
from lm_eval.config.functions import FunctionRef
from lm_eval.errors import ConfigError, FieldError, UnknownNameError
from lm_eval.filters import build_filter_ensemble
from lm_eval.filters.custom import CustomFilter
from lm_eval.filters.extraction import (
    MultiChoiceRegexFilter,
    POSFilter,
    RegexFilter,
    WhitespaceFilter,
)
from lm_eval.filters.selection import MajorityVoteFilter, TakeFirstFilter, TakeKFilter
from lm_eval.filters.transformation import LowercaseFilter, MapFilter, SPANFilter, UppercaseFilter
from lm_eval.harness.filters import FilterPipeline, build_pipelines

texts = st.text(max_size=40) | st.sampled_from(["(A)", ": B", "#### 5", "$$ per: x, none $"])
response_lists = st.lists(st.lists(texts, min_size=1, max_size=4), min_size=1, max_size=4)


def test_filters_give_what_the_peer_gives(cases, golden):
    for case, wanted in zip(cases.FILTERS, golden["filters"], strict=True):
        docs = case["docs"] or [{} for _ in case["resps"]]
        [pipeline] = build_pipelines([{"name": "x", "filter": case["steps"]}])
        assert pipeline.apply(case["resps"], docs) == wanted, case["steps"]


def test_without_a_list_the_first_response_counts():
    [pipeline] = build_pipelines(None)
    assert pipeline.name == "none"
    assert pipeline.apply([["a", "b"], [(-1.5, True)]], [{}, {}]) == ["a", (-1.5, True)]


@given(resps=response_lists, pattern=st.sampled_from([r"(a)|(b)?", r"\w+", r"#### (\d)", ""]))
def test_regex_never_fails(resps, pattern):
    for group in (0, 1, -1, -3):
        step = RegexFilter(pattern, group_select=group, fallback="?")
        for given_, found in zip(resps, step.apply(resps, [{}] * len(resps)), strict=True):
            assert len(found) == len(given_)
            assert all(isinstance(one, str) for one in found)


@given(resps=response_lists)
def test_text_filters_never_fail_and_keep_the_shape(resps):
    docs = [{"choices": ["yes", "no", ""]}] * len(resps)
    for name in ("remove_whitespace", "lowercase", "uppercase", "format_span", "regex_pos", "map"):
        found = FilterPipeline("x", [(name, None)]).apply(resps, docs)
        assert [len(some) for some in found] == [len(some) for some in resps]
    for options in ({}, {"ignore_case": True, "ignore_punctuation": True, "group_select": -1}):
        found = FilterPipeline("x", [("multi_choice_regex", options)]).apply(resps, docs)
        assert [len(some) for some in found] == [len(some) for some in resps]


@given(resps=response_lists)
def test_selection(resps):
    docs = [{}] * len(resps)
    assert list(TakeFirstFilter().apply(resps, docs)) == [some[0] for some in resps]
    assert list(TakeKFilter(1).apply(resps, docs)) == [some[:1] for some in resps]
    for some, [winner] in zip(resps, MajorityVoteFilter().apply(resps, docs), strict=True):
        most = max(some.count(one) for one in some)
        assert winner == next(one for one in some if some.count(one) == most)


@given(resps=response_lists)
def test_every_pipeline_of_two_text_filters_works(resps):
    names = ("take_first", "lowercase", "regex", "remove_whitespace", "map", "majority_vote")
    for first in names:
        for second in names:
            if first != "take_first":  # nothing is left of an empty response
                FilterPipeline("x", [(first, None), (second, None)]).apply(resps, [{}] * len(resps))


def test_more_choices_than_letters():
    doc = {"choices": [f"choice number {i}." for i in range(40)]}
    step = MultiChoiceRegexFilter(r"never")
    assert step.apply([["choice number 30."]], [doc]) == [[f"({chr(65 + 30)})"]]


def test_multi_choice_regex_says_which_field_is_missing():
    with pytest.raises(FieldError, match=r"field `choices`.*question"):
        MultiChoiceRegexFilter().apply([["x"]], [{"question": "?"}])


def test_a_helper_class_with_its_own_constructor():
    class Sorted(RegexFilter):
        def __init__(self, regex_pattern=r"(\w)", *, upside_down=False):
            super().__init__(regex_pattern, 0, "none")
            self.upside_down = upside_down

        def apply(self, resps, docs):
            found = super().apply(resps, docs)
            return (sorted(some, reverse=self.upside_down) for some in found)

    [pipeline] = build_pipelines(
        [{"name": "own", "filter": [{"function": Sorted, "upside_down": True}]}]
    )
    assert pipeline.apply([["b", "a", "!"]], [{}]) == [["none", "b", "a"]]


def test_custom_calls_the_function_on_everything():
    def shout(resps, docs):
        return [
            [f"{doc['mark']}{one}" for one in some] for some, doc in zip(resps, docs, strict=True)
        ]

    [pipeline] = build_pipelines(
        [{"name": "own", "filter": [{"function": "custom", "filter_fn": shout}]}]
    )
    assert pipeline.apply([["a"], ["b"]], [{"mark": "!"}, {"mark": "?"}]) == [["!a"], ["?b"]]


def test_a_function_reference_is_imported_when_it_is_used(tmp_path):
    ref = FunctionRef.parse("helper_filters.Twice", folder=str(tmp_path))
    [pipeline] = build_pipelines([{"name": "own", "filter": [{"function": ref}]}])
    tmp_path.joinpath("helper_filters.py").write_text(
        "from lm_eval.filters.extraction import Filter\n"
        "class Twice(Filter):\n"
        "    def apply(self, resps, docs):\n"
        "        return [[r * 2 for r in some] for some in resps]\n"
    )
    assert pipeline.apply([["ab"]], [{}]) == [["abab"]]


def test_a_name_that_the_tasks_own_module_registers():
    def load():
        @register_filter("registered_late")
        class Late(Filter):
            def apply(self, resps, docs):
                return resps

    entry = [{"name": "x", "filter": [{"function": "registered_late"}]}]
    with pytest.raises(ConfigError, match="Unknown filter 'registered_late'"):
        build_pipelines(entry)
    build_pipelines(entry, load_helpers=load)
    first = get_filter("registered_late")
    load()  # another task's module brings its own
    assert get_filter("registered_late") is not first


def test_a_built_in_filter_stays():
    with pytest.raises(ConfigError, match="registered twice"):
        register_filter("regex")(WhitespaceFilter)
    assert FILTERS.get("regex") is RegexFilter


@pytest.mark.parametrize(
    ("filter_list", "message"),
    [
        ([], "must be a list of pipelines"),
        ([{"filter": [{"function": "regex"}]}], "filter_list[1] needs `name`"),
        ([{"name": "a"}], "filter_list[1] needs `filter`: a list of steps"),
        (
            [{"name": "a", "filter": [{"regex_pattern": "x"}]}],
            "must be a list of steps, each with the name of a filter",
        ),
        ([{"name": "a", "filter": [{"function": "tak_first"}]}], "Did you mean 'take_first'?"),
        (
            [{"name": "a", "filter": [{"function": "regex", "regex_pattern": "a(b"}]}],
            r"filter 'a', step 1 (regex): 'a(b' is not a regular expression: "
            r"missing ), unterminated subpattern at position 1.",
        ),
        (
            [
                {
                    "name": "a",
                    "filter": [
                        {"function": "multi_choice_regex", "regexes_to_ignore": ["x", "[a"]}
                    ],
                }
            ],
            "'[a' is not a regular expression: unterminated character set at position 0",
        ),
        (
            [{"name": "a", "filter": [{"function": "regex", "regexpattern": "x"}]}],
            "no option 'regexpattern'. Did you mean 'regex_pattern'?",
        ),
        ([{"name": "a", "filter": [{"function": "take_first_k"}]}], "needs the option 'k'"),
        ([{"name": "a", "filter": [{"function": "custom"}]}], "needs the option 'filter_fn'"),
        (
            [{"name": "a", "filter": [{"function": "map", "mapping_dict": [1]}]}],
            "mapping_dict must be a mapping",
        ),
        ([{"name": "a", "filter": [{"function": "regex"}]}] * 2, "two pipelines called 'a'"),
    ],
)
def test_wrong_input(filter_list, message):
    with pytest.raises(ConfigError) as caught:
        build_pipelines(filter_list, task="my_task")
    assert message in str(caught.value)
    assert str(caught.value).startswith("Task 'my_task': ")


def test_too_few_responses_for_take_first_k():
    with pytest.raises(ConfigError, match="repeats: 3"):
        FilterPipeline("x", [("take_first_k", {"k": 3})]).apply([["a", "b"]], [{}])


def test_a_filter_that_loses_requests():
    pipeline = FilterPipeline("x", [("custom", {"filter_fn": lambda resps, docs: []})])
    with pytest.raises(ConfigError, match="gave 0 entries for 1 requests"):
        pipeline.apply([["a"]], [{}])


def test_a_callable_that_makes_no_filter():
    with pytest.raises(ConfigError, match="filter_fn: !function"):
        FilterPipeline("x", [(dict, {})]).apply([["a"]], [{}])


def test_ensembles_fill_the_instances():
    instances = [Instance("generate_until", {}, "ctx", i, ("t", i, 1), [f" {i} "]) for i in (0, 1)]
    ensemble = build_filter_ensemble("x", [("remove_whitespace", None), ("take_first", None)])
    assert isinstance(ensemble, FilterEnsemble)
    ensemble.apply(instances)
    assert [one.filtered_resps for one in instances] == [{"x": "0"}, {"x": "1"}]
    assert instances[1].args == ("ctx",)
    assert (instances[1].task_name, instances[1].doc_id, instances[1].repeats) == ("t", 1, 1)
    with pytest.raises(UnknownNameError):
        build_filter_ensemble("x", [("nothing", None)])


def test_addresses():
    found = {name: FILTERS.get(name) for name in FILTERS}
    wanted = {
        "regex": RegexFilter,
        "regex_pos": POSFilter,
        "remove_whitespace": WhitespaceFilter,
        "multi_choice_regex": MultiChoiceRegexFilter,
        "take_first": TakeFirstFilter,
        "take_first_k": TakeKFilter,
        "majority_vote": MajorityVoteFilter,
        "lowercase": LowercaseFilter,
        "uppercase": UppercaseFilter,
        "map": MapFilter,
        "format_span": SPANFilter,
        "custom": CustomFilter,
    }
    assert wanted.items() <= found.items()
