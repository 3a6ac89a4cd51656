"""Every public name of EleutherAI's harness 0.4.13: where it is here, or what to use instead.

Private modules, loggers and type variables are left out; a module's logger is found at any address.
``docs/harness.md`` shows this list, and a test holds it to the names that the release has.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lm_eval.addresses.backends import CLASSES, LOGGERS, LOGGING_ADVICE, advice_for

if TYPE_CHECKING:
    from importlib.metadata import Distribution

RELEASE = "0.4.13"
"""The release whose names and behaviour are found here."""


@dataclass(frozen=True)
class Home:
    """Where a name is, ``module:attribute``, or what to use instead of it."""

    target: str = ""
    advice: str = ""

    @property
    def is_here(self) -> bool:
        return bool(self.target)

    def get(self) -> Any:
        """The object itself."""
        module, _, attribute = self.target.partition(":")
        return getattr(importlib.import_module(module), attribute)


_BOXED = "last_boxed_only_string remove_boxed"


def _at(module: str, names: str) -> dict[str, Home]:
    """Names that a module of ours has, separated by spaces; ``theirs=ours`` if they differ."""
    pairs = [name.partition("=") for name in names.split()]
    return {theirs: Home(f"{module}:{ours or theirs}") for theirs, _, ours in pairs}


def _instead(advice: str, names: str) -> dict[str, Home]:
    return {name: Home(advice=advice) for name in names.split()}


def _backend(class_name: str, others: str = "") -> dict[str, Home]:
    """A module of a backend that is not here; its class can be imported, and says so when used."""
    advice = advice_for(CLASSES[class_name])
    absent = Home(f"lm_eval.compat.absent:{class_name}", advice)
    return {class_name: absent, **_instead(advice, others)}


_SERVICES = {name: Home(f"lm_eval.compat.absent:{name}", LOGGING_ADVICE) for name in LOGGERS}
_BATCHING = "lm_eval.compat.batching"
_GENERATION = "lm_eval.compat.generation"
_FILTERS = "lm_eval.harness.filters"
_HELPERS = "lm_eval.compat.helpers"
_TENSORS = "lm_eval.compat.tensors"
_CACHE = (
    "Requests are not cached, as building them is faster than reading them; answers are kept with "
    "use_cache=FILE."
)
_OVERLAP = (
    "Overlap with training data is not measured here; run a decontamination tool on the data."
)
_UNUSED = "No published program was found to import it; write the few lines yourself."
_PROMPTS = "Prompts are written in the task's YAML, or as a format (docs/formats.md)."
_RESULTS = "simple_evaluate and evaluate collect results themselves and return them as a dict."
_CLI = "Call lm_eval.__main__.cli_evaluate(), or lm_eval.cli.main([…]) with the arguments."
_TASK = "Subclass lm_eval.api.task.ConfigurableTask, or write the task as YAML."

NAMES: dict[str, dict[str, Home]] = {
    "lm_eval": _at("lm_eval.simple", "evaluate simple_evaluate"),
    "lm_eval.__main__": {
        **_at("lm_eval.__main__", "cli_evaluate"),
        **_instead(_CLI, "setup_parser parse_eval_args"),
    },
    "lm_eval._cli": _instead(_CLI, "HarnessCLI"),
    "lm_eval.api": {},
    "lm_eval.api.filter": _at(_FILTERS, "Filter FilterEnsemble"),
    "lm_eval.api.group": _at(
        "lm_eval.tasks.groups",
        "Group ConfigurableGroup=Group GroupConfig AggMetricConfig=GroupScore",
    ),
    "lm_eval.api.instance": _at("lm_eval.harness.instances", "Instance OutputType"),
    "lm_eval.api.metrics": {
        **_at(
            "lm_eval.harness.aggregation",
            "bypass_agg nanmean mean median perplexity weighted_perplexity bits_per_byte f1_score "
            "matthews_corrcoef bleu chrf chrfpp ter brier_score acc_all metric_max_over_ground_truths "
            "weighted_mean is_non_str_iterable",
        ),
        **_at(
            "lm_eval.harness.stderr",
            "pop_stddev sample_stddev mean_stderr acc_all_stderr bootstrap_stderr stderr_for_metric "
            "pooled_sample_stderr unweighted_mean_stderr aggregate_subtask_metrics",
        ),
        **_at(
            "lm_eval.scoring.metrics",
            "exact_match_fn=exact_match exact_match_hf_evaluate=exact_match "
            "brier_score_fn=keep acc_fn=keep acc_norm_fn=keep acc_mutual_info_fn=keep "
            "acc_bytes_fn=keep perplexity_fn=keep likelihood_fn=keep word_perplexity_fn=keep "
            "byte_perplexity_fn=keep bits_per_byte_fn=keep bypass mcc_fn=keep f1_fn=keep bleu_fn=keep "
            "chrf_fn=keep chrfpp_fn=keep ter_fn=keep",
        ),
        **_instead(
            "Use pooled_sample_stderr, as the harness itself does.", "combined_sample_stderr"
        ),
    },
    "lm_eval.api.model": {
        **_at("lm_eval.api.model", "LM TemplateLM"),
        **_at(_HELPERS, "hash_args CacheHook"),
        **_instead("Give simple_evaluate use_cache=FILE: answers are stored there.", "CachingLM"),
    },
    "lm_eval.api.registry": {
        **_at(
            "lm_eval.api.registry",
            "Registry METRIC_REGISTRY AGGREGATION_REGISTRY METRIC_AGGREGATION_REGISTRY "
            "HIGHER_IS_BETTER_REGISTRY MODEL_REGISTRY FILTER_REGISTRY register_model get_model "
            "register_filter get_filter register_metric get_metric register_aggregation get_aggregation "
            "get_metric_aggregation is_higher_better",
        ),
        **_at(
            "lm_eval.api.registry",
            "model_registry=MODEL_REGISTRY filter_registry=FILTER_REGISTRY "
            "aggregation_registry=AGGREGATION_REGISTRY metric_registry=METRIC_REGISTRY "
            "metric_agg_registry=METRIC_AGGREGATION_REGISTRY "
            "higher_is_better_registry=HIGHER_IS_BETTER_REGISTRY",
        ),
        **_at("lm_eval.harness.metrics", "DEFAULT_METRIC_REGISTRY=DEFAULT_METRICS"),
        **_instead("Registries stay open here; leave the call out.", "freeze_all"),
        **_instead("A lazy entry is a plain string 'module:Name' here.", "Placeholder"),
        **_instead(
            "Ask a TaskManager: all_tasks, all_groups, all_tags.",
            "ALL_TASKS TASK_REGISTRY GROUP_REGISTRY",
        ),
    },
    "lm_eval.api.samplers": {
        **_at("lm_eval.tasks.fewshot", "ContextSampler FirstNSampler SAMPLER_REGISTRY get_sampler"),
        **_instead(
            "It raises NotImplementedError there too; subclass ContextSampler.",
            "BalancedSampler ManualSampler",
        ),
    },
    "lm_eval.api.task": {
        **_at("lm_eval.api.task", "TaskConfig Task ConfigurableTask"),
        **_at(_HELPERS, "ALL_OUTPUT_TYPES"),
        **_instead(_TASK, "MultipleChoiceTask PerplexityTask PromptSourceTask"),
    },
    "lm_eval.api.utils": {
        **_instead(_UNUSED, "random_task_id"),
        **_instead(
            "task.fewshot_context(doc, num_fewshot) builds the prompt of a doc.",
            "maybe_delimit requires_delimiter ends_with_whitespace Message messages_to_text "
            "multiturn_to_singleturn format_turn",
        ),
    },
    "lm_eval.base": _instead(
        "lm_eval.base was removed in release 0.4. Use lm_eval.api.model and lm_eval.api.task.",
        "BaseLM LM Task MultipleChoiceTask PerplexityTask rf mean",
    ),
    "lm_eval.caching": {},
    "lm_eval.caching.cache": _instead(
        _CACHE,
        "MODULE_DIR OVERRIDE_PATH PATH HASH_INPUT HASH_PREFIX FILE_SUFFIX MAX_CACHE_FILENAME_BYTES "
        "CACHE_KEY_HASH_LEN load_from_cache save_to_cache delete_cache",
    ),
    "lm_eval.config": {
        **_at("lm_eval.compat.evaluate_config", "EvaluatorConfig"),
        **_at("lm_eval.tasks.groups", "GroupConfig"),
        **_at("lm_eval.tasks.config", "TaskConfig"),
    },
    "lm_eval.config.evaluate_config": _at(
        "lm_eval.compat.evaluate_config", "DICT_KEYS DEFAULT_SEED EvaluatorConfig"
    ),
    "lm_eval.config.group": _at("lm_eval.tasks.groups", "AggMetricConfig=GroupScore GroupConfig"),
    "lm_eval.config.task": {
        **_at("lm_eval.tasks.config", "TaskConfig"),
        **_at(_HELPERS, "FewshotConfig"),
    },
    "lm_eval.decontamination": {},
    "lm_eval.decontamination.archiver": _instead(
        _OVERLAP, "json_serial Archive Reader TextArchive TextReader ZStdTextReader"
    ),
    "lm_eval.decontamination.decontaminate": _instead(
        _OVERLAP, "get_train_overlap_stub get_train_overlap"
    ),
    "lm_eval.decontamination.janitor": _instead(
        _OVERLAP, "JANITOR_CPP form_ngrams word_ngrams split_indices word_ngrams_indices Janitor"
    ),
    "lm_eval.defaults": {
        **_at(
            _GENERATION,
            "DEFAULT_MAX_LENGTH DEFAULT_MAX_GEN_TOKS DEFAULT_RANDOM_SEED DEFAULT_OTHER_SEED "
            "default_gen_kwargs",
        ),
        **_instead(
            "Set the level with setup_logging or --verbosity.",
            "LOGGING_LEVEL",
        ),
        **_instead(
            "Images in samples are always written as digests.",
            "LMEVAL_HASHMM",
        ),
        **_instead("No processes are started here; leave it out.", "DISABLE_MULTIPROC"),
    },
    "lm_eval.evaluator": {
        **_at("lm_eval.simple", "simple_evaluate evaluate"),
        **_instead(_CACHE, "request_caching_arg_to_dict"),
    },
    "lm_eval.evaluator_utils": {
        **_at(_HELPERS, "get_sample_size"),
        **_instead(_RESULTS, "ResultAcc EvalAcc aggregate_groups consolidate_results"),
        **_instead("Give simple_evaluate write_out=True.", "print_writeout"),
        **_instead(
            "Every run checks its tasks first; `lm-eval validate` does it alone.",
            "find_test_root run_task_tests",
        ),
        **_instead(
            "TaskManager.load(names) gives the tasks and groups by name.",
            "get_task_list get_subtask_list prepare_print_tasks",
        ),
    },
    "lm_eval.filters": _at(_FILTERS, "build_filter_ensemble"),
    "lm_eval.filters.custom": _at(_FILTERS, "CustomFilter"),
    "lm_eval.filters.decontamination": _instead(_OVERLAP, "DecontaminationFilter"),
    "lm_eval.filters.extraction": _at(
        _FILTERS, "RegexFilter POSFilter WhitespaceFilter MultiChoiceRegexFilter"
    ),
    "lm_eval.filters.selection": _at(_FILTERS, "TakeFirstFilter TakeKFilter MajorityVoteFilter"),
    "lm_eval.filters.transformation": _at(
        _FILTERS, "LowercaseFilter UppercaseFilter MapFilter SPANFilter"
    ),
    "lm_eval.loggers": {
        **_at("lm_eval.compat.tracker", "EvaluationTracker"),
        **_SERVICES,
    },
    "lm_eval.loggers.evaluation_tracker": _at(
        "lm_eval.compat.tracker", "GeneralConfigTracker EvaluationTracker"
    ),
    "lm_eval.loggers.trackio_logger": _SERVICES,
    "lm_eval.loggers.utils": {
        **_at(_HELPERS, "get_git_commit_hash add_env_info add_tokenizer_info"),
        **_instead(
            "The results hold the commit of the current folder as git_hash.", "get_commit_from_path"
        ),
        **_instead(LOGGING_ADVICE, "remove_none_pattern"),
    },
    "lm_eval.loggers.wandb_logger": _SERVICES | _instead(LOGGING_ADVICE, "get_wandb_printer"),
    "lm_eval.models": _instead(
        "lm_eval.api.registry.MODEL_REGISTRY holds the backends by name.", "MODEL_MAPPING"
    ),
    "lm_eval.models.anthropic_llms": _backend("AnthropicLM", "anthropic_completion anthropic_chat")
    | _at("lm_eval.models.providers.anthropic", "AnthropicChat"),
    "lm_eval.models.api_models": {
        **_at("lm_eval.models.api_models", "TemplateAPI"),
        **_at(_HELPERS, "LMEVAL_MODEL_NONE_ANSWER_PLACEHOLDER LogLikelihoodInputs JsonChatStr"),
        **_instead("Images are not sent to servers here.", "create_image_prompt"),
    },
    "lm_eval.models.dummy": _at("lm_eval.models.dummy", "DummyLM"),
    "lm_eval.models.gguf": _backend("GGUFLM", "get_result"),
    "lm_eval.models.hf_audiolm": _backend("HFAUDIOLMQWEN", "DEFAULT_AUDIO_PLACEHOLDERS"),
    "lm_eval.models.hf_steered": _backend("SteeredModel", "steer"),
    "lm_eval.models.hf_vlms": _backend("HFMultimodalLM", "DEFAULT_IMAGE_PLACEHOLDER"),
    "lm_eval.models.huggingface": _at("lm_eval.models.huggingface", "HFLM"),
    "lm_eval.models.ibm_watsonx_ai": _backend(
        "WatsonxLLM", "LogLikelihoodResult get_watsonx_credentials"
    ),
    "lm_eval.models.litellm_llms": _backend("LiteLLMChatCompletion"),
    "lm_eval.models.mamba_lm": _backend("MambaLMWrapper"),
    "lm_eval.models.megatron_lm": _backend("MegatronLMEval"),
    "lm_eval.models.mistral3": _backend("Mistral3LM"),
    "lm_eval.models.nemo_lm": _backend("NeMoLM", "load_model setup_distributed_environment"),
    "lm_eval.models.neuron_optimum": _backend(
        "NEURON_HF", "NEURON_AVAILABLE CustomNeuronModelForCausalLM"
    ),
    "lm_eval.models.onnxruntime_genai": _backend("ONNXRuntimeGenAILM"),
    "lm_eval.models.onnxruntime_ort": _backend("ONNXRuntimeLM"),
    "lm_eval.models.openai_completions": {
        **_at(
            "lm_eval.models.openai_completions",
            "LocalCompletionsAPI LocalChatCompletion OpenAICompletionsAPI OpenAIChatCompletion",
        ),
        **_at("lm_eval.models.providers.azure", "AzureOpenaiChatCompletionsLM=AzureOpenAIChat"),
    },
    "lm_eval.models.optimum_habana": _backend("HabanaLM"),
    "lm_eval.models.optimum_ipex": _backend("IPEXLM"),
    "lm_eval.models.optimum_lm": _backend("OptimumLM"),
    "lm_eval.models.sglang_causallms": _backend("SGLangLM"),
    "lm_eval.models.sglang_generate_API": _backend("SGLANGGENERATEAPI"),
    "lm_eval.models.textsynth": _backend("TextSynthLM", "textsynth_completion"),
    "lm_eval.models.trtllm_causallms": _backend("TRTLLM"),
    "lm_eval.models.utils": {
        **_at(
            _BATCHING,
            "chunks Grouper undistribute Collator Reorderer",
        ),
        **_at(
            _GENERATION,
            "TOKENIZER_INFINITY DEFAULT_MAX_LENGTH GenKwargs retry_on_specific_exceptions "
            "configure_pad_token resolve_max_length replace_placeholders flatten_image_list "
            "handle_stop_sequences normalize_gen_kwargs truncate_tokens maybe_truncate "
            "postprocess_generated_text has_bos_prefix _add_special_kwargs",
        ),
        **_at(
            _TENSORS,
            "pad_and_concat clear_torch_cache get_dtype MultiTokenEOSCriteria stop_sequences_criteria",
        ),
        **_instead("Call image.resize((width, height)) of Pillow.", "resize_image"),
        **_instead(_UNUSED, "MultiChoice"),
    },
    "lm_eval.models.utils_hf": _at(
        _TENSORS,
        "pad_and_concat clear_torch_cache get_dtype MultiTokenEOSCriteria stop_sequences_criteria",
    ),
    "lm_eval.models.vllm_causallms": _at("lm_eval.models.vllm.model", "VLLM"),
    "lm_eval.models.vllm_vlms": _backend("VLLM_VLM", "DEFAULT_IMAGE_PLACEHOLDER"),
    "lm_eval.models.winml": _backend("WindowsML"),
    "lm_eval.prompts": _instead(
        _PROMPTS, "PROMPT_REGISTRY get_prompt load_prompt_list PromptString"
    ),
    "lm_eval.result_schema": _at("builtins", "EvalResults=dict SampleResult=dict"),
    "lm_eval.tasks": {
        **_at("lm_eval.tasks.loader", "TaskManager get_task_dict"),
        **_at("lm_eval.tasks.task", "Task ConfigurableTask"),
        **_at(_HELPERS, "get_task_name_from_config get_task_name_from_object"),
        **_instead(
            "Tasks need no initialising since release 0.4.3: leave the call out.",
            "initialize_tasks",
        ),
        **_instead("Give the folder to TaskManager(include_path=…).", "include_path"),
        **_instead(
            "Ask a TaskManager: all_tasks, all_groups, all_tags.", "ALL_TASKS TASK_REGISTRY"
        ),
    },
    **{f"lm_eval.tasks.{folder}": {} for folder in ("hellaswag", "hendrycks_math", "minerva_math")},
    "lm_eval.tasks.hellaswag.utils": _at("lm_eval.compat.task_helpers", "preprocess process_docs"),
    "lm_eval.tasks.hendrycks_math.utils": _at("lm_eval.compat.task_helpers", _BOXED),
    "lm_eval.tasks.minerva_math.utils": _at("lm_eval.compat.task_helpers", _BOXED),
    "lm_eval.tasks.manager": {
        **_at("lm_eval.tasks.loader", "TaskManager"),
        **_at("builtins", "TaskDict=dict"),
    },
    "lm_eval.utils": {
        **_at(
            "lm_eval.utils",
            "hash_string escaped_split handle_arg_string handle_non_serializable sanitize_list "
            "simple_parse_args_string join_iters group pattern_match softmax general_detokenize "
            "sanitize_model_name sanitize_task_name regex_replace create_iterator weighted_f1_score",
        ),
        **_at(
            _HELPERS,
            "is_torch_available is_transformers_available wrap_text setup_logging warning_once "
            "maybe_warn get_file_task_name get_file_datetime get_latest_filename "
            "get_results_filenames get_sample_results_filenames EnhancedJSONEncoder "
            "positional_deprecated convert_pil_to_hash convert_bytes_to_hash hash_dict_images "
            "set_torch_seed apply_template",
        ),
        **_at(_BATCHING, "Reorderer chunks"),
        **_at(_GENERATION, "get_rolling_token_windows make_disjoint_window"),
        **_at("lm_eval.support.markdown", "make_table HIGHER_IS_BETTER_SYMBOLS"),
        **_at(
            "lm_eval.compat.remote_tokenizer",
            "RemoteTokenizer=EndpointTokenizer check_remote_tokenizer_support",
        ),
        **_at(
            _TENSORS,
            "pad_and_concat clear_torch_cache get_dtype MultiTokenEOSCriteria stop_sequences_criteria",
        ),
        **_at(_HELPERS, "SPACING"),
        **_instead(_UNUSED, "info_once random_name_id"),
        **_instead("Templates run in a sandbox: apply_template(template, doc).", "env"),
        **_instead(
            "TaskManager reads task files: TaskManager().config(name), or select('file.yaml').",
            "ignore_constructor import_function load_yaml_config",
        ),
    },
}
"""Module → name → where it is here; also names of earlier releases that programs still use."""

PASSED_ON = {
    "lm_eval.api.filter": "lm_eval.api.instance",
    "lm_eval.api.metrics": "lm_eval.api.registry",
    "lm_eval.api.task": "lm_eval.api.instance lm_eval.api.metrics lm_eval.api.registry "
    "lm_eval.api.utils lm_eval.caching.cache lm_eval.filters lm_eval.prompts",
    "lm_eval.config.evaluate_config": "lm_eval.utils",
    "lm_eval.evaluator": "lm_eval.caching.cache lm_eval.defaults lm_eval.evaluator_utils "
    "lm_eval.loggers.utils lm_eval.tasks lm_eval.utils",
    "lm_eval.evaluator_utils": "lm_eval.api.metrics lm_eval.result_schema lm_eval.utils",
    "lm_eval.filters": "lm_eval.api.filter lm_eval.api.registry",
    **{
        f"lm_eval.filters.{name}": "lm_eval.api.filter"
        for name in ("custom", "extraction", "selection", "transformation")
    },
    "lm_eval.loggers.evaluation_tracker": "lm_eval.utils",
    "lm_eval.models.api_models": "lm_eval.api.instance lm_eval.api.model lm_eval.models.utils",
    "lm_eval.models.huggingface": "lm_eval.api.instance lm_eval.api.model lm_eval.api.registry "
    "lm_eval.models.utils",
    "lm_eval.models.openai_completions": "lm_eval.api.registry lm_eval.models.api_models "
    "lm_eval.models.utils",
    "lm_eval.models.utils": "lm_eval.utils",
    "lm_eval.tasks": "lm_eval.api.group",
}
"""Module → the modules whose names it imports there, and programs import from it."""


def home_of(module: str, name: str) -> Home | None:
    """Where a name of one of their modules is; None if that module has no such name."""
    for holder in (module, *PASSED_ON.get(module, "").split()):
        if home := NAMES.get(holder, {}).get(name):
            return home
    return None


def distribution() -> Distribution:
    """What ``importlib.metadata`` reports about ``lm_eval``: our build, which matches a release.

    ``0.4.13.0`` satisfies ``lm_eval>=0.4`` and ``lm_eval==0.4.13``, consists of integers, which programs
    compare, and differs as a text: files that record it show that another package answered.
    """
    from importlib.metadata import Distribution

    import lm_eval

    metadata = (
        "Metadata-Version: 2.1\nName: lm_eval\n"
        f"Version: {RELEASE}.0\n"
        f"Summary: lm-eval-formats {lm_eval.VERSION}, under the names of lm_eval {RELEASE}\n"
    )

    class Address(Distribution):
        """No files of its own: those of ``lm-eval-formats`` are installed under that name."""

        def read_text(self, filename: str) -> str | None:
            return metadata if filename in ("METADATA", "PKG-INFO") else None

        def locate_file(self, path: Any) -> Any:
            raise FileNotFoundError(path)

    return Address()
