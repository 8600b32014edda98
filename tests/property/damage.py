"""Damage to the files of a checkpoint: flipped, cut, swapped, and lying bytes."""

import json
from dataclasses import dataclass, field

import numpy as np
from hypothesis import strategies as st

from tests.property.tensor_files import (
    TENSOR_FILES,
    change_tensors,
    number_ranges,
    read_header,
    write_header,
)

_VOCABULARIES = (".model", ".spm", ".txt")
# What JSON files contain that have pieces, or the text rules of a WordPiece.
_RULES = (b'"Unigram"', b'"WordPiece"', b'"tokenize_chinese_chars"', b'"split_cjk"')
# What no config may hold, or only some of its keys.
_LIES = (
    *(None, True, False, -1, 0, 1, 2, 3, 7, 0.5, 1e-7, 1e308, float("nan")),
    *(float("inf"), 10**5, 10**6, 10**9, 2**31, 2**63, 10**30, "", "x", "1", "\0"),
    *("int8", "float16", "../../../etc/passwd", "/etc/passwd", "gelu", "softmax"),
    *([], [1], [[]], {}, {"a": 1}, {"0": "a"}, ["x"] * 1000),
    {"module": "os", "class_name": "system", "config": {"command": "exit 1"}},
)


@dataclass
class Damage:
    """What was done to a directory, and what it may have changed."""

    steps: list = field(default_factory=list)
    # Whether weights may have changed without anything that could tell.
    weights: bool = False
    vocabulary: bool = False
    # Whether the tensors no longer fit the config, which has to be refused.
    unfit: bool = False


def damage_files(draw, directory):
    """Damage one or two files of a directory."""
    done = Damage()
    files = sorted(path for path in directory.rglob("*") if path.is_file())
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        path = _take(draw, files)
        before = path.read_bytes()
        ways = [_flip, _flip, _cut, _fill, _swap_ranges, _grow, _swap_files]
        if path.suffix == ".json":
            ways += [_lie, _lie, _lie, _lie]
        if path.suffix in TENSOR_FILES:
            ways += [_change_tensors, _change_tensors]
        if number_ranges(path, before):
            ways += [_flip_number]
        if path.suffix == ".safetensors":
            ways += [_lie_in_header]
        way = draw(st.sampled_from(ways))
        if way is _swap_files:
            other = _take(draw, files)
            told, content = other.name, other.read_bytes()
            _note(done, other, content, before)
            other.write_bytes(before)
            path.write_bytes(content)
        else:
            told = way(draw, path, before)
        done.steps.append((path.name, way.__name__, told))
        done.unfit |= way is _change_tensors
        # A header may give each tensor the place of another.
        done.weights |= way is _lie_in_header
        _note(done, path, before, path.read_bytes())
    return done


def _take(draw, files):
    # By number: hypothesis reports what it draws, and contents are long.
    path = files.pop(draw(st.integers(0, len(files) - 1)))
    # Once only, and so for the two files of a TensorFlow checkpoint: reading damaged
    # files in this process might end it.
    files[:] = [other for other in files if other.stem != path.stem]
    return path


def _note(done, path, before, after):
    """Note what a change of bytes can do."""
    if before == after:
        return
    done.vocabulary |= path.suffix in _VOCABULARIES
    done.vocabulary |= path.suffix == ".json" and any(x in before for x in _RULES)
    if path.suffix not in TENSOR_FILES:
        return
    common = min(len(before), len(after))
    pair = (np.frombuffer(content[:common], "u1") for content in (before, after))
    changed = np.flatnonzero(np.not_equal(*pair))
    done.weights |= any(
        ((changed >= first) & (changed < last)).any()
        for first, last in number_ranges(path, before)
    )


def _places(size):
    """Places in a file, its beginning and its end more often."""
    last = max(size - 1, 0)
    near = min(last, 600)
    return st.integers(0, last) | st.integers(0, near) | st.integers(last - near, last)


def _flip(draw, path, content):
    flips = draw(
        st.dictionaries(
            _places(len(content)), st.integers(1, 255), min_size=1, max_size=4
        )
    )
    changed = bytearray(content)
    for place, bits in flips.items():
        changed[place] ^= bits
    path.write_bytes(changed)
    return flips


