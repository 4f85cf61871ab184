"""A study by name or from a file, with what a user changes about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from fedgrain import catalogue
from fedgrain.config.config import Config
from fedgrain.config.config_texts import setting_of
from fedgrain.errors import ConfigError, StudyError
from fedgrain.plugins import check_trust
from fedgrain.runs.run_folder import RunFolder
from fedgrain.studies.methods import GRID, method_name, parse_method
from fedgrain.studies.presets import preset
from fedgrain.studies.study import Study
from fedgrain.studies.study_file import read_study


def is_file(study: str) -> bool:
    """Return whether a text names the file of a study, rather than a study by name."""
    return study.endswith(".toml") or "/" in study


def chosen_study(
    study: str,
    parts: Mapping[str, Any],
    settings: Sequence[str] = (),
    search_settings: Sequence[str] = (),
    *,
    like: Path | None = None,
    trust_code: bool = False,
) -> Study:
    """Return the named study with changes.

    ``parts`` replace parts of the study, such as its methods or seeds. ``settings`` and
    ``search_settings`` are texts ``KEY=VALUE`` that are added to those of the study; ``like`` is
    the folder of a run whose data, method and settings it takes first. A file that names code
    (``module:callable``) is refused unless the changes name it too, or ``trust_code``.
    """
    common = _settings("--set", settings)
    if like is not None:
        of_run = _settings_of_run(like, trust_code)
        parts = {"datasets": (of_run.dataset,), "methods": (method_name(of_run),), **parts}
        common = {**_changed(of_run), **common}
    if is_file(study):
        found = read_study(study)
    else:
        found = preset(study, parts.get("datasets"), common, parts.get("methods"))
        parts = {**parts, "methods": found.methods} if study == "alone" else parts
    of_search = _settings("--search-set", search_settings)
    common = {**_by_data({**found.settings, **common}, parts, found), **common}
    found = replace(
        found,
        **parts,
        settings={**found.settings, **common},
        search_settings={**found.search_settings, **of_search},
    )
    if is_file(study):
        methods = [parse_method(name) for name in parts.get("methods", ())]
        typed = {*parts.get("datasets", ())}
        typed |= {name for method in methods for name in (method.algorithm, method.head)}
        for given in (*(method.own for method in methods), common, of_search):
            typed |= {value for value in given.values() if isinstance(value, str)}
        for config in found.of_first_seed():
            check_trust(config.settings(), study, trust_code or typed, StudyError)
    return found


def _settings_of_run(folder: Path, trust_code: bool) -> Config:
    """Return the config of a run; code it names needs ``trust_code``."""
    config = RunFolder(folder).read_config()
    check_trust(config.settings(), folder / "config.toml", trust_code, StudyError)
    return config


def _changed(config: Config) -> dict[str, Any]:
    """Return the settings of a config that are not the default, but for those of the grid."""
    usual = {setting.name: setting.default for setting in fields(Config)}
    given = config.settings().items()
    return {n: v for n, v in given if n not in GRID and v is not None and v != usual[n]}


def _by_data(settings: Mapping[str, Any], parts: Mapping[str, Any], study: Study) -> dict[str, Any]:
    """Return whose images and knowledge a study is about, where own data decides that."""
    dataset = (parts.get("datasets") or study.datasets)[0]
    alphas = parts.get("alphas") or study.alphas
    if alphas is not None or not catalogue.dataset(dataset).own_images:
        return {}
    config = Config(dataset=dataset, **settings)
    if None not in (config.complete().partition, config.complete().knowledge):
        return {}
    from fedgrain.config.by_data import completed  # needs numpy

    config = completed(config)
    return {"partition": config.partition, "knowledge": config.knowledge}


def _settings(option: str, texts: Sequence[str]) -> dict[str, Any]:
    try:
        return dict(setting_of(text) for text in texts)
    except ConfigError as error:
        raise StudyError(f"{option}: {error}") from None
