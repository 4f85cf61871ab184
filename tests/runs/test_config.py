"""Settings: checked, complete, written and read again."""

import copy
import math
import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedgrain import Config
from fedgrain.catalogue import ALGORITHMS, DATASETS, HEADS, SUPERVISIONS
from fedgrain.config.config_texts import differences, read_config
from fedgrain.errors import ConfigError


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"head": "hard-softmax"}, "head 'hard-softmax' does not exist; choose one of flat-"),
        ({"dataset": "mnist"}, "dataset 'mnist' does not exist"),
        ({"alpha": 1.2}, "alpha is 1.2, but must lie between 0 and 1"),
        ({"alpha": -0.1}, "alpha is -0.1, but must lie"),
        ({"alpha": 0.95}, "with 10 clients it must lie between 0 and 0.9"),
        ({"alpha": math.nan}, "must be a finite number"),
        ({"lr": -0.05}, "lr is -0.05, but must lie between 0 and"),
        ({"branch_lr": -1.0}, "branch_lr is -1.0"),
        ({"server_lr": -1}, "server_lr is -1"),
        ({"rounds": 0}, "rounds is 0"),
        ({"rounds": 2.5}, "rounds is 2.5, but must be a whole number"),
        ({"rounds": True}, "rounds is True, but must be a whole number"),
        ({"crop_and_flip": 1}, "must be true or false"),
        ({"join_ratio": 0.0}, "join_ratio is 0.0"),
        ({"algorithm": "fedbdft", "head": "ps-softmax"}, "fedbdft needs the head cond-softmax"),
        ({"algorithm": "fedbdft", "supervision": "marginal"}, "paper or projection"),
        ({"first_stage_supervision": "paper"}, "is for algorithms of two stages"),
        ({"margin_size": 2.0}, "belong to the head softmax-margin, not to cond-softmax"),
        ({"head": "softmax-margin", "margin_type": "wide"}, "choose one of incorrect, edge-dist"),
        ({"head": "softmax-margin", "margin_size": -1.0}, "margin_size is -1.0, but must lie"),
        ({"laziness": 0.1}, "only supervision projection uses it"),
        ({"gce": 0.7, "head": "cond-sigmoid"}, "gce needs a likelihood, which cond-sigmoid has"),
        ({"wrong_labels": "siblings"}, "wrong_labels is 'siblings', but must be siblings:SHARE"),
        ({"labeller": "fedmt"}, "labeller fedmt is for supervision learned, not for paper"),
        ({"labeller": "fedmt", "supervision": "learned"}, "needs the head flat-softmax or ps-soft"),
        ({"infer_knowledge": True, "knowledge": "inferred"}, "infer_knowledge is for simulations"),
        ({"mixed_clients": True, "knowledge": "inferred"}, "mixed_clients is for simulations"),
        ({"net": "resnet"}, "net 'resnet' does not exist; .* or your own as module:callable"),
    ],
    ids=str,
)
def test_bad_settings_are_one_sentence(settings, words) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        Config(**settings)
    assert "\n" not in str(caught.value)


def test_alpha_may_reach_its_limit_despite_rounding() -> None:
    assert Config(alpha=1 - 1 / 3, clients=3).alpha == 1 - 1 / 3
    assert Config(alpha=0.99, partition="manifest").alpha == 0.99  # clients are counted later


settings = st.fixed_dictionaries(
    {},
    optional={
        "dataset": st.sampled_from([*DATASETS, "mine:data"]),
        "data_root": st.text(max_size=20),
        "head": st.sampled_from(list(HEADS)),
        "supervision": st.sampled_from(SUPERVISIONS),
        "alpha": st.floats(0, 0.9),
        "lr": st.floats(0, 10),
        "rounds": st.integers(1, 10**6),
        "coarsen": st.booleans(),
        "seed": st.integers(0, 2**63 - 1),
    },
)


@given(settings)
def test_toml_and_back(tmp_path_factory, given_settings) -> None:
    config = Config(**given_settings)
    path = tmp_path_factory.getbasetemp() / "round-trip.toml"
    path.write_text(config.toml(), encoding="utf-8", newline="\n")
    assert read_config(path) == config


@given(settings)
def test_a_complete_config_stays_so(given_settings) -> None:
    complete = Config(**given_settings).complete()
    assert complete.complete() == complete
    assert None not in (complete.batch, complete.coarsen, complete.max_children)
    if given_settings.get("dataset") != "folder" or "alpha" in given_settings:
        assert None not in (complete.supervision, complete.join_ratio, complete.clients)
    for name, value in given_settings.items():
        assert getattr(complete, name) == value


