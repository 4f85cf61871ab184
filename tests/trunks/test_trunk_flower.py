"""A trunk at Flower sites: same bits, each site with its own cache, and no other weights."""

import shutil

import pytest
import torch

pytest.importorskip("flwr", reason="Flower is not installed: pip install 'fedgrain[flower]'")

from flwr.supercore.task_identity import TaskIdentity

import fedgrain
from fedgrain.deployment.app import App
from fedgrain.deployment.server_settings import Operation
from fedgrain.deployment.server_side import open_engine, server_side
from fedgrain.errors import NetError
from fedgrain.federated.fedavg import FedAvg
from fedgrain.membership.init import _deployed_config
from fedgrain.preparation.trunk import with_weights_hash
from fedgrain.sites.site import open_site, prepare_site
from fedgrain.taxonomy import read_csv
from fedgrain.tensor_files import read_tensors
from fedgrain.trunks import StoredActivations
from flower_federation import LABELS, TREE, write_site
from flower_wire import Wire, at

NAMES = ["museum", "zoo", "herbarium"]


@pytest.fixture(autouse=True)
def identity(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages carry the numbers of the run and task in which Flower would start us."""
    for name in ("_run_id", "_task_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@pytest.mark.parametrize("train", ["head", "blocks:1"])
def test_the_same_bits_at_sites_with_caches_of_their_own(train, on_trunk, tmp_path, monkeypatch):
    settings = {"clients": 3, "join_ratio": 1.0, "client_time_limit": 60.0, "train": train}
    config = with_weights_hash(on_trunk(**settings).complete())
    fedgrain.run(config, tmp_path / "here", workers=1)
    app, operation = App(config, None), Operation(NAMES, tmp_path / "run")
    own, sites = server_side(app, operation), []
    for number, name in enumerate(NAMES):
        monkeypatch.setenv("FEDGRAIN_CACHE", str(tmp_path / name))
        sites.append(open_site(App(config, None), {"partition-id": number}, NAMES))
        assert list((tmp_path / name / "features").glob("timm-*"))
    wire = Wire({10 + number: at(site) for number, site in enumerate(sites)})
    engine = open_engine(wire, config, operation, own, None)
    engine.refresh()
    algorithm = FedAvg(own.settings)
    state = algorithm.init(engine.model.initial)
    while not algorithm.finished(state, engine):
        state, _ = algorithm.apply(state, engine)
    expected, _ = read_tensors(tmp_path / "here" / "best.safetensors")
    assert state.best.keys() == expected.keys()
    assert all(torch.equal(state.best[name], expected[name]) for name in expected)


def test_a_site_with_other_weights_is_refused(on_trunk, weights_file, tmp_path):
    config = with_weights_hash(on_trunk(clients=3, alpha=0.5).complete())
    moved = tmp_path / "moved.safetensors"
    shutil.copy(weights_file("test_efficientnet"), moved)
    node = {"partition-id": 0, "net-weights": str(moved)}
    assert open_site(App(config, None), node, NAMES).engine.samples(0) > 0
    shutil.copy(weights_file("test_resnet"), moved)
    with pytest.raises(NetError, match="other weights of the trunk"):
        open_site(App(config, None), node, NAMES)


def test_sites_with_their_own_photographs(on_trunk, tmp_path):
    """The app has the hash; a site decodes and makes features as the server expects them."""
    (tmp_path / "tree.csv").write_text(TREE)
    config = on_trunk(
        dataset="folder", head="cond-softmax", alpha=0.0, max_children=None, image_size=None
    )  # fmt: skip
    deployed = _deployed_config(config, 3)
    assert deployed.net_weights_sha256 and deployed.image_size is None
    app = App(deployed, read_csv(tmp_path / "tree.csv"))
    manifest = write_site(tmp_path / "museum", LABELS["museum"][:10])
    site = prepare_site(app, "museum", manifest)
    server = server_side(app, Operation(NAMES, tmp_path / "run")).description
    assert site.description.image_shape == server.image_shape
    assert site.spec.trunk == server.spec.trunk
    assert server.image_shape[0] == site.spec.trunk.preprocessing.resized > 32
    assert isinstance(site.federation.source, StoredActivations)
