"""The exceptions that are meant for people. The command line prints them without traceback."""


class UserError(ValueError):
    """What the user gave is wrong: exit code 2.

    The message says what is wrong, what was given and what to do.
    """


class Busy(UserError):
    """Another process is at this very run."""


class RunFailed(RuntimeError):
    """A run that was asked for rightly and still came to nothing: exit code 1."""
