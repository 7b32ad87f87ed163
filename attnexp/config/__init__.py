"""From words on the command line to the checked settings of one run.

A key such as `position` is a group, which has options: `rotary` is `conf/position/rotary.yaml`. The
file names a kind, a class as `module:Class`, and settings; with these the class is a piece. Where a
user may choose, `kind` may also hold an option's name; `choose` puts the class in its place."""
