"""The writer of model cards, with metadata as model hubs read them."""

import html
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Self

from keras_albert.presets.handles import BUILTIN_PRESETS
from keras_albert.types import Task

# The ids of https://hf.co/metrics; the root of a mean has none there.
_METRICS = {
    "accuracy": "accuracy",
    "macro F1": "f1",
    "f1": "f1",
    "exact_match": "exact_match",
    "entity f1": "f1",
    "entity precision": "precision",
    "entity recall": "recall",
    "Pearson": "pearsonr",
    "Spearman": "spearmanr",
    "RMSE": "rmse",
    "perplexity": "perplexity",
    "masked_lm_accuracy": "accuracy",
    "sentence_order_accuracy": "accuracy",
    "next_sentence_accuracy": "accuracy",
}
_HUB = "hf://"
_LIBRARY = "keras-albert"
_HERE = "path/to/this/directory"
_ON_A_HUB = 'On a hub, the directory is a handle, such as `"hf://user/model"`.'


@dataclass(frozen=True)
class CardMetadata:
    """The metadata that only the author of a model knows."""

    language: str | None = None
    license: str | None = None
    dataset: str | None = None

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Self:
        """Return the metadata among settings of a command."""
        return cls(**{each.name: settings.get(each.name) for each in fields(cls)})


# Settings that are part of a card's metadata, and of nothing else.
ON_CARD = tuple(each.name for each in fields(CardMetadata))


def front_matter(
    name: str,
    pipeline_tag: str,
    tags: Sequence[str],
    scores: Mapping[str, float],
    evaluated_on: str,
    declared: CardMetadata,
    preset: str | None = None,
) -> str:
    """Return the metadata at the start of a model card."""
    # Scores without a metric of the hub, or that are not finite, are left out. Source:
    # https://github.com/huggingface/hub-docs/blob/main/modelcard.md
    # Slow to import, and needed at the end of a run only.
    from huggingface_hub import EvalResult, ModelCardData  # noqa: PLC0415

    results = [
        EvalResult(
            task_type=pipeline_tag,
            dataset_type=declared.dataset or "local",
            dataset_name=evaluated_on,
            metric_type=_METRICS[key],
            metric_value=round(value, 4),
            metric_name=key.replace("_", " "),
        )
        for key, value in scores.items()
        if key in _METRICS and math.isfinite(value)
    ]
    data = ModelCardData(
        base_model=base_model(preset),
        datasets=None if declared.dataset is None else [declared.dataset],
        eval_results=results or None,
        language=declared.language,
        # For "keras", the hub shows code that loads a single file.
        library_name=_LIBRARY,
        license=declared.license or "unknown",
        metrics=list(dict.fromkeys(x.metric_type for x in results)) or None,
        # It is part of the results, and else no key of the metadata.
        model_name=name if results else None,
        pipeline_tag=pipeline_tag,
        tags=["albert", "keras", "keras_albert", *tags],
    )
    return f"---\n{data.to_yaml()}\n---"


def base_model(preset: str | None) -> str | None:
    """Return the hub's name of the model that training started from, if it has one."""
    handle: str | None = preset
    if preset in BUILTIN_PRESETS:
        handle = BUILTIN_PRESETS[preset].handle
    if handle is None or not handle.startswith(_HUB):
        return None
    return handle.removeprefix(_HUB)


def plain_text(text: str) -> str:
    r"""Return a text that Markdown shows as it is, on one line."""
    line = html.escape(" ".join(text.split()), quote=False)
    return re.sub(r"[\\`*\[\]|~$]|(?<!\w)_|_(?!\w)", r"\\\g<0>", line)


def code(value: Any) -> str:
    """Return a setting in Markdown's form of code, on one line."""
    # Only the name of a path: where it lies on this machine does not belong on a card.
    values = value if isinstance(value, list | tuple) else [value]
    names = [
        Path(x).name
        if isinstance(x, Path) or (isinstance(x, str) and Path(x).is_dir())
        else str(x)
        for x in values
    ]
    line = " ".join(", ".join(names).split())
    # A longer fence than any in the text.
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    space = " " if "`" in line else ""
    return f"{fence}{space}{line}{space}{fence}"


def usage(name: str, use: str = "", arguments: str = "", purpose: str = "") -> str:
    """Return the code that loads a model and uses it, in Markdown."""
    lines = f'model = {name}.from_preset("{_HERE}"{arguments})\n{use}'.rstrip()
    return f"""`pip install keras-albert`, and in Python{purpose}:

```python
from keras_albert import {name}

{lines}
```

{_ON_A_HUB}"""


def describe_size(task: Task) -> str:
    """Return the sentence on the size of a model."""
    backbone = task.backbone
    weights = [w for w in task.weights if not w.name.startswith("lora_")]
    groups = backbone.num_groups
    return (
        f"{sum(math.prod(w.shape) for w in weights):,} parameters: "
        f"{backbone.num_layers} layers of width {backbone.hidden_dim} that share their "
        f"weights{f' in {groups} groups' if groups > 1 else ''}, embeddings of width "
        f"{backbone.embedding_dim}, {backbone.vocabulary_size:,} tokens, up to "
        f"{task.preprocessor.max_length} in a row."
    )


def table_of(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def list_of(values: Mapping[str, Any]) -> str:
    """Return a list in Markdown, without metadata and what is not set."""
    lines = []
    for name, value in values.items():
        if value not in (None, {}, []) and name not in ON_CARD:
            parts = value if isinstance(value, list) else [value]
            shown = ", ".join(map(code, parts))
            lines.append(f"- {name.replace('_', ' ')}: {shown}")
    return "\n".join(lines)


def write_card(
    title: str,
    about: str,
    use: str,
    declared: CardMetadata,
    sections: Mapping[str, str] | None = None,
    **metadata: Any,
) -> str:
    """Return a model card; `metadata` are the other arguments of `front_matter`."""
    parts = [front_matter(declared=declared, **metadata), f"# {title}", about]
    named = {"How to use it": use, **(sections or {})}
    named["What is not known"] = unknowns(declared)
    parts += [f"## {name}\n\n{text}" for name, text in named.items()]
    return "\n\n".join(filter(None, parts)) + "\n"


def published_card(text: str, handle: str, library: str | None = None) -> str:
    """Return a card as a hub shows it."""
    from huggingface_hub import ModelCard  # noqa: PLC0415

    card: Any = ModelCard(text)
    card.data.library_name = library or _LIBRARY
    return str(card).replace(f"{_ON_A_HUB}\n\n", "").replace(_HERE, handle)


def unknowns(declared: CardMetadata) -> str:
    """Return the section on missing information, in Markdown."""
    missing = [name for name, value in asdict(declared).items() if value is None]
    lines = [
        "Not known, as nothing was measured or declared; describe it here before you "
        "publish the model:",
        "",
        "- which texts it was trained on, who wrote them, and their licenses;",
        "- what it is meant for, and for which texts and readers it fails;",
        "- how it treats groups of people: bias and fairness were not examined;",
        "- how it does on texts of other sources than those above.",
    ]
    if missing:
        names = ", ".join(f"`{name}`" for name in missing)
        lines += ["", f"Add to the metadata in the first lines of this file: {names}."]
    return "\n".join(lines)
