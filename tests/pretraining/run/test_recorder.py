from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

from keras_albert.pretraining.run.recorder import write_tensorboard_row


def test_rows_are_read_by_tensorboard(tmp_path):
    write_tensorboard_row(tmp_path, {"step": 10, "loss": 2.0})
    write_tensorboard_row(tmp_path, {"step": 20, "loss": 1.5, "val_loss": 1.75})
    found = {
        folder.name: [
            (event.step, value.tag, value.tensor.float_val[0])
            for event in EventFileLoader(str(folder / "events.out.tfevents")).Load()
            for value in event.summary.value
        ]
        for folder in tmp_path.iterdir()
    }
    assert found == {
        "train": [(10, "loss", 2.0), (20, "loss", 1.5)],
        "held_out": [(20, "loss", 1.75)],
    }
