"""A folder of images, and a corrected manifest, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from fedgrain.text import counted, one_line, shortened

if TYPE_CHECKING:
    from fedgrain.folders.folder_report import Copies, FolderReport
    from fedgrain.folders.manifest_fix import Fixed

_MOST = 20  # rows of a list that are printed
_SITES = 8  # columns of sites that are printed
_ALLOWED = 0.01  # the share of unreadable images that a run skips by default
_NAME = 30  # characters of a name


def folder_lines(report: FolderReport) -> Iterator[str]:
    """Yield what a data manager asks first: who has what, what is broken, what is twice."""
    sites = list(report.images)
    yield from _image_lines(report)
    shown = sites if len(sites) <= _SITES else []
    heads = ["depth", *shown, "all"]
    rows = [
        [str(depth), *(str(count.get(site, 0)) for site in shown), str(sum(count.values()))]
        for depth, count in report.depths.items()
    ]
    yield from _table("images per depth of the label (the root has depth 0)", heads, rows)
    heads = ["label", "depth", *shown, "all"]
    rows = [
        [
            one_line(label.name),
            str(label.depth),
            *(str(label.by_site.get(site, 0)) for site in shown),
            str(label.images),
        ]
        for label in report.labels[:_MOST]
    ]
    yield from _table(f"images per label, {len(report.labels)} labels", heads, rows)
    single = sum(label.images == 1 for label in report.labels)
    more = len(report.labels) - _MOST
    yield from [f"  and {more} more labels"] if more > 0 else []
    yield f"  labels with a single image: {single}; leaves without one: {report.unused_leaves}"
    yield from _file_lines(report)
    yield from _copy_lines(report)


def _image_lines(report: FolderReport) -> Iterator[str]:
    splits = [s for s in ("train", "validation", "test") if s in report.splits]
    rows = [
        [one_line(site), *(str(count.get(split, 0)) for split in splits), str(sum(count.values()))]
        for site, count in report.images.items()
    ]
    totals = [str(report.splits.count(split)) for split in splits]
    rows = [*rows[:_MOST], ["all sites", *totals, str(len(report.paths))]]
    yield from _table("images per site", ["site", *splits, "all"], rows)
    if len(report.images) > _MOST:
        yield f"  and {len(report.images) - _MOST} more sites"


def _file_lines(report: FolderReport) -> Iterator[str]:
    yield "files"
    if report.sizes:
        by_area = sorted(report.sizes, key=lambda size: (size[0] * size[1], size))
        smallest, largest = (f"{width}x{height}" for width, height in (by_area[0], by_area[-1]))
        common = ", ".join(f"{w}x{h} ({count})" for (w, h), count in list(report.sizes.items())[:5])
        yield f"  sizes: {len(report.sizes)}, from {smallest} to {largest}; most often {common}"
        yield f"  pixels: {', '.join(f'{kind} {count}' for kind, count in report.kinds.items())}"
        yield f"  turned upright by EXIF: {report.turned}"
    unread = len(report.paths) - sum(report.sizes.values())
    yield f"  not images: {unread}"
    if unread > _ALLOWED * len(report.paths):
        yield f"  a run skips at most {_ALLOWED:.0%} of the images; --max-unreadable allows more"


def _copy_lines(report: FolderReport) -> Iterator[str]:
    yield "duplicates"
    for same, name in ((True, "the same file"), (False, "nearly the same picture")):
        groups = [copies for copies in report.copies if copies.same_bytes is same]
        images = sum(len(copies.rows) for copies in groups)
        yield f"  {name}: {counted(images, 'image')} in {counted(len(groups), 'group')}"
        yield from (f"    {_members(report, copies)}" for copies in groups[:_MOST])
        if len(groups) > _MOST:
            yield f"    and {len(groups) - _MOST} more groups"
    leaked = {row for copies in report.copies for row in copies.leaked}
    if leaked:
        yield (
            f"  LEAKAGE: {counted(len(leaked), 'copy', 'copies')} of training images among those "
            "to validate or test on: scores will be too high. Remove them, or give all copies of a "
            "picture the same split."
        )
    several = sum(copies.several_sites for copies in report.copies)
    if several:
        yield f"  at several sites: {counted(several, 'group')}"
    wrong = sum(copies.contradictory for copies in report.copies)
    if wrong:
        yield f"  with labels that cannot all be right: {counted(wrong, 'group')}"


def _members(report: FolderReport, copies: Copies) -> str:
    told = [
        f"{one_line(report.paths[row], 80)} ({report.splits[row]}, {one_line(report.sites[row])})"
        for row in copies.rows[:4]
    ]
    more = f" and {len(copies.rows) - 4} more" if len(copies.rows) > 4 else ""
    return " = ".join(told) + more


def folder_json(report: FolderReport) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "sites": report.images,
        "labels": [
            {"id": label.id, "name": label.name, "depth": label.depth, "images": label.by_site}
            for label in report.labels
        ],
        "depths_by_site": {str(depth): count for depth, count in report.depths.items()},
        "leaves_without_images": report.unused_leaves,
        "sizes": [{"width": w, "height": h, "images": n} for (w, h), n in report.sizes.items()],
        "pixels": report.kinds,
        "turned_by_exif": report.turned,
        "duplicates": [
            {
                "images": [one_line(report.paths[row], 4096) for row in copies.rows],
                "same_file": copies.same_bytes,
                "leaked": [one_line(report.paths[row], 4096) for row in copies.leaked],
                "several_sites": copies.several_sites,
                "contradictory_labels": copies.contradictory,
            }
            for copies in report.copies
        ],
    }


def fix_lines(fixed: Fixed) -> Iterator[str]:
    """Yield what was changed, and what is left for the user."""
    yield f"wrote {fixed.out}: {counted(fixed.rows, 'row')}"
    for text, count in fixed.changes.items():
        yield f"  {one_line(text)} ({counted(count, 'row')})"
    yield from (f"  not there: {one_line(name)}" for name in fixed.missing[:_MOST])
    if len(fixed.missing) > _MOST:
        yield f"  and {len(fixed.missing) - _MOST} more that are not there"
    if not fixed.changes:
        yield "  nothing to change"
    if fixed.left:
        yield "left for you:"
        yield from (f"  {one_line(text, 500)}" for text in fixed.left)


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield a table: the first column to the left, the others to the right."""
    lines = [[shortened(text, _NAME) for text in line] for line in (heads, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    yield title
    for first, *others in lines:
        cells = [text.rjust(width) for text, width in zip(others, widths[1:], strict=True)]
        yield "  " + "  ".join([first.ljust(widths[0]), *cells])
