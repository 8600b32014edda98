r"""Write questions whose answers are words of the paragraphs that they were made from.

    python examples/cloze_questions.py cloze.json --texts texts/*.txt.gz --count 24000

In a sentence with "The bridge was opened in 1932 by the mayor" the date becomes the
answer, and the rest the question "when bridge was opened by the mayor?". A reader that
has learned from many of them needs fewer questions of people. Dates, numbers, names and
nouns are found by their form alone, so that a third of the questions is not English.
Text files, plain or gzip, contain one paragraph per line. The output is as of SQuAD.

Source: [Lewis et al., 2019](https://arxiv.org/abs/1906.04980), without its translation.
"""

import argparse
import json
import random
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from keras_albert.cli.arguments import whole_number
from keras_albert.cli.loading import loading

with loading("cloze_questions.py"):
    from keras_albert.text.tokenizer.train_vocabulary import read_lines
    from keras_albert.utils.atomic_files import atomic_file

_MONTH = (
    "(?:January|February|March|April|May|June|July|August|September|October|November"
    "|December)"
)
_KINDS = {
    "date": re.compile(
        rf"\b(?:\d{{1,2}} {_MONTH}(?: \d{{4}})?|{_MONTH}(?: \d{{1,2}},)?(?: \d{{4}})"
        r"|(?:1\d{3}|20[01]\d)(?!\d|,\d))\b"
    ),
    "number": re.compile(
        r"\b(?:\d[\d,.]*\d|\d)(?: (?:percent|million|billion|thousand|hundred))?\b"
        r"|\b(?:two|three|four|five|six|seven|eight|nine|ten|twelve|twenty)\b"
    ),
    "name": re.compile(
        r"(?<=[a-z,;)] )[A-Z][\w\u2019'-]*"
        r"(?: (?:of |de |the |van |von |and )?[A-Z][\w\u2019'-]*)*"
    ),
    "noun": re.compile(
        r"\b(?:the|a|an) ((?:[a-z-]+ ){0,2}[a-z-]+)"
        r"(?= (?:of|in|for|to|by|and|that|which|from|with|on)\b|[,.;])"
    ),
}
# How many of each kind are kept: most answers of SQuAD are names, dates and numbers.
_SHARES = {"date": 1.0, "number": 0.8, "name": 1.0, "noun": 0.45}

_SENTENCE_END = re.compile(r"(?<=[a-z0-9)”\"]{2}[.!?])\s+(?=[A-Z\"“])")
_CLAUSE = r", (?=and|but|which|who|while|where|although)"
_NO_NAMES = re.compile("The|He|She|It|In|They|An?|His|Her|These|This|I|We|As|At|On")
_BEFORE_PLACES = {"in", "at", "from", "near", "to", "into", "through", "between"}
_BEFORE_PEOPLE = {"by", "with", "and", "mr", "son", "brother"}
_AFTER_PEOPLE = re.compile(
    "was|said|wrote|became|died|married|played|won|had|who|led|is|and|began"
)
_BEFORE_DATES = {"in", "on", "since", "by", "until", "of"}
_MOST_WORDS = 14


class Answer(NamedTuple):
    """Words of a sentence that a question can ask for."""

    kind: str
    begin: int
    end: int


def find_answers(sentence: str) -> list[Answer]:
    """Find dates, numbers, names and nouns that do not overlap."""
    found: list[Answer] = []
    for kind, pattern in _KINDS.items():
        for match in pattern.finditer(sentence):
            begin, end = match.span(1 if kind == "noun" else 0)
            text = sentence[begin:end]
            is_vague = len(text) < 4 or text.split()[0] in ("same", "other", "first")
            if (kind == "noun" and is_vague) or (
                kind == "name" and _NO_NAMES.fullmatch(text)
            ):
                continue
            if not any(begin < other.end and other.begin < end for other in found):
                found.append(Answer(kind, begin, end))
    return found


def ask(sentence: str, answer: Answer, draws: random.Random) -> str:
    """Make a question of the clause of a sentence that contains the answer."""
    before, after = sentence[: answer.begin], sentence[answer.end :]
    if answer.kind == "noun":
        before = re.sub(r"\b(?:the|a|an) $", "", before)
    left = re.split(rf"[;:(]|{_CLAUSE}", before)[-1]
    right = re.split(rf"[;:)]|{_CLAUSE}", after)[0]
    if len((left + right).split()) < 4:
        left, right = before, after
    words = left.split()[-_MOST_WORDS:], right.split()[:_MOST_WORDS]
    asked = _question_words(sentence, answer, *words, draws)
    rest = words[0] + words[1]
    if draws.random() < 0.6:
        rest = [word for word in rest if draws.random() > 0.15]
    if draws.random() < 0.4:
        # Words change places, as between a sentence and a question.
        places = {n: n + draws.uniform(0, 2.5) for n in range(len(rest))}
        rest = [rest[n] for n in sorted(places, key=places.__getitem__)]
    place = min(len(words[0]), len(rest)) if draws.random() < 0.2 else 0
    rest[place:place] = asked.split()
    return " ".join(rest).strip(" .,;") + "?"


