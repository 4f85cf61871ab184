"""The figures show the numbers: they are read back from the axes and from the SVG."""

import numpy as np
import pytest

from fedgrain.pictures import study_figures as figures
from fedgrain.studies.study import Study
from fedgrain.tables.collect import Results, read_results
from fedgrain.tables.intervals import estimate
from hand_made_study import SCORES, write_study


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """The figures of a study by hand, with the axes they were drawn on."""
    folder, made, new = tmp_path_factory.mktemp("drawn"), [], figures.new_figure
    write_study(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figures, "new_figure", lambda *size: made.append(new(*size)) or made[-1])
        paths = figures.draw_study(folder, read_results(folder))
    return folder, paths, made


def lines_of(axes):
    return {line.get_label(): line for line in axes.lines if not line.get_label().startswith("_")}


def test_files_are_written_and_repeat_to_the_byte(drawn):
    folder, paths, _ = drawn
    stems = ("hf_over_alpha", "training", "accuracy_per_depth")
    assert [p.name for p in paths] == [f"{s}.{kind}" for s in stems for kind in ("svg", "png")]
    before = [p.read_bytes() for p in paths]
    assert [p.read_bytes() for p in figures.draw_study(folder, read_results(folder))] == before
    text = paths[0].read_text()
    for method, _ in SCORES:
        assert f">{method}<" in text  # names stay text


def test_hf_over_alpha_with_intervals(drawn):
    axes = drawn[2][0].axes[0]
    for container in axes.containers:
        method = container.get_label()
        expected = [estimate(SCORES[method, alpha]) for alpha in (0.0, 0.9)]
        line, _, (bars,) = container
        assert line.get_xdata() == pytest.approx([0.0, 0.9], abs=2 * figures.DODGE)
        assert line.get_ydata() == pytest.approx([e.mean for e in expected])
        halves = [np.ptp(segment[:, 1]) / 2 for segment in bars.get_segments()]
        assert halves == pytest.approx([e.interval for e in expected], abs=1e-12)
    assert len(axes.containers) == 4
    places = [container[0].get_xdata()[0] for container in axes.containers]
    assert len(set(places)) == 4  # intervals do not cover each other


def test_many_methods_at_alphas_in_any_order_are_all_to_be_seen(tmp_path, monkeypatch):
    variants = [f"flat-softmax/projection+average_rounds={n}+lr=0.05" for n in range(1, 13)]
    alphas = (0.9, 0.0, 0.6, 0.3)
    scores = {
        ("glyphs", method, alpha): {"hf": {47: 0.5 + alpha / 10}}
        for method in variants
        for alpha in alphas
    }
    study, made, new = Study("many", methods=tuple(variants), alphas=alphas), [], figures.new_figure
    monkeypatch.setattr(figures, "new_figure", lambda *size: made.append(new(*size)) or made[-1])
    figures.draw_over_alpha(Results(study, scores, 0), tmp_path / "figure")
    figure = made[0]
    (legend,) = figure.legends
    assert len(legend.get_texts()) == len(variants)
    inside, axes = legend.get_window_extent(), figure.axes[0]
    assert figure.bbox.y0 <= inside.y0 < inside.y1 <= figure.bbox.y1
    assert axes.get_tightbbox().x1 <= inside.x0 < inside.x1 <= figure.bbox.x1
    for container in axes.containers:
        assert container[0].get_xdata() == pytest.approx(sorted(alphas), abs=figures.WIDEST / 2)
        assert container[0].get_ydata() == pytest.approx([0.5, 0.53, 0.56, 0.59])


def test_training_curves_are_means_over_seeds(drawn):
    panels = drawn[2][1].axes
    assert [axes.get_title() for axes in panels] == ["cifar100, alpha 0", "cifar100, alpha 0.9"]
    line = lines_of(panels[1])["fedbdft/paper"]
    assert line.get_xdata() == pytest.approx([1, 2, 3])
    assert line.get_ydata() == pytest.approx([0.28, 0.448, 0.56])


def test_accuracy_per_depth(drawn):
    line = lines_of(drawn[2][2].axes[1])["flat-softmax/projection"]
    assert line.get_ydata() == pytest.approx([0.74, 0.54])


def test_every_method_has_a_look_of_its_own():
    looks = [tuple(figures.style_of(number).values()) for number in range(20)]
    assert len(set(looks)) == 20
