"""Helpers that the task files of the differential test name with ``!function``."""

import math
import re

# --- docs -----------------------------------------------------------------------------------------


def hellaswag_docs(dataset):
    """Adds ``query`` and ``choices``, without the marks in square brackets."""

    def unmarked(text):
        return " ".join(re.sub(r"\[\w+\]", " ", text).split())

    def asked(doc):
        start = unmarked(f"({doc['activity_label']}) {doc['ctx_a']} {doc['ctx_b'].title()}")
        return {"query": start, "choices": list(map(unmarked, doc["endings"]))}

    return dataset.map(asked)


def drop_docs(dataset):
    def one(doc):
        return {
            "passage": doc["passage"],
            "question": doc["question"],
            "answer": doc["answers"][0],
            "accepted": doc["answers"],
        }

    return dataset.map(one, remove_columns=["answers"])


def odd_and_short(dataset):
    kept = dataset.filter(lambda doc: len(doc["question"]) < 30)
    return kept.select(range(0, len(kept), 2))


def only_first_three(dataset):
    return dataset.select(range(3))


def capital_samples():
    return [
        {"q": "Capital of Malta?", "a": "Valletta"},
        {"q": "Capital of Cuba?", "a": "Havana"},
        {"q": "Capital of Fiji?", "a": "Suva"},
        {"q": "Capital of Mali?", "a": "Bamako"},
    ]


# --- fields ---------------------------------------------------------------------------------------


def winogrande_index(doc):
    return int(doc["answer"]) - 1


def winogrande_rest(doc):
    return doc["sentence"].partition("_")[2].strip()


def winogrande_starts(doc):
    start = doc["sentence"].partition("_")[0]
    return [start + doc["option1"], start + doc["option2"]]


def detokenized(doc):
    text = doc["page"].replace(" @-@ ", "-").replace(" @,@ ", ",")
    return re.sub(r" ([.,:])", r"\1", text)


# --- scores ---------------------------------------------------------------------------------------


def mass_on_true(doc, results):
    """The share of probability on the true choices, which come first."""
    true = sum(doc["mc2_targets"]["labels"])
    masses = [math.exp(score) for score, _ in results]
    return {"acc": sum(masses[:true]) / sum(masses)}


def rolling_scores(doc, results):
    """The three rolling scores, each over a length of our own choosing."""
    total = results[0]
    lines = doc["page"].count("\n") + 1
    sizes = {"word_perplexity": 10 * lines, "byte_perplexity": 50, "bits_per_byte": 60 * lines}
    return {name: (total, size) for name, size in sizes.items()}


def drop_scores(doc, results):
    reply = set(re.findall(r"\w+", results[0].lower()))
    best_em, best_f1 = 0.0, 0.0
    for accepted in doc["accepted"]:
        gold = set(re.findall(r"\w+", " ".join(accepted).lower()))
        shared = len(gold & reply)
        best_em = max(best_em, float(gold == reply))
        best_f1 = max(best_f1, 2 * shared / (len(gold) + len(reply)))
    return {"em": best_em, "f1": best_f1}


def reply_sizes(doc, results):
    size = float(len(results[0]))
    return {
        "size_mean": size,
        "size_median": size,
        "size_nanmean": size if size % 2 else math.nan,
        "size_spread": size,
        "size_bypass": size,
    }


def spread(items):
    return max(items) - min(items)


def share_of_right(items):
    return sum(items) / len(items)


def macro_f1(items):
    golds, preds = zip(*items, strict=True)
    scores = []
    for label in sorted(set(golds)):
        right = sum(g == p == label for g, p in items)
        scores.append(2 * right / (golds.count(label) + list(preds).count(label)))
    return sum(scores) / len(scores)


def any_right(references, predictions, strip=False):
    replies = predictions[0]
    if strip:
        replies = [reply.strip() for reply in replies]
    return float(references[0] in replies)


def overlap(references, predictions):
    gold, reply = (set(str(x[0]).lower().split()) for x in (references, predictions))
    return len(gold & reply) / len(gold)


def count_pairs(doc, results):
    return {"pairs": float(len(results[0]))}


def two_scores(references, predictions):
    return {
        "contains": float(references[0] in predictions[0]),
        "starts": float(predictions[0].strip().startswith(references[0])),
    }


# --- filters -------------------------------------------------------------------------------------


def first_words(resps, docs):
    return [[reply.strip().split(" ")[0].lower() for reply in replies] for replies in resps]
