"""attnexp: which piece of an attention model matters, and how sure are we?

From Python: `from attnexp import compose, train_run, load_runs, compare, judge`.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"
__all__ = ["compare", "compose", "judge", "load_runs", "train_run"]

if TYPE_CHECKING:
    from attnexp.cli.notebook import compare, compose, judge, load_runs, train_run
else:

    def __dir__() -> list[str]:
        return [*__all__, "__version__"]

    def __getattr__(name: str) -> object:
        """What is named above, imported when it is first asked for: it needs torch."""
        if name not in __all__:
            raise AttributeError(f"module 'attnexp' has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module("attnexp.cli.notebook"), name)
