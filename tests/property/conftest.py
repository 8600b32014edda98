"""How many examples, and what came of them."""

from collections import Counter

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.property.programs import Program


def pytest_addoption(parser):
    parser.addoption(
        "--examples",
        type=int,
        help="hypothesis examples of each property; the same few each time without it",
    )


def pytest_configure(config):
    # Unknown where other folders are tested with this one.
    count = config.getoption("--examples", None)
    common = settings(
        deadline=None,
        derandomize=count is None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    settings.register_profile("texts", common, max_examples=count or 40)
    # What ends a process takes seconds to try again, and is small as it is drawn.
    phases = set(Phase) - {Phase.shrink, Phase.explain}
    settings.register_profile(
        "checkpoints", common, max_examples=count or 12, phases=phases
    )


@pytest.fixture
def figures(record_property):
    """What a test counts, for the summary."""
    counts = Counter()
    yield counts
    record_property("figures", dict(counts))


def pytest_terminal_summary(terminalreporter):
    for reports in terminalreporter.stats.values():
        for report in reports:
            found = dict(getattr(report, "user_properties", ())).get("figures")
            if found and report.when == "teardown":
                counts = ", ".join(f"{found[key]:,} {key}" for key in found)
                terminalreporter.write_line(f"{report.nodeid}: {counts}")


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Child processes by the names of their modules."""
    folder = tmp_path_factory.mktemp("programs")
    running = {}

    def get(name):
        if name not in running:
            running[name] = Program(name, folder)
        return running[name]

    yield get
    for program in running.values():
        program.stop()
