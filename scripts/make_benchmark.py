"""Freeze a version of the benchmark: splits, knowledge, hashes, and its description in Croissant.

    FEDGRAIN_DATA=... python scripts/make_benchmark.py v1 [--check]

Reads ``tracks.toml`` in the version's folder and writes everything beside it. A version that has
been published is not made again: ``--check`` says whether it would come out the same.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

from fedgrain.benchmark.frozen import frozen
from fedgrain.benchmark.protocol import Track, knowledge_file, split_file
from fedgrain.checksums import digest
from fedgrain.config.setting_fields import toml_value
from fedgrain.files import write_text

HOME = Path(__file__).resolve().parents[1] / "src/fedgrain/benchmark"


def made(version: str) -> dict[str, str]:
    """Return every file of a version by name."""
    given = tomllib.loads((HOME / version / "tracks.toml").read_text("utf-8"))
    files: dict[str, str] = {}
    data: dict[str, dict[str, str]] = {}
    for name, about in given["tracks"].items():
        track = Track(version, name, about["about"], about["dataset"], tuple(about["alphas"]),
                      tuple(about["seeds"]), {}, about["federation"], ())  # fmt: skip
        for seed in track.seeds:
            for alpha in track.alphas:
                if knowledge_file(track.dataset, alpha, seed) in files:
                    continue
                found = frozen(track, alpha, seed)
                data[track.dataset] = {"sha256": found.data_sha256,
                                       "fingerprint": found.prepared.data.fingerprint}  # fmt: skip
                files[split_file(track.dataset, seed)] = found.split
                files[knowledge_file(track.dataset, alpha, seed)] = found.knowledge
                print(f"{name}, alpha {alpha:g}, seed {seed}", file=sys.stderr)
    files["protocol.toml"] = protocol_text(version, given, files, data)
    files["croissant.json"] = json.dumps(croissant(version, given, files), indent=2) + "\n"
    return files


def protocol_text(
    version: str, given: dict[str, Any], files: dict[str, str], data: dict[str, dict[str, str]]
) -> str:
    """Return the text that all hashes are in."""
    lines = ["# Made by scripts/make_benchmark.py from tracks.toml; never changed once published."]
    lines += [f"version = {toml_value(version)}", f"rules = {toml_value(given['rules'])}"]
    lines += [f"metrics = {toml_value(given['metrics'])}", f"free = {toml_value(given['free'])}"]
    for name, about in given["tracks"].items():
        lines += ["", f"[tracks.{name}]"]
        for key, value in about.items():
            if not isinstance(value, dict):
                lines.append(f"{key} = {toml_value(value)}")
        for table in ("federation", "settings"):
            lines += ["", f"[tracks.{name}.{table}]"]
            lines += [f"{key} = {toml_value(value)}" for key, value in about[table].items()]
    for dataset, hashes in data.items():
        lines += ["", f"[data.{dataset}]"]
        lines += [f"{key} = {toml_value(value)}" for key, value in hashes.items()]
    lines += ["", "[files]"]
    lines += [f'"{name}" = "{digest([text.encode()])}"' for name, text in sorted(files.items())]
    return "\n".join(lines) + "\n"


def croissant(version: str, given: dict[str, Any], files: dict[str, str]) -> dict[str, Any]:
    """Return the description in Croissant: every file with its hash, the splits as records.

    Croissant wants an address. The benchmark is published with the package and has no page of its
    own, so it is named by the hash of its protocol.
    """
    objects, records = [], []
    for name, text in sorted(files.items()):
        kind = "application/json" if name.endswith(".json") else "text/plain"
        label = name.replace("/", "-")
        objects.append({
            "@type": "cr:FileObject", "@id": label, "name": label, "contentUrl": name,
            "encodingFormat": kind, "sha256": digest([text.encode()]),
        })  # fmt: skip
        if name.startswith("splits/"):
            records.append({
                "@type": "cr:RecordSet", "@id": f"{label}-lines", "name": f"{label}-lines",
                "description": "A sign per image in the order of the data set, 100 in a line: the "
                "number of the client that has it, v for validation, t for test.",
                "field": [{
                    "@type": "cr:Field", "@id": f"{label}-lines/signs", "name": "signs",
                    "dataType": "sc:Text",
                    "source": {"fileObject": {"@id": label}, "extract": {"fileProperty": "lines"}},
                }],
            })  # fmt: skip
    tracks = "; ".join(f"{name}: {about['about']}" for name, about in given["tracks"].items())
    return {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": f"fedgrain-benchmark-{version}",
        "description": f"Federated image classification over a taxonomy, where each client labels "
        f"at its own level of detail: splits, knowledge, seeds and rules. Tracks: {tracks}",
        "license": "https://www.apache.org/licenses/LICENSE-2.0",
        "url": f"urn:sha256:{digest([files['protocol.toml'].encode()])}",
        "version": f"{version.removeprefix('v')}.0.0",
        "datePublished": "2026-11-17",
        "citeAs": "fedgrain, benchmark " + version,
        "creator": {"@type": "sc:Organization", "name": "fedgrain"},
        "distribution": objects,
        "recordSet": records,
    }


CONTEXT = {
    "@language": "en", "@vocab": "https://schema.org/", "citeAs": "cr:citeAs",
    "column": "cr:column", "conformsTo": "dct:conformsTo", "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/", "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"}, "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty", "samplingRate": "cr:samplingRate",
    "examples": {"@id": "cr:examples", "@type": "@json"}, "extract": "cr:extract",
    "field": "cr:field", "fileProperty": "cr:fileProperty", "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet", "format": "cr:format", "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset", "jsonPath": "cr:jsonPath", "key": "cr:key",
    "md5": "cr:md5", "parentField": "cr:parentField", "path": "cr:path",
    "recordSet": "cr:recordSet", "references": "cr:references", "regex": "cr:regex",
    "repeated": "cr:repeated", "replace": "cr:replace", "sc": "https://schema.org/",
    "separator": "cr:separator", "source": "cr:source", "subField": "cr:subField",
    "transform": "cr:transform",
}  # fmt: skip


def main() -> int:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("version")
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    args = parser.parse_args()
    different = 0
    for name, text in made(args.version).items():
        path = HOME / args.version / name
        if path.exists() and path.read_text("utf-8") == text:
            continue
        different += 1
        print(f"{'differs' if args.check else 'wrote'}: {path}")
        if not args.check:
            path.parent.mkdir(exist_ok=True)
            write_text(path, text)
    return int(args.check and different > 0)


if __name__ == "__main__":
    sys.exit(main())
