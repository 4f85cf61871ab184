import numpy as np
import pytest

from fedgrain.knowledge import relational_neighbours
from fedgrain.pictures import knowledge_figures
from fedgrain.pictures.knowledge_figures import alpha_grid, draw_comparison, draw_properties
from fedgrain.taxonomy import dataset_taxonomy


def test_the_grid_ends_at_the_largest_alpha():
    assert alpha_grid(10) == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
    assert alpha_grid(1) == [0]
    assert alpha_grid(3, 0.25) == [0, 0.25, 0.5, pytest.approx(2 / 3)]
    assert alpha_grid(1000)[-2:] == [0.9, 0.999]


@pytest.mark.parametrize("clients", [10, 30])
def test_the_property_figures_show_every_client(clients, tmp_path, monkeypatch):
    tree = dataset_taxonomy("cifar100")
    figures = {}

    def keep(figure, stem):
        figures[stem.name] = figure
        return []

    monkeypatch.setattr(knowledge_figures, "write_picture", keep)
    made = [(alpha, relational_neighbours(tree, clients, alpha, 47)) for alpha in (0.0, 0.5, 0.7)]
    draw_properties(made, tmp_path)
    assert list(figures) == ["known_classes", "mean_similarity"]
    (axes,) = figures["known_classes"].axes
    mean = next(line for line in axes.lines if "mean" in str(line.get_label()))
    assert mean.get_xdata().tolist() == [0.0, 0.5, 0.7]
    assert mean.get_ydata().tolist() == [k.known.sum(axis=1).mean() for _, k in made]
    points = [line for line in axes.lines if line.get_marker() == "."]
    dots = [line.get_ydata() for line in points if len(line.get_xdata())]
    if clients == 10:
        assert np.array_equal(np.array(dots).T, [k.known.sum(axis=1) for _, k in made])
    else:
        assert not dots
        assert len(axes.collections) == 1


def test_the_comparison_is_written(tmp_path):
    curve = np.array([1.0, 0.5, np.nan])
    written = draw_comparison(
        [0.0, 0.5, 0.9], {"a": curve}, {"b": curve, "c": curve}, tmp_path / "x"
    )
    assert [path.name for path in written] == ["x.svg", "x.png"]
    assert all(path.stat().st_size > 1000 for path in written)
