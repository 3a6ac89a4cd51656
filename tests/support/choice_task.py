"""A task file of choices in ``rows.jsonl``, for tests that write their own rows."""

CHOICE_TASK = """\
task: capitals
dataset_path: json
dataset_kwargs: {data_files: {test: rows.jsonl}}
test_split: test
doc_to_text: question
doc_to_choice: choices
doc_to_target: answer
"""
