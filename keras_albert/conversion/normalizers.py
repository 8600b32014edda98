"""Normalizer steps of a `tokenizer.json`: from a SentencePiece table, and to one.

transformers.js has no tables: instead of the step `Precompiled` it does NFKC. What is
written here are the steps that both `tokenizers` and transformers.js execute.
"""

import base64
import binascii
import functools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from keras_albert.text.tokenizer.text_rules import (
    all_characters,
    compile_table,
    further_keys,
    map_keys,
    shorten_table,
    table_normalizer,
)

Step = dict[str, Any]

_FORMS = ("NFC", "NFD", "NFKC", "NFKD")
# Steps about spaces, which SentencePiece does without a table.
_SPACES = ("Strip", "Prepend")
_SPACE_RUNS = " {2,}"
# What is read of a file: one step may take 0.05 s, and longer texts all memory.
MAX_STEPS = 256
MAX_CONTENT = 64
MAX_GROWTH = 4
_CODE = re.compile(r"\\x\{([0-9A-F]+)\}")
_CHARACTER_CLASS = re.compile(r"\[(?:\\x\{[0-9A-F]+\}-?)+\]")


@functools.lru_cache(maxsize=8)
def normalizer_steps(charsmap: bytes) -> list[Step]:
    """Return the steps that do what a SentencePiece table does.

    They differ from the table where the Unicode version of a client is another, and in
    characters that the table keeps and NFKC does not, such as the fullwidth tilde in a
    table without text rules.
    """
    if not charsmap:
        return []
    table = table_normalizer(charsmap)
    characters = all_characters()
    values = map_keys(table.Normalize, characters)
    strips = table.Normalize("\u00e9") == "e"
    steps: list[Step] = [{"type": "NFKD"}] if strips else []
    for content in ("", " "):
        found = [c for c, v in zip(characters, values, strict=True) if v == content]
        steps += _replace_characters(found, content)
    if table.Normalize("A") == "a":
        # Lowercase in JavaScript has a second form at the end of a word.
        steps += [*_replace_characters(["\u03a3"], "\u03c3"), {"type": "Lowercase"}]
    if table.Normalize("\u1100\u1161") == "\uac00":
        steps += [{"type": "NFC" if strips else "NFKC"}]
    keys = [*characters, *further_keys(charsmap)]
    return [*_exceptions(keys, map_keys(table.Normalize, keys), steps), *steps]


def _exceptions(
    keys: list[str], values: list[str], steps: list[Step]
) -> Iterator[Step]:
    """Yield the steps before others that make keys have their values."""
    rules: dict[str, list[str]] = {}
    for key, value, found in zip(keys, values, _run(steps, keys), strict=True):
        # Others know characters that this Python does not.
        if value != found and all(unicodedata.category(c) != "Cn" for c in key):
            rules.setdefault(value, []).append(key)
    after = _run(steps, list(rules))
    kept = {value for value, found in zip(rules, after, strict=True) if value == found}
    for value in sorted(kept):
        for sequence in sorted((k for k in rules[value] if len(k) > 1), key=len):
            yield replace_string(sequence, value)
        yield from _replace_characters([k for k in rules[value] if len(k) == 1], value)


def charsmap_of_steps(steps: list[Step]) -> bytes:
    """Return the table that does what steps do, for a SentencePiece model."""
    steps = [step for step in steps if not _is_of_spaces(step)]
    if not steps:
        return b""
    if len(steps) > MAX_STEPS:
        raise ValueError(
            f"it has {len(steps):,} normalizer steps, and {MAX_STEPS} at most are read"
        )
    if [step["type"] for step in steps] == ["Precompiled"]:
        return _decode_charsmap(steps[0])
    keys = all_characters()
    keys += dict.fromkeys(_sequences(steps, keys))
    return compile_table(shorten_table(keys, _run(steps, keys)))


def _is_of_spaces(step: Step) -> bool:
    return step["type"] in _SPACES or (
        step["type"] == "Replace"
        and step["pattern"].get("Regex") == _SPACE_RUNS
        and step["content"] == " "
    )


def _sequences(steps: list[Step], characters: Iterable[str]) -> Iterator[str]:
    """Yield the sequences that steps may change in other ways than their characters."""
    for step in steps:
        if step["type"] == "Replace" and len(step["pattern"].get("String", "")) > 1:
            yield step["pattern"]["String"]
        if step["type"] == "Precompiled":
            yield from further_keys(_decode_charsmap(step))
    if any(step["type"] in ("NFC", "NFKC") for step in steps):
        for character in characters:
            codes = unicodedata.decomposition(character).split()
            if len(codes) > 1 and codes[0][0] != "<":
                yield "".join(chr(int(code, 16)) for code in codes)
            if len(parts := unicodedata.normalize("NFD", character)) > 1:
                yield parts


def _run(steps: list[Step], keys: list[str]) -> list[str]:
    def run(text: str) -> str:
        most = MAX_GROWTH * len(text)
        for step in steps:
            text = _function(step)(text)
            if len(text) > most:
                raise ValueError("its normalizer makes texts several times as long")
        return text

    return map_keys(run, keys)


def _function(step: Step) -> Callable[[str], str]:
    kind = step["type"]
    if kind in _FORMS:
        return lambda text: unicodedata.normalize(kind, text)
    if kind == "Lowercase":
        return str.lower
    if kind == "StripAccents":
        return lambda text: "".join(
            [c for c in text if unicodedata.category(c)[0] != "M"]
        )
    if kind == "Precompiled":
        table = table_normalizer(_decode_charsmap(step))
        return lambda text: str(table.Normalize(text))
    if kind == "Replace":
        content, pattern = step["content"], step["pattern"]
        if len(content) > MAX_CONTENT:
            raise ValueError(
                f"a step writes {len(content):,} characters, not {MAX_CONTENT} at most"
            )
        if string := pattern.get("String"):
            return lambda text: text.replace(string, content)
        if _CHARACTER_CLASS.fullmatch(pattern.get("Regex", "")):
            regex = _CODE.sub(lambda code: f"\\U{code[1]:0>8}", pattern["Regex"])
            return lambda text: re.sub(regex, lambda _: content, text)
    raise ValueError(f"SentencePiece has no rule for its step {step}")


def _decode_charsmap(step: Step) -> bytes:
    try:
        return base64.b64decode(step["precompiled_charsmap"], validate=True)
    except binascii.Error as error:
        raise ValueError(f"its character table is damaged ({error})") from error


def replace_string(string: str, content: str) -> Step:
    """Return the step that replaces a string."""
    return {"type": "Replace", "pattern": {"String": string}, "content": content}


def _replace_characters(characters: list[str], content: str) -> list[Step]:
    """Return the step that replaces each of some characters, if there are any."""
    ranges: list[list[int]] = []
    for code in sorted(map(ord, characters)):
        if ranges and code == ranges[-1][1] + 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    if not ranges:
        return []
    parts = [
        rf"\x{{{first:X}}}" + (rf"-\x{{{last:X}}}" if last > first else "")
        for first, last in ranges
    ]
    regex = f"[{''.join(parts)}]"
    return [{"type": "Replace", "pattern": {"Regex": regex}, "content": content}]
