import numpy as np
import pytest

from fedgrain import Config
from fedgrain.engines.client_trainer import ClientTrainer
from fedgrain.errors import ConfigError, StudyError
from fedgrain.preparation.prepare import prepare
from fedgrain.runs.run import run
from fedgrain.studies.methods import parse_method

SMALL = {
    "dataset": "own_parts:few_glyphs", "net": "own_parts:SmallNet", "clients": 4, "alpha": 0.5,
    "max_children": 4, "batch": 16, "rounds": 2,
}  # fmt: skip


def test_centralised_holds_everyones_images_with_the_labels_they_wrote():
    apart = prepare(Config(**SMALL)).federation.clients
    (one,) = prepare(Config(**SMALL, pooled=True)).federation.clients
    written = {
        image: label
        for client in apart
        for image, label in zip(
            client.train.indices.tolist(), client.train.labels.tolist(), strict=True
        )
    }
    found = dict(zip(one.train.indices.tolist(), one.train.labels.tolist(), strict=True))
    assert found == written
    assert len(one.train) == sum(len(client.train) for client in apart)
    assert len(set(written.values())) > 4


def test_local_only_is_one_client_with_its_own_images_and_labels():
    apart = prepare(Config(**SMALL)).federation.clients
    for number, client in enumerate(apart):
        (alone,) = prepare(Config(**SMALL, only_client=number)).federation.clients
        assert alone.name == client.name
        assert np.array_equal(alone.train.indices, client.train.indices)
        assert np.array_equal(alone.train.labels, client.train.labels)
        assert np.array_equal(alone.known, client.known)


def _mean_loss(prepared):
    """The mean loss over all labels of all clients, of one model."""
    trainer = ClientTrainer(prepared.federation, prepared.spec, prepared.settings)
    total, count = 0.0, 0
    for number in range(len(prepared.federation.clients)):
        data = trainer.whole_data(number)
        logits = trainer.model.net.eval()(data.source.batch(data.indices)).detach()
        total += float(trainer.supervised(number).loss(logits, data.targets)) * len(data.indices)
        count += len(data.indices)
    return total / count


@pytest.mark.parametrize("head", ["flat-softmax", "cond-softmax"])
def test_pooled_under_projection_each_label_is_read_by_its_own_writer(head):
    settings = {**SMALL, "head": head, "supervision": "projection"}
    apart, pooled = (prepare(Config(**settings, pooled=one)) for one in (False, True))
    assert len(pooled.federation.clients) == 1
    assert _mean_loss(pooled) == pytest.approx(_mean_loss(apart), rel=1e-5)
    anonymous = prepare(Config(**{**settings, "supervision": "marginal"}, pooled=True))
    assert _mean_loss(anonymous) < _mean_loss(pooled) - 0.01  # a wider set has more probability


def test_the_ceiling_is_one_site_where_every_label_is_a_leaf():
    (settings,) = parse_method("ceiling:flat-softmax").settings(0.5, 4)
    (one,) = prepare(Config(**{**SMALL, **settings})).federation.clients
    everyone = prepare(Config(**SMALL)).federation
    assert len(one.train) == sum(len(client.train) for client in everyone.clients)
    assert everyone.taxonomy.is_leaf(one.train.labels).all()
    with pytest.raises(StudyError, match="there is no alpha; leave it out"):
        parse_method("ceiling").settings(None, 4)


@pytest.mark.parametrize(
    "bound", [{"pooled": True}, {"only_client": 2}, {"pooled": True, "supervision": "learned"}]
)
def test_bounds_train(bound):
    values = run(Config(**SMALL, **bound)).values
    assert values["rounds"] == 2
    assert 0 < values["hf"] < 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"pooled": True, "only_client": 1}, "exclude each other"),
        ({"pooled": True, "validation": "clients"}, "has no clients to validate"),
        ({"only_client": -1}, "only_client is -1"),
    ],
)
def test_what_has_no_meaning_is_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        Config(**SMALL, **settings)


def test_a_client_that_is_not_there():
    with pytest.raises(ConfigError, match="the 4 clients are numbered from 0 to 3"):
        prepare(Config(**SMALL, only_client=4))
