import urllib.request

import pytest

from keras_albert import AlbertBackbone
from keras_albert.presets import BUILTIN_PRESETS, handles


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """Simulate a machine without network and cache, without waiting for either."""
    for name in ("HF_ENDPOINT", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(urllib.request, "getproxies", dict)
    monkeypatch.setattr(handles, "_from_kaggle", _refuse_cache)
    monkeypatch.setattr(handles, "_from_hf", _refuse_cache)
    asked = []

    def refuse(address, timeout):
        asked.append((*address, timeout))
        raise OSError("Network is unreachable")

    monkeypatch.setattr(handles.socket, "create_connection", refuse)
    return asked


def _refuse_cache(_, cached_only):
    assert cached_only, "downloaded without asking whether there is a network"
    raise FileNotFoundError


def test_a_directory_is_itself(tmp_path):
    assert handles.local_directory(tmp_path) == tmp_path
    assert handles.local_directory(str(tmp_path)) == tmp_path


def test_an_unknown_name_suggests_a_known_one():
    with pytest.raises(ValueError, match="Did you mean 'albert_base_en_uncased'"):
        handles.local_directory("albert_base_uncased")


def test_a_name_like_no_other_gets_no_suggestion():
    with pytest.raises(ValueError, match="neither an existing directory") as caught:
        handles.local_directory("/no/such/directory")
    assert "Did you mean" not in str(caught.value)
    for remedy in ("hf://user/model", "albert_large_v1_en_uncased"):
        assert remedy in str(caught.value)


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("albert-base-v2", r"Did you mean 'albert_base_v2_en_uncased'\?$"),
        ("someone/model", r"name\. For a .* Hub, pass 'hf://someone/model'\.$"),
        ("bert_tiny_en_uncased", r"KerasHub's model, pass 'kaggle://keras/bert/keras/"),
        ("https://huggingface.co/a/b", r"is a page\. .* 'hf://a/b'\.$"),
        ("Albert_Tiny_EN_uncased", r"Did you mean 'albert_tiny_en_uncased'\?$"),
        (__file__, r"It is a file: pass its directory"),
    ],
)
def test_the_next_step_is_one_sentence(name, step):
    with pytest.raises(ValueError, match=step):
        handles.local_directory(name)


def test_the_output_of_a_run_names_its_preset(tmp_path):
    (tmp_path / "training").mkdir()
    last = tmp_path / "training" / "last.safetensors"
    last.touch()
    with pytest.raises(ValueError, match=r"unfinished, repeat the command"):
        handles.local_directory(tmp_path)
    last.unlink()
    (tmp_path / "preset").mkdir()
    with pytest.raises(ValueError, match=r"the output of a run\. Pass .*preset; if"):
        AlbertBackbone.from_preset(tmp_path)
    # A preset may have any other directory.
    (tmp_path / "config.json").touch()
    assert handles.local_directory(tmp_path) == tmp_path


def test_what_keras_hub_resolves_is_left_to_it():
    assert handles.local_directory("modelscope://somewhere/model") is None


KAGGLE = BUILTIN_PRESETS["albert_base_en_uncased"].handle


@pytest.mark.parametrize(
    ("name", "origin", "host"),
    [
        ("albert_base_en_uncased", KAGGLE, "api.kaggle.com"),
        ("albert_xlarge_v1_en_uncased", "hf://albert/albert-xlarge-v1", None),
        ("hf://someone/model", "hf://someone/model", None),
    ],
)
def test_offline_the_message_says_what_was_tried(offline, name, origin, host):
    host = host or "huggingface.co"
    with pytest.raises(ConnectionError) as caught:
        AlbertBackbone.from_preset(name)
    message = str(caught.value)
    for part in (
        repr(name),
        origin,
        host,
        "not in the local cache",
        "Network is unreachable",
        "from_preset('path/to/directory')",
    ):
        assert part in message
    ((asked_host, port, timeout),) = offline
    assert (asked_host, port) == (host, 443)
    assert timeout <= 10


def test_a_mirror_of_the_hub_is_asked_instead(offline, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "https://mirror.example.org/hub")
    with pytest.raises(ConnectionError, match=r"mirror\.example\.org"):
        handles.local_directory("hf://someone/model")
    assert offline[0][0] == "mirror.example.org"


def test_behind_a_proxy_only_the_proxy_can_tell(offline, monkeypatch, tmp_path):
    proxies = {"https": "http://proxy.example.org"}
    monkeypatch.setattr(urllib.request, "getproxies", lambda: proxies)

    def download(_, cached_only):
        if cached_only:
            raise FileNotFoundError
        return str(tmp_path)

    monkeypatch.setattr(handles, "_from_hf", download)
    assert handles.local_directory("hf://someone/model") == tmp_path
    assert offline == []