def _flip_number(draw, path, content):
    ranges = number_ranges(path, content)
    first, last = ranges[draw(st.integers(0, len(ranges) - 1))]
    place = draw(st.integers(first, last - 1))
    changed = bytearray(content)
    changed[place : place + 1] = [content[place] ^ draw(st.integers(1, 255))]
    path.write_bytes(changed)
    return place


def _cut(draw, path, content):
    size = draw(_places(len(content)))
    path.write_bytes(content[:size])
    return size


def _fill(draw, path, content):
    start, count = draw(_places(len(content))), draw(st.integers(1, 64))
    count = min(count, len(content) - start)
    value = draw(st.sampled_from([b"\0", b"\xff", b"9", b" ", b"\x7f"]))
    path.write_bytes(content[:start] + value * count + content[start + count :])
    return start, count, value


def _swap_ranges(draw, path, content):
    count = draw(st.sampled_from([1, 2, 4, 8, 16, 64, 256]))
    first, second = sorted((draw(_places(len(content))), draw(_places(len(content)))))
    count = min(count, second - first, len(content) - second)
    changed = bytearray(content)
    changed[first : first + count] = content[second : second + count]
    changed[second : second + count] = content[first : first + count]
    path.write_bytes(changed)
    return first, second, count


def _grow(draw, path, content):
    more = draw(st.sampled_from(["\0", "\0" * 4096, "}", " ", "itself"]))
    path.write_bytes(content + (content if more == "itself" else more.encode()))
    return more[:9]


def _swap_files():
    """Two files, each under the other's name."""


def _change_tensors(draw, path, content):
    return change_tensors(draw, path)


def _lie(draw, path, content):
    """Change one value of a JSON file, or its form."""
    found = json.loads(content)
    told = lie_in_json(draw, found)
    text = json.dumps(found)
    form = draw(st.sampled_from(["plain"] * 8 + ["twice", "deep", "bytes"]))
    if form == "twice" and text.startswith('{"'):
        name = json.dumps(next(iter(found)))
        text = f"{{{name}: 1, {text[1:]}"
    elif form == "deep":
        text = text.replace(": ", ': [{"a":' * 50_000, 1)
    raw = text.encode("utf-16" if form == "bytes" else "utf-8")
    path.write_bytes(raw)
    return form, told


def lie_in_json(draw, found):
    """Change one value within JSON."""
    places = list(_all_places(found))
    if not places:
        return None
    container, key = places[draw(st.integers(0, len(places) - 1))]
    how = draw(st.sampled_from(["lie", "lie", "lie", "near", "other", "drop", "add"]))
    old = container[key]
    if how == "drop":
        del container[key]
    elif how == "add" and isinstance(container, dict):
        container["more"] = draw(st.sampled_from(_LIES))
    elif how == "near" and type(old) in (int, float):
        container[key] = old + draw(st.sampled_from([-1, 1, 2, old, -2 * old, 0.5]))
    elif how == "other":
        other, name = places[draw(st.integers(0, len(places) - 1))]
        container[key] = other[name]
        if _holds(container[key], container):
            container[key] = None
    else:
        container[key] = draw(st.sampled_from(_LIES) | st.integers() | st.text())
    return how, str(key), repr(old)[:60], repr(container)[:200]


def _all_places(found):
    if isinstance(found, dict | list):
        keys = list(found) if isinstance(found, dict) else range(min(len(found), 8))
        for key in keys:
            yield found, key
            yield from _all_places(found[key])


def _holds(value, container):
    """Whether JSON is around one of its own parts, and so without an end."""
    if value is container:
        return True
    inner = value.values() if isinstance(value, dict) else value
    return isinstance(value, dict | list) and any(_holds(x, container) for x in inner)


def _lie_in_header(draw, path, content):
    """Change one value in the header of a file of safetensors."""
    header, numbers = read_header(content)
    told = lie_in_json(draw, header)
    path.write_bytes(write_header(header) + numbers)
    return told
