"""A user's folder of images with several sites, small enough for a test."""

from pathlib import Path

from PIL import Image

from fedgrain import Config


def site(place: Path, side: int = 28, clients: int = 3, column: bool = True) -> Path:
    """Make a folder of dark and light squares, one in three of them larger."""
    place.mkdir()
    (place / "taxonomy.csv").write_text("parent,child\nall,dark\nall,light\n")
    lines = ["path,label,split" + ",client" * column]
    for number in range(8 * clients):
        label, shade = (("dark", 40), ("light", 180))[number % 2]
        size = (3 * side, 2 * side) if number % 3 == 0 else (side + 2, side)
        Image.new("RGB", size, (shade + number,) * 3).save(place / f"{number}.png")
        split = "test" if number % 8 == 7 else "train"
        lines.append(f"{number}.png,{label},{split}" + f",site {number // 8}" * column)
    (place / "images.csv").write_text("\n".join(lines) + "\n")
    return place


def own(place: Path, **settings) -> Config:
    return Config(dataset="folder", data_root=str(place), **settings)
