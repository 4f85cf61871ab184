"""A small, faithful sample of every format that ``fedgrain import`` reads, counted by hand."""

from __future__ import annotations

from import_folders import FOLDERS
from import_packages import PACKAGES
from import_sample import Damage, Sample

# Excel's ranks, with holes: line 3 stops at a genus without its family, line 6 could be either
# Morus, line 8 has no class at all.
RANK_TABLE = """\
kingdom,phylum,class,order,family,genus,species,path,site,identifiedBy,split,common name
Animalia,Chordata,Mammalia,Carnivora,Felidae,Felis,Felis catus,1.png,Kiel,Ann,train,house cat
Animalia,Chordata,Mammalia,Carnivora,,felis,,2.png,Ulm,Bob,test,
Animalia,Chordata,Aves,Suliformes,Sulidae,Morus,Morus bassanus,3.png,Kiel,Ann,,northern gannet
Plantae,Tracheophyta,Magnoliopsida,Rosales,Moraceae,Morus,Morus alba,4.png,Kiel,Ann,val,
,,,,,Morus,,5.png,Kiel,Ann,,
Plantae,,,,,Morus,NA,6.png,Ulm,,,
,,,,,,,7.png,Ulm,,,
Animalia,Chordata,Mammalia,Carnivora,,Nandinia,Nandinia binotata,8.png,Ulm,,,
Animalia,Chordata,Aves,,,,,gone.png,Ulm,,,
"""

# The columns of a GBIF download (simple CSV): tabs, quotes as they come, no images.
GBIF = (
    "gbifID\tdatasetKey\toccurrenceID\tkingdom\tphylum\tclass\torder\tfamily\tgenus\tspecies\t"
    "infraspecificEpithet\ttaxonRank\tscientificName\tlocality\tinstitutionCode\tidentifiedBy\n"
    "1\tk\to1\tAnimalia\tChordata\tAves\tPasseriformes\tCorvidae\tPica\tPica pica\t\tSPECIES\t"
    'Pica pica (Linnaeus, 1758)\tnear the "old mill\tZMB\tB. Hoyer\n'
    "2\tk\to2\tAnimalia\tChordata\tAves\tPasseriformes\tCorvidae\t\t\t\tFAMILY\tCorvidae\t\t\t\n"
    "3\tk\to3\tAnimalia\tChordata\tAves\tPasseriformes\tCorvidae\tCorvus\tCorvus corax\t\tSPECIES\t"
    "Corvus corax Linnaeus, 1758\t\t\t\n"
)

GOOGLE = """\
# Google_Product_Taxonomy_Version: 2021-09-21
1 - Animals & Pet Supplies
3237 - Animals & Pet Supplies > Live Animals
2 - Animals & Pet Supplies > Pet Supplies
3 - Animals & Pet Supplies > Pet Supplies > Bird Supplies
7385 - Animals & Pet Supplies > Pet Supplies > Bird Supplies > Bird Cage Accessories
166 - Apparel & Accessories
1604 - Apparel & Accessories > Clothing
"""

PATHS = """\
file,label,client
1.png,animal/bird/kite,Kiel
2.png,animal/bird,Ulm
3.png,Animal / Bird / Kite,Kiel
4.png,plant/kite,Kiel
5.png,,Kiel
"""

# Lines of SpeciesNet's published list of classes.
SPECIESNET = """\
f1856211-cfb7-4a5b-9158-c0f72fd09ee6;;;;;;blank
1f689929-883d-4dae-958c-3d57ab5b6c16;;;;;;animal
e2895ed5-780b-48f6-8a11-9e27cb594511;;;;;;vehicle
990ae9dd-7a59-4344-afcb-1b7b21368000;mammalia;primates;hominidae;homo;sapiens;human
ddf59264-185a-4d35-b647-2785792bdf54;mammalia;carnivora;felidae;panthera;leo;lion
fbb23d07-6677-43db-b650-f99ac452c50f;mammalia;carnivora;felidae;panthera;;panthera species
eebb1a26-86ae-4d8b-b7cf-2f8bc5d4d3b5;mammalia;;;;;mammal
"""
SPECIESNET_JSON = """\
{"predictions": [
 {"filepath": "a/1.png", "prediction_score": 0.9, "prediction":
  "ddf59264-185a-4d35-b647-2785792bdf54;mammalia;carnivora;felidae;panthera;leo;lion"},
 {"filepath": "a/2.png", "prediction":
  "fbb23d07-6677-43db-b650-f99ac452c50f;mammalia;carnivora;felidae;panthera;;panthera species"},
 {"filepath": "a/3.png", "prediction": "f1856211-cfb7-4a5b-9158-c0f72fd09ee6;;;;;;blank"},
 {"filepath": "a/4.png", "failures": ["CLASSIFIER"]}
]}
"""

