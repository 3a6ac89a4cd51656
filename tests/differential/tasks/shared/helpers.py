"""Helpers beside an included file: ``!function`` is looked for where the tag stands."""


def shout(dataset):
    return dataset.map(lambda doc: {**doc, "question": doc["question"].upper()})


def ask(doc):
    return f"{doc['question']} [shared]"
