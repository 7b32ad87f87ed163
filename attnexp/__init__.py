"""attnexp: which piece of an attention model matters, and how sure are we?

From Python: `from attnexp import compose, train_run, results, compare, judge, load_model`."""

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["compare", "compose", "judge", "load_model", "results", "train_run"]

if TYPE_CHECKING:
    from attnexp.api import compare, compose, judge, load_model, results, train_run
else:

    def __getattr__(name: str) -> object:
        """What is named above, imported when it is first asked for: it needs torch."""
        if name not in __all__:
            raise AttributeError(f"module 'attnexp' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module("attnexp.api"), name)

    def __dir__() -> list[str]:
        return [*globals(), *__all__]  # so that notebooks complete these names
