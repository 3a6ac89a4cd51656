"""A second module called ``utils``: each folder has its own."""

from functools import partial


def ask(doc):
    return f"{doc['question']} [nested]"


def keep(dataset, word):
    return dataset.filter(lambda doc: any(word in choice for choice in doc["choices"]))


only_metals = partial(keep, word="i")
