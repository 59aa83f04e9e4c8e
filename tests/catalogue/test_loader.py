"""What a load gives: frozen nouns, configs as they are, and a revision that names the content."""

import json
import shutil
import time
from pathlib import Path

import pytest

from service.catalogue.entries import Catalogue
from service.catalogue.loader import load

ANOTHER_MODEL = """\
name: {name}
aliases: [publisher/{name}]
title: Another
publisher: Publisher
source: vendor
declared_parameters: {{value: 2, unit: billion, basis: datasheet, source: vendor}}
hf_config: {{model_type: llama}}
"""


@pytest.fixture
def copy(good: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(good, tmp_path / "copy"))


@pytest.fixture
def extra(tmp_path: Path) -> Path:
    (tmp_path / "extra" / "models").mkdir(parents=True)
    (tmp_path / "extra" / "models" / "mini.yaml").write_text(ANOTHER_MODEL.format(name="mini"))
    return tmp_path / "extra"


def test_the_same_content_has_the_same_revision_wherever_it_is(good: Path, copy: Path) -> None:
    assert load(good).revision == load(copy).revision


@pytest.mark.parametrize(
    "file", ["sources.yaml", "accelerators/alpha.yaml", "nodes/alpha-node.yaml", "models/tiny.yaml", "prices/vendor.yaml"]
)
def test_one_byte_changes_the_revision(file: str, good: Path, copy: Path) -> None:
    path = copy / file
    path.write_bytes(path.read_bytes() + b"\n")
    assert load(good).revision != load(copy).revision


def test_a_new_name_for_the_same_bytes_changes_the_revision(extra: Path, good: Path) -> None:
    before = load(good, extra).revision
    (extra / "models" / "mini.yaml").rename(extra / "models" / "nano.yaml")
    (extra / "models" / "nano.yaml").write_text(ANOTHER_MODEL.format(name="nano"))
    assert load(good, extra).revision != before


def test_the_order_of_folders_changes_nothing(good: Path, extra: Path) -> None:
    one, other = load(good, extra), load(extra, good)
    assert one.revision == other.revision
    assert list(one.models.items()) == list(other.models.items())
    assert one.revision != load(good).revision


def test_an_extra_folder_may_name_sources_and_accelerators_of_the_first(good: Path, extra: Path) -> None:
    (extra / "nodes").mkdir()
    (extra / "nodes" / "pair.yaml").write_text(
        "name: pair\nprovider: us\ntitle: Two\naccelerator: alpha\nnum_devices: 2\nsource: vendor\n"
    )
    assert "alpha" == load(good, extra).node_types["pair"].accelerator


def test_an_empty_folder_adds_nothing(good: Path, tmp_path: Path) -> None:
    assert load(good).revision == load(good, tmp_path).revision


def test_a_config_keeps_its_numbers_words_and_nulls(good: Path) -> None:
    expected = {
        "model_type": "llama",
        "hidden_size": 64,
        "rms_norm_eps": 1e-05,
        "tie_word_embeddings": False,
        "head_dim": None,
    }
    assert expected == dict(load(good).models["tiny"].hf_config)


def test_a_config_may_be_pasted_as_json(extra: Path, good: Path) -> None:
    config = {
        "model_type": "llama",
        "rms_norm_eps": 1e-06,
        "rope_theta": 500000.0,
        "big": 1e23,
        "torch_dtype": "bfloat16",
        "version": "4.43",
        "answer": "no",
        "layers": ["re:.*lm_head", 'a "quoted" \\ word', {"0": [1, -2, None]}],
        "empty": {},
    }
    text = ANOTHER_MODEL.format(name="mini").replace("{model_type: llama}", json.dumps(config, indent=2))
    (extra / "models" / "mini.yaml").write_text(text.replace("\n}", "\n  }"))
    loaded = load(good, extra).models["mini"].hf_config
    assert config == dict(loaded)
    assert isinstance(loaded["big"], float)
    assert isinstance(loaded["rope_theta"], float)


def test_nothing_can_be_changed(catalogue: Catalogue) -> None:
    h100 = catalogue.accelerators["h100-sxm"]
    with pytest.raises(AttributeError, match="immutable"):
        h100.name = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        catalogue.accelerators["other"] = h100  # type: ignore[index]
    with pytest.raises(TypeError):
        catalogue.models["llama-3.1-8b"].hf_config["num_hidden_layers"] = 1  # type: ignore[index]


def test_entries_can_be_keys(catalogue: Catalogue) -> None:
    assert len(catalogue.accelerators) == len(set(catalogue.accelerators.values()))
    assert len(catalogue.models) == len(set(catalogue.models.values()))
    assert hash(catalogue) == hash(catalogue)  # by identity, so that a cache can be keyed by it


def test_the_shipped_catalogue_is_complete(catalogue: Catalogue) -> None:
    assert len(catalogue.accelerators) >= 60
    assert len(catalogue.processes) >= 16
    assert len(catalogue.node_types) >= 97
    assert len(catalogue.models) >= 118


def test_loading_is_fast(repository_root: Path) -> None:
    started = time.process_time()
    load(repository_root / "specs")
    # About 0.1 s of a core; whatever else the machine does is not counted.
    assert time.process_time() - started < 1.0
