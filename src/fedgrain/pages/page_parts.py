"""What a page is made of, before it becomes HTML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedgrain.pages.page_tables import Sheet
from fedgrain.pictures.interactive_plots import Figure


@dataclass(frozen=True)
class View:
    """One view of a block: a plot, and a table of the same numbers."""

    name: str
    figure: Figure
    sheet: Sheet


@dataclass(frozen=True)
class Block:
    """A heading with plots to choose from."""

    key: str
    heading: str
    text: str
    views: tuple[View, ...]
    chosen_by: str = ""  # what distinguishes the views, such as alpha


@dataclass(frozen=True)
class Pictured:
    """An image with what there is to say about it."""

    picture: str  # a data: URI
    shows: str  # for who cannot see it
    about: tuple[tuple[str, str], ...]  # a word, and what it is


@dataclass(frozen=True)
class Section:
    """A heading with tables, and images if there are any."""

    key: str
    heading: str
    text: str
    sheets: tuple[Sheet, ...]
    pictures: tuple[Pictured, ...] = ()


@dataclass(frozen=True)
class TreeNode:
    """A node of the tree that shows the sunburst's content as text."""

    name: str
    about: str
    children: tuple[TreeNode, ...]


@dataclass(frozen=True)
class Close:
    """One run looked at closely."""

    run: str
    tested: str
    sunburst: Figure
    tree: TreeNode
    branches: Sheet
    worst: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Page:
    """Everything on the page."""

    title: str
    kind: str
    sentence: str
    sheets: tuple[Sheet, ...]
    blocks: tuple[Block, ...]
    close: Close | None
    settings: tuple[Sheet, ...]
    redo: tuple[tuple[str, str], ...]  # what it does, the command
    source: str  # study.toml or config.toml
    source_name: str
    environment: Mapping[str, Any]
    notes: tuple[str, ...] = ()
    headline: str = ""  # the result in words that need no explanation
    sections: tuple[Section, ...] = ()
    glossary: tuple[tuple[str, str], ...] = ()  # a word, and what it means
