"""A data set made by a function; imports the ``datasets`` library by name, as helpers do."""

import datasets


def counted_rows(rows, start, **kwargs):
    """A data set made from arguments: the task's metadata and dataset_kwargs."""
    numbers = list(range(start, start + rows))
    return {
        "train": datasets.Dataset.from_list([{"number": n} for n in (50, 60, 70)]),
        "test": datasets.Dataset.from_dict({"number": numbers}),
    }
