"""The tree of every sample, written by hand from its text: each class with those right below it."""

_SPECIESNET = """
root: animal + blank + vehicle
animal: mammalia
mammalia: carnivora + primates
carnivora: felidae
felidae: panthera
panthera: panthera leo
primates: hominidae
hominidae: homo
homo: homo sapiens
"""
_WRITTEN = {
    "table": """
root: Animalia + Plantae
Animalia: Chordata
Chordata: Aves + Mammalia
Aves: Suliformes
Suliformes: Sulidae
Sulidae: Morus (Sulidae)
Morus (Sulidae): Morus bassanus
Mammalia: Carnivora
Carnivora: Felidae + Nandinia
Felidae: Felis
Felis: Felis catus
Nandinia: Nandinia binotata
Plantae: Tracheophyta
Tracheophyta: Magnoliopsida
Magnoliopsida: Rosales
Rosales: Moraceae
Moraceae: Morus (Moraceae)
Morus (Moraceae): Morus alba
""",
    "gbif": """
Animalia: Chordata
Chordata: Aves
Aves: Passeriformes
Passeriformes: Corvidae
Corvidae: Corvus + Pica
Corvus: Corvus corax
Pica: Pica pica
""",
    "google": """
root: Animals & Pet Supplies + Apparel & Accessories
Animals & Pet Supplies: Live Animals + Pet Supplies
Pet Supplies: Bird Supplies
Bird Supplies: Bird Cage Accessories
Apparel & Accessories: Clothing
""",
    "paths": """
root: animal + plant
animal: bird
bird: kite (bird)
plant: kite (plant)
""",
    "speciesnet": _SPECIESNET,
    "speciesnet predictions": _SPECIESNET,
    "indented": """
root: animal + toy
animal: bird + cat
bird: kite (bird) + owl
toy: kite (toy)
""",
    "edges": """
entity: animal + tool
animal: kite + owl
tool: hammer
""",
    "dwca occurrences": """
Animalia: Aves
Aves: Passeriformes
Passeriformes: Corvidae
Corvidae: Corvus + Pica
Corvus: Corvus corax
Pica: Pica pica
""",
    "dwca taxa": """
Animalia: Aves
Aves: Pica pica (Linnaeus, 1758)
""",
    "camtrap": """
root: animal + blank
animal: Anas + Ardea + Aves + Rattus
Anas: Anas platyrhynchos
Ardea: Ardea cinerea
Rattus: Rattus norvegicus
""",
    "coco": """
root: animal + vehicle
animal: cat + dog
vehicle: car
""",
    "camera traps": """
root: deer + empty
deer: mule deer
""",
    "inaturalist": """
Animalia: Annelida
Annelida: Clitellata + Polychaeta
Clitellata: Haplotaxida
Haplotaxida: Lumbricidae
Lumbricidae: Lumbricus
Lumbricus: Lumbricus terrestris
Polychaeta: Sabellida
Sabellida: Sabellidae
Sabellidae: Sabella
Sabella: Sabella spallanzanii
""",
    "imagefolder": "animal: cat + dog",
    "label studio": """
root: Archaea + Eukarya
Eukarya: Human + Opossum
""",
    "saved dataset": """
root: bird + cat
bird: kite + owl
""",
    "folders": """
root: animal + stone
animal: cat
""",
}
_UUIDS = {  # of SpeciesNet's list, with the common names
    "animal": ["1f689929-883d-4dae-958c-3d57ab5b6c16"],
    "mammalia": ["eebb1a26-86ae-4d8b-b7cf-2f8bc5d4d3b5", "mammal"],
    "panthera": ["fbb23d07-6677-43db-b650-f99ac452c50f", "panthera species"],
    "panthera leo": ["ddf59264-185a-4d35-b647-2785792bdf54", "lion"],
    "homo sapiens": ["990ae9dd-7a59-4344-afcb-1b7b21368000", "human"],
    "blank": ["f1856211-cfb7-4a5b-9158-c0f72fd09ee6"],
    "vehicle": ["e2895ed5-780b-48f6-8a11-9e27cb594511"],
}
SYNONYMS = {  # of samples that have them
    "speciesnet": _UUIDS,
    "speciesnet predictions": _UUIDS,
    "table": {"Morus bassanus": ["northern gannet"], "Felis catus": ["house cat"]},
    "dwca taxa": {
        "Animalia": ["t1"],
        "Aves": ["t2"],
        "Pica pica (Linnaeus, 1758)": ["t3", "Corvus pica Linnaeus, 1758", "magpie"],
    },
    "camtrap": {
        "Anas platyrhynchos": ["mallard", "wilde eend", "DGP6"],
        "Ardea": ["32FH"],
        "Ardea cinerea": ["GCHS"],
        "Aves": ["V2"],
    },
    "inaturalist": {
        "Lumbricus terrestris": ["Common Earthworm"],
        "Sabella spallanzanii": ["Mediterranean Fan-worm"],
    },
    "label studio": {"Human": ["hsa"]},
}
TREES = {
    name: {
        line.split(": ")[0]: line.split(": ")[1].split(" + ") for line in text.strip().split("\n")
    }
    for name, text in _WRITTEN.items()
}
