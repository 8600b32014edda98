import json

import pytest

from keras_albert.pretraining import PretrainingConfig
from tests.one_backend import on_one_backend

pytestmark = on_one_backend

NAMED = {"data": "a", "output": "b"}


def test_reads_files_and_flags_over_them(tmp_path):
    path = tmp_path / "run.toml"
    path.write_text(
        'data = "a"\noutput = "b"\nsteps = 1000\nclip_norm = 2\n'
        "[backbone]\nnum_layers = 3\ndropout = 0.1\n"
    )
    config = PretrainingConfig.from_file(
        path, output="c", backbone={"num_layers": 4}, batch_size=128
    )
    assert (config.data, config.output, config.steps) == ("a", "c", 1000)
    # An int is accepted for a float.
    assert config.clip_norm == 2.0
    assert isinstance(config.clip_norm, float)
    arguments = config.backbone_arguments
    assert (arguments["num_layers"], arguments["dropout"]) == (4, 0.1)
    assert arguments["hidden_dim"] == 768
    as_json = tmp_path / "run.json"
    as_json.write_text(json.dumps(config.to_dict()))
    assert PretrainingConfig.from_file(as_json) == config


@pytest.mark.parametrize(
    ("settings", "rate"),
    [
        ({"size": "tiny"}, 0.25 / 256),
        ({"size": "base"}, 0.25 / 768),
        ({"size": "tiny", "backbone": {"hidden_dim": 64}}, 1e-3),
        ({"optimizer": "lamb", "batch_size": 4096}, 0.00176),
        ({"optimizer": "lamb", "batch_size": 1024}, 0.00088),
        ({"optimizer": "lamb", "learning_rate": 0.01}, 0.01),
    ],
)
def test_the_rate_follows_from_width_or_batch(settings, rate):
    assert PretrainingConfig(**NAMED, **settings).peak_learning_rate == (
        pytest.approx(rate)
    )


def test_what_follows_from_settings():
    config = PretrainingConfig(**NAMED, batch_size=96, accumulation_steps=4)
    assert config.micro_batch_size == 24
    assert config.num_warmup_steps == 125_000 // 20
    assert PretrainingConfig(**NAMED, warmup_steps=0).num_warmup_steps == 0
    assert config.masking_rates.mask_selection_rate == 0.15


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data": ""}, "`data` is empty"),
        ({"size": "giant"}, r"`size` must be one of 'tiny', .*size='giant'"),
        ({"steps": 0}, "`steps` must be a whole number, at least 1.*steps=0"),
        ({"batch_size": 10, "accumulation_steps": 4}, r"multiple of `accumulation_"),
        ({"evaluate_every": 150}, "multiple of `log_every`"),
        ({"learning_rate": float("nan")}, "`learning_rate` must be a finite number"),
        ({"warmup_steps": 11, "steps": 10}, "`warmup_steps` must be at most 10"),
        ({"mask_token": float("nan")}, "`mask_token` must be a number"),
        ({"masked": 0.0}, "masked=0.0"),
        ({"backbone": {"seed": 3}}, "Pass `seed`"),
        ({"backbone": {"dtype": "float16"}}, "Pass `precision`"),
        ({"min_layers": 13}, "`min_layers` must be at most 12"),
        ({"min_layers": 1, "backbone": {"num_groups": 2}}, "min_layers.*at least 2"),
    ],
)
def test_says_which_value_is_wrong(settings, message):
    with pytest.raises(ValueError, match=message):
        PretrainingConfig(**NAMED | settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"steps": "10"}, "`steps` must be int. Received: steps='10', str"),
        ({"steps": True}, "steps=True, bool"),
        ({"steps": 1.5}, "steps=1.5, float"),
        ({"warmup_steps": "x"}, "`warmup_steps` must be int or None"),
        ({"backbone": [1]}, "`backbone` must be Mapping"),
        ({"backbone": {"num_layer": 3}}, "Did you mean `num_layers`"),
        ({"data": None}, "`data` must be str. Received: data=None"),
    ],
)
def test_says_which_type_is_wrong(settings, message):
    with pytest.raises(TypeError, match=message):
        PretrainingConfig(**NAMED | settings)


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("a.toml", b"steps =", r"a\.toml .* different kind of file \(TOML"),
        ("a.json", b"[1]", "contains list"),
        (
            "a.json",
            b'{"data": "a", "output": "b", "batch": 1}',
            "no argument `batch`. Did you mean",
        ),
        ("a.json", b'{"data": "a"}', "Missing directories: `output`"),
    ],
)
def test_says_what_is_wrong_with_a_file(tmp_path, name, contents, message):
    (tmp_path / name).write_bytes(contents)
    with pytest.raises((TypeError, ValueError), match=message):
        PretrainingConfig.from_file(tmp_path / name)
