"""Samples of packages and annotation files: Darwin Core, Camtrap DP, COCO, Label Studio.

Their records are of the shape that the real ones have; the observations of the camera trap are
lines of the example that the standard publishes.
"""

from __future__ import annotations

import json

from import_sample import Damage, Sample

_DWC = "http://rs.tdwg.org/dwc/terms/"


def _meta(core: str, fields: str, extensions: str = "") -> str:
    """Return a descriptor as GBIF's publishing tool writes it."""
    return f"""<?xml version="1.0" encoding="utf-8"?>
<archive xmlns="http://rs.tdwg.org/dwc/text/" metadata="eml.xml">
  <core encoding="UTF-8" fieldsTerminatedBy="\\t" linesTerminatedBy="\\n" fieldsEnclosedBy=""
    ignoreHeaderLines="1" rowType="{_DWC}{core}">
    <files><location>{core.lower()}.txt</location></files>
    <id index="0" />
{_fields(fields)}
  </core>
{extensions}</archive>
"""


def _fields(names: str) -> str:
    terms = [name if "/" in name else _DWC + name for name in names.split()]
    return "\n".join(
        f'    <field index="{number}" term="{term}"/>' for number, term in enumerate(terms, 1)
    )


def _extension(kind: str, file: str, fields: str) -> str:
    return f"""  <extension encoding="UTF-8" fieldsTerminatedBy="\\t" linesTerminatedBy="\\n"
    fieldsEnclosedBy="" ignoreHeaderLines="1" rowType="http://rs.gbif.org/terms/1.0/{kind}">
    <files><location>{file}</location></files>
    <coreid index="0" />
{_fields(fields)}
  </extension>
"""


_IDENTIFIER = "http://purl.org/dc/terms/type http://purl.org/dc/terms/identifier"
OCCURRENCE = {
    "archive/meta.xml": _meta(
        "Occurrence",
        "institutionCode identifiedBy taxonRank kingdom class order family genus specificEpithet "
        "associatedMedia",
        _extension("Multimedia", "multimedia.txt", _IDENTIFIER),
    ),
    "archive/occurrence.txt": (
        "id\tinst\tby\trank\tkingdom\tclass\torder\tfamily\tgenus\tepithet\tmedia\n"
        "o1\tZMB\tAnn\tSPECIES\tAnimalia\tAves\tPasseriformes\tCorvidae\tPica\tpica\t\n"
        "o2\tZMB\tBob\tFAMILY\tAnimalia\tAves\tPasseriformes\tCorvidae\tPica\t\t\n"
        "o3\tSMF\tBob\t\t\t\t\t\t\t\t\n"
        "o4\tSMF\t\tGENUS\tAnimalia\t\t\t\tPica\t\thttps://x.org/m/4.png | https://x.org/5.mp4\n"
        "o5\tSMF\t\tSPECIES\tAnimalia\tAves\tPasseriformes\tCorvidae\tCorvus\tcorax\t\n"
    ),
    "archive/multimedia.txt": (
        "id\ttype\tidentifier\n"
        "o1\tStillImage\thttps://x.org/m/1.png\n"
        "o2\tStillImage\thttps://x.org/m/2.png\n"
        "o2\tStillImage\thttps://x.org/m/3.png\n"
    ),
}
TAXON = {
    "archive/meta.xml": _meta(
        "Taxon",
        "parentNameUsageID acceptedNameUsageID scientificName taxonRank",
        _extension("VernacularName", "names.txt", "vernacularName")
        + _extension("Image", "images.txt", "http://purl.org/dc/terms/identifier"),
    ),
    "archive/taxon.txt": (
        "id\tparent\taccepted\tname\trank\n"
        "t3\tt2\t\tPica pica (Linnaeus, 1758)\tspecies\n"
        "t2\tt1\t\tAves\tclass\n"
        "t1\t\t\tAnimalia\tkingdom\n"
        "t4\tt2\tt3\tCorvus pica Linnaeus, 1758\tspecies\n"
    ),
    "archive/names.txt": "id\tname\nt3\tmagpie\n",
    "archive/images.txt": "id\tidentifier\nt3\t1.png\nt2\t2.png\n",
}

