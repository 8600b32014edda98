"""What users call first has an example; the list of the others only gets shorter."""

import importlib
import inspect

from extensions import reference

# Its example is that of `verify`, which exports a model first.
WITHOUT_EXAMPLE = frozenset({"VerifiedModel"})


def has_example(value):
    text = inspect.getdoc(value) or ""
    return ">>> " in text or "```" in text


def documented():
    """Yield the name and the object of each function, class and method."""
    for path in sorted(set(reference.places().values())):
        module_name, name = path.rsplit(".", 1)
        value = getattr(importlib.import_module(module_name), name)
        if inspect.isclass(value):
            yield name, value
            for member in reference.members(value):
                if isinstance(inspect.getattr_static(value, member), property):
                    continue
                method = getattr(value, member)
                # scikit-learn makes some methods.
                if inspect.isroutine(method) and "<locals>" not in method.__qualname__:
                    yield method.__qualname__, method
        elif inspect.isroutine(value):
            yield name, value


def test_what_has_no_example_is_known():
    missing = {name for name, value in documented() if not has_example(value)}
    assert missing - WITHOUT_EXAMPLE == set(), "write an example"
    assert WITHOUT_EXAMPLE - missing == set(), "remove them from the list"


def test_each_name_has_a_summary_of_one_line():
    for name, value in documented():
        first = (inspect.getdoc(value) or "").partition("\n\n")[0]
        assert first, name
        assert "\n" not in first, name
        assert first.endswith((".", ":")), name


def test_examples_run_as_they_are_shown():
    shown = {name for name, value in documented() if "# doctest" in str(value.__doc__)}
    assert not shown, "what cannot run everywhere is listed in the root's conftest.py"
