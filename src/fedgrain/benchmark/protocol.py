"""A version of the protocol, as the files of its folder say it; they are never changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from fedgrain.checksums import digest
from fedgrain.errors import BenchmarkError
from fedgrain.parsing import parse_toml
from fedgrain.studies.methods import parse_method
from fedgrain.studies.study import Study

VERSIONS = ("v1",)


@dataclass(frozen=True)
class Track:
    """One task of the protocol: a data set, a net, who knows what, a budget of rounds."""

    version: str
    name: str
    about: str
    dataset: str
    alphas: tuple[float, ...]
    seeds: tuple[int, ...]
    settings: Mapping[str, Any]
    federation: Mapping[str, Any]  # those of the settings that decide splits and knowledge
    free: tuple[str, ...]  # settings a method may choose

    def study(self, methods: Sequence[str]) -> Study:
        """Return the study that runs methods on this track; refuse one that bends the rules."""
        for name in methods:
            for setting in parse_method(name).own:
                if setting not in self.free:
                    raise BenchmarkError(
                        f"method {name!r} sets {setting}, which benchmark {self.version} fixes; "
                        f"a method may set {', '.join(self.free)}"
                    )
        return Study(
            f"benchmark-{self.version}-{self.name}",
            datasets=(self.dataset,),
            methods=tuple(methods),
            alphas=self.alphas,
            seeds=self.seeds,
            settings=self.settings,
        )


@dataclass(frozen=True)
class Protocol:
    """A version: its tracks, and the hashes of everything they use."""

    version: str
    sha256: str  # of protocol.toml, which holds the other hashes
    tracks: Mapping[str, Track]
    files: Mapping[str, str]  # name in the folder: SHA-256
    data: Mapping[str, Mapping[str, str]]  # data set: SHA-256 and fingerprint of its content

    def track(self, name: str) -> Track:
        """Return a track by name."""
        if name not in self.tracks:
            raise BenchmarkError(
                f"benchmark {self.version} has no track {name!r}; choose {' or '.join(self.tracks)}"
            )
        return self.tracks[name]

    def text(self, name: str) -> str:
        """Return a file of the protocol; refuse one that has changed."""
        raw: bytes = _folder(self.version).joinpath(name).read_bytes()
        if digest([raw]) != self.files.get(name):
            raise BenchmarkError(
                f"{name} of benchmark {self.version} has changed: its SHA-256 is not the "
                "protocol's; install fedgrain again"
            )
        return raw.decode("utf-8")


def read_protocol(version: str) -> Protocol:
    """Read a version of the protocol."""
    if version not in VERSIONS:
        raise BenchmarkError(f"there is no benchmark {version!r}; choose {' or '.join(VERSIONS)}")
    raw = _folder(version).joinpath("protocol.toml").read_bytes()
    content = parse_toml(raw.decode("utf-8"), "protocol.toml", BenchmarkError)
    free, tracks = tuple(content["free"]), {}
    for name, about in content["tracks"].items():
        settings = {**about["federation"], **about.get("settings", {})}
        tracks[name] = Track(
            version, name, about["about"], about["dataset"], tuple(about["alphas"]),
            tuple(about["seeds"]), settings, about["federation"], free,
        )  # fmt: skip
    return Protocol(version, digest([raw]), tracks, content["files"], content["data"])


def split_file(dataset: str, seed: int) -> str:
    """Return the name of the file that says whose each image is."""
    return f"splits/{dataset}-seed{seed}.txt"


def knowledge_file(dataset: str, alpha: float, seed: int) -> str:
    """Return the name of the file that says who knows what."""
    return f"knowledge/{dataset}-alpha{alpha:g}-seed{seed}.json"


def _folder(version: str) -> Any:
    return files("fedgrain.benchmark") / version