CAMTRAP = {
    "package/datapackage.json": json.dumps({
        "profile": "https://raw.githubusercontent.com/tdwg/camtrap-dp/1.0/camtrap-dp-profile.json",
        "resources": [
            {"name": name, "path": f"{name}.csv", "profile": "tabular-data-resource"}
            for name in ("deployments", "media", "observations")
        ],
        "taxonomic": [
            {"taxonID": "DGP6", "scientificName": "Anas platyrhynchos", "taxonRank": "species",
             "vernacularNames": {"en": "mallard", "nl": "wilde eend"}},
            {"taxonID": "32FH", "scientificName": "Ardea", "taxonRank": "genus"},
            {"taxonID": "GCHS", "scientificName": "Ardea cinerea", "taxonRank": "species"},
            {"taxonID": "V2", "scientificName": "Aves", "taxonRank": "class"},
        ],
    }, indent=1),
    "package/deployments.csv": (
        "deploymentID,locationID,locationName,latitude,longitude\n"
        "00a2c20d,e254a13c,B_HS_val 2_processiepark,51.496,4.774\n29b7d356,2df5259b,,51.181,5.655\n"
    ),
    "package/media.csv": (
        "mediaID,deploymentID,timestamp,filePath,filePublic,fileName,fileMediatype\n"
        "07840dcc,00a2c20d,2020-05-30T04:57:37+02:00,media/1.jpg,true,1.jpg,image/jpeg\n"
        "401386c7,00a2c20d,2020-05-30T04:57:40+02:00,media/2.jpg,true,2.jpg,image/jpeg\n"
        "29aef5c3,00a2c20d,2020-05-31T06:05:14+02:00,media/3.jpg,true,3.jpg,image/jpeg\n"
        "75e6d1df,29b7d356,2020-05-31T22:06:43+02:00,media/4.jpg,true,4.jpg,image/jpeg\n"
        "bbd0d520,29b7d356,2020-05-31T06:05:16+02:00,media/5.jpg,true,5.jpg,image/jpeg\n"
        "d1326349,29b7d356,2020-06-30T04:57:44+02:00,media/6.jpg,true,6.jpg,image/jpeg\n"
    ),
    "package/observations.csv": (
        "observationID,deploymentID,mediaID,eventID,eventStart,eventEnd,observationLevel,"
        "observationType,scientificName,count,classificationMethod,classifiedBy\n"
        "705e6036,00a2c20d,,4bb69c45,2020-05-30T02:57:37Z,2020-05-30T02:57:44Z,event,animal,"
        "Anas platyrhynchos,1,human,Danny Van der beeck\n"
        "07840dcc_1,00a2c20d,07840dcc,4bb69c45,,,media,animal,Anas platyrhynchos,1,human,"
        "Peter Desmet\n"
        "29aef5c3_1,00a2c20d,29aef5c3,f99bfff4,,,media,blank,,,human,Peter Desmet\n"
        "75e6d1df_1,29b7d356,75e6d1df,45abeadc,,,media,animal,Rattus norvegicus,1,human,\n"
        "bbd0d520_1,29b7d356,bbd0d520,f99bfff4,,,media,animal,Aves,1,human,Peter Desmet\n"
        "d1326349_1,29b7d356,d1326349,4bb69c45,,,media,unknown,,1,human,Peter Desmet\n"
    ),
}  # fmt: skip

