"""Tables and charts of the pages, from the JSON files in `docs/results`.

    python docs/figures.py            # writes the tables into the pages
    python docs/figures.py --check    # compares
    python docs/figures.py --charts DIRECTORY

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. Charts are drawn when
the site is built, in the colors of its light and dark theme. `models.json` has scores
of models, with the command that printed each, the date and the version; `ready` takes
the scores of fine-tuned presets from their model cards. `speed.json` has the ratios of
time or memory to keras_albert: the least, the median and the most.
"""

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results"
PAGES = ("README.md", "docs/index.md", "docs/results.md", "docs/speed.md")
THEMES = {
    "light": {"text": "#323b45", "grid": "#d8dee4"},
    "dark": {"text": "#ced6dd", "grid": "#48525c"},
}
# Readable on both backgrounds, and with any kind of color vision.
COLORS = ("#d55e00", "#0f8fce", "#009e73", "#cc79a7", "#8c8c8c")


def read(name: str) -> dict[str, Any]:
    """Return the content of a file in `docs/results`."""
    found: dict[str, Any] = json.loads(
        (RESULTS / f"{name}.json").read_text(encoding="utf-8")
    )
    return found


def card_value(preset: str, metric: str) -> float:
    """Return a metric from the header of a model card."""
    path = ROOT / "keras_albert" / "presets" / preset / "README.md"
    pattern = rf"value: ([\d.]+)\n +name: {re.escape(metric)}\n"
    found = re.findall(pattern, path.read_text(encoding="utf-8"))
    if len(found) != 1:
        raise ValueError(f"{path} has {len(found)} values of {metric!r}.")
    return float(found[0])


# === Numbers as text ===


def as_text(score: dict[str, Any], unit: str) -> str:
    """Return a score with its deviation, as tables have it."""
    if not unit:
        form: Callable[[float], str] = "{:.3f}".format
    else:
        form = "{:.1f}%".format
    text = form(score["value"])
    if score.get("deviation"):
        # No-break spaces, or narrow columns take three lines.
        text += f"\u00a0±\u00a0{form(score['deviation'])}"
    return text


def number(value: float) -> str:
    """Return a ratio as text."""
    return f"{value:.3g}"


def ratio_text(ratio: list[float]) -> str:
    """Return a ratio with its spread."""
    least, median, most = map(number, ratio)
    return median if least == most else f"{median} ({least} to {most})"


# === Tables ===


def _scores(measure: str) -> dict[str, dict[str, Any]]:
    return {
        score["model"]: score
        for score in read("models")["scores"]
        if score["measure"] == measure
    }


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _models_table(is_published: bool) -> str:
    found = read("models")
    models = [m for m in found["models"] if ("published" in m) == is_published]
    rows = []
    for measure in found["measures"]:
        texts = {
            model: as_text(score, measure["unit"])
            for model, score in _scores(measure["id"]).items()
        }
        cells = [texts.get(model["id"], "") for model in models]
        if any(cells):
            rows.append([measure["name"], *cells])
    return _table(["", *(model["name"] for model in models)], rows)


def models_table() -> str:
    """Return the scores of the models measured here: a row for each measure."""
    return _models_table(is_published=False)


def published_table() -> str:
    """Return the scores that others published."""
    return _models_table(is_published=True)


def messages_table() -> str:
    """Return the accuracy on the quickstart's messages, the baseline first."""
    found = read("models")
    names = {model["id"]: model.get("about", "") for model in found["models"]}
    rows = []
    for model in ("tfidf", "linear", "small"):
        cells = [
            _scores(measure)[model] for measure in ("messages_100", "messages_960")
        ]
        rows.append([names[model], *(as_text(cell, "%") for cell in cells)])
    return _table(["", "100 labels", "960 labels"], rows)


def ready_table() -> str:
    """Return the scores of the fine-tuned presets, from their cards."""
    rows = []
    for row in read("models")["ready"]:
        value = card_value(row["preset"], row["metric"])
        text = f"{value if value > 1 else 100 * value:.1f}%"
        rows.append([f"`{row['preset']}`", row["measure"], text])
    return _table(["preset", "measure", "dev set"], rows)


def sources_table() -> str:
    """Return where each score comes from."""
    found = read("models")
    names = {measure["id"]: measure["name"] for measure in found["measures"]}
    models = {model["id"]: model for model in found["models"]}
    sources: dict[tuple[str, ...], list[str]] = {}
    for score in found["scores"]:
        model = models[score["model"]]
        if score.get("published"):
            key = (f"[published]({model['published']})", "", "", "")
        else:
            key = (
                f"`{found['commands'][score['command']]}`",
                score["machine"],
                score["date"],
                score["version"],
            )
        what = f"{model['name']}: {names[score['measure']]}, {score.get('seeds', '')}"
        sources.setdefault(key, []).append(what.rstrip(", "))
    rows = [["; ".join(what), *key] for key, what in sources.items()]
    head = ["model: measure, number of seeds", "command", "machine", "date", "version"]
    return _table(head, rows)


