"""What every command begins with, done once where `forked` starts them: configs that tests use."""

from attnexp.config.compose import compose
from attnexp.config.options import name_of

for words in ("", "data=contrast", "experiment=smoke", "experiment=smoke position=none",
              "experiment=smoke position=sinusoidal", "position=none",
              "position=sinusoidal"):  # fmt: skip
    config = compose(words.split())
    name_of(config.model.kind)
    name_of(config.position.kind)
