"""Import timm and torchvision without the slow modules that they import and no trunk uses.

``torch._dynamo`` (the compiler) and ``wandb`` (where it is installed) take a second each. While
timm is imported, stand-ins take their place; they import the real module when something uses it.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import torch

# A slow module, and the functions that others take from it by `from module import function`.
_SLOW = {"torch._dynamo.utils": ("is_compile_supported",), "wandb": ()}


class _Later(ModuleType):
    """Stands in for a module, and imports it when it is used."""

    def __init__(self, name: str, functions: tuple[str, ...]) -> None:
        super().__init__(name)
        for function in functions:
            setattr(self, function, functools.partial(self._call, function))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system looks for __path__ and the like
            raise AttributeError(f"module {self.__name__!r} is not imported yet")
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(importlib.import_module(self.__name__), name)

    def _call(self, function: str, *given: Any) -> Any:
        return _Later.__getattr__(self, function)(*given)


@contextmanager
def slow_modules_later() -> Iterator[None]:
    """Within this context, the slow modules are not imported unless something uses them."""
    later = [
        _Later(name, functions)
        for name, functions in _SLOW.items()
        if name not in sys.modules and importlib.util.find_spec(name.split(".")[0])
    ]
    disable = torch.compiler.disable
    sys.modules.update({module.__name__: module for module in later})
    torch.compiler.disable = _not_compiled  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.compiler.disable = disable
        for module in later:
            if sys.modules.get(module.__name__) is module:
                del sys.modules[module.__name__]


def _not_compiled(
    function: Callable[..., Any] | None = None, recursive: bool = True, **named: Any
) -> Callable[..., Any]:
    """Do what ``torch.compiler.disable`` does, and import the compiler only when it compiles."""
    if function is None:
        return functools.partial(_not_compiled, recursive=recursive, **named)

    @functools.wraps(function)
    def called(*given: Any, **by_name: Any) -> Any:
        if torch.compiler.is_compiling():
            disabled = torch.compiler.disable(function, recursive, **named)  # type: ignore[no-untyped-call]
            return disabled(*given, **by_name)
        return function(*given, **by_name)

    return called
