"""A close look at one run: what the report shows if its model and its images are at hand."""

from __future__ import annotations

from collections.abc import Mapping

from fedgrain.config.config import Config
from fedgrain.errors import FedgrainError, ReportError
from fedgrain.models.model_folder import load
from fedgrain.pages.redo import with_places_found
from fedgrain.plugins import Trust, check_trust
from fedgrain.preparation.prepare import as_used, load_images
from fedgrain.report.close_view import Look, show
from fedgrain.runs.run_folder import RunFolder
from fedgrain.sections.answers import Watch, no_watch
from fedgrain.sections.knowledge_block import knowledge_view
from fedgrain.sections.labellers_section import (
    found_labellers,
    labellers_block,
    labellers_section,
)
from fedgrain.sections.model_inspection import inspect, site_labels, sites_of
from fedgrain.sections.sites_section import rounds_sheet

_OTHER_DATA = "give it the same data to see more"


def look_closely(
    place: RunFolder,
    name: str,
    others: Mapping[str, Config],
    *,
    images: bool,
    trust_code: Trust = False,
    watch: Watch = no_watch,
) -> Look:
    """Inspect one run, and what clients know in it or, at several alphas, in ``others`` by name."""
    look = Look()
    try:
        model = load(place.path, trust_code=trust_code)
        config = with_places_found(place.read_config().complete(), place)
        for used in (config, *others.values()):
            check_trust(used.settings(), place.config, trust_code, ReportError)
        here = config.data_root or config.manifest
        if config.dataset == "folder" and here is None:  # trained across real sites
            raise ReportError("its images stayed at their sites")
        data = load_images(config, model.trunk)
        place.check_data(as_used(config, data).fingerprint, _OTHER_DATA)
        sites = site_labels(config, data, model.trunk)
        look.inspection = inspect(model, config, data, images=images, watch=watch)
        for view_name, other in others.items():
            known = sites_of(with_places_found(other, place), data, model.taxonomy)
            look.knowledge.append(knowledge_view(view_name, model.taxonomy, known))
        rounds = rounds_sheet(place.metrics_lines())
        wrote = [site.wrote for site in sites if site.wrote is not None]
        labellers = found_labellers(model, data, wrote)
    except (FedgrainError, OSError) as error:
        look.notes.append(f"No closer look at the model of {name}: {error}.")
        return look
    show(look, look.inspection, name, sites, data, rounds)
    if labellers:
        look.sections.append(labellers_section(labellers, model.taxonomy, data, images=images))
        look.blocks.append(labellers_block(labellers, model.taxonomy))
    return look
