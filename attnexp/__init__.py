"""attnexp: which piece of an attention model matters, and how sure are we?"""

__version__ = "0.1.0"
