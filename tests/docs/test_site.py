"""The parts of the site that need no Sphinx."""

import importlib
import json
import pkgutil

import check_links
import layers_picture
import versions
from extensions import reference

import keras_albert


def test_the_reference_has_every_public_module():
    found = {"keras_albert"}
    for module in pkgutil.iter_modules(keras_albert.__path__, "keras_albert."):
        if module.ispkg and getattr(
            importlib.import_module(module.name), "__all__", None
        ):
            found.add(module.name)
    # They are no packages.
    found |= {f"keras_albert.{name}" for name in ("backbone", "sklearn")}
    found.add("keras_albert.tasks.recipes")
    assert found == set(reference.MODULES)


def test_each_object_is_documented_in_one_place():
    places = reference.places()
    assert places["keras_albert.tasks.AlbertClassifier"] == (
        "keras_albert.AlbertClassifier"
    )
    assert places["keras_albert.AlbertTextClassifier"] == (
        "keras_albert.AlbertClassifier"
    )
    assert places["keras_albert.text.read_squad"] == "keras_albert.text.read_squad"


def test_members_are_those_of_this_package():
    found = reference.members(keras_albert.AlbertClassifier)
    assert {"classify", "fit", "from_preset", "export", "num_classes"} - set(found) == {
        "num_classes"
    }
    assert "summary" not in found


def test_the_picture_shows_the_layers_that_are_checked():
    rows = layers_picture.read_layers()
    assert {name for row in rows for name in row} == set(layers_picture.PURPOSES)
    drawn = layers_picture.PICTURE.read_text(encoding="utf-8")
    assert drawn == layers_picture.draw(rows)


def test_the_newest_release_is_preferred(tmp_path):
    for version in ("0.9.0", "0.10.0", "0.11.0.dev0"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "index.html").write_text("")
    found = ["0.11.0.dev0", "0.10.0", "0.9.0"]
    assert versions.write(tmp_path, "/docs") == found
    entries = json.loads((tmp_path / "switcher.json").read_text())
    assert [entry["version"] for entry in entries] == found
    assert [x["version"] for x in entries if x.get("preferred")] == ["0.10.0"]
    assert entries[1]["url"] == "/docs/0.10.0/"
    assert "url=0.10.0/index.html" in (tmp_path / "index.html").read_text()


def test_broken_links_are_found(tmp_path):
    (tmp_path / "a.html").write_text(
        '<h1 id="top1"></h1><a href="#top1"></a><a href="b.html#there"></a>'
        '<a href="b.html#not"></a><a href="c.html"></a><a href="https://x.y"></a>'
        '<script src="https://x.y/z.js"></script>'
        '<script>load.src = "https://x.y/jquery.js"; link = "https://x.y"</script>'
    )
    (tmp_path / "b.html").write_text('<p id="there"></p>')
    errors, pages, addresses = check_links.check(tmp_path)
    assert (pages, addresses) == (2, 7)
    assert errors == [
        "a.html: b.html#not has no such anchor",
        "a.html: c.html does not exist",
        "a.html: https://x.y/z.js is loaded from another host",
        "a.html: https://x.y/jquery.js is loaded from another host",
    ]
