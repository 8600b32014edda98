"""Pages, charts and JSON files have the same figures."""

import re
from pathlib import Path

import figures
import pytest

ROOT = Path(__file__).resolve().parents[2]
MODELS = figures.read("models")
SPEED = figures.read("speed")


def page(name):
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def by_id(name):
    return {entry["id"]: entry for entry in MODELS[name]}


@pytest.mark.parametrize("name", figures.PAGES)
def test_tables_are_those_of_the_files(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "<!-- table: " in text
    assert figures.fill_in(text) == text, "run `python docs/figures.py`"


def test_each_score_says_where_it_comes_from():
    measures, models = by_id("measures"), by_id("models")
    for score in MODELS["scores"]:
        assert score["measure"] in measures
        model = models[score["model"]]
        assert bool(score.get("published")) == ("published" in model), score
        if score.get("published"):
            continue
        command = MODELS["commands"][score["command"]]
        (program,) = re.findall(r"python (\S+\.py)", command)
        assert (ROOT / program).is_file()
        assert re.fullmatch(r"20\d\d-\d\d-\d\d", score["date"])
        assert score["version"]
        assert score["machine"]
        assert (score["deviation"] is None) == (score["seeds"] < 3)


def test_sentences_cite_the_scores_of_the_file():
    measures = by_id("measures")
    scores = {(s["measure"], s["model"]): s for s in MODELS["scores"]}
    for cited in MODELS["cited"]:
        score = scores[cited["measure"], cited["model"]]
        text = figures.as_text(score, measures[cited["measure"]]["unit"])
        assert text.split()[0] in page(cited["page"]), cited


def test_sentences_cite_the_cards():
    squad = "albert_small_en_uncased_squad"
    text = page("docs/tasks/question_answering.md")
    assert f"F1 {figures.card_value(squad, 'f1'):.1f}" in text
    assert f"finds {figures.card_value(squad, 'exact match'):.0f}% of" in text
    for preset in {row["preset"] for row in MODELS["ready"]}:
        card = page(f"keras_albert/presets/{preset}/README.md")
        assert "in float32" in card
        assert f"`keras-albert evaluate {preset} " in card
    (test_f1,) = re.findall(
        r"On the test set its F1 is ([\d.]+)%",
        page("keras_albert/presets/albert_small_en_uncased_ner/README.md"),
    )
    assert f"is {test_f1}%" in page("docs/results.md")


def numbers(text):
    return [float(x) for x in re.findall(r"\d[\d,]*\.?\d*", text.replace(",", ""))]


@pytest.mark.parametrize("row", SPEED["ratios"], ids=lambda row: row["case"])
def test_ratios_stand_in_the_tables_of_their_section(row):
    _, text = figures.speed_sections()[row["section"]]
    found = numbers(text)
    assert row["command"].removeprefix("benchmarks/") in text
    for ratio in row["ratios"].values():
        assert ratio == sorted(ratio)
        for value in ratio:
            assert value in found, (row["section"], value)


def test_charts_are_drawn_from_the_files(tmp_path):
    pytest.importorskip("matplotlib")
    figures.draw_charts(tmp_path)
    speed, quality = (
        (tmp_path / f"{name}-light.svg").read_text(encoding="utf-8")
        for name in ("speed", "quality")
    )
    for row in SPEED["ratios"]:
        for _, median, _ in row["ratios"].values():
            assert f">{figures.number(median)}</text>" in speed
    for score in MODELS["scores"]:
        if score["measure"] == "sst2_all" and score["model"] != "linear":
            assert f"{score['value']:.1f}</text>" in quality
    assert {path.name for path in tmp_path.iterdir()} == {
        f"{name}-{mode}.svg" for name in figures.CHARTS for mode in figures.THEMES
    }