def test_defaults_that_depend_on_other_settings() -> None:
    imagenet, folder = Config(dataset="imagenet").complete(), Config(dataset="folder").complete()
    assert (imagenet.join_ratio, imagenet.batch, imagenet.max_children) == (0.4, 128, 32)
    assert (folder.join_ratio, folder.batch, folder.coarsen) == (None, 32, False)  # by its sites
    assert Config(dataset="cifar100").complete().max_children == 8
    inferred = Config(knowledge="inferred")
    assert inferred.complete().supervision == "learned"
    assert replace(inferred, algorithm="fedbdft").complete().supervision == "learned"
    assert replace(inferred, head="softmax-margin").complete().supervision == "marginal"
    assert replace(inferred, head="cond-sigmoid").complete().supervision == "paper"
    assert replace(inferred, head="mine:Head").complete().supervision == "paper"
    assert {Config(algorithm=name).complete().supervision for name in ALGORITHMS} == {"paper"}


def test_what_is_known_about_labellers_is_used_unless_told_otherwise() -> None:
    for knowledge in ("known.json", "mine:generator"):
        given = Config(knowledge=knowledge, dataset="folder", partition="manifest")
        for name in ("flat-softmax", "ps-softmax", "cond-softmax"):
            assert replace(given, head=name).complete().supervision == "projection"
        assert replace(given, algorithm="fedbdft").complete().supervision == "projection"
        for name in ("softmax-descendant", "softmax-margin"):
            assert replace(given, head=name).complete().supervision == "marginal"
        for name in ("cond-sigmoid", "mine:Head"):
            assert replace(given, head=name).complete().supervision == "paper"
        assert replace(given, pooled=True).complete().supervision == "projection"
        assert replace(given, supervision="paper").complete().supervision == "paper"
        assert replace(given, laziness=0.1).complete().laziness == 0.1


def test_a_simulation_of_own_images_must_be_asked_for() -> None:
    def decided(**settings) -> tuple:
        c = Config(dataset="folder", **settings).complete()
        return c.partition, c.knowledge, c.alpha, c.clients

    assert decided() == decided(rounds=3) == (None, None, None, None)  # the data decides
    assert decided(partition="manifest") == ("manifest", "inferred", None, None)
    assert decided(partition="manifest", knowledge="a.json", alpha=0.5, clients=3) == (
        "manifest", "a.json", None, None
    )  # fmt: skip
    assert decided(alpha=0.5) == ("iid", "relational", 0.5, 10)
    assert decided(clients=4, alpha=0.0) == ("iid", "relational", 0.0, 4)
    assert decided(partition="dirichlet") == ("dirichlet", "relational", 0.9, 10)
    assert decided(knowledge="hidden-leaves") == ("iid", "hidden-leaves", 0.9, 10)
    glyphs = Config().complete()
    assert (glyphs.partition, glyphs.knowledge, glyphs.alpha) == ("iid", "relational", 0.9)
    assert (glyphs.clients, glyphs.join_ratio) == (10, 0.5)


def test_differences_are_named_and_defaults_written_out_are_none() -> None:
    assert differences(Config(), Config().complete()) == []
    assert differences(Config(data_root="/here"), Config(data_root="/there")) == []
    assert differences(Config(batch=64), Config(seed=48)) == [
        "batch (64 and 32)",
        "seed (47 and 48)",
    ]


def test_reading_says_what_and_where(tmp_path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("aplha = 0.5\n")
    with pytest.raises(ConfigError, match=r"config.toml: 'aplha' is not a setting; did you mean a"):
        read_config(path)
    path.write_text("alpha = \n")
    with pytest.raises(ConfigError, match=r"config.toml: not TOML: .*line 1"):
        read_config(path)
    path.write_text("alpha = 7\n")
    with pytest.raises(ConfigError, match=r"config.toml: alpha is 7"):
        read_config(path)
    assert read_config(path, on_top={"alpha": 0.5}) == Config(alpha=0.5)


def test_a_misspelt_setting_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="'aplha' is not a setting; did you mean alpha"):
        Config(aplha=0.5)
    with pytest.raises(ConfigError, match="'lr_' is not a setting; did you mean lr"):
        replace(Config(), lr_=0.5)
    with pytest.raises(ConfigError, match=r"head 'cond-softmx' does not exist.* mean cond-softmax"):
        Config(head="cond-softmx")
    made = Config(alpha=0.5)
    assert pickle.loads(pickle.dumps(made)) == copy.deepcopy(made) == made