def anchor_of(title: str) -> str:
    """Return the anchor of a heading."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


def speed_sections() -> dict[str, tuple[str, str]]:
    """Return the page and the text of each section of the pages of speed."""
    found = {}
    for path in sorted((ROOT / "docs").glob("speed_*.md")):
        for part in re.split(r"\n## ", path.read_text(encoding="utf-8"))[1:]:
            found[anchor_of(part.splitlines()[0])] = (path.name, part)
    return found


def speed_table() -> str:
    """Return all ratios of the chart."""
    found = read("speed")
    names = found["peers"]
    sections = speed_sections()
    rows = []
    for row in found["ratios"]:
        cells = [
            ratio_text(row["ratios"][peer]) if peer in row["ratios"] else ""
            for peer in names
        ]
        link = f"[{row['group']}]({sections[row['section']][0]}#{row['section']})"
        rows.append([link, row["case"], *cells])
    return _table(["", "on", *names.values()], rows)


TABLES = {
    "messages": messages_table,
    "models": models_table,
    "published": published_table,
    "ready": ready_table,
    "sources": sources_table,
    "speed": speed_table,
}


def fill_in(text: str) -> str:
    """Return a page with the tables of today."""

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        return f"<!-- table: {name} -->\n{TABLES[name]()}\n<!-- end -->"

    pattern = r"<!-- table: (\w+) -->\n.*?<!-- end -->"
    return re.sub(pattern, replace, text, flags=re.DOTALL)


# === Charts ===


def draw_quality(pyplot: Any, theme: dict[str, str]) -> Any:
    """Draw the accuracy on SST-2 against parameters and time."""
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    models = {model["id"]: model for model in read("models")["models"]}
    scores = _scores("sst2_all")
    for axis, key, label in zip(
        axes,
        ("millions", "ms"),
        ("million parameters", "ms for a text of 128 tokens, one core"),
        strict=True,
    ):
        baseline = scores["tfidf"]["value"]
        for name, score in scores.items():
            model, value = models[name], score["value"]
            if key in model:
                below = abs(value - baseline) < 0.5
                color = COLORS[4] if score.get("published") else COLORS[0]
                axis.plot(model[key], value, "o", color=color)
                axis.annotate(
                    f"{model['name'].split(',')[0]} {value:.1f}",
                    (model[key], value),
                    (6, -16 if below else -4),
                    textcoords="offset points",
                    fontsize=9,
                )
        axis.axhline(baseline, color=COLORS[1], linestyle=":")
        axis.text(
            0.99,
            baseline - 0.3,
            f"TF-IDF {baseline:.1f}",
            va="top",
            ha="right",
            fontsize=9,
            transform=axis.get_yaxis_transform(),
        )
        axis.set(xscale="log", xlabel=label)
        low, high = axis.get_xlim()
        axis.set_xlim(low, high * 4)
        _plain_ticks(axis, [2, 5, 10, 20, 50, 100, 200])
    axes[0].set_ylabel("SST-2, accuracy in %")
    axes[0].set_ylim(81.5, 94.5)
    return figure


def _plain_ticks(axis: Any, ticks: list[float]) -> None:
    low, high = axis.get_xlim()
    kept = [tick for tick in ticks if low <= tick <= high]
    axis.set_xticks(kept, [f"{tick:,}" for tick in kept])
    axis.minorticks_off()


def draw_labels(pyplot: Any, theme: dict[str, str]) -> Any:
    """Draw the accuracy against the number of labels."""
    found = read("models")
    figure, axes = pyplot.subplots(1, 2, figsize=(9, 3.8))
    data = {
        "The quickstart's messages, six classes": ("messages_100", "messages_960"),
        "SST-2, two classes": ("sst2_100", "sst2_1000", "sst2_all"),
    }
    names = {model["id"]: model["name"] for model in found["models"]}
    labels = {measure["id"]: measure["labels"] for measure in found["measures"]}
    for axis, (title, measures) in zip(axes, data.items(), strict=True):
        for color, model in zip(
            COLORS, ("small", "linear", "tfidf", "tiny"), strict=False
        ):
            chosen = [m for m in measures if model in _scores(m)]
            points = [_scores(measure)[model] for measure in chosen]
            axis.errorbar(
                [labels[measure] for measure in chosen],
                [point["value"] for point in points],
                [point.get("deviation") or 0 for point in points],
                marker="o",
                capsize=3,
                color=color,
                label=names[model],
            )
        axis.set(xscale="log", xlabel="labels", title=title)
        _plain_ticks(axis, [labels[measure] for measure in measures])
    axes[0].set_ylabel("accuracy in %")
    axes[0].legend(loc="lower right", frameon=False, fontsize=9)
    return figure


def draw_speed(pyplot: Any, theme: dict[str, str]) -> Any:
    """Draw all ratios as dots with their spread."""
    found = read("speed")
    peers = found["peers"]
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in found["ratios"]:
        groups.setdefault(row["group"], []).append(row)
    count = len(found["ratios"]) + 1.4 * len(groups)
    figure, axis = pyplot.subplots(figsize=(9, 0.34 * count + 0.8))
    colors = dict(zip(peers, COLORS, strict=True))
    place, ticks = 0.0, []
    for group, rows in groups.items():
        axis.text(
            -0.19,
            place,
            group.replace("`", ""),
            fontweight="bold",
            va="center",
            transform=axis.get_yaxis_transform(),
        )
        for row in rows:
            place += 1
            ticks.append((place, row["case"]))
            by_median = sorted(row["ratios"].items(), key=lambda item: item[1][1])
            # Neighbors often have nearly the same ratio.
            spots = [
                (0, 5, "center"),
                (0, -11, "center"),
                (9, 5, "left"),
                (0, 5, "center"),
            ]
            for (peer, ratio), (x, y, side) in zip(by_median, spots, strict=False):
                color, (least, median, most) = colors[peer], ratio
                axis.plot([least, most], [place, place], color=color, linewidth=3)
                axis.plot(median, place, "o", color=color, label=peers[peer])
                axis.annotate(
                    number(median),
                    (median, place),
                    (x, y),
                    textcoords="offset points",
                    ha=side,
                    fontsize=7,
                )
        place += 1.4
    axis.axvline(1, color=theme["text"], linewidth=1)
    label = "multiple of keras_albert's time or memory; right of 1, it is better"
    axis.set(xscale="log", xlabel=label, xlim=(0.5, 90))
    axis.set_yticks([y for y, _ in ticks], [text for _, text in ticks])
    axis.set_ylim(place - 0.6, -0.9)
    _plain_ticks(axis, [0.5, 1, 2, 5, 10, 20, 50])
    handles = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    axis.legend(
        [handles[name] for name in peers.values()],
        peers.values(),
        loc="lower center",
        bbox_to_anchor=(0.42, 1.0),
        ncols=3,
        frameon=False,
        fontsize=9,
    )
    return figure


CHARTS = {"quality": draw_quality, "labels": draw_labels, "speed": draw_speed}


def draw_charts(folder: Path) -> None:
    """Draw all charts as SVG files, `NAME-light.svg` and `NAME-dark.svg`."""
    import matplotlib as mpl  # noqa: PLC0415

    mpl.use("Agg")
    from matplotlib import pyplot  # noqa: PLC0415

    folder.mkdir(parents=True, exist_ok=True)
    for mode, theme in THEMES.items():
        colors = ("text.color", "axes.labelcolor", "xtick.color", "ytick.color")
        settings: dict[str, Any] = dict.fromkeys(colors, theme["text"])
        settings |= {
            **{"axes.edgecolor": theme["grid"], "grid.color": theme["grid"]},
            **{"axes.grid": True, "axes.axisbelow": True, "axes.titlesize": 11},
            **{"axes.spines.top": False, "axes.spines.right": False},
            **{"figure.facecolor": "none", "axes.facecolor": "none"},
            # Text stays text, and files do not change without reason.
            **{"svg.fonttype": "none", "svg.hashsalt": "keras_albert"},
            **{"font.family": "sans-serif", "font.size": 10},
        }
        with mpl.rc_context(settings):
            for name, draw in CHARTS.items():
                figure = draw(pyplot, theme)
                path = folder / f"{name}-{mode}.svg"
                figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
                pyplot.close(figure)


def main() -> None:
    """Write or compare the tables, or draw the charts."""
    words = sys.argv[1:]
    if words[:1] == ["--charts"]:
        draw_charts(Path(words[1]))
        return
    for name in PAGES:
        path = ROOT / name
        old = path.read_text(encoding="utf-8")
        new = fill_in(old)
        if old != new and "--check" in words:
            sys.exit(f"{name} has other figures: run `python docs/figures.py`.")
        if old != new:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    main()
