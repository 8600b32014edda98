"""The stages of a run, each with separate settings."""

from dataclasses import dataclass
from typing import Any

from keras_albert.pretraining.data.batches import PretrainingBatches
from keras_albert.pretraining.data.dataset import PretrainingData
from keras_albert.pretraining.data.held_out import EVALUATION_MASKS, HeldOut
from keras_albert.pretraining.settings.config import PretrainingConfig


@dataclass(frozen=True)
class Stage:
    """A stage of a run."""

    config: PretrainingConfig
    begin: int
    data: PretrainingData

    @property
    def end(self) -> int:
        """The number of batches of the run at the end of the stage."""
        return self.begin + self.config.steps * self.config.accumulation_steps

    @property
    def sequence_length(self) -> int:
        """Tokens in a row."""
        return self.config.sequence_length or self.data.sequence_length

    @property
    def tokens_per_example(self) -> float:
        """The mean number of tokens in a row, without padding."""
        mean = self.data.num_tokens / len(self.data) + 3
        return min(self.sequence_length, mean)

    def batches(self) -> PretrainingBatches:
        """Return the batches, counted from the beginning of the stage."""
        return self.data.batches(
            self.config.micro_batch_size,
            self.sequence_length,
            accumulation_steps=self.config.accumulation_steps,
        )

    def held_out(self) -> HeldOut:
        """Read the validation set, in rows of the stage's length."""
        return HeldOut.read(
            read_data(self.config, "held_out"),
            self.config.evaluation_examples,
            self.config.micro_batch_size,
            self.sequence_length,
        )


def read_stages(config: PretrainingConfig) -> list[Stage]:
    """Open the data of a run."""
    stages: list[Stage] = []
    for each in config.stage_settings:
        begin = stages[-1].end if stages else 0
        stages.append(Stage(each, begin, read_data(each, "train")))
    return stages


def read_data(config: PretrainingConfig, split: Any) -> PretrainingData:
    """Open a split of the data of a run."""
    second_task: Any = None if config.second_task == "none" else config.second_task
    masks = config.masking_rates if split == "train" else EVALUATION_MASKS
    return PretrainingData(config.data, split, second_task, masks, config.seed)
