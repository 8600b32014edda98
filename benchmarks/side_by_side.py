"""Sides of a comparison take turns, and what counts is their ratio.

Absolute times mean little where a machine does other work too. So every side is run
once to warm up, and then once a round, each round beginning with another side: what
else goes on falls on all alike. The ratio of two sides is the median of the rounds'
ratios.
"""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

# What seconds are: those that pass, or those that this process computes. The second
# leave out what else the machine does, but also an accelerator, and waiting.
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


@dataclass(frozen=True)
class Side:
    """One way to do the work.

    Args:
        name: string. The library, and how it is set.
        run: Callable without arguments: one repeat, that ends when the device is done.
        amount: float. How much work a repeat does, for instance examples. Costs are
            compared by amount, so that a slow side may do less. Defaults to `1`.
        optional: bool. Whether the others go on without it if it fails at once.
            Defaults to `False`.
        gives_cost: bool. Whether what `run` gives is the cost, not its seconds.
            Defaults to `False`.
    """

    name: str
    run: Callable[[], Any]
    amount: float = 1
    optional: bool = False
    gives_cost: bool = False


@dataclass
class Comparison:
    """What the sides of one comparison cost; the first one is what we compare.

    Args:
        title: string.
        costs: dict of a side's name to its costs, one a round.
        amounts: dict of a side's name to the work of a repeat.
        unit: string. Of the costs. Defaults to `"s"`.
        work: string. What amounts count; `""` if each repeat is the whole work.
        notes: What was found before: agreement, sizes, what a side is left out for.
    """

    title: str
    costs: dict[str, list[float]]
    amounts: dict[str, float]
    unit: str = "s"
    work: str = ""
    notes: list[str] = field(default_factory=list)

    def ratios(self, name: str) -> list[float]:
        """Give, for each round, how many times as much as the first side it costs."""
        first = next(iter(self.costs))
        scale = self.amounts[first] / self.amounts[name]
        pairs = zip(self.costs[name], self.costs[first], strict=True)
        return [theirs / ours * scale for theirs, ours in pairs]


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Give the least value, the median and the greatest."""
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
    """Run all sides, in turns.

    Args:
        title: string. What is compared.
        sides: The sides, ours first.
        repeats: int. Rounds that count.
        unit: string. Of what is measured. Defaults to `"s"`.
        work: string. What the sides' amounts count. Defaults to `""`.
        notes: What to say below the table. Defaults to none.
        warm_up: bool. Whether a round goes before that does not count; fresh
            processes have nothing to warm. Defaults to `True`.
        clock: Callable that gives seconds.

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
