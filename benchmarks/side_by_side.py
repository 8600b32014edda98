"""Interleave the runs of the sides of a comparison, and compute their ratios.

Absolute times mean little on a machine with other load. So every side runs once to warm
up, and then once per round, each round beginning with another side, so that other load
affects all alike. The ratio of two sides is the median of the rounds' ratios.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

# Wall time, or the processor time of this process. The latter excludes other load on
# the machine, but also accelerators and waiting.
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True)
class Side:
    """One way to do the work.

    Args:
        name: string. The library and its settings.
        run: Callable without arguments: one repeat, which ends when the device is done.
        amount: float. The amount of work in a repeat, such as examples. Costs are
            compared by amount, so that a slow side may do less. Defaults to `1`.
        optional: bool. Whether to skip the side if its warm-up fails. Defaults to
            `False`.
        gives_cost: bool. Whether `run` returns the cost, instead of being timed.
            Defaults to `False`.
    """

    name: str
    run: Callable[[], Any]
    amount: float = 1
    optional: bool = False
    gives_cost: bool = False


@dataclass
class Comparison:
    """The costs of all sides; ratios are relative to the first one.

    Args:
        title: string.
        costs: dict of a side's name to its costs, one per round.
        amounts: dict of a side's name to the work of a repeat.
        unit: string. The unit of the costs. Defaults to `"s"`.
        work: string. The unit of `amounts`; `""` if each repeat is the whole work.
        notes: Notes on agreement, sizes, and reasons for skipped sides.
    """

    title: str
    costs: dict[str, list[float]]
    amounts: dict[str, float]
    unit: str = "s"
    work: str = ""
    notes: list[str] = field(default_factory=list)

    def ratios(self, name: str) -> list[float]:
        """Return the ratio of a side's cost to the first side's, for each round."""
        first = next(iter(self.costs))
        scale = self.amounts[first] / self.amounts[name]
        pairs = zip(self.costs[name], self.costs[first], strict=True)
        return [theirs / ours * scale for theirs, ours in pairs]


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the minimum, the median and the maximum."""
    return min(values), statistics.median(values), max(values)


def measure(
    title: str,
    sides: Sequence[Side],
    repeats: int,
    *,
    unit: str = "s",
    work: str = "",
    notes: Sequence[str] = (),
    warm_up: bool = True,
    clock: Callable[[], float] = time.perf_counter,
) -> Comparison:
    """Interleave the runs of all sides.

    Args:
        title: string. The title of the comparison.
        sides: The sides, keras_albert first.
        repeats: int. The number of measured rounds.
        unit: string. The unit of the costs. Defaults to `"s"`.
        work: string. The unit of the sides' amounts. Defaults to `""`.
        notes: Notes below the table. Defaults to none.
        warm_up: bool. Whether to begin with a round that is not measured; new
            processes need none. Defaults to `True`.
        clock: Callable that returns seconds.

    Returns:
        The `Comparison`.
    """
    said = list(notes)
    running = list(sides)
    for side in sides if warm_up else ():
        try:
            side.run()
        except Exception as error:
            if not side.optional:
                raise
            reason = (str(error).strip() or repr(error)).splitlines()[0]
            said.append(f"{side.name} does not run here: {reason[:200]}")
            running.remove(side)
    costs: dict[str, list[float]] = {side.name: [] for side in running}
    if len(costs) < len(running):
        msg = f"Two sides have one name: {', '.join(side.name for side in running)}"
        raise ValueError(msg)
    for number in range(repeats):
        first = number % len(running)
        for side in running[first:] + running[:first]:
            start = clock()
            given = side.run()
            seconds = clock() - start
            costs[side.name].append(given if side.gives_cost else seconds)
    amounts = {side.name: side.amount for side in running}
    return Comparison(title, costs, amounts, unit, work, said)