def _question_words(
    sentence: str,
    answer: Answer,
    left: list[str],
    right: list[str],
    draws: random.Random,
) -> str:
    """Choose the question words, and remove the preposition that they replace."""
    before = left[-1].lower() if left else ""
    after = right[0].lower() if right else ""
    choices = ["what", "what", "who", "which", "what is"]
    if answer.kind == "date":
        if before in _BEFORE_DATES and draws.random() < 0.8:
            left.pop()
        choices = ["when", "when", "on what date", "what date"]
        if re.fullmatch(r"\d{4}", sentence[answer.begin : answer.end]):
            choices = ["when", "when", "in what year", "what year"]
    elif answer.kind == "number":
        if right and re.match("[a-z]", right[0]):
            return f"how many {right.pop(0)}"
        return "what number" if draws.random() < 0.5 else "how many"
    elif answer.kind == "noun":
        choices = ["what", "what", "what", "which", "what kind of"]
    elif before in _BEFORE_PLACES:
        choices = ["where", "where", "what place", "in what place", "what", "which"]
    elif _AFTER_PEOPLE.fullmatch(after) or before in _BEFORE_PEOPLE:
        choices = ["who", "who", "who", "what", "which person"]
    chosen = draws.choice(choices)
    if chosen in ("where", "in what place"):
        left.pop()
    return chosen


def questions_of(text: str, draws: random.Random) -> Iterator[tuple[str, int, str]]:
    """Make at most two questions of a paragraph, each with its answer and its place."""
    begins = [0, *(match.end() for match in _SENTENCE_END.finditer(text))]
    if len(begins) < 2:
        return
    pool = [
        (begin, end, answer)
        for begin, end in zip(begins, [*begins[1:], len(text)], strict=True)
        for answer in find_answers(text[begin:end].rstrip())
    ]
    draws.shuffle(pool)
    used: set[tuple[int, str]] = set()
    for begin, end, answer in pool:
        is_dropped = draws.random() > _SHARES[answer.kind] or len(used) == 2
        if is_dropped or (begin, answer.kind) in used:
            continue
        words = text[begin + answer.begin : begin + answer.end]
        if text.count(words) > 3:
            continue
        question = ask(text[begin:end].rstrip(), answer, draws)
        if len(question.split()) >= 5:
            used.add((begin, answer.kind))
            yield question, begin + answer.begin, words


# Fewer are a name, or a phrase that everyone uses.
_MOST_IN_COMMON = 3


def _sequences(text: str, length: int = 8) -> set[tuple[str, ...]]:
    """Return all sequences of so many words."""
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[n : n + length]) for n in range(len(words) - length + 1)}


def cloze_articles(
    paragraphs: Iterable[str], count: int, seed: int = 0, without: Iterable[str] = ()
) -> list[dict[str, Any]]:
    """Return `count` questions, or what the paragraphs yield, in the form of SQuAD.

    A paragraph that has sequences of words in common with the texts `without` is left
    out.
    """
    known = {sequence for text in without for sequence in _sequences(text)}
    draws = random.Random(seed)  # noqa: S311  (no secret)
    kept = [text for text in map(str.strip, paragraphs) if 250 <= len(text) <= 700]
    draws.shuffle(kept)
    articles: list[dict[str, Any]] = []
    number = 0
    for context in kept:
        if number >= count:
            break
        made = []
        for question, start, words in questions_of(context, draws):
            answer = {"text": words, "answer_start": start}
            name = f"{number + len(made)}"
            made.append({"id": name, "question": question, "answers": [answer]})
        if made and len(_sequences(context) & known) < _MOST_IN_COMMON:
            number += len(made)
            paragraph = {"context": context, "qas": made}
            articles.append({"title": "", "paragraphs": [paragraph]})
    return articles


def read_paragraphs(path: Path) -> list[dict[str, Any]]:
    """Read the paragraphs of a file of SQuAD, with their questions."""
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    return [each for article in articles for each in article["paragraphs"]]


def main() -> None:
    """Write the questions."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("output", type=Path)
    parser.add_argument("--texts", nargs="+", required=True, help="files")
    parser.add_argument("--count", type=whole_number(), default=24_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--without", type=Path, help="SQuAD's dev set: skip its texts")
    arguments = parser.parse_args()
    lines = read_lines(arguments.texts)
    dev = read_paragraphs(arguments.without) if arguments.without else []
    kept_out = [paragraph["context"] for paragraph in dev]
    articles = cloze_articles(lines, arguments.count, arguments.seed, kept_out)
    with atomic_file(arguments.output) as partial:
        content = json.dumps({"version": "1.1", "data": articles})
        partial.write_text(content, encoding="utf-8")
    count = sum(len(article["paragraphs"][0]["qas"]) for article in articles)
    print(f"{count:,} questions on {len(articles):,} paragraphs: {arguments.output}")


if __name__ == "__main__":
    main()