INDENTED = """\
animal
  bird
    kite
    owl
  - cat
# a toy
toy
\tkite
"""

EDGES = "entity,animal\nentity,tool\nanimal,kite\nanimal,owl\ntool,hammer\n"

TABLES = (
    Sample(
        "table", "table", {"t.csv": RANK_TABLE}, ("t.csv",),
        {"Felis catus": 1, "Felis": 1, "Morus bassanus": 1, "Morus alba": 1,
         "Morus (Moraceae)": 1, "Nandinia binotata": 1},
        22, tuple(f"{number}.png" for number in range(1, 9)),
        {"1.png": ("Kiel", "Ann", "train"), "2.png": ("Ulm", "Bob", "test"),
         "4.png": ("Kiel", "Ann", "validation"), "8.png": ("Ulm", "", "")},
        damages=(
            Damage("1.png,Kiel", "1.png,Kiel,x", r"t\.csv, line 2: 13 fields where .* 12"),
            Damage("Bob,test", "Bob,tset", r"t\.csv, line 3: there is no split 'tset'"),
            Damage(RANK_TABLE, "path,site\n1.png,Kiel\n", r"line 1: the header has no columns of"),
            Damage("order,family", "family,family", r"line 1: the column 'family' is there twice"),
            Damage(RANK_TABLE, "genus,path\n", "a header but no rows"),
            Damage('Felis catus,1', '"Felis catus,1', r"line \d+: not a CSV file"),
            Damage(RANK_TABLE, "", "the file is empty"),
        ),
    ),
    Sample("gbif", "table", {"occurrence.csv": GBIF}, ("occurrence.csv",), {}, 9,
           damages=(Damage("FAMILY\t", "FAMILY\t\t", r"line 3: 17 fields where .* 16"),)),
    Sample("google", "paths", {"taxonomy.txt": GOOGLE}, ("taxonomy.txt",), {}, 8,
           damages=(Damage("> Bird Supplies >", "> >", r"line 6: a step of the path"),
                    Damage(GOOGLE, "# nothing\n", "the file has no paths"))),
    Sample("paths", "paths", {"p.csv": PATHS}, ("p.csv",),
           {"bird": 1, "kite (bird)": 2, "kite (plant)": 1}, 6,
           ("1.png", "2.png", "3.png", "4.png"), {"2.png": ("Ulm", "", "")},
           damages=(Damage("label", "lable", "no column of paths among file, lable, client"),
                    Damage("animal/bird,", "animal//bird,", r"line 3: a step of the path"))),
    Sample("speciesnet", "speciesnet", {"labels.txt": SPECIESNET}, ("labels.txt",), {}, 13,
           damages=(Damage(";carnivora;felidae;panthera;leo", ";felidae;panthera;leo",
                           "line 5: 6 fields where there should be 7"),
                    Damage("homo;sapiens", ";sapiens", "line 4: the species 'sapiens' has no gen"),
                    Damage(";blank", ";", "line 1: a class without a name"))),
    Sample("speciesnet predictions", "speciesnet",
           {"predictions.json": SPECIESNET_JSON, "labels.txt": SPECIESNET},
           ("predictions.json", "labels.txt"),
           {"panthera leo": 1, "panthera": 1, "blank": 1}, 13, ("a/1.png", "a/2.png", "a/3.png"),
           kinds=("json", "bytes"),
           damages=(Damage('"a/2.png"', "{}", r"prediction 2: 'filepath' is \{\} where a text"),
                    Damage("predictions", "p", "'predictions' is missing where a list is wanted"),
                    Damage(";panthera species", "", "prediction 2: 6 fields"),
                    Damage("0.9,", "0.9", r"predictions\.json, line 2: not JSON"))),
    Sample("indented", "indented", {"tree.txt": INDENTED}, ("tree.txt",), {}, 8,
           damages=(Damage("    owl", "   owl", "line 4: its indentation is that of no line"),
                    Damage("  - cat", "\tcat", "line 5: its indentation is that of no|mixes tabs"),
                    Damage(INDENTED, "# none\n", "the file has no classes"))),
    Sample("edges", "edges", {"edges.csv": EDGES}, ("edges.csv",), {}, 6,
           damages=(Damage("tool,hammer", "tool,kite", "line 5: 'kite' is under 'tool', but at .*"
                           "line 3 under 'animal'"),
                    Damage("tool,hammer", "tool", "line 5: 1 names where an edge has two"),
                    Damage("entity,animal", "owl,animal", "stands above itself"))),
)  # fmt: skip
SAMPLES = (*TABLES, *PACKAGES, *FOLDERS)