COCO = json.dumps({
    "images": [{"id": n, "file_name": f"val2017/{n}.png", "height": 4, "width": 4}
               for n in range(1, 6)],
    "annotations": [
        {"id": 1, "image_id": 1, "category_id": 17, "bbox": [0, 0, 2, 2]},
        {"id": 2, "image_id": 1, "category_id": 17, "bbox": [1, 1, 2, 2]},
        {"id": 3, "image_id": 2, "category_id": 18, "bbox": [0, 0, 2, 2]},
        {"id": 4, "image_id": 3, "category_id": 17, "bbox": [0, 0, 2, 2]},
        {"id": 5, "image_id": 3, "category_id": 3, "bbox": [0, 0, 2, 2]},
        {"id": 6, "image_id": 4, "category_id": 3, "bbox": [0, 0, 2, 2]},
    ],
    "categories": [{"supercategory": "animal", "id": 17, "name": "cat"},
                   {"supercategory": "animal", "id": 18, "name": "dog"},
                   {"supercategory": "vehicle", "id": 3, "name": "car"}],
}, indent=1)  # fmt: skip
CAMERA_TRAPS = json.dumps({
    "info": {"version": 1.0},
    "images": [{"id": f"i{n}", "file_name": f"{n}.png", "location": place, "seq_id": "s",
                "datetime": "2011-06-01 10:32:35"}
               for n, place in ((1, 26), (2, "Creek"), (3, "Creek"))],
    "annotations": [{"id": "a1", "image_id": "i1", "category_id": 0},
                    {"id": "a2", "image_id": "i2", "category_id": 8},
                    {"id": "a3", "image_id": "i3", "category_id": 9}],
    "categories": [{"id": 0, "name": "empty"}, {"id": 8, "name": "deer"},
                   {"id": 9, "name": "mule deer", "supercategory": "deer"}],
}, indent=1)  # fmt: skip
INATURALIST = json.dumps({
    "images": [{"id": n, "file_name": f"train/{n}.png", "license": 0, "rights_holder": "x"}
               for n in (1, 2, 3)],
    "annotations": [{"id": n, "image_id": n, "category_id": int(n > 1)} for n in (1, 2, 3)],
    "categories": [
        {"id": 0, "name": "Lumbricus terrestris", "common_name": "Common Earthworm",
         "supercategory": "Worms", "kingdom": "Animalia", "phylum": "Annelida",
         "class": "Clitellata", "order": "Haplotaxida", "family": "Lumbricidae",
         "genus": "Lumbricus", "specific_epithet": "terrestris",
         "image_dir_name": "00000_Animalia_Annelida"},
        {"id": 1, "name": "Sabella spallanzanii", "common_name": "Mediterranean Fan-worm",
         "supercategory": "Worms", "kingdom": "Animalia", "phylum": "Annelida",
         "class": "Polychaeta", "order": "Sabellida", "family": "Sabellidae", "genus": "Sabella",
         "specific_epithet": "spallanzanii", "image_dir_name": "00001_Animalia_Annelida"},
    ],
}, indent=1)  # fmt: skip

CONFIG = """\
<View>
  <Image name="image" value="$image"/>
  <Taxonomy name="taxonomy" toName="image">
    <Choice value="Archaea" />
    <Choice value="Eukarya"><Choice value="Human" alias="hsa"/><Choice value="Opossum"/></Choice>
  </Taxonomy>
</View>
"""


def _task(number: int, image: str, annotations: list) -> dict:
    return {"id": number, "data": {"image": image}, "predictions": [], "project": 1,
            "annotations": annotations}  # fmt: skip


def _annotation(who, *paths, cancelled=False) -> dict:
    result = [{"id": "Dx", "type": "taxonomy", "from_name": "taxonomy", "to_name": "image",
               "value": {"taxonomy": list(paths)}}]  # fmt: skip
    return {"id": 1001, "completed_by": who, "was_cancelled": cancelled, "result": result}


EXPORT = json.dumps([
    _task(1, "/data/upload/3/0a1b2c3d-1.png", [_annotation({"id": 7, "email": "ann@x.org"},
                                                           ["Eukarya", "hsa"])]),
    _task(2, "/data/local-files/?d=photos/2.png", [_annotation(8, ["Eukarya"]),
                                                   _annotation(7, ["Eukarya", "Opossum"])]),
    _task(3, "photos/3.png", [_annotation(8, ["Archaea"], ["Eukarya"])]),
    _task(4, "photos/4.png", [_annotation(8, ["Archaea"], cancelled=True)]),
    _task(5, "photos/5.png", [_annotation(8, ["Archaea"])]),
], indent=1)  # fmt: skip

METADATA = """\
{"file_name": "1.png", "label": "animal/cat", "site": "Kiel", "annotator": "Ann", "size": [4, 4]}
{"file_name": "sub/2.png", "label": "animal", "site": "Ulm"}

{"file_name": "3.png", "label": null}
"""


_JSON = ("json", "bytes")
_MEDIA = ("--images", "{folder}/media")
PACKAGES = (
    Sample(
        "dwca occurrences", "dwca", OCCURRENCE, ("archive",),
        {"Pica pica": 1, "Corvidae": 2, "Pica": 1}, 8,
        tuple(f"media/{number}.png" for number in range(1, 5)),
        {"1.png": ("ZMB", "Ann", ""), "3.png": ("ZMB", "Bob", ""), "4.png": ("SMF", "", "")},
        _MEDIA, mutated=("archive/occurrence.txt", "archive/meta.xml", "archive/multimedia.txt"),
        damages=(
            Damage("o2\tZMB\tBob\tFAMILY", "o2\tZMB", r"occurrence\.txt, row 2: cannot be read",
                   "archive/occurrence.txt"),
            Damage("<archive", "<!DOCTYPE a [<!ENTITY b 'c'>]><archive",
                   r"meta\.xml, line 2: it declares a document type", "archive/meta.xml"),
            Damage("occurrence.txt", "../../secret.txt", "lies outside the archive",
                   "archive/meta.xml"),
            Damage("multimedia.txt", "gone.txt", "its data file 'gone.txt' is not there",
                   "archive/meta.xml"),
            Damage("</core>", "", r"meta\.xml, line \d+: not XML", "archive/meta.xml"),
            Damage('<id index="0" />', "", r"meta\.xml: not a descriptor", "archive/meta.xml"),
            Damage("terms/Occurrence", "terms/Event", "its core is 'event'", "archive/meta.xml"),
        ),
    ),
    Sample(
        "dwca taxa", "dwca", TAXON, ("archive",),
        {"Pica pica (Linnaeus, 1758)": 1, "Aves": 1}, 3, ("media/1.png", "media/2.png"), {},
        _MEDIA, mutated=("archive/taxon.txt", "archive/meta.xml"),
        damages=(
            Damage("t2\tt1", "t2\tt9", r"taxon\.txt, row 2: the parent 't9' of 'Aves' is not in",
                   "archive/taxon.txt"),
            Damage("t1\t\t\tAnimalia", "t1\tt3\t\tAnimalia", "stands above itself",
                   "archive/taxon.txt"),
            Damage("t2\tt1", "t1\t", r"taxon\.txt, row 3: the class 't1' is also at",
                   "archive/taxon.txt"),
        ),
    ),
    Sample(
        "camtrap", "camtrap-dp", CAMTRAP, ("package",),
        {"Anas platyrhynchos": 2, "blank": 1, "Rattus norvegicus": 1, "Aves": 1}, 10,
        tuple(f"package/media/{number}.jpg" for number in range(1, 7)),
        {"1.jpg": ("B_HS_val 2_processiepark", "Peter Desmet", ""),
         "2.jpg": ("B_HS_val 2_processiepark", "Danny Van der beeck", ""),
         "4.jpg": ("2df5259b", "", "")},
        mutated=("package/observations.csv", "package/media.csv", "package/datapackage.json"),
        damages=(
            Damage("mediaID,deploymentID", "id,deploymentID", r"media\.csv, line 1: .* 'mediaID'",
                   "package/media.csv"),
            Damage("blank,,,human", "blank,,human", r"observations\.csv, line 4: 11 fields",
                   "package/observations.csv"),
            Damage("2020-05-30T02:57:44Z", "soon", r"line 2: 'soon' is not a time",
                   "package/observations.csv"),
            Damage('"media.csv"', '"../media.csv"', "resource 2: '../media.csv' is not a file of",
                   "package/datapackage.json"),
            Damage('"name": "media"', '"name": "m"', "names no table 'media'",
                   "package/datapackage.json"),
        ),
    ),
    Sample(
        "coco", "coco", {"instances_val2017.json": COCO}, ("instances_val2017.json",),
        {"cat": 1, "dog": 1, "car": 1}, 6, tuple(f"val2017/{n}.png" for n in range(1, 6)),
        {"1.png": ("", "", "validation")}, kinds=_JSON,
        damages=(
            Damage('"category_id": 3', '"category_id": 4', r"annotation 5: there is no category 4"),
            Damage('"image_id": 4', '"image_id": 9', r"annotation 6: there is no image 9"),
            Damage('"id": 18', '"id": 17', r"category 2: the category 17 is there twice"),
            Damage('"id": 2,', '"id": 1,', r"image 2: the image 1 is also at"),
            Damage('"file_name": "val2017/2.png"', '"x": 1', r"image 2: 'file_name' is missing"),
            Damage('"annotations"', '"x"', r"'annotations' is missing where a list is wanted"),
            Damage('"id": 17', '"id": null', r"category 1: 'id' must be a number or a text"),
        ),
    ),
    Sample(
        "camera traps", "coco", {"cct.json": CAMERA_TRAPS}, ("cct.json",),
        {"empty": 1, "deer": 1, "mule deer": 1}, 4, ("1.png", "2.png", "3.png"),
        {"1.png": ("26", "", ""), "3.png": ("Creek", "", "")}, kinds=_JSON,
        damages=(Damage('"name": "deer"', '"name": "deer", "supercategory": "mule deer"',
                        "stands above itself"),),
    ),
    Sample(
        "inaturalist", "coco", {"train.json": INATURALIST}, ("train.json",),
        {"Lumbricus terrestris": 1, "Sabella spallanzanii": 2}, 12,
        ("train/1.png", "train/2.png", "train/3.png"), {"1.png": ("", "", "train")}, kinds=_JSON,
        damages=(Damage('"name": "Sabella spallanzanii"', '"name": []',
                        r"category 2: 'name' is \[\] where a text"),),
    ),
    Sample(
        "imagefolder", "imagefolder",
        {"data/train/metadata.jsonl": METADATA,
         "data/test/metadata.csv": "file_name,label,site\n4.png,animal/dog,Kiel\n"}, ("data",),
        {"cat": 1, "animal": 1, "dog": 1}, 3,
        ("data/train/1.png", "data/train/sub/2.png", "data/train/3.png", "data/test/4.png"),
        {"1.png": ("Kiel", "Ann", "train"), "4.png": ("Kiel", "", "test")},
        kinds=("bytes", "lines"),
        mutated=("data/train/metadata.jsonl", "data/test/metadata.csv"),
        damages=(
            Damage('"file_name": "sub/2.png"', '"file": "x"', r"jsonl, line 2: 'file_name' is miss",
                   "data/train/metadata.jsonl"),
            Damage('{"file_name": "3', '["3', r"jsonl, line 4: not JSON|line 4: .* an object",
                   "data/train/metadata.jsonl"),
            Damage("file_name", "file", r"csv, line 1: the header needs 'file_name'",
                   "data/test/metadata.csv"),
            Damage("animal/dog", "animal//dog", r"csv, line 2: a step of the path",
                   "data/test/metadata.csv"),
        ),
    ),
    Sample(
        "label studio", "label-studio", {"config.xml": CONFIG, "export.json": EXPORT},
        ("config.xml", "export.json"), {"Human": 1, "Opossum": 1, "Archaea": 1}, 5,
        ("1.png", "photos/2.png", "photos/3.png", "photos/4.png", "photos/5.png"),
        {"1.png": ("", "ann@x.org", ""), "2.png": ("", "7", ""), "5.png": ("", "8", "")},
        kinds=_JSON, mutated=("export.json", "config.xml"),
        damages=(
            Damage('value="Human"', 'value=""', "choice 1 of Eukarya: it has no value"),
            Damage("Taxonomy", "Text", "not XML|neither a Taxonomy"),
            Damage("<View>", "<!DOCTYPE a><View>", "line 1: it declares a document type"),
            Damage('"data": {', '"d": {', "task 1, data: missing where an object", "export.json"),
            Damage('"hsa"', "7", "annotation 1, result 1: a step of the choice", "export.json"),
            Damage('"result": [', '"result": 5, "r": [', "annotation 1: 'result' is 5",
                   "export.json"),
        ),
    ),
)  # fmt: skip
